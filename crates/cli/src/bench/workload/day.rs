//! The agent's day: clone, install, edit, commit, look, each step durable before the next.

use anyhow::Result;

use super::agent::{ADDED, EDITED, commit, edit, files_to_edit, status};
use super::{Metric, Workload, metric};
use crate::bench::command::run;
use crate::bench::input::{Inputs, warm};
use crate::bench::measure::{Content, Round};

/// The whole day, step by step.
#[derive(Debug)]
pub(super) struct Day;

impl Workload for Day {
    fn metrics(&self) -> &[Metric] {
        const {
            &[
                metric("clone", "git clone of a warm local repository, until durable"),
                metric("npm_ci", "npm ci --offline from a warm npm cache, until durable"),
                metric("edit", "append to 200 files, make 50, until durable"),
                metric("commit", "git add --all and git commit, until durable"),
                metric("status", "git status after all that, warm"),
                metric("day", "the steps above together"),
            ]
        }
    }

    fn prepare(&self, inputs: &Inputs) -> Result<()> {
        inputs.repository()?;
        inputs.app().map(drop)
    }

    fn round(&self, round: &mut Round<'_>) -> Result<()> {
        let (repository, app) = (round.inputs.repository()?, round.inputs.app()?);
        warm(&repository.path)?;
        warm(&app.cache())?;
        let clone = round.side.path().join("project");
        let web = clone.join("web");
        round.until_durable("clone", repository.content, |_| repository.clone_into(&clone))?;
        app.put_manifest(&web)?;
        round.until_durable("npm_ci", app.content, |_| run(&mut app.install(&web)).map(drop))?;
        let edited = files_to_edit(&clone)?;
        let content = Content {
            files: (EDITED + ADDED) as u64,
            bytes: 0,
        };
        round.until_durable("edit", content, |_| edit(&clone, &edited))?;
        round.until_durable("commit", content, |_| commit(&clone))?;
        round.until_done("status", repository.content, |_| status(&clone))?;
        let whole = round.samples.iter().map(|(_, sample)| sample.seconds).sum();
        round.record("day", whole);
        Ok(())
    }
}
