//! The real servers that speak S3, as `./check stores` has installed them: each is started with a folder of its own, and ended with its
//! test.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tenure_store::remote::{Bounds, RemoteConfig};
use tenure_store::service::{self, BUCKET, Service, Tls, command, free_ports};

/// A server that runs until it is dropped.
pub(crate) struct Server {
    service: Service,
    pub(crate) address: String,
    /// Where it speaks TLS, if it does.
    pub(crate) tls_address: Option<String>,
}

impl Server {
    /// SeaweedFS: it keeps what it is given on disk, and speaks TLS too.
    pub(crate) fn seaweedfs() -> Self {
        let folder = folder();
        let [port] = free_ports().unwrap();
        let tls = Tls {
            port,
            certificate: folder.path().join("certificate"),
            key: folder.path().join("key"),
        };
        make_certificate(&tls);
        let weed = installed("python/bin/weed");
        let server = Self::of(Service::seaweedfs(&weed, folder, Some(&tls)).unwrap());
        Self {
            tls_address: Some(format!("127.0.0.1:{port}")),
            ..server
        }
    }

    /// Returns the certificate that it shows, as PEM.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        std::fs::read(self.service.folder().join("certificate")).unwrap()
    }

    /// moto: an independent second, in memory.
    pub(crate) fn moto() -> Self {
        let [port] = free_ports().unwrap();
        let mut command = command(&installed("python/bin/moto_server"));
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let server = Self::start(command, folder(), port);
        server.service.make_bucket().unwrap();
        server
    }

    /// rclone: it ignores the condition of a put.
    pub(crate) fn rclone() -> Self {
        let [port] = free_ports().unwrap();
        let folder = folder();
        std::fs::create_dir(folder.path().join(BUCKET)).unwrap();
        let mut command = command(&installed("python/bin/rclone"));
        command.args(["serve", "s3", "--addr", &format!("127.0.0.1:{port}")]);
        command.arg(folder.path());
        Self::start(command, folder, port)
    }

    /// s3rver: it ignores the condition of a put, too.
    pub(crate) fn s3rver() -> Self {
        let [port] = free_ports().unwrap();
        let folder = folder();
        let mut command = command(&installed("node/node_modules/.bin/s3rver"));
        command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-d"]);
        command.arg(folder.path());
        command.args(["--configure-bucket", BUCKET]);
        Self::start(command, folder, port)
    }

    fn start(command: Command, folder: TempDir, port: u16) -> Self {
        Self::of(Service::start(command, folder, port).unwrap())
    }

    fn of(service: Service) -> Self {
        Self {
            address: service.address().to_owned(),
            service,
            tls_address: None,
        }
    }

    /// Returns how the bucket is reached, below a prefix of its own.
    pub(crate) fn config(&self, prefix: &str) -> RemoteConfig {
        config(&format!("http://{}", self.address), prefix)
    }
}

/// Returns how the bucket at an endpoint is reached, below a prefix of its own; nothing waits long.
pub(crate) fn config(endpoint: &str, prefix: &str) -> RemoteConfig {
    RemoteConfig {
        bounds: Bounds {
            first_wait: Duration::from_millis(5),
            wait_max: Duration::from_millis(20),
            ..Bounds::default()
        },
        ..service::config(endpoint, prefix)
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns a program that `./check stores` has installed.
fn installed(program: &str) -> PathBuf {
    let home = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = home("XDG_CACHE_HOME").or_else(|| Some(home("HOME")?.join(".cache")));
    let program = cache.unwrap().join("tenure-check").join(program);
    assert!(
        program.exists(),
        "{} is missing: run ./check stores",
        program.display()
    );
    program
}

/// Makes a key, and a certificate of this machine that it signs itself.
fn make_certificate(tls: &Tls) {
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
        .arg("-out")
        .arg(&tls.certificate)
        .arg("-keyout")
        .arg(&tls.key)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
