//! Machines that end under load: who holds a branch, or who serves it. Others take over by themselves, and nothing that was acknowledged
//! is lost.

use super::Scale;
use super::load::{Acknowledged, Load};
use super::row::{Fact, Row};
use super::town::Town;
use crate::bench::interrupt;
use crate::bench::measure::Stopwatch;
use crate::bench::statistics::{percentile, spread};
use anyhow::{Result, ensure};
use std::time::Duration;

/// How long a silent session may keep what another needs, and what may come on top.
const SESSION_TTL: f64 = 5.0;
const BESIDE: f64 = 1.0;
/// How long another machine may take when the sessions come back.
const SERVER_MAX: f64 = 3.0;
/// Files that are acknowledged before something ends, and after.
const BEFORE: u64 = 20;
const AFTER: u64 = 5;
/// How long the second machine tries to have the branch, and how often.
const TRY_MAX: f64 = 180.0;
const TRY_EVERY: Duration = Duration::from_millis(100);

/// How a holder ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Killed,
    CutOff,
}

/// How a server ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Server {
    Killed,
    Stopped,
}

/// Kills the process of the mount that holds a branch.
pub(super) fn holder_killed(town: &mut Town, scale: &Scale) -> Result<Vec<Row>> {
    holders(town, scale, ("holder_killed", Holder::Killed))
}

/// Pulls the cable of the machine that holds a branch.
pub(super) fn holder_cut_off(town: &mut Town, scale: &Scale) -> Result<Vec<Row>> {
    holders(town, scale, ("holder_cut_off", Holder::CutOff))
}

/// Kills the server that owns a drive.
pub(super) fn server_killed(town: &mut Town, scale: &Scale) -> Result<Vec<Row>> {
    servers(town, scale, ("server_killed", Server::Killed))
}

/// Stops the server that owns a drive: it keeps its connections, and says nothing.
pub(super) fn server_stopped(town: &mut Town, scale: &Scale) -> Result<Vec<Row>> {
    servers(town, scale, ("server_stopped", Server::Stopped))
}

fn holders(town: &mut Town, scale: &Scale, (name, end): (&'static str, Holder)) -> Result<Vec<Row>> {
    let drive = name.replace('_', "-");
    town.create(&drive)?;
    let (mut seconds, mut synced, mut lost) = (Vec::new(), 0, 0);
    for trial in 0..scale.trials {
        let [one, other] = &mut town.hosts[..] else {
            anyhow::bail!("there are two hosts")
        };
        one.mount(&drive)?;
        let load = Load::begin(&one.dir, ("load", u64::from(trial)))?;
        load.wait_for(BEFORE)?;
        if end == Holder::Killed {
            one.kill()?;
        } else if !one.is_pulled(true)? {
            load.end();
            one.unmount()?;
            return Ok(Vec::new());
        }
        let watch = Stopwatch::start();
        while let Err(error) = other.mount(&drive) {
            interrupt::check()?;
            ensure!(
                watch.seconds() < TRY_MAX,
                "the second machine never has the branch: {error:#}"
            );
            std::thread::sleep(TRY_EVERY);
        }
        seconds.push(watch.seconds());
        if end == Holder::CutOff {
            one.kill()?;
            one.is_pulled(false)?;
        }
        let acknowledged = load.end();
        one.take_away()?;
        synced += acknowledged.files();
        lost += acknowledged.lost(&other.dir);
        other.unmount()?;
    }
    let facts = vec![
        Fact::at_most("seconds, longest", spread(&seconds).max, SESSION_TTL + BESIDE),
        Fact::at_most("acknowledged syncs lost", lost as f64, 0.0),
        Fact::told("acknowledged syncs", synced as f64),
    ];
    Ok(vec![Row {
        name,
        what: match end {
            Holder::Killed => {
                "the holder's mount is killed while it syncs: until `tenure mount` on another machine succeeds"
            }
            Holder::CutOff => {
                "the holder's cable is pulled while it syncs: until `tenure mount` on another machine succeeds"
            }
        },
        seconds,
        baseline: Vec::new(),
        facts,
    }])
}

fn servers(town: &mut Town, scale: &Scale, (name, end): (&'static str, Server)) -> Result<Vec<Row>> {
    let drive = name.replace('_', "-");
    town.create(&drive)?;
    town.hosts[0].mount(&drive)?;
    let (mut seconds, mut all) = (Vec::new(), Vec::<Acknowledged>::new());
    for trial in 0..scale.trials {
        let owner = town.owner(0)?;
        let load = Load::begin(&town.hosts[0].dir, ("load", u64::from(trial)))?;
        load.wait_for(BEFORE)?;
        match end {
            Server::Killed => town.server_at(owner).kill()?,
            Server::Stopped => town.server_at(owner).stop()?,
        }
        // What was on its way may have been acknowledged just before: the next one was not.
        let took = load.wait_for(1)? + load.wait_for(1)?;
        seconds.push(took);
        load.wait_for(AFTER)?;
        all.push(load.end());
        town.server_at(owner).restart()?;
    }
    town.hosts[0].unmount()?;
    town.hosts[1].mount(&drive)?;
    let lost: u64 = all
        .iter()
        .map(|acknowledged| acknowledged.lost(&town.hosts[1].dir))
        .sum();
    let synced: u64 = all.iter().map(Acknowledged::files).sum();
    town.hosts[1].unmount()?;
    let longest = match end {
        Server::Killed => Fact::at_most("seconds, 99th percentile", percentile(&seconds, 0.99), SERVER_MAX),
        Server::Stopped => Fact::at_most("seconds, longest", spread(&seconds).max, SESSION_TTL + BESIDE),
    };
    let facts = vec![
        longest,
        Fact::at_most("acknowledged syncs lost", lost as f64, 0.0),
        Fact::told("acknowledged syncs", synced as f64),
    ];
    Ok(vec![Row {
        name,
        what: match end {
            Server::Killed => {
                "the server of a drive is killed under load: until a sync is acknowledged by the next one"
            }
            Server::Stopped => {
                "the server of a drive is stopped under load, and keeps its connections: until a sync is acknowledged by the next one"
            }
        },
        seconds,
        baseline: Vec::new(),
        facts,
    }])
}
