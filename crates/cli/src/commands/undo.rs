//! `tenure undo`: a branch goes on from what it was, and what it is now stays reachable.

use crate::clock::MachineClock;
use crate::commands::delegations::ago;
use crate::error::Told;
use crate::history::{self, History};
use crate::output;
use crate::place::Place;
use crate::reach::{self, AnyOwner};
use anyhow::{Result, anyhow};
use tenure_client::{BranchInfo, Lines, Reviews};
use tenure_model::{BranchName, Clock, Ref};

/// Let a branch go on from what it was: from its last checkpoint that differs from it, or from the one that is named
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure undo work                  what was changed since the last checkpoint is undone\n  tenure undo work@attempt-1 --to 30m\n  tenure undo work --to before-the-upgrade\n  cd ~/work && tenure undo\n\nNothing is lost: what the branch was is a checkpoint, which is named, and tenure undo --to goes back there. The branch may be\nmounted, here or elsewhere: its mounts show what it has become at once, and what is open there stays open."
)]
pub(crate) struct Args {
    /// The drive, and its branch unless it is `main`; what is mounted here unless it is said
    #[arg(value_name = "DRIVE[@BRANCH]", value_parser = Ref::parse)]
    of: Option<Ref>,
    /// From what it goes on: a checkpoint or branch; or when it was so (30m, 2026-12-01T06:45 in UTC): its last checkpoint before that
    #[arg(long, value_name = "REF|WHEN")]
    to: Option<String>,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Undoes.
pub(crate) fn run(args: &Args) -> Result<()> {
    let of = history::meant(args.of.as_ref())?;
    let mut reached = reach::drive_for(&args.place, &of.drive, "undo")?;
    let owner = reached.owner();
    let name = of.at.as_deref().unwrap_or(reach::MAIN);
    let history = History::of(&owner, &args.place, &of.drive, name)?;
    let branch = BranchName::parse(name).map_err(|why| anyhow!(why))?;
    let to = match &args.to {
        Some(named) => named_state(&owner, args, (&of, name), named)?,
        None => last_other(&owner, &history)?.cloned().ok_or_else(|| {
            Told::refused(
                format!(
                    "{}@{name} has no checkpoint that differs from what it is",
                    of.drive
                ),
                format!("tenure branch list {} --all{}", of.drive, args.place.options()),
            )
        })?,
    };
    let who = reach::who("tenure undo".to_owned(), false);
    let turned = Reviews::of(owner, who).undo(&branch, &to.name)?;
    reached.stop_waiting();
    reached.close()?;
    if args.json {
        return output::json(&serde_json::json!({
            "drive": of.drive.as_str(), "branch": name, "to": to.name, "before": turned.before,
        }));
    }
    let made = ago(MachineClock.now().secs - to.made.secs);
    let noun = if to.branch.is_some() {
        "branch"
    } else {
        "checkpoint"
    };
    output::line(format_args!(
        "{0}@{name} is the {noun} {1} now (made {made}); what it was is {2}: tenure undo {0}@{name} --to {2}{3} goes back there",
        of.drive,
        to.name,
        turned.before,
        args.place.options()
    ))
}

fn named_state(owner: &AnyOwner, args: &Args, (of, name): (&Ref, &str), named: &str) -> Result<BranchInfo> {
    let named = named.strip_prefix('@').unwrap_or(named);
    match Lines::of(owner.clone()).find(named)? {
        Some(line) => Ok(line),
        None => history::point(owner, &args.place, (&of.drive, name), named),
    }
}

/// Returns the last checkpoint that differs from what the branch is.
fn last_other<'a>(owner: &AnyOwner, history: &'a History) -> Result<Option<&'a BranchInfo>> {
    let lines = Lines::of(owner.clone());
    for point in history.points.iter().rev() {
        if !lines
            .differences(&point.name, &history.branch.name, b"")?
            .is_empty()
        {
            return Ok(Some(point));
        }
    }
    Ok(None)
}
