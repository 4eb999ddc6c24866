//! `cargo build` of a small workspace, from nothing.

use anyhow::Result;

use super::{Metric, Workload, metric};
use crate::bench::command::{command, run};
use crate::bench::floor::Callers;
use crate::bench::input::{Inputs, walk};
use crate::bench::measure::{Content, Round};
use crate::bench::named;

/// Builds the workspace on the side, sources and target both.
#[derive(Debug)]
pub(super) struct CargoBuild;

impl Workload for CargoBuild {
    fn metrics(&self) -> &[Metric] {
        const {
            &[metric(
                "cargo_build",
                "cargo build of six small crates, until durable",
            )]
        }
    }

    fn callers(&self) -> Callers {
        Callers::Several
    }

    fn prepare(&self, inputs: &Inputs) -> Result<()> {
        inputs.workspace().map(drop)
    }

    fn round(&self, round: &mut Round<'_>) -> Result<()> {
        let source = round.inputs.workspace()?;
        let workspace = round.side.path().join("workspace");
        walk(source, &mut |file| {
            let to = workspace.join(file.strip_prefix(source).unwrap_or(file));
            named::create_dir_all(to.parent().unwrap_or(&workspace))?;
            named::copy(file, to)?;
            Ok(())
        })?;
        round.until_durable("cargo_build", Content::default(), |_| {
            let mut cargo = command("cargo");
            cargo
                .args(["build", "--quiet", "--offline"])
                .current_dir(&workspace)
                .env_remove("CARGO_TARGET_DIR");
            run(&mut cargo).map(drop)
        })
    }
}
