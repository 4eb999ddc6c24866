//! `tenure checkpoint`: names the state of a branch.

use crate::output;
use crate::place::Place;
use crate::reach;
use anyhow::{Result, anyhow};
use tenure_model::{BranchName, CheckpointName, Ref};

/// Name the state that a branch has now
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tenure checkpoint work before-the-upgrade -m 'all tests pass'")]
pub(crate) struct Args {
    /// The drive, and its branch unless it is `main`
    #[arg(value_name = "DRIVE[@BRANCH]", value_parser = Ref::parse)]
    from: Ref,
    /// The checkpoint's name
    #[arg(value_parser = CheckpointName::parse)]
    name: CheckpointName,
    /// What it is for
    #[arg(short, long, default_value = "")]
    message: String,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Makes the checkpoint.
pub(crate) fn run(args: &Args) -> Result<()> {
    let branch =
        BranchName::parse(args.from.at.as_deref().unwrap_or(reach::MAIN)).map_err(|why| anyhow!(why))?;
    let reached = reach::drive_for(&args.place, &args.from.drive, "checkpoint")?;
    reached.owner().checkpoint(&branch, &args.name, &args.message)?;
    reached.close()?;
    if args.json {
        return output::json(&serde_json::json!({
            "drive": args.from.drive.as_str(), "branch": branch.as_str(), "checkpoint": args.name.as_str(),
        }));
    }
    output::line(format_args!(
        "{}@{} is what {branch} was just now, as far as it was synced",
        args.from.drive, args.name
    ))
}
