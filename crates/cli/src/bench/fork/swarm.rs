//! Very many forks: of one base, at once, each then written to; and what they take on the disk and in memory.

use super::yard::{Drive, Yard, make_tree};
use super::{Found, Scale};
use crate::bench::interrupt;
use crate::bench::measure::Stopwatch;
use crate::bench::row::{Fact, Row};
use crate::clock::MachineClock;
use crate::reach::{self, AnyOwner};
use anyhow::Result;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use tenure_client::{Access, Branch, Options, Threads};
use tenure_model::record::Source;
use tenure_model::{BranchId, BranchName, Ino, Name, NewNode};
use tenure_wire::ForkAsk;

/// The branch that a drive begins with.
const MAIN: BranchId = BranchId(1);
/// Files of the base.
const FILES: u64 = 1_000;
/// Connections that ask at once.
const CONNECTIONS: u32 = 16;
/// For a thousand forks and a thousand first writes.
const SECONDS_MAX: f64 = 2.0;
/// For ten thousand forks in each of which a byte was changed.
const STORED_MAX: f64 = 200e6;

/// Makes forks, then writes to each, from several connections.
pub(super) fn at_once(yard: &Yard<'_>, scale: &Scale, found: &mut Found) -> Result<()> {
    let drive = yard.drive("swarm")?;
    make_tree(&drive.main, FILES)?;
    let watch = Stopwatch::start();
    together(&drive, scale.forks, fork)?;
    let forked = watch.seconds();
    together(&drive, scale.forks, |owner, number| {
        write(owner, number, &[7; 4096])
    })?;
    let seconds = watch.seconds();
    let thousands = f64::from(scale.forks) / 1e3;
    found.rows.push(Row {
        name: "swarm",
        what: "1,000 forks of one base, then a first write of 4 KiB to each, synced, from 16 connections",
        seconds: vec![seconds],
        baseline: Vec::new(),
        facts: vec![
            Fact::at_most("seconds for a thousand", seconds / thousands, SECONDS_MAX),
            Fact::told("of these for the forks", forked / thousands),
        ],
    });
    Ok(())
}

/// Changes a byte in each of very many forks, and looks at what they take.
pub(super) fn space(yard: &Yard<'_>, scale: &Scale, found: &mut Found) -> Result<()> {
    let drive = yard.drive("space")?;
    make_tree(&drive.main, FILES)?;
    drive.way().connected(|owner| Ok(owner.fold()?))?;
    let before = drive.stored()?;
    let watch = Stopwatch::start();
    together(&drive, scale.small_forks, |owner, number| {
        fork(owner, number)?;
        write(owner, number, b"!")
    })?;
    let seconds = watch.seconds();
    drive.way().connected(|owner| Ok(owner.fold()?))?;
    let stored = drive.stored()?.saturating_sub(before) as f64;
    let ten_thousands = f64::from(scale.small_forks) / 1e4;
    found.rows.push(Row {
        name: "space",
        what: "10,000 forks, one byte changed in each: bytes in the bucket that were not there before",
        seconds: vec![seconds],
        baseline: Vec::new(),
        facts: vec![
            Fact::at_most("bytes for ten thousand", stored / ten_thousands, STORED_MAX),
            Fact::told(
                "largest resident set of the server, bytes",
                drive.peak_rss_bytes()? as f64,
            ),
        ],
    });
    Ok(())
}

/// Does something for each number, from several connections at once.
pub(super) fn together(
    drive: &Drive<'_>,
    count: u32,
    each: impl Fn(&AnyOwner, u32) -> Result<()> + Sync,
) -> Result<()> {
    let way = drive.way();
    std::thread::scope(|scope| {
        let (failed, failures) = sync_channel(CONNECTIONS as usize);
        for first in 0..CONNECTIONS {
            let (way, each, failed) = (&way, &each, failed.clone());
            scope.spawn(move || {
                let done = way.connected(|owner| {
                    (first..count)
                        .step_by(CONNECTIONS as usize)
                        .try_for_each(|number| {
                            interrupt::check()?;
                            each(owner, number)
                        })
                });
                let _ = failed.send(done);
            });
        }
        drop(failed);
        failures.into_iter().collect()
    })
}

pub(super) fn fork(owner: &AnyOwner, number: u32) -> Result<()> {
    owner.fork(&ForkAsk::new(Source::Branch(MAIN), name(number)))?;
    Ok(())
}

/// Holds a fork for the first time and writes a file there, durable when it returns.
pub(super) fn write(owner: &AnyOwner, number: u32, bytes: &[u8]) -> Result<()> {
    let opened = owner.open(&reach::who("tenure bench".to_owned(), false))?;
    let name = name(number);
    let held = (name.as_str(), Access::Exclusive);
    let options = Options {
        threads: Threads::None,
        ..Options::default()
    };
    let branch = Branch::hold(
        Arc::clone(owner),
        (Arc::new(MachineClock), Arc::new(())),
        opened,
        held,
        options,
    )?;
    let file = Name::parse(b"first").expect("a literal name");
    let (ino, _) = branch.create(Ino::ROOT, &file, &NewNode::file())?;
    // No two forks are given the same content.
    let bytes = [bytes, &number.to_be_bytes()].concat();
    branch.write(ino, 0, bytes.into())?;
    branch.sync_all()?;
    Ok(branch.close()?)
}

pub(super) fn name(number: u32) -> BranchName {
    BranchName::parse(&format!("fork-{number}")).expect("such a name is valid")
}
