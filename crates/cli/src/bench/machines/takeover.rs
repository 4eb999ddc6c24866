//! Machines that end under load: who holds a branch, or who serves it. Others take over by themselves, and nothing that was acknowledged
//! is lost.

use super::Scale;
use super::load::{Acknowledged, FILE_LEN, Load};
use super::town::Town;
use crate::bench::interrupt;
use crate::bench::measure::Stopwatch;
use crate::bench::named;
use crate::bench::row::{Fact, Row};
use crate::bench::statistics::{percentile, spread};
use crate::bench::workload::incompressible;
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;
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
/// The file that a holder writes when it is cut off, and how long it may take to come to a stray.
const UNSYNCED: &str = "unsynced";
const STRAY_MAX: f64 = 60.0;

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

/// What came of the trials of one row.
#[derive(Default)]
struct Trials {
    seconds: Vec<f64>,
    synced: u64,
    lost: u64,
}

impl Trials {
    /// Counts what was acknowledged, and what of it is not in another mount.
    fn count(&mut self, acknowledged: &Acknowledged, dir: &Path) {
        self.synced += acknowledged.files();
        self.lost += acknowledged.lost(dir);
    }

    fn row(
        self,
        (name, what): (&'static str, &'static str),
        longest: Fact,
        more: impl IntoIterator<Item = Fact>,
    ) -> Row {
        let counted = [
            Fact::at_most("acknowledged syncs lost", self.lost as f64, 0.0),
            Fact::told("acknowledged syncs", self.synced as f64),
        ];
        Row {
            name,
            what,
            seconds: self.seconds,
            baseline: Vec::new(),
            facts: std::iter::once(longest).chain(counted).chain(more).collect(),
        }
    }
}

fn holders(town: &mut Town, scale: &Scale, (name, end): (&'static str, Holder)) -> Result<Vec<Row>> {
    let drive = name.replace('_', "-");
    town.create(&drive)?;
    let (mut trials, mut strays) = (Trials::default(), 0);
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
        if end == Holder::CutOff {
            named::write(one.dir.join(UNSYNCED), unsynced(trial))?;
        }
        while let Err(error) = other.mount(&drive) {
            interrupt::check()?;
            ensure!(
                watch.seconds() < TRY_MAX,
                "the second machine never has the branch: {error:#}"
            );
            std::thread::sleep(TRY_EVERY);
        }
        trials.seconds.push(watch.seconds());
        if end == Holder::CutOff {
            one.is_pulled(false)?;
            strays += u64::from(is_in_a_stray(town, &drive, &unsynced(trial))?);
            town.hosts[0].kill()?;
        }
        let acknowledged = load.end();
        town.hosts[0].take_away()?;
        trials.count(&acknowledged, &town.hosts[1].dir);
        town.hosts[1].unmount()?;
    }
    let longest = Fact::at_most(
        "seconds, longest",
        spread(&trials.seconds).max,
        SESSION_TTL + BESIDE,
    );
    let row = match end {
        Holder::Killed => {
            let what = "the holder's mount is killed while it syncs: until `tenure mount` on another machine succeeds";
            trials.row((name, what), longest, None)
        }
        Holder::CutOff => {
            let what = "the holder's cable is pulled while it syncs: until `tenure mount` on another machine succeeds; it is plugged in again \
                        afterwards, and a file that was not synced is looked for in a stray";
            let found = strays as f64 / f64::from(scale.trials);
            let found = Fact::at_least("of the unsynced files found in strays", found, 1.0);
            trials.row((name, what), longest, Some(found))
        }
    };
    Ok(vec![row])
}

fn unsynced(trial: u32) -> Vec<u8> {
    incompressible(u64::from(trial) << 32 | 7, FILE_LEN)
}

/// Tells whether the file that was not synced comes to be in a stray of a drive, and takes the strays away.
fn is_in_a_stray(town: &mut Town, drive: &str, content: &[u8]) -> Result<bool> {
    let watch = Stopwatch::start();
    while watch.seconds() < STRAY_MAX {
        interrupt::check()?;
        for stray in town.strays(drive)? {
            let mut host = town.more_hosts(1)?.remove(0);
            host.mount(&format!("{drive}@{stray}"))?;
            let found = fs::read(host.dir.join(UNSYNCED)).is_ok_and(|found| found == content);
            host.unmount()?;
            if found {
                town.delete(drive, &stray)?;
                return Ok(true);
            }
        }
        std::thread::sleep(TRY_EVERY);
    }
    Ok(false)
}

fn servers(town: &mut Town, scale: &Scale, (name, end): (&'static str, Server)) -> Result<Vec<Row>> {
    let drive = name.replace('_', "-");
    town.create(&drive)?;
    town.hosts[0].mount(&drive)?;
    let (mut trials, mut all) = (Trials::default(), Vec::<Acknowledged>::new());
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
        trials.seconds.push(took);
        load.wait_for(AFTER)?;
        all.push(load.end());
        town.server_at(owner).restart()?;
    }
    town.hosts[0].unmount()?;
    town.hosts[1].mount(&drive)?;
    let dir = town.hosts[1].dir.clone();
    all.iter()
        .for_each(|acknowledged| trials.count(acknowledged, &dir));
    town.hosts[1].unmount()?;
    let row = match end {
        Server::Killed => {
            let what =
                "the server of a drive is killed under load: until a sync is acknowledged by the next one";
            let longest = percentile(&trials.seconds, 0.99);
            trials.row(
                (name, what),
                Fact::at_most("seconds, 99th percentile", longest, SERVER_MAX),
                None,
            )
        }
        Server::Stopped => {
            let what = "the server of a drive is stopped under load, and keeps its connections: until a sync is acknowledged by the next one";
            let longest = spread(&trials.seconds).max;
            trials.row(
                (name, what),
                Fact::at_most("seconds, longest", longest, SESSION_TTL + BESIDE),
                None,
            )
        }
    };
    Ok(vec![row])
}
