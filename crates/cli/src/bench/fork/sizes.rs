//! A checkpoint, a fork and its mount, of trees of several sizes: all three should cost the same for each.

use super::rival;
use super::yard::{Drive, Yard, make_tree};
use super::{Found, Scale};
use crate::bench::interrupt;
use crate::bench::measure::Stopwatch;
use crate::bench::named;
use crate::bench::row::{Fact, Row};
use crate::bench::statistics::{median, percentile};
use anyhow::Result;
use serde_json::{Value, json};
use std::path::Path;

/// What a command may take, and the mount of a fork until its root is listed: that much more than the command.
const COMMAND_MAX: f64 = 0.020;
const MOUNT_MAX: f64 = COMMAND_MAX + 0.020;
/// How many times as long it may take for the largest tree as for the smallest.
const FLAT: f64 = 1.5;

/// Seconds of each trial.
#[derive(Default)]
struct Times {
    checkpoint: Vec<f64>,
    fork: Vec<f64>,
    mount: Vec<f64>,
}

/// Measures each size, and how much more the largest costs than the smallest.
pub(super) fn measure(yard: &Yard<'_>, scale: &Scale, found: &mut Found) -> Result<()> {
    let mut all: Vec<(u64, Times)> = Vec::new();
    for files in scale.sizes.iter().copied() {
        yard.progress.say(&format!("a tree of {files} files"));
        let times = times(yard, scale, files)?;
        let sync = yard.sync_seconds()?;
        found.sizes.push(json!({
            "files": files,
            "checkpoint_ms": milliseconds(&times.checkpoint),
            "fork_ms": milliseconds(&times.fork),
            "mount_ms": milliseconds(&times.mount),
            "sync_ms": sync * 1e3,
        }));
        all.push((files, times));
        found.rows.extend(rival::measure(yard, scale, files)?);
    }
    found.rows.push(row(
        ("checkpoint", "tenure checkpoint, the largest tree: the command"),
        &all,
        |times| &times.checkpoint,
        COMMAND_MAX,
    ));
    found.rows.push(row(
        ("fork", "tenure fork, the largest tree: the command"),
        &all,
        |times| &times.fork,
        COMMAND_MAX,
    ));
    found.rows.push(row(
        ("mount", "tenure mount of such a fork until its root is listed"),
        &all,
        |times| &times.mount,
        MOUNT_MAX,
    ));
    Ok(())
}

fn times(yard: &Yard<'_>, scale: &Scale, files: u64) -> Result<Times> {
    let drive = yard.drive("sizes")?;
    make_tree(&drive.main, files)?;
    let place = yard.place("fork")?;
    let mut times = Times::default();
    for trial in 0..scale.trials {
        interrupt::check()?;
        let (base, checkpoint, fork) = (
            drive.at("main"),
            format!("state-{trial}"),
            format!("attempt-{trial}"),
        );
        times
            .checkpoint
            .push(drive.timed(&["checkpoint", &base, &checkpoint])?);
        times.fork.push(drive.timed(&["fork", &base, &fork])?);
        times.mount.push(mounted(&drive, &fork, &place)?);
        drive.program.unmount(&place)?;
    }
    Ok(times)
}

/// Mounts a fork, and returns the seconds until its root is listed.
fn mounted(drive: &Drive<'_>, fork: &str, place: &Path) -> Result<f64> {
    let watch = Stopwatch::start();
    drive.program.mount(&drive.at(fork), place, &[])?;
    named::read_dir(place)?.try_for_each(|entry| entry.map(drop))?;
    Ok(watch.seconds())
}

fn milliseconds(seconds: &[f64]) -> Value {
    json!({ "p50": median(seconds) * 1e3, "p99": percentile(seconds, 0.99) * 1e3 })
}

fn row(
    (name, what): (&'static str, &'static str),
    all: &[(u64, Times)],
    of: impl Fn(&Times) -> &Vec<f64>,
    at_most: f64,
) -> Row {
    let middle = |at: Option<&(u64, Times)>| at.map_or(f64::NAN, |(_, times)| median(of(times)));
    let smallest = middle(all.iter().min_by_key(|(files, _)| *files));
    let largest = all.iter().max_by_key(|(files, _)| *files);
    let seconds = largest.map_or_else(Vec::new, |(_, times)| of(times).clone());
    Row {
        name,
        what,
        facts: vec![
            Fact::at_most("seconds, median", median(&seconds), at_most),
            Fact::told("seconds, 99th percentile", percentile(&seconds, 0.99)),
            Fact::at_most("of the smallest tree's", middle(largest) / smallest, FLAT),
        ],
        seconds,
        baseline: Vec::new(),
    }
}
