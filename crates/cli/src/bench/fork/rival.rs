//! What else gives a second tree of many files: a snapshot of btrfs, overlayfs over it, and a copy.

use super::Scale;
use super::yard::{Yard, make_tree};
use crate::bench::command::{command, run};
use crate::bench::measure::Stopwatch;
use crate::bench::named;
use crate::bench::row::{Fact, Row};
use crate::bench::statistics::median;
use anyhow::{Context, Result};
use rustix::mount::{UnmountFlags, unmount};
use std::path::Path;

/// Times each for a tree of so many files.
pub(super) fn measure(yard: &Yard<'_>, scale: &Scale, files: u64) -> Result<Vec<Row>> {
    let base = yard.rivals().join("base");
    run(command("btrfs").args(["-q", "subvolume", "create"]).arg(&base))?;
    make_tree(&base, files)?;
    rustix::fs::syncfs(named::open(&base)?)?;
    let mut snapshots = Vec::new();
    for trial in 0..scale.trials {
        let snapshot = yard.rivals().join(format!("snapshot-{trial}"));
        let watch = Stopwatch::start();
        run(command("btrfs")
            .args(["-q", "subvolume", "snapshot"])
            .args([&base, &snapshot]))?;
        snapshots.push(watch.seconds());
    }
    let overlay = overlay(yard, &base)?;
    let copy = yard.rivals().join("copy");
    let watch = Stopwatch::start();
    run(command("cp").arg("-a").args([&base, &copy]))?;
    let copied = watch.seconds();
    named::remove_dir_all(&copy)?;
    let made = (0..scale.trials).map(|trial| yard.rivals().join(format!("snapshot-{trial}")));
    run(command("btrfs")
        .args(["-q", "subvolume", "delete"])
        .args(made)
        .arg(&base))?;
    let files = files as f64;
    let row = |name, what, seconds: Vec<f64>| Row {
        name,
        what,
        facts: vec![
            Fact::told("files", files),
            Fact::told("seconds, median", median(&seconds)),
        ],
        seconds,
        baseline: Vec::new(),
    };
    Ok(vec![
        row(
            "btrfs_snapshot",
            "btrfs subvolume snapshot: the command, until it returns",
            snapshots,
        ),
        row(
            "overlay",
            "mount of overlayfs over the tree until its root is listed",
            vec![overlay],
        ),
        row(
            "copy",
            "cp -a of the tree, which on btrfs copies no content",
            vec![copied],
        ),
    ])
}

/// Returns the seconds until overlayfs over a tree lists its root.
fn overlay(yard: &Yard<'_>, lower: &Path) -> Result<f64> {
    let (upper, work, at) = (
        yard.rivals().join("upper"),
        yard.rivals().join("work"),
        yard.place("overlay")?,
    );
    for directory in [&upper, &work] {
        named::create_dir(directory)?;
    }
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    let watch = Stopwatch::start();
    run(command("mount")
        .args(["-t", "overlay", "overlay", "-o", &options])
        .arg(&at))?;
    named::read_dir(&at)?.try_for_each(|entry| entry.map(drop))?;
    let seconds = watch.seconds();
    unmount(&at, UnmountFlags::empty()).context("overlayfs cannot be unmounted")?;
    for directory in [&upper, &work] {
        named::remove_dir_all(directory)?;
    }
    Ok(seconds)
}
