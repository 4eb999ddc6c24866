//! `rm -rf` of a checkout and of a `node_modules`.

use anyhow::Result;

use super::{Metric, Workload, metric};
use crate::bench::command::{command, run};
use crate::bench::input::Inputs;
use crate::bench::measure::{Content, Round};

/// Removes both trees, written and synced just before, so still in the caches.
#[derive(Debug)]
pub(super) struct Remove;

impl Workload for Remove {
    fn metrics(&self) -> &[Metric] {
        const {
            &[metric(
                "rm_rf",
                "rm -rf of the checkout and of node_modules, warm, until durable",
            )]
        }
    }

    fn prepare(&self, inputs: &Inputs) -> Result<()> {
        inputs.repository()?;
        inputs.app().map(drop)
    }

    fn round(&self, round: &mut Round<'_>) -> Result<()> {
        let (repository, app) = (round.inputs.repository()?, round.inputs.app()?);
        let (clone, modules) = (
            round.side.path().join("clone"),
            round.side.path().join("node_modules"),
        );
        repository.clone_into(&clone)?;
        run(&mut app.unpack(round.side.path()))?;
        let content = Content {
            files: repository.content.files + app.content.files,
            bytes: 0,
        };
        round.until_durable("rm_rf", content, |_| {
            run(command("rm").arg("-rf").args([&clone, &modules])).map(drop)
        })
    }
}
