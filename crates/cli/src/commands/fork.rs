//! `tenure fork`: makes a branch from a branch or a checkpoint.

use crate::output;
use crate::place::Place;
use crate::reach;
use anyhow::{Result, anyhow};
use tenure_model::record::Source;
use tenure_model::{BranchName, CheckpointName, Ref};

/// Make a branch from what a branch or a checkpoint is now; of a mounted branch, as far as it was synced
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure fork work attempt-1\n  tenure fork work@before-the-upgrade attempt-2\n  tenure mount work@attempt-2 ~/attempt-2"
)]
pub(crate) struct Args {
    /// The drive, and its branch or checkpoint unless it is `main`
    #[arg(value_name = "DRIVE[@BRANCH|@CHECKPOINT]", value_parser = Ref::parse)]
    from: Ref,
    /// The new branch's name
    #[arg(value_parser = BranchName::parse)]
    name: BranchName,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Forks.
pub(crate) fn run(args: &Args) -> Result<()> {
    let from = args.from.at.as_deref().unwrap_or(reach::MAIN);
    let reached = reach::drive_for(&args.place, &args.from.drive, "fork")?;
    let found = reach::line(&reached.owner(), &args.place, &args.from.drive, from)?;
    let source = match found.branch {
        Some(branch) => Source::Branch(branch),
        None => Source::Checkpoint(CheckpointName::parse(from).map_err(|why| anyhow!(why))?),
    };
    reached.owner().fork(&source, &args.name)?;
    reached.close()?;
    if args.json {
        return output::json(&serde_json::json!({
            "drive": args.from.drive.as_str(), "branch": args.name.as_str(), "from": from,
        }));
    }
    output::line(format_args!(
        "{0}@{1} is a fork of {from}; `tenure mount {0}@{1} DIR{2}` mounts it",
        args.from.drive,
        args.name,
        args.place.options()
    ))
}
