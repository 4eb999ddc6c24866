//! Unpacking a tar of many small files: the bulk of bytes, by one process that never syncs.

use anyhow::Result;

use super::{Metric, Workload, metric};
use crate::bench::command::run;
use crate::bench::input::{Inputs, warm};
use crate::bench::measure::Round;

/// Unpacks the application's `node_modules` onto a fresh side.
#[derive(Debug)]
pub(super) struct Untar;

impl Workload for Untar {
    fn metrics(&self) -> &[Metric] {
        const {
            &[metric(
                "untar",
                "tar -x of node_modules from a warm tar, until durable",
            )]
        }
    }

    fn prepare(&self, inputs: &Inputs) -> Result<()> {
        inputs.app().map(drop)
    }

    fn round(&self, round: &mut Round<'_>) -> Result<()> {
        let app = round.inputs.app()?;
        warm(&app.tar())?;
        round.until_durable("untar", app.content, |at| run(&mut app.unpack(at)).map(drop))
    }
}
