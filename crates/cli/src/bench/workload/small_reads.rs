//! Reading many small files with cold caches, one after the other.

use std::io::Read;

use anyhow::{Result, ensure};

use super::{Metric, Workload, metric};
use crate::bench::command::run;
use crate::bench::input::{Inputs, walk};
use crate::bench::measure::Round;
use crate::bench::named;
use crate::bench::side;

/// Reads every file of a `node_modules`.
#[derive(Debug)]
pub(super) struct SmallReads;

impl Workload for SmallReads {
    fn metrics(&self) -> &[Metric] {
        const {
            &[metric(
                "small_reads_cold",
                "read all of node_modules after a remount and dropped caches",
            )]
        }
    }

    fn begins_fresh(&self) -> bool {
        false
    }

    fn prepare(&self, inputs: &Inputs) -> Result<()> {
        inputs.app().map(drop)
    }

    fn set_up(&self, round: &mut Round<'_>) -> Result<()> {
        run(&mut round.inputs.app()?.unpack(round.side.path()))?;
        round.side.make_durable()
    }

    fn round(&self, round: &mut Round<'_>) -> Result<()> {
        let content = round.inputs.app()?.content;
        side::drop_caches(round.side)?;
        round.until_done("small_reads_cold", content, |at| {
            let mut bytes = 0;
            let mut buffer = vec![0; 1 << 16];
            walk(&at.join("node_modules"), &mut |file| {
                let mut file = named::open(file)?;
                loop {
                    match file.read(&mut buffer)? {
                        0 => return Ok(()),
                        count => bytes += count as u64,
                    }
                }
            })?;
            ensure!(
                bytes == content.bytes,
                "{bytes} of {} bytes were read",
                content.bytes
            );
            Ok(())
        })
    }
}
