//! Real servers that speak S3: each is started on free ports in a folder of its own, and ended with its test.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tenure_store::remote::{AccessKeys, Bounds, RemoteConfig};

/// Between two looks whether a server answers.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Looks until it does: for a minute, since a machine that does other things is slow.
const LOOKS_MAX: u32 = 1200;

/// A server that runs until it is dropped.
pub(crate) struct Server {
    child: Child,
    folder: TempDir,
    pub(crate) address: String,
    /// Where it speaks TLS, if it does.
    pub(crate) tls_address: Option<String>,
}

impl Server {
    /// SeaweedFS: it keeps what it is given on disk, and speaks TLS too.
    pub(crate) fn seaweedfs() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let within = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(
            within("master.toml"),
            "[master.volume_growth]\ncopy_1 = 1\ncopy_other = 1\n",
        )
        .unwrap();
        make_certificate(&within("certificate"), &within("key"));
        let ports = free_ports::<9>();
        let mut command = installed("python/bin/weed");
        command.args(["server", "-s3", "-filer", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]);
        let named = [
            "s3.port",
            "s3.port.https",
            "s3.port.grpc",
            "master.port",
            "master.port.grpc",
            "volume.port",
            "volume.port.grpc",
            "filer.port",
            "filer.port.grpc",
        ];
        for (name, port) in named.iter().zip(ports) {
            command.arg(format!("-{name}={port}"));
        }
        command.arg(format!("-dir={}", folder.path().display()));
        command.arg(format!("-s3.cert.file={}", within("certificate")));
        command.arg(format!("-s3.key.file={}", within("key")));
        command.args([
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.telemetry=false",
        ]);
        command.args(["-master.volumeSizeLimitMB=512", "-volume.max=400"]);
        let mut server = Self::start(command, folder, ports[0]);
        server.tls_address = Some(format!("127.0.0.1:{}", ports[1]));
        server.make_bucket();
        server
    }

    /// Returns the certificate that it shows, as PEM.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("certificate")).unwrap()
    }

    /// moto: an independent second, in memory.
    pub(crate) fn moto() -> Self {
        let [port] = free_ports();
        let mut command = installed("python/bin/moto_server");
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let server = Self::start(command, tempfile::tempdir().unwrap(), port);
        server.make_bucket();
        server
    }

    /// rclone: it ignores the condition of a put.
    pub(crate) fn rclone() -> Self {
        let [port] = free_ports();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(BUCKET)).unwrap();
        let mut command = installed("python/bin/rclone");
        command.args(["serve", "s3", "--addr", &format!("127.0.0.1:{port}")]);
        command.arg(folder.path());
        Self::start(command, folder, port)
    }

    /// s3rver: it ignores the condition of a put, too.
    pub(crate) fn s3rver() -> Self {
        let [port] = free_ports();
        let folder = tempfile::tempdir().unwrap();
        let mut command = installed("node/node_modules/.bin/s3rver");
        command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-d"]);
        command.arg(folder.path());
        command.args(["--configure-bucket", BUCKET]);
        Self::start(command, folder, port)
    }

    fn start(mut command: Command, folder: TempDir, port: u16) -> Self {
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let child = command.spawn().unwrap();
        let mut server = Self {
            child,
            folder,
            address: format!("127.0.0.1:{port}"),
            tls_address: None,
        };
        for _ in 0..LOOKS_MAX {
            if server.answers() {
                return server;
            }
            if server.child.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let log = std::fs::read_to_string(server.folder.path().join("log"));
        panic!("{command:?} does not answer; it says:\n{}", log.unwrap());
    }

    fn answers(&self) -> bool {
        self.asked("GET", "/")
            .is_ok_and(|reply| reply.starts_with("HTTP/1.1 "))
    }

    /// Sends a request that nobody signed, and returns the reply.
    fn asked(&self, method: &str, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(LOOK_EVERY * LOOKS_MAX))?;
        let host = &self.address;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        Ok(reply)
    }

    fn make_bucket(&self) {
        let reply = self.asked("PUT", &format!("/{BUCKET}")).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    }

    /// Returns how the bucket is reached, below a prefix of its own.
    pub(crate) fn config(&self, prefix: &str) -> RemoteConfig {
        config(&format!("http://{}", self.address), prefix)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bucket that every server has.
const BUCKET: &str = "tenure";

/// Returns how the bucket at an endpoint is reached, below a prefix of its own; nothing waits long.
pub(crate) fn config(endpoint: &str, prefix: &str) -> RemoteConfig {
    RemoteConfig {
        endpoint: Some(endpoint.to_owned()),
        region: Some("us-east-1".to_owned()),
        keys: Some(AccessKeys {
            id: "S3RVER".to_owned(),
            secret: "S3RVER".to_owned(),
            session_token: None,
        }),
        allow_http: true,
        bounds: Bounds {
            first_wait: Duration::from_millis(5),
            wait_max: Duration::from_millis(20),
            ..Bounds::default()
        },
        ..RemoteConfig::of(&format!("s3://{BUCKET}/{prefix}"))
    }
}

/// Returns a command that `./check stores` has installed; it ends with the thread that starts it.
fn installed(program: &str) -> Command {
    let home = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = home("XDG_CACHE_HOME").or_else(|| Some(home("HOME")?.join(".cache")));
    let program = cache.unwrap().join("tenure-check").join(Path::new(program));
    assert!(
        program.exists(),
        "{} is missing: run ./check stores",
        program.display()
    );
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Makes a key, and a certificate of this machine that it signs itself.
fn make_certificate(certificate: &str, key: &str) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-out", certificate, "-keyout", key])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
