//! Single operations, by system calls of this process: what each costs, one after the other, on one thread.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Error, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Metric, Workload, incompressible, metric};
use crate::bench::interrupt;
use crate::bench::measure::{self, Round, Stopwatch};
use crate::bench::named;

/// How many times a whole directory is listed.
const LISTINGS: u64 = 20;
const PAGE: usize = 4096;

/// Every operation `count` times; listings of a directory of `listed_entries`.
#[derive(Debug)]
pub(super) struct Operations {
    pub(super) count: u64,
    pub(super) listed_entries: u64,
}

const METRICS: &[Metric] = &[
    metric("create", "open(O_CREAT|O_EXCL), close: median"),
    metric("create_p99", "the same: 99th percentile"),
    metric("create_write", "create, write 4 KiB, close: median"),
    metric("create_write_p99", "the same: 99th percentile"),
    metric("stat", "stat of a file seen before: median"),
    metric("stat_p99", "the same: 99th percentile"),
    metric(
        "stat_missing",
        "stat of a name that is not there, asked before: median",
    ),
    metric("stat_missing_p99", "the same: 99th percentile"),
    metric("open_read", "open, read 4 KiB, close, warm: median"),
    metric("open_read_p99", "the same: 99th percentile"),
    metric("write_4k", "pwrite of 4 KiB into an open file: median"),
    metric("write_4k_p99", "the same: 99th percentile"),
    metric("write_fsync", "pwrite of 4 KiB into an open file, fsync: median"),
    metric("write_fsync_p99", "the same: 99th percentile"),
    metric("rename", "rename within a directory: median"),
    metric("rename_p99", "the same: 99th percentile"),
    metric("mkdir", "mkdir: median"),
    metric("mkdir_p99", "the same: 99th percentile"),
    metric("symlink", "symlink: median"),
    metric("symlink_p99", "the same: 99th percentile"),
    metric("unlink", "unlink of a file of 4 KiB: median"),
    metric("unlink_p99", "the same: 99th percentile"),
    metric("rmdir", "rmdir: median"),
    metric("rmdir_p99", "the same: 99th percentile"),
    metric("readdir", "list a directory of 10,000 entries: median"),
    metric("readdir_p99", "the same: 99th percentile"),
];

impl Workload for Operations {
    fn metrics(&self) -> &[Metric] {
        METRICS
    }

    fn round(&self, round: &mut Round<'_>) -> Result<()> {
        let at = round.side.path().join("operations");
        named::create_dir(&at)?;
        let mut content = Pages::from_seed(round.seed);
        let mut timed = Timed {
            at,
            count: self.count,
            round,
        };
        timed.each("create", "create_p99", "empty-", |path| {
            File::create_new(path).map(drop)
        })?;
        timed.each("create_write", "create_write_p99", "file-", |path| {
            named::create_new(path)?.write_all(content.next())
        })?;
        timed.look_up()?;
        timed.write(&mut content)?;
        timed.each("rename", "rename_p99", "file-", |path| {
            fs::rename(path, path.with_extension("renamed"))
        })?;
        timed.each("mkdir", "mkdir_p99", "directory-", |path| fs::create_dir(path))?;
        timed.each("symlink", "symlink_p99", "link-", |path| {
            symlink("where it leads", path)
        })?;
        timed.each("unlink", "unlink_p99", "file-", |path| {
            fs::remove_file(path.with_extension("renamed"))
        })?;
        timed.each("rmdir", "rmdir_p99", "directory-", |path| fs::remove_dir(path))?;
        timed.list(self.listed_entries)
    }
}

/// Pages to write, no two alike: a store that keeps equal contents once must write each.
struct Pages {
    page: Vec<u8>,
    number: u64,
}

impl Pages {
    fn from_seed(seed: u64) -> Pages {
        Pages {
            page: incompressible(seed, PAGE),
            number: 0,
        }
    }

    fn next(&mut self) -> &[u8] {
        self.number += 1;
        self.page[..8].copy_from_slice(&self.number.to_le_bytes());
        &self.page
    }
}

/// Times one operation after the other in a directory.
struct Timed<'a, 'b> {
    at: PathBuf,
    count: u64,
    round: &'a mut Round<'b>,
}

impl Timed<'_, '_> {
    /// Times `operation` on each of the names that begin with `prefix`.
    fn each(
        &mut self,
        median: &'static str,
        p99: &'static str,
        prefix: &str,
        mut operation: impl FnMut(&Path) -> io::Result<()>,
    ) -> Result<()> {
        let paths: Vec<PathBuf> = (0..self.count)
            .map(|number| self.at.join(format!("{prefix}{number}")))
            .collect();
        let content = measure::Content {
            files: self.count,
            bytes: 0,
        };
        self.round.latencies(median, p99, content, |_| {
            let mut latencies = Vec::with_capacity(paths.len());
            for path in &paths {
                interrupt::check()?;
                let watch = Stopwatch::start();
                let done = operation(path);
                let seconds = watch.seconds();
                done.with_context(|| path.display().to_string())?;
                latencies.push(seconds);
            }
            Ok(latencies)
        })
    }

    fn look_up(&mut self) -> Result<()> {
        let mut buffer = [0; 4096];
        // Once unmeasured, so that what is measured was asked before.
        for number in 0..self.count {
            named::metadata(self.at.join(format!("file-{number}")))?;
            is_missing(&self.at.join(format!("missing-{number}")))?;
        }
        self.each("stat", "stat_p99", "file-", |path| fs::metadata(path).map(|_| ()))?;
        self.each("stat_missing", "stat_missing_p99", "missing-", is_missing)?;
        self.each("open_read", "open_read_p99", "file-", |path| {
            named::open(path)?.read_exact(&mut buffer)
        })
    }

    fn write(&mut self, content: &mut Pages) -> Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(self.at.join("written"))?;
        let mut place = 0;
        let mut next = || {
            place += PAGE as u64;
            file.write_all_at(content.next(), place)
        };
        self.each("write_4k", "write_4k_p99", "", |_| next())?;
        file.sync_all()?;
        self.each("write_fsync", "write_fsync_p99", "", |_| {
            next()?;
            file.sync_all()
        })
    }

    fn list(&mut self, entries: u64) -> Result<()> {
        let directory = self.at.join("listed");
        named::create_dir(&directory)?;
        for number in 0..entries {
            named::create_new(directory.join(format!("an-entry-of-ordinary-length-{number}")))?;
        }
        self.count = LISTINGS;
        self.each("readdir", "readdir_p99", "", |_| {
            let found = named::read_dir(&directory)?.count() as u64;
            let is_whole = found == entries;
            is_whole
                .then_some(())
                .ok_or_else(|| Error::other(format!("{found} of {entries} entries were listed")))
        })
    }
}

fn is_missing(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(Error::other(format!("{} is there", path.display()))),
    }
}
