//! Reading a checkout: `git status` and `git grep`, with cold and warm caches.

use anyhow::Result;

use super::agent::status;
use super::{Metric, Workload, metric};
use crate::bench::command::{git, run_accepting};
use crate::bench::input::Inputs;
use crate::bench::measure::{Content, Round};
use crate::bench::side;

/// Warm runs in a row, so that each is long enough to be told from the start of a process.
const WARM_RUNS: usize = 5;

/// Looks at one clone again and again.
#[derive(Debug)]
pub(super) struct Checkout;

impl Workload for Checkout {
    fn metrics(&self) -> &[Metric] {
        const {
            &[
                metric(
                    "status_cold",
                    "first git status after a remount and dropped caches",
                ),
                metric("status_warm", "git status x 5, warm"),
                metric("grep_cold", "git grep after a remount and dropped caches"),
            ]
        }
    }

    fn begins_fresh(&self) -> bool {
        false
    }

    fn prepare(&self, inputs: &Inputs) -> Result<()> {
        inputs.repository().map(drop)
    }

    fn set_up(&self, round: &mut Round<'_>) -> Result<()> {
        let clone = round.side.path().join("clone");
        round.inputs.repository()?.clone_into(&clone)?;
        // An index written in the same moment as its files is looked at more closely, until the next status writes it.
        status(&clone)?;
        round.side.make_durable()
    }

    fn round(&self, round: &mut Round<'_>) -> Result<()> {
        let content = round.inputs.repository()?.content;
        let clone = round.side.path().join("clone");
        side::drop_caches_but_of("git", round.side)?;
        round.until_done("status_cold", content, |_| status(&clone))?;
        status(&clone)?;
        let looked_at = Content {
            files: content.files * WARM_RUNS as u64,
            bytes: 0,
        };
        round.until_done("status_warm", looked_at, |_| {
            (0..WARM_RUNS).try_for_each(|_| status(&clone))
        })?;
        side::drop_caches_but_of("git", round.side)?;
        round.until_done("grep_cold", content, |_| {
            // Grep's 1 says that it found nothing.
            run_accepting(
                git(&clone).args(["grep", "--quiet", "--fixed-strings", "no line holds this"]),
                &[1],
            )
            .map(drop)
        })
    }
}
