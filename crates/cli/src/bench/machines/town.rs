//! The machines: a store behind the proxy, servers of its bucket, and hosts that mount drives of them.
//!
//! Invariant: every process, mount, folder and network that is made is gone when the town is dropped.

use super::network::{Namespace, Network};
use crate::bench::command::run;
use crate::bench::disk::Scratch;
use crate::bench::input::Inputs;
use crate::bench::interrupt;
use crate::bench::named;
use crate::bench::progress::Progress;
use crate::bench::side::Program;
use crate::bench::{Places, cache_home};
use crate::error::Told;
use anyhow::{Context, Result};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::rc::Rc;
use tenure_store::RemoteBucket;
use tenure_store::proxy::{Delays, Proxy};
use tenure_store::service::{self, BUCKET, KEY, Service};

/// Where servers listen, each at an address of its own.
const PORT: u16 = 7430;
/// Servers that there are, and hosts.
const SERVERS: usize = 2;
const HOSTS: usize = 2;
/// The part of the bucket that drives are in.
const PREFIX: &str = "drives";

/// Everything that is there.
pub(super) struct Town {
    pub(super) hosts: Vec<Host>,
    servers: Vec<Server>,
    proxy: Proxy,
    delays: Delays,
    /// Ended before the network goes.
    _store: Service,
    network: Option<Network>,
    executable: PathBuf,
    token: PathBuf,
    keys: PathBuf,
    inputs: Rc<Inputs>,
    scratch: Scratch,
}

/// A machine that mounts.
pub(super) struct Host {
    pub(super) program: Program,
    pub(super) dir: PathBuf,
    namespace: Option<Namespace>,
    arguments: Vec<String>,
    pid: Option<Pid>,
}

/// A machine that serves.
pub(super) struct Server {
    program: Program,
    arguments: Vec<String>,
    pub(super) address: String,
    child: Child,
}

impl Town {
    /// Makes the store, two servers of its bucket, and two hosts.
    pub(super) fn make(
        places: &Places,
        weed: Option<&Path>,
        delays: Delays,
        progress: Progress,
    ) -> Result<Self> {
        let _step = progress.step("starting a store, servers and hosts");
        let scratch = Scratch::make(&places.scratch)?;
        let mut network = geteuid().is_root().then(Network::make).transpose()?;
        let weed = weed.map_or_else(installed_weed, |weed| Ok(weed.to_owned()))?;
        let folder = tempfile::tempdir_in(scratch.path())?;
        let store = Service::seaweedfs(&weed, folder, None)?;
        let ip = network.as_ref().map_or(Ipv4Addr::LOCALHOST, Network::switch);
        let proxy = Proxy::start_at(ip, store.address())?;
        let executable = places.tenure()?;
        let keys = scratch.path().join("keys");
        let lines = format!("[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {KEY}\n");
        named::write(&keys, lines)?;
        named::set_permissions(&keys, fs::Permissions::from_mode(0o600))?;
        let mut town = Town {
            hosts: Vec::new(),
            servers: Vec::new(),
            proxy,
            delays,
            _store: store,
            network: None,
            executable,
            token: scratch.path().join("token"),
            keys,
            inputs: Rc::new(places.inputs(progress)?),
            scratch,
        };
        let maker = town.program("maker", None)?;
        let tokens = town.scratch.path().join("tokens");
        let mut new = maker.command();
        new.args(["token", "new", "bench", "--add-to"]).arg(&tokens);
        run(new.arg("--out").arg(&town.token))?;
        // The first drive makes the bucket.
        run(maker
            .command()
            .args(["drive", "create", "first"])
            .args(town.bucket()))?;
        for number in 0..SERVERS {
            let namespace = network.as_mut().map(Network::host).transpose()?;
            let server = town.server(number, namespace.as_ref(), &tokens)?;
            town.servers.push(server);
        }
        let all: Vec<_> = town.servers.iter().map(|server| server.address.clone()).collect();
        for number in 0..HOSTS {
            let namespace = network.as_mut().map(Network::host).transpose()?;
            let host = town.host(&format!("host-{number}"), namespace, &all)?;
            town.hosts.push(host);
        }
        town.network = network;
        town.set_delays(delays);
        Ok(town)
    }

    /// Returns what workloads work on.
    pub(super) fn inputs(&self) -> Rc<Inputs> {
        Rc::clone(&self.inputs)
    }

    /// Says what the machines are.
    pub(super) fn note(&self) -> String {
        match self.network {
            Some(_) => "Hosts and servers are network namespaces of this machine, over TLS.",
            None => "Hosts and servers are processes with homes of their own, over TLS; without root no cable is pulled.",
        }
        .to_owned()
    }

    /// Is as slow as it was told at first, or as this, from now on.
    pub(super) fn set_delays(&self, delays: Delays) {
        self.proxy.set_delays(delays);
    }

    /// Returns how slow the store was told to be at first.
    pub(super) fn delays(&self) -> Delays {
        self.delays
    }

