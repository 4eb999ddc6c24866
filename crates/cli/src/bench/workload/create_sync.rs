//! The latency of a small file that is created, written and synced, one after the other.

use std::io::Write;
use std::path::Path;

use anyhow::Result;

use super::{Metric, Workload, incompressible, metric};
use crate::bench::interrupt;
use crate::bench::measure::{Content, Round, Stopwatch};
use crate::bench::named;

/// Creates files of 4 KiB and syncs each.
#[derive(Debug)]
pub(super) struct CreateSync {
    pub(super) files: u64,
}

impl Workload for CreateSync {
    fn metrics(&self) -> &[Metric] {
        const {
            &[
                metric("create_fsync_p50", "create, write 4 KiB, fsync, close: median"),
                metric(
                    "create_fsync_p99",
                    "create, write 4 KiB, fsync, close: 99th percentile",
                ),
            ]
        }
    }

    fn round(&self, round: &mut Round<'_>) -> Result<()> {
        let directory = round.side.path().join("synced");
        named::create_dir(&directory)?;
        let seed = round.seed;
        let content = Content {
            files: self.files,
            bytes: self.files * 4096,
        };
        round.latencies("create_fsync_p50", "create_fsync_p99", content, |_| {
            (0..self.files)
                .map(|number| create(&directory.join(format!("file-{number}")), seed << 32 | number))
                .collect()
        })
    }
}

/// Returns how long it took to create the file `path` and to have it durable.
fn create(path: &Path, seed: u64) -> Result<f64> {
    interrupt::check()?;
    let content = incompressible(seed, 4096);
    let watch = Stopwatch::start();
    let mut file = named::create_new(path)?;
    file.write_all(&content)?;
    file.sync_all()?;
    drop(file);
    Ok(watch.seconds())
}
