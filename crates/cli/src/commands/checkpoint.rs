//! `tenure checkpoint`: names the state of a branch.

use crate::clock::MachineClock;
use crate::duration;
use crate::holders;
use crate::output;
use crate::place::Place;
use crate::reach;
use anyhow::{Result, anyhow};
use std::time::Duration;
use tenure_client::{CheckpointAsk, Lines};
use tenure_model::{BranchName, CheckpointName, Clock, Ref};

/// Name the state that a branch has now, wherever it is mounted; as far as it was synced
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure checkpoint work before-the-upgrade -m 'all tests pass'\n  tenure checkpoint work@attempt-1 --sync --keep 7d"
)]
pub(crate) struct Args {
    /// The drive, and its branch unless it is `main`
    #[arg(value_name = "DRIVE[@BRANCH]", value_parser = Ref::parse)]
    from: Ref,
    /// The checkpoint's name; the time in UTC, such as 20261201T064500Z, unless it is said
    #[arg(value_parser = CheckpointName::parse)]
    name: Option<CheckpointName>,
    /// What it is for
    #[arg(short, long, default_value = "")]
    message: String,
    /// Keep it for this time (30m, 2h, 7d), after which it goes by itself; for ever unless it is said
    #[arg(long, value_name = "TIME", value_parser = duration::lasting)]
    keep: Option<Duration>,
    /// Have whoever has the branch mounted, here or elsewhere, make durable what is there, so that it is in the checkpoint
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Makes the checkpoint.
pub(crate) fn run(args: &Args) -> Result<()> {
    let drive = &args.from.drive;
    let branch =
        BranchName::parse(args.from.at.as_deref().unwrap_or(reach::MAIN)).map_err(|why| anyhow!(why))?;
    let reached = reach::drive_for(&args.place, drive, "checkpoint")?;
    let owner = reached.owner();
    if args.sync {
        holders::sync_all(&owner, &branch)?;
    }
    let lines = Lines::of(owner);
    let ask = |name: CheckpointName| CheckpointAsk {
        message: args.message.clone(),
        length: args.keep,
        ..CheckpointAsk::new(branch.clone(), name)
    };
    let name = match &args.name {
        Some(name) => {
            lines.checkpoint(&ask(name.clone()))?;
            name.clone()
        }
        None => lines.checkpoint_by_time(ask, MachineClock.now())?,
    };
    reached.close()?;
    if args.json {
        return output::json(&serde_json::json!({
            "drive": drive.as_str(),
            "branch": branch.as_str(),
            "checkpoint": name.as_str(),
            "keep_seconds": args.keep.map(|keep| keep.as_secs()),
        }));
    }
    let kept = args.keep.map_or_else(String::new, |keep| {
        format!(", and goes by itself in {}", duration::words(keep))
    });
    let far = if args.sync {
        ""
    } else {
        ", as far as it was synced"
    };
    output::line(format_args!(
        "{drive}@{name} is what {branch} was just now{far}{kept}"
    ))
}
