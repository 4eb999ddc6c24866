//! `tenure log`: what a branch, or something in it, was, and what has changed between.

use crate::clock::MachineClock;
use crate::commands::delegations::ago;
use crate::commands::diff;
use crate::history;
use crate::output;
use crate::place::Place;
use crate::reach;
use anyhow::Result;
use std::ffi::OsString;
use tenure_client::lines::Step;
use tenure_client::{BranchInfo, Lines};
use tenure_model::{Clock, Difference, Ref};

/// Show what a branch was: its checkpoints, newest first, with what has changed before each, and who held the branch then
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure log work\n  tenure log work@attempt-1 src/main.rs\n  cd ~/work && tenure log\n\nBetween two checkpoints it is not known any more in which order something was done. A drive makes checkpoints by itself\n(tenure drive set); tenure diff shows what has changed between any two, tenure restore takes a file back, tenure undo everything."
)]
pub(crate) struct Args {
    /// The drive, and its branch unless it is `main`; what is mounted here unless it is said
    #[arg(value_name = "DRIVE[@BRANCH]", value_parser = Ref::parse)]
    of: Option<Ref>,
    /// What became of this path in the drive only
    path: Option<OsString>,
    /// So many checkpoints at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    max: usize,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows the history.
pub(crate) fn run(args: &Args) -> Result<()> {
    let of = history::meant(args.of.as_ref())?;
    let mut reached = reach::drive_to_read(&args.place, &of.drive, "log")?;
    let owner = reached.owner();
    let name = of.at.as_deref().unwrap_or(reach::MAIN);
    let branch = history::branch(&owner, &args.place, &of.drive, name)?;
    let below = diff::below(args.path.as_ref());
    let steps = Lines::of(owner).log(&branch, &below, args.max)?;
    let oldest = steps.len().saturating_sub(1);
    reached.stop_waiting();
    reached.close()?;
    let is_told = |at: usize, step: &Step| !step.changed.is_empty() || (at == oldest && args.path.is_none());
    let told: Vec<_> = steps
        .iter()
        .enumerate()
        .filter(|(at, step)| is_told(*at, step))
        .map(|(_, step)| step)
        .collect();
    if args.json {
        return output::json(&told.iter().map(|step| json(step, &branch)).collect::<Vec<_>>());
    }
    let now = MachineClock.now();
    let mut table = output::table(["WHEN", "STATE", "CHANGED BEFORE", "HELD BY", "FOR"]);
    for step in told {
        let point = step.point.as_ref();
        table.add_row([
            point.map_or_else(|| "now".to_owned(), |point| ago(now.secs - point.made.secs)),
            point.map_or_else(|| branch.name.clone(), |point| point.name.clone()),
            changed(&step.changed),
            holder(step, &branch).unwrap_or_default(),
            point.map_or_else(String::new, |point| point.message.clone()),
        ]);
    }
    output::rows(&table)
}

fn holder(step: &Step, branch: &BranchInfo) -> Option<String> {
    match &step.point {
        Some(point) => point.by.clone(),
        None => branch.holder.clone(),
    }
}

/// Says in a few words what has changed.
fn changed(found: &[Difference]) -> String {
    match found {
        [] => "-".to_owned(),
        [one] => format!("{} {}", diff::what(one), diff::paths(one)),
        many => {
            let count = |what: &str| many.iter().filter(|one| diff::what(one) == what).count();
            let counts = ["created", "removed", "changed", "renamed"].map(|what| (count(what), what));
            let counts = counts.into_iter().filter(|(count, _)| *count > 0);
            counts
                .map(|(count, what)| format!("{count} {what}"))
                .collect::<Vec<_>>()
                .join(", ")
        }
    }
}

fn json(step: &Step, branch: &BranchInfo) -> serde_json::Value {
    let point = step.point.as_ref();
    serde_json::json!({
        "state": point.map_or(branch.name.as_str(), |point| point.name.as_str()),
        "is_now": point.is_none(),
        "made": point.map(|point| point.made.secs),
        "automatic": point.is_some_and(|point| point.is_automatic),
        "message": point.map_or("", |point| point.message.as_str()),
        "held_by": holder(step, branch),
        "changed": step.changed.iter().map(diff::json).collect::<Vec<_>>(),
    })
}