    /// Returns all requests that the store has got, and the puts among them.
    pub(super) fn requests(&self) -> (u64, u64) {
        let counts = self.proxy.requests().counts();
        (counts.total(), counts.puts)
    }

    /// Returns the bucket's store as the bench itself reaches it, through the same proxy, below a prefix of its own.
    pub(super) fn store(&self) -> Result<RemoteBucket> {
        let config = service::config(&self.proxy.endpoint(), "beside");
        RemoteBucket::attach(&config).context("the store is not reached")
    }

    /// Makes a drive.
    pub(super) fn create(&self, drive: &str) -> Result<()> {
        let host = &self.hosts[0];
        let mut create = host.program.command();
        run(create.args(["drive", "create", drive]).args(&host.arguments)).map(drop)
    }

    /// Makes a branch of a drive.
    pub(super) fn fork(&self, drive: &str, branch: &str) -> Result<()> {
        let host = &self.hosts[0];
        let mut fork = host.program.command();
        run(fork.args(["fork", drive, branch]).args(&host.arguments)).map(drop)
    }

    /// Returns the server that owns the drive that a host has mounted.
    pub(super) fn owner(&self, host: usize) -> Result<usize> {
        let pids = self.hosts[host].pids()?;
        let server = self
            .servers
            .iter()
            .position(|server| pids.contains(&server.pid()));
        server.context("none of the servers owns the drive")
    }

    /// Returns one of the servers.
    pub(super) fn server_at(&mut self, number: usize) -> &mut Server {
        &mut self.servers[number]
    }

    /// Begins each server anew: nothing is in their memory then.
    pub(super) fn restart_servers(&mut self) -> Result<()> {
        self.servers.iter_mut().try_for_each(Server::restart)
    }

    /// Returns the names of a drive's strays.
    pub(super) fn strays(&self, drive: &str) -> Result<Vec<String>> {
        let host = &self.hosts[1];
        let mut list = host.program.command();
        let printed = run(list
            .args(["branch", "list", drive, "--json"])
            .args(&host.arguments))?;
        let lines: serde_json::Value = serde_json::from_slice(&printed)?;
        let lines = lines.as_array().into_iter().flatten();
        let strays = lines.filter(|line| line["kind"] == "stray");
        Ok(strays
            .filter_map(|line| Some(line["name"].as_str()?.to_owned()))
            .collect())
    }

    /// Deletes a branch.
    pub(super) fn delete(&self, drive: &str, branch: &str) -> Result<()> {
        let host = &self.hosts[1];
        let mut delete = host.program.command();
        run(delete
            .args(["branch", "delete", drive, branch])
            .args(&host.arguments))
        .map(drop)
    }

    /// Returns further mount points of the second host.
    pub(super) fn more_hosts(&self, count: u32) -> Result<Vec<Host>> {
        let of = &self.hosts[1];
        let more = |number| {
            let dir = self.scratch.path().join(format!("more-{number}"));
            named::create_dir_all(&dir)?;
            Ok(Host {
                program: of.program.clone(),
                dir,
                namespace: of.namespace.clone(),
                arguments: of.arguments.clone(),
                pid: None,
            })
        };
        (0..count).map(more).collect()
    }

    /// Returns further hosts.
    pub(super) fn machines(&mut self, count: u32) -> Result<Vec<Host>> {
        let all: Vec<_> = self.servers.iter().map(|server| server.address.clone()).collect();
        let mut machines = Vec::new();
        for number in 0..count {
            let namespace = self.network.as_mut().map(Network::host).transpose()?;
            machines.push(self.host(&format!("machine-{number}"), namespace, &all)?);
        }
        Ok(machines)
    }

    /// Returns a program and a place to mount on for a drive in a folder of this machine.
    pub(super) fn folder_host(&self) -> Result<Host> {
        let mut host = self.host("folder", None, &[])?;
        host.arguments = vec!["--create".to_owned()];
        Ok(host)
    }

    fn bucket(&self) -> Vec<String> {
        let url = format!("s3://{BUCKET}/{PREFIX}");
        let endpoint = self.proxy.endpoint();
        let keys = self.keys.display().to_string();
        [
            "--bucket",
            &url,
            "--endpoint",
            &endpoint,
            "--region",
            "us-east-1",
            "--keys",
            &keys,
            "--unencrypted",
        ]
        .map(str::to_owned)
        .into()
    }

    fn program(&self, name: &str, namespace: Option<&Namespace>) -> Result<Program> {
        let home = self.scratch.path().join(name);
        let program = Program::at_home(&self.executable, &home, &home.join("run"), &[])?;
        Ok(match namespace {
            Some(namespace) => program.entered_by(namespace.entry()),
            None => program,
        })
    }

