//! A fork of a fork of a fork: reading it should cost no more than reading the first.

use super::yard::{Drive, Yard, change_tree, make_tree};
use super::{Found, Scale};
use crate::bench::disk;
use crate::bench::input::warm;
use crate::bench::interrupt;
use crate::bench::measure::Stopwatch;
use crate::bench::row::{Fact, Row};
use crate::bench::statistics::median;
use anyhow::Result;
use std::path::Path;

/// Files of each tree, and how many of them each fork changes.
const FILES: u64 = 10_000;
const CHANGES: u64 = 10;
/// How many times as long reading the last may take.
const DEEP_MAX: f64 = 1.1;

/// Makes the forks, then reads the first and the last by turns, with cold caches.
pub(super) fn measure(yard: &Yard<'_>, scale: &Scale, found: &mut Found) -> Result<()> {
    let drive = yard.drive("depth")?;
    make_tree(&drive.main, FILES)?;
    let place = yard.place("deep")?;
    let mut base = "main".to_owned();
    for depth in 1..=scale.depth {
        interrupt::check()?;
        let fork = format!("depth-{depth}");
        drive.timed(&["fork", &drive.at(&base), &fork])?;
        drive.program.mount(&drive.at(&fork), &place, &[])?;
        change_tree(&place, FILES, (0, CHANGES), &fork)?;
        drive.program.unmount(&place)?;
        base = fork;
    }
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for _ in 0..scale.rounds {
        first.push(read(&drive, "depth-1", &place)?);
        last.push(read(&drive, &base, &place)?);
    }
    let ratios: Vec<f64> = last
        .iter()
        .zip(&first)
        .map(|(last, first)| last / first)
        .collect();
    found.rows.push(Row {
        name: "depth",
        what: "every file of the last of 200 forks, each of the one before, after a mount and dropped caches; baseline: of the first",
        seconds: last,
        baseline: first,
        facts: vec![Fact::at_most("of the first fork's, median", median(&ratios), DEEP_MAX)],
    });
    Ok(())
}

/// Returns the seconds that reading all of a branch takes.
fn read(drive: &Drive<'_>, branch: &str, place: &Path) -> Result<f64> {
    drive.program.mount(&drive.at(branch), place, &[])?;
    disk::drop_kernel_caches()?;
    let watch = Stopwatch::start();
    warm(place)?;
    let seconds = watch.seconds();
    drive.program.unmount(place)?;
    Ok(seconds)
}
