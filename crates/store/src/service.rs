//! A server that speaks S3, which others wrote: started on free ports of this machine with a folder of its own, and ended when it is
//! dropped. Tests and benchmarks put drives there.
//!
//! Invariant: a server that is returned answers, and has the bucket [`BUCKET`].

use crate::remote::{AccessKeys, RemoteConfig};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tenure_model::Failure;

/// The bucket that every server has.
pub const BUCKET: &str = "tenure";
/// The word by which every server knows its user, as name and as secret.
pub const KEY: &str = "S3RVER";
/// Between two looks whether a server answers.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Looks until it does: for a minute, since a machine that does other things is slow.
const LOOKS_MAX: u32 = 1200;

/// A server that runs until it is dropped.
pub struct Service {
    child: Child,
    folder: Arc<TempDir>,
    address: String,
}

/// Where a server speaks TLS too, and what it shows there: files of PEM.
pub struct Tls {
    /// The port of this machine.
    pub port: u16,
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Service {
    /// Starts SeaweedFS, the `weed` of that path, which keeps what it is given in the folder.
    pub fn seaweedfs(weed: &Path, folder: TempDir, tls: Option<&Tls>) -> Result<Self, Failure> {
        let folder = Arc::new(folder);
        let start = || Self::seaweedfs_in(weed, &folder, tls);
        // A port that was free may be somebody's before the server is there: then it ends, and gets others.
        start().or_else(|_| start()).or_else(|_| start())
    }

    fn seaweedfs_in(weed: &Path, folder: &Arc<TempDir>, tls: Option<&Tls>) -> Result<Self, Failure> {
        let named = [
            "s3.port",
            "s3.port.grpc",
            "master.port",
            "master.port.grpc",
            "volume.port",
            "volume.port.grpc",
            "filer.port",
            "filer.port.grpc",
        ];
        let ports = free_ports::<8>().map_err(|error| failed("find ports for", weed, &error))?;
        std::fs::write(
            folder.path().join("master.toml"),
            "[master.volume_growth]\ncopy_1 = 1\ncopy_other = 1\n",
        )
        .map_err(|error| failed("prepare", weed, &error))?;
        let mut command = command(weed);
        command.args(["server", "-s3", "-filer", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]);
        command.args(
            named
                .iter()
                .zip(ports)
                .map(|(name, port)| format!("-{name}={port}")),
        );
        command.arg(format!("-dir={}", folder.path().display()));
        if let Some(tls) = tls {
            command.arg(format!("-s3.port.https={}", tls.port));
            command.arg(format!("-s3.cert.file={}", tls.certificate.display()));
            command.arg(format!("-s3.key.file={}", tls.key.display()));
        }
        command.args([
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.telemetry=false",
        ]);
        command.args(["-master.volumeSizeLimitMB=512", "-volume.max=400"]);
        let service = Self::begin(command, folder.clone(), ports[0])?;
        service.make_bucket()?;
        Ok(service)
    }

    /// Starts a server by its command, and returns once it answers at that port of this machine.
    pub fn start(command: Command, folder: TempDir, port: u16) -> Result<Self, Failure> {
        Self::begin(command, Arc::new(folder), port)
    }

    fn begin(mut command: Command, folder: Arc<TempDir>, port: u16) -> Result<Self, Failure> {
        let program = PathBuf::from(command.get_program());
        let failed = |error: io::Error| failed("start", &program, &error);
        let log = std::fs::File::create(folder.path().join("log")).map_err(failed)?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log);
        let child = command.spawn().map_err(failed)?;
        let mut service = Self {
            child,
            folder,
            address: format!("127.0.0.1:{port}"),
        };
        for _ in 0..LOOKS_MAX {
            if service.answers() {
                return Ok(service);
            }
            if service.child.try_wait().map_err(failed)?.is_some() {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let log = std::fs::read_to_string(service.folder.path().join("log")).unwrap_or_default();
        let why = format!("{command:?} does not answer; it says:\n{log}");
        Err(Failure::DidNotHappen(why))
    }

    /// Returns where it answers, as `HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the folder that it has.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes the bucket that every server has.
    pub fn make_bucket(&self) -> Result<(), Failure> {
        let reply = self.asked("PUT", &format!("/{BUCKET}"));
        match reply {
            Ok(reply) if reply.starts_with("HTTP/1.1 200") => Ok(()),
            Ok(reply) => Err(Failure::DidNotHappen(format!("no bucket is made: {reply}"))),
            Err(error) => Err(Failure::DidNotHappen(format!("no bucket is made: {error}"))),
        }
    }

    fn answers(&self) -> bool {
        self.asked("GET", "/")
            .is_ok_and(|reply| reply.starts_with("HTTP/1.1 "))
    }

    /// Sends a request that nobody signed, and returns the reply.
    fn asked(&self, method: &str, path: &str) -> io::Result<String> {
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
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns how the bucket at an endpoint of such a server is reached, below a prefix of its own.
pub fn config(endpoint: &str, prefix: &str) -> RemoteConfig {
    RemoteConfig {
        endpoint: Some(endpoint.to_owned()),
        region: Some("us-east-1".to_owned()),
        keys: Some(AccessKeys {
            id: KEY.to_owned(),
            secret: KEY.to_owned(),
            session_token: None,
        }),
        allow_http: true,
        ..RemoteConfig::of(&format!("s3://{BUCKET}/{prefix}"))
    }
}

/// Returns a command that ends with the thread that starts it.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Returns ports of this machine that nobody uses now.
pub fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut listeners = Vec::with_capacity(N);
    for _ in 0..N {
        listeners.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
    }
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

fn failed(doing: &str, program: &Path, error: &io::Error) -> Failure {
    Failure::DidNotHappen(format!("cannot {doing} {}: {error}", program.display()))
}
