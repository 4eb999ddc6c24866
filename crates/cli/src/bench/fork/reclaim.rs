//! Room that comes back when most of many branches are deleted, and what forks cost meanwhile.

use super::swarm::{fork, name, together, write};
use super::yard::{Drive, Yard, make_tree};
use super::{Found, Scale};
use crate::bench::interrupt;
use crate::bench::measure::Stopwatch;
use crate::bench::row::{Fact, Row};
use crate::bench::statistics::percentile;
use crate::reach::AnyOwner;
use anyhow::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use tenure_wire::{ReclaimAsk, ReclaimTold};

/// Files of the base, and bytes that each fork writes of its own.
const FILES: u64 = 1_000;
const OWN_LEN: usize = 64 << 10;
/// Of so many branches one stays.
const KEPT_OF: u32 = 10;
/// How much more than what is reached may be left: usually, and where all is to be given back.
const MORE_MAX: f64 = 0.35;
const MORE_MAX_FULL: f64 = 0.10;
/// Forks that are timed while nothing else goes on.
const TIMED: u32 = 200;
/// How many times as long a fork may take meanwhile.
const SLOWER_MAX: f64 = 1.5;

/// Makes branches that each write something, deletes most, and gives back what they had.
pub(super) fn measure(yard: &Yard<'_>, scale: &Scale, found: &mut Found) -> Result<()> {
    let drive = yard.drive("reclaim")?;
    make_tree(&drive.main, FILES)?;
    together(&drive, scale.forks, |owner, number| {
        fork(owner, number)?;
        write(owner, number, &[7; OWN_LEN])
    })?;
    drive.way().connected(|owner| Ok(owner.fold()?))?;
    let full = drive.packed()?;
    together(&drive, scale.forks, |owner, number| {
        if number % KEPT_OF > 0 {
            owner.delete_branch(&name(number))?;
        }
        Ok(())
    })?;
    let timed = scale.forks..scale.forks + TIMED;
    let before = drive.way().connected(|owner| {
        timed
            .map(|number| timed_fork(owner, number))
            .collect::<Result<Vec<_>>>()
    })?;
    let (seconds, told, during) = reclaimed(&drive, scale.forks + TIMED)?;
    let left = drive.packed()?;
    let all = ReclaimAsk {
        is_full: true,
        ..ReclaimAsk::default()
    };
    let told_full = drive.way().connected(|owner| Ok(owner.reclaim(all)?))?;
    let left_full = drive.packed()?;
    let more = |left: u64, told: &ReclaimTold| left as f64 / told.needed as f64 - 1.0;
    let slower = percentile(&during, 0.99) / percentile(&before, 0.99);
    found.rows.push(Row {
        name: "reclaim",
        what: "900 of 1,000 branches deleted that each wrote 64 KiB: what is left in packs, against what is reached",
        seconds: vec![seconds],
        baseline: Vec::new(),
        facts: vec![
            Fact::at_most("more than what is reached", more(left, &told), MORE_MAX),
            Fact::at_most("more after --full", more(left_full, &told_full), MORE_MAX_FULL),
            Fact::at_most("p99 of a fork meanwhile, of the one before", slower, SLOWER_MAX),
            Fact::told("p99 of a fork before, seconds", percentile(&before, 0.99)),
            Fact::told("forks meanwhile", during.len() as f64),
            Fact::told("bytes in packs before", full as f64),
            Fact::told("bytes in packs after", left as f64),
            Fact::told("bytes reached", told.needed as f64),
        ],
    });
    Ok(())
}

/// Gives back what nothing needs while forks are made; returns the seconds that it took, what was told, and the seconds of each fork.
fn reclaimed(drive: &Drive<'_>, first: u32) -> Result<(f64, ReclaimTold, Vec<f64>)> {
    let (is_over, way) = (AtomicBool::new(false), drive.way());
    std::thread::scope(|scope| {
        let forks = scope.spawn(|| {
            way.connected(|owner| {
                let mut seconds = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    interrupt::check()?;
                    seconds.push(timed_fork(owner, first + seconds.len() as u32)?);
                }
                Ok(seconds)
            })
        });
        let watch = Stopwatch::start();
        let told = way.connected(|owner| Ok(owner.reclaim(ReclaimAsk::default())?));
        let seconds = watch.seconds();
        is_over.store(true, Ordering::Relaxed);
        let during = forks
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((seconds, told?, during?))
    })
}

fn timed_fork(owner: &AnyOwner, number: u32) -> Result<f64> {
    let watch = Stopwatch::start();
    fork(owner, number)?;
    Ok(watch.seconds())
}