    fn server(&self, number: usize, namespace: Option<&Namespace>, tokens: &Path) -> Result<Server> {
        let at = match namespace {
            Some(namespace) => format!("{}:{PORT}", namespace.ip),
            None => {
                let [port] = service::free_ports()?;
                format!("127.0.0.1:{port}")
            }
        };
        let program = self.program(&format!("server-{number}"), namespace)?;
        let tokens = tokens.display().to_string();
        let listen = ["serve", "--json", "--listen", &at, "--tokens", &tokens].map(str::to_owned);
        let arguments: Vec<_> = listen.into_iter().chain(self.bucket()).collect();
        let child = started(&program, &arguments)?;
        Ok(Server {
            program,
            arguments,
            address: at,
            child,
        })
    }

    fn host(&self, name: &str, namespace: Option<Namespace>, servers: &[String]) -> Result<Host> {
        let program = self.program(name, namespace.as_ref())?;
        let dir = self.scratch.path().join(format!("{name}-mount"));
        named::create_dir_all(&dir)?;
        let token = self.token.display().to_string();
        let there = ["--server", &servers.join(","), "--token-file", &token].map(str::to_owned);
        Ok(Host {
            program,
            dir,
            namespace,
            arguments: there.into(),
            pid: None,
        })
    }
}

impl Host {
    /// Mounts a branch, and returns when it is usable.
    pub(super) fn mount(&mut self, what: &str) -> Result<()> {
        self.mount_only(what)?;
        self.note_mounted()
    }

    /// The same, and nothing else; `note_mounted` comes next.
    pub(super) fn mount_only(&self, what: &str) -> Result<()> {
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        self.program.mount(what, &self.dir, &arguments)
    }

    /// Mounts a branch together with others.
    pub(super) fn mount_shared(&mut self, what: &str) -> Result<()> {
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        self.program
            .mount(what, &self.dir, &[&arguments[..], &["--shared"]].concat())?;
        self.note_mounted()
    }

    /// Learns by which process the mount is served.
    pub(super) fn note_mounted(&mut self) -> Result<()> {
        self.pid = self.pids()?.first().copied();
        Ok(())
    }

    /// Unmounts it when all is durable.
    pub(super) fn unmount(&mut self) -> Result<()> {
        self.program.unmount(&self.dir)?;
        self.pid = None;
        Ok(())
    }

    /// Kills the process of the mount.
    pub(super) fn kill(&mut self) -> Result<()> {
        let pid = self.pid.take().context("nothing is mounted")?;
        Ok(kill_process(pid, Signal::KILL)?)
    }

    /// Takes away what a killed process has left.
    pub(super) fn take_away(&self) -> Result<()> {
        Ok(unmount(&self.dir, UnmountFlags::DETACH)?)
    }

    /// Pulls the host's cable, or plugs it in; says whether there is one.
    pub(super) fn is_pulled(&self, pulled: bool) -> Result<bool> {
        match (&self.namespace, pulled) {
            (None, _) => Ok(false),
            (Some(namespace), true) => namespace.pull().map(|()| true),
            (Some(namespace), false) => namespace.plug().map(|()| true),
        }
    }

    /// Makes everything durable.
    pub(super) fn sync(&self) -> Result<()> {
        named::open(&self.dir)?
            .sync_all()
            .context("the drive could not be synced")
    }

    fn pids(&self) -> Result<Vec<Pid>> {
        Ok(self.program.status(&self.dir)?.pids)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            // After an interruption no command runs any more, and what the drive holds is of no use to anyone.
            let _ = kill_process(pid, Signal::KILL);
            let _ = unmount(&self.dir, UnmountFlags::DETACH);
        }
    }
}

impl Server {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Kills it.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Stops it: it keeps its connections and says nothing.
    pub(super) fn stop(&self) -> Result<()> {
        Ok(kill_process(self.pid(), Signal::STOP)?)
    }

    /// Kills it, if it is there, and begins it again.
    pub(super) fn restart(&mut self) -> Result<()> {
        self.kill()?;
        self.child = started(&self.program, &self.arguments)?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server, and returns once it listens.
fn started(program: &Program, arguments: &[String]) -> Result<Child> {
    interrupt::check()?;
    let mut command = program.command();
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let log = fs::File::options()
        .append(true)
        .create(true)
        .open(program.data().with_extension("log"))?;
    let mut child = command.stderr(log).spawn().context("cannot start a server")?;
    let out = child.stdout.take().context("its output is a pipe")?;
    let mut lines = BufReader::new(out).lines().map_while(Result::ok);
    if lines.any(|line| line == "}") {
        return Ok(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    let log = fs::read_to_string(program.data().with_extension("log")).unwrap_or_default();
    anyhow::bail!("a server did not begin: {}", log.trim())
}

/// Returns the SeaweedFS that the tests use.
fn installed_weed() -> Result<PathBuf> {
    let weed = cache_home("tenure-check").map(|home| home.join("python/bin/weed"));
    weed.filter(|weed| weed.exists()).ok_or_else(|| {
        Told::refused(
            "SeaweedFS is not installed",
            "./check stores installs it for the tests; or --weed FILE names another one",
        )
    })
}
