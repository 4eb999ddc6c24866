//! Hosts with a network between them: namespaces of this machine, whose cables meet in one switch, where the bucket is too.
//!
//! Invariant: what is made here is gone when it is dropped.

use crate::bench::command::{command, require, run};
use anyhow::Result;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

/// A switch and its hosts.
#[derive(Debug)]
pub(super) struct Network {
    /// Begins the names of everything that is made; an interface's name has at most 15 bytes.
    name: String,
    /// The third byte of each address: 198.18.0.0/15 is for benchmarks (RFC 2544).
    third: u8,
    hosts: u8,
}

/// One of the hosts.
#[derive(Clone, Debug)]
pub(super) struct Namespace {
    name: String,
    cable: String,
    pub(super) ip: Ipv4Addr,
}

impl Network {
    /// Makes a switch without hosts.
    pub(super) fn make() -> Result<Self> {
        require("ip", "iproute2")?;
        require("nsenter", "util-linux")?;
        let pid = std::process::id();
        let network = Network {
            name: format!("tb{pid}"),
            third: pid as u8,
            hosts: 0,
        };
        let switch = &network.name;
        ip(&["link", "add", switch, "type", "bridge"])?;
        ip(&["addr", "add", &format!("{}/24", network.switch()), "dev", switch])?;
        ip(&["link", "set", switch, "up"])?;
        Ok(network)
    }

    /// Returns the address at which hosts find what runs beside the switch.
    pub(super) fn switch(&self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.third, 1)
    }

    /// Adds a host.
    pub(super) fn host(&mut self) -> Result<Namespace> {
        self.hosts += 1;
        let host = Namespace {
            name: format!("{}-{}", self.name, self.hosts),
            cable: format!("{}c{}", self.name, self.hosts),
            ip: Ipv4Addr::new(198, 18, self.third, 10 + self.hosts),
        };
        let (name, cable, address) = (&host.name, &host.cable, format!("{}/24", host.ip));
        ip(&["netns", "add", name])?;
        ip(&[
            "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name,
        ])?;
        ip(&["link", "set", cable, "master", &self.name, "up"])?;
        ip(&["-n", name, "addr", "add", &address, "dev", "eth0"])?;
        ip(&["-n", name, "link", "set", "eth0", "up"])?;
        ip(&["-n", name, "link", "set", "lo", "up"])?;
        Ok(host)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // It is cleared away as far as it goes, also after an interruption, when `run` runs nothing any more.
        let clear = |arguments: &[&str]| drop(Command::new("ip").args(arguments).output());
        for host in 1..=self.hosts {
            clear(&["netns", "del", &format!("{}-{host}", self.name)]);
            clear(&["link", "del", &format!("{}c{host}", self.name)]);
        }
        clear(&["link", "del", &self.name]);
    }
}

impl Namespace {
    /// Returns the command by which another one runs there. Mounts that it makes are seen everywhere.
    pub(super) fn entry(&self) -> Vec<OsString> {
        let net = PathBuf::from("/run/netns").join(&self.name);
        vec![
            "nsenter".into(),
            format!("--net={}", net.display()).into(),
            "--".into(),
        ]
    }

    /// Pulls the host's cable.
    pub(super) fn pull(&self) -> Result<()> {
        ip(&["link", "set", &self.cable, "down"])
    }

    /// Plugs it in again.
    pub(super) fn plug(&self) -> Result<()> {
        ip(&["link", "set", &self.cable, "up"])
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    run(command("ip").args(arguments)).map(drop)
}
