//! `git clone` of a large repository.

use anyhow::Result;

use super::{Metric, Workload, metric};
use crate::bench::input::{Inputs, warm};
use crate::bench::measure::Round;

/// Clones the repository, from a warm original onto a fresh side.
#[derive(Debug)]
pub(super) struct Clone;

impl Workload for Clone {
    fn metrics(&self) -> &[Metric] {
        const {
            &[metric(
                "clone",
                "git clone of a warm local repository, until durable",
            )]
        }
    }

    fn rounds(&self) -> usize {
        11
    }

    fn prepare(&self, inputs: &Inputs) -> Result<()> {
        inputs.repository().map(drop)
    }

    fn round(&self, round: &mut Round<'_>) -> Result<()> {
        let repository = round.inputs.repository()?;
        warm(&repository.path)?;
        round.until_durable("clone", repository.content, |at| {
            repository.clone_into(&at.join("clone"))
        })
    }
}
