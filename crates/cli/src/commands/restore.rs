//! `tenure restore`: something in a branch becomes again what it was in another state.

use crate::commands::diff;
use crate::history;
use crate::output;
use crate::place::Place;
use crate::reach;
use anyhow::{Result, anyhow};
use std::ffi::OsString;
use tenure_client::{Lines, Reviews};
use tenure_model::{BranchName, Ref, shown};
use tenure_wire::RestoreAsk;

/// Make a file or directory of a branch again what it was in a checkpoint, or is in another branch
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure restore work src/main.rs --from before-the-upgrade\n  tenure restore work@attempt-1 docs --from main\n  tenure restore work notes --from 2h\n\nModes, owners, times, attributes and links are what they were; nothing else changes, and what the branch was before is a checkpoint,\nwhich is named. The branch may be mounted, here or elsewhere: its mounts show what it has become at once, and what is open there stays open."
)]
pub(crate) struct Args {
    /// The drive, and its branch unless it is `main`
    #[arg(value_name = "DRIVE[@BRANCH]", value_parser = Ref::parse)]
    of: Ref,
    /// The path in the drive
    path: OsString,
    /// The branch or checkpoint in which it is as it shall be; or when it was so (2h, 2026-12-01T06:45 in UTC): the last checkpoint
    /// of the branch before that
    #[arg(long, value_name = "REF|WHEN")]
    from: String,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Restores.
pub(crate) fn run(args: &Args) -> Result<()> {
    let (drive, name) = (&args.of.drive, args.of.at.as_deref().unwrap_or(reach::MAIN));
    let mut reached = reach::drive_for(&args.place, drive, "restore")?;
    let owner = reached.owner();
    reach::line(&owner, &args.place, drive, name)?;
    let from = args.from.strip_prefix('@').unwrap_or(&args.from);
    let from = match Lines::of(owner.clone()).find(from)? {
        Some(line) => line,
        None => history::point(&owner, &args.place, (drive, name), from)?,
    };
    let ask = RestoreAsk {
        branch: BranchName::parse(name).map_err(|why| anyhow!(why))?,
        path: diff::below(Some(&args.path)),
        from: from.name,
    };
    let who = reach::who("tenure restore".to_owned(), false);
    let turned = Reviews::of(owner, who).restore(&ask)?;
    reached.stop_waiting();
    reached.close()?;
    let shown = shown(&ask.path);
    if args.json {
        return output::json(&serde_json::json!({
            "drive": drive.as_str(), "branch": name, "path": shown, "from": ask.from, "before": turned.before,
        }));
    }
    output::line(format_args!(
        "{shown} in {drive}@{name} is what it is in {0}; what {name} was is {1}: tenure undo {drive}@{name} --to {1}{2} goes back there",
        ask.from,
        turned.before,
        args.place.options()
    ))
}
