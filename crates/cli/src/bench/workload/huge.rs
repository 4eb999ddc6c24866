//! What takes a large disk and long: a tree of a million files, a file of ten gigabytes. Asked for with `--huge`; the
//! interest is in the memory of the serving process.

use std::path::Path;

use anyhow::{Result, ensure};

use super::sequential::Bytes;
use super::{Metric, Workload, metric};
use crate::bench::disk;
use crate::bench::input::warm;
use crate::bench::interrupt;
use crate::bench::measure::{Content, Round, Stopwatch};
use crate::bench::named;
use crate::bench::side::{self, Side};
use crate::bench::statistics::median;

const FILES_A_DIRECTORY: u64 = 1_000;
/// How often the mount of the tree is timed in a round.
const MOUNTS: usize = 5;

/// Makes a tree of `files` empty files, mounts it again and again, then walks it cold.
#[derive(Debug)]
pub(super) struct HugeTree {
    pub(super) files: u64,
}

/// Writes a file of `bytes`.
#[derive(Debug)]
pub(super) struct HugeFile {
    pub(super) bytes: u64,
}

impl Workload for HugeTree {
    fn metrics(&self) -> &[Metric] {
        const {
            &[
                metric(
                    "huge_make",
                    "make 1,000,000 files in 1,000 directories, until durable",
                ),
                metric(
                    "huge_mount",
                    "from `tenure mount` to the first listing of that tree's root, after dropped caches, p50 of 5 (ext4 stays mounted)",
                ),
                metric(
                    "huge_walk",
                    "walk and stat that tree after a remount and dropped caches",
                ),
            ]
        }
    }

    fn rounds(&self) -> usize {
        1
    }

    fn round(&self, round: &mut Round<'_>) -> Result<()> {
        let content = Content {
            files: self.files,
            bytes: 0,
        };
        round.until_durable("huge_make", content, |at| make_tree(at, self.files))?;
        let mounts: Vec<f64> = (0..MOUNTS)
            .map(|_| mount_and_list(round.side, self.files / FILES_A_DIRECTORY))
            .collect::<Result<_>>()?;
        round.record("huge_mount", median(&mounts));
        side::drop_caches(round.side)?;
        round.until_done("huge_walk", content, |at| {
            let mut found = 0;
            for directory in named::read_dir(at)? {
                interrupt::check()?;
                for file in named::read_dir(directory?.path())? {
                    file?.metadata()?;
                    found += 1;
                }
            }
            ensure!(found == self.files, "{found} of {} files were found", self.files);
            Ok(())
        })
    }
}

impl Workload for HugeFile {
    fn metrics(&self) -> &[Metric] {
        const { &[metric("huge_write", "write 10 GiB in pieces of 1 MiB, fsync")] }
    }

    fn rounds(&self) -> usize {
        1
    }

    fn round(&self, round: &mut Round<'_>) -> Result<()> {
        let mut bytes = Bytes::from_seed(round.seed, self.bytes);
        let content = Content {
            files: 1,
            bytes: self.bytes,
        };
        round.until_done("huge_write", content, |at| {
            bytes.write(&at.join("huge"), self.bytes)
        })
    }
}

/// Returns the seconds from a mount, with cold caches, to the end of the first listing of its root.
fn mount_and_list(side: &mut dyn Side, directories: u64) -> Result<f64> {
    interrupt::check()?;
    side.unmount()?;
    disk::drop_kernel_caches()?;
    // How fast the program loads from the machine's root file system is not what is asked.
    if let Some(program) = side.program() {
        warm(program)?;
    }
    let watch = Stopwatch::start();
    side.mount()?;
    let found = named::read_dir(side.path())?.filter(Result::is_ok).count() as u64;
    let seconds = watch.seconds();
    ensure!(
        found >= directories,
        "{found} of {directories} directories are left"
    );
    Ok(seconds)
}

fn make_tree(at: &Path, files: u64) -> Result<()> {
    for directory in 0..files / FILES_A_DIRECTORY {
        interrupt::check()?;
        let path = at.join(format!("directory-{directory}"));
        named::create_dir(&path)?;
        for file in 0..FILES_A_DIRECTORY {
            named::create_new(path.join(format!("file-{file}")))?;
        }
    }
    Ok(())
}
