//! Work that goes on while something ends: files are made and synced, and what was acknowledged is known afterwards.
//!
//! Invariant: a file counts as acknowledged when its fsync has returned success, and not before.

use crate::bench::interrupt;
use crate::bench::measure::Stopwatch;
use crate::bench::named;
use crate::bench::workload::incompressible;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of each file.
pub(super) const FILE_LEN: usize = 4096;
/// How long is waited for an acknowledgement: longer than any wait of a mount.
const WAIT_MAX: f64 = 300.0;
/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A writer that goes on until it is ended, or its mount is.
pub(super) struct Load {
    directory: &'static str,
    seed: u64,
    acknowledged: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    writer: JoinHandle<std::io::Result<()>>,
}

/// What a writer has been told is durable.
pub(super) struct Acknowledged {
    directory: &'static str,
    seed: u64,
    files: u64,
}

impl Load {
    /// Begins to make files in a new directory of a mount.
    pub(super) fn begin(dir: &Path, (directory, seed): (&'static str, u64)) -> Result<Self> {
        let at = place(dir, directory, seed);
        named::create_dir_all(&at)?;
        let (acknowledged, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (acked, over) = (acknowledged.clone(), is_over.clone());
        let write = move || {
            while !over.load(Ordering::Relaxed) {
                let number = acked.load(Ordering::Relaxed);
                synced(&at.join(number.to_string()), content(seed, number))?;
                acked.fetch_add(1, Ordering::Release);
            }
            Ok(())
        };
        let writer = std::thread::Builder::new().name("load".into()).spawn(write)?;
        Ok(Self {
            directory,
            seed,
            acknowledged,
            is_over,
            writer,
        })
    }

    /// Returns how many files are acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Waits until so many more are; returns how many seconds that took.
    pub(super) fn wait_for(&self, more: u64) -> Result<f64> {
        let (watch, until) = (Stopwatch::start(), self.acknowledged() + more);
        while self.acknowledged() < until {
            interrupt::check()?;
            if self.writer.is_finished() || watch.seconds() > WAIT_MAX {
                bail!("nothing more is acknowledged");
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(watch.seconds())
    }

    /// Ends it, whatever has become of its mount; returns what was acknowledged.
    pub(super) fn end(self) -> Acknowledged {
        self.is_over.store(true, Ordering::Relaxed);
        // That it failed with its mount is what it is for.
        let _ = self.writer.join();
        Acknowledged {
            directory: self.directory,
            seed: self.seed,
            files: self.acknowledged.load(Ordering::Acquire),
        }
    }
}

impl Acknowledged {
    /// Counts the files that are not there, or not as they were, in another mount of the branch.
    pub(super) fn lost(&self, dir: &Path) -> u64 {
        let at = place(dir, self.directory, self.seed);
        let is_lost = |number: &u64| {
            let found = fs::read(at.join(number.to_string()));
            found
                .ok()
                .is_none_or(|found| found != content(self.seed, *number))
        };
        (0..self.files).filter(is_lost).count() as u64
    }

    /// Returns how many there are.
    pub(super) fn files(&self) -> u64 {
        self.files
    }
}

/// Makes a file with contents of its own, and returns how many seconds it took until it was durable.
pub(super) fn create(at: &Path, seed: u64) -> Result<f64> {
    interrupt::check()?;
    let content = incompressible(seed, FILE_LEN);
    let watch = Stopwatch::start();
    synced(at, content).with_context(|| format!("cannot make {}", at.display()))?;
    Ok(watch.seconds())
}

fn synced(at: &Path, content: Vec<u8>) -> std::io::Result<()> {
    let mut file = named::create_new(at)?;
    file.write_all(&content)?;
    file.sync_all()
}

fn place(dir: &Path, directory: &str, seed: u64) -> PathBuf {
    dir.join(format!("{directory}-{seed}"))
}

fn content(seed: u64, number: u64) -> Vec<u8> {
    incompressible(seed << 32 | number, FILE_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_or_other_than_it_was_is_counted_as_lost() {
        let folder = tempfile::tempdir().expect("there is room");
        let load = Load::begin(folder.path(), ("load", 7)).expect("there is room");
        load.wait_for(5).expect("it goes on");
        let acknowledged = load.end();
        assert!(acknowledged.files() >= 5 && acknowledged.lost(folder.path()) == 0);
        let at = place(folder.path(), "load", 7);
        fs::remove_file(at.join("1")).expect("it is there");
        fs::write(at.join("3"), "other").expect("it is there");
        assert_eq!(acknowledged.lost(folder.path()), 2);
    }

    #[test]
    fn a_writer_whose_place_has_gone_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("there is room");
        let load = Load::begin(folder.path(), ("load", 7)).expect("there is room");
        load.wait_for(1).expect("it goes on");
        fs::rename(place(folder.path(), "load", 7), folder.path().join("elsewhere")).expect("it is there");
        assert!(load.wait_for(1 << 40).is_err());
        load.end();
    }
}
