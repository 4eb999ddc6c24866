//! The latency of a small file that is created, written and synced, one after the other.

use std::fs::File;
use std::io::Write;

use anyhow::Result;

use super::{Metric, Workload, incompressible, metric};
use crate::bench::interrupt;
use crate::bench::measure::{Round, Stopwatch};
use crate::bench::statistics::percentile;

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
        std::fs::create_dir(&directory)?;
        round.side.make_durable()?;
        rustix::fs::sync();
        let mut latencies = Vec::new();
        for number in 0..self.files {
            interrupt::check()?;
            let content = incompressible(round.seed << 32 | number, 4096);
            let path = directory.join(format!("file-{number}"));
            let watch = Stopwatch::start();
            let mut file = File::create_new(path)?;
            file.write_all(&content)?;
            file.sync_all()?;
            drop(file);
            latencies.push(watch.seconds());
        }
        round.record("create_fsync_p50", percentile(&latencies, 0.50));
        round.record("create_fsync_p99", percentile(&latencies, 0.99));
        Ok(())
    }
}
