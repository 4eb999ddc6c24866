//! `npm ci` of a Next.js application, offline.

use anyhow::Result;

use super::{Metric, Workload, metric};
use crate::bench::command::run;
use crate::bench::floor::Callers;
use crate::bench::input::{Inputs, warm};
use crate::bench::measure::Round;

/// Installs the application from a warm npm cache onto a fresh side.
#[derive(Debug)]
pub(super) struct NpmCi;

impl Workload for NpmCi {
    fn metrics(&self) -> &[Metric] {
        const {
            &[metric(
                "npm_ci",
                "npm ci --offline from a warm npm cache, until durable",
            )]
        }
    }

    fn rounds(&self) -> usize {
        11
    }

    fn callers(&self) -> Callers {
        Callers::Several
    }

    fn prepare(&self, inputs: &Inputs) -> Result<()> {
        inputs.app().map(drop)
    }

    fn round(&self, round: &mut Round<'_>) -> Result<()> {
        let app = round.inputs.app()?;
        warm(&app.cache())?;
        let directory = round.side.path().join("app");
        app.put_manifest(&directory)?;
        round.until_durable("npm_ci", app.content, |_| {
            run(&mut app.install(&directory)).map(drop)
        })
    }
}
