//! `tenure reclaim`: gives back the room in the bucket that nothing needs.

use crate::output;
use crate::place::Place;
use crate::reach::{self, AnyOwner};
use crate::waiting::PATIENCE;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use tenure_client::Lines;
use tenure_model::{DriveName, counted};
use tenure_wire::{Error, LineUsage, ReclaimAsk, ReclaimTold};

/// Lines that are told to hold most.
const TOLD_MAX: usize = 5;

/// Give back the room in the bucket that nothing needs any more
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure reclaim work\n  tenure reclaim work --dry-run     tell what would be given back, and who holds the rest\n  tenure reclaim work --full        also write packs again of which a little is not needed\n\nWhat branches, checkpoints, merges and whoever reads or writes just now may need is kept. Mounts go on meanwhile. It happens by\nitself as well, while a drive is in use."
)]
pub(crate) struct Args {
    /// The drive
    #[arg(value_parser = DriveName::parse)]
    drive: DriveName,
    /// Change nothing, and tell what would be given back
    #[arg(long)]
    dry_run: bool,
    /// Also write packs again of which little is not needed
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How often it is looked how far it is.
const LOOK_REST: Duration = Duration::from_millis(300);

/// Has room given back, and shows meanwhile how far that is.
fn reclaim(owner: &AnyOwner, drive: &DriveName, ask: ReclaimAsk) -> Result<ReclaimTold, Error> {
    let (over, is_over) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(|| show(owner, drive, is_over));
        let told = Lines::of(AnyOwner::clone(owner)).reclaim(ask);
        drop(over);
        told
    })
}

/// Shows how far it is until it is over: on a terminal by and by, else by a word when it takes long.
fn show(owner: &AnyOwner, drive: &DriveName, is_over: Receiver<()>) {
    let goes_on = |rest| is_over.recv_timeout(rest) == Err(RecvTimeoutError::Timeout);
    if !std::io::stderr().is_terminal() {
        if goes_on(PATIENCE) {
            output::note(format_args!(
                "note: still looking for what nothing needs of {drive}; mounts go on meanwhile"
            ));
        }
        return;
    }
    let deleted = || {
        let status = owner.status().ok()?;
        status.requests.get("delete").copied()
    };
    let before = deleted();
    let style =
        ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect("the template is well-formed");
    let bar = ProgressBar::new_spinner().with_style(style);
    while goes_on(LOOK_REST) {
        let gone = deleted()
            .zip(before)
            .map_or(0, |(now, before)| now.saturating_sub(before));
        bar.set_message(match gone {
            0 => format!("{drive}: looking for what nothing needs"),
            gone => format!("{drive}: {} deleted", counted(gone, "object")),
        });
        bar.tick();
    }
    bar.finish_and_clear();
}

/// Gives room back, and tells how much.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut reached = reach::drive_for(&args.place, &args.drive, "reclaim")?;
    let ask = ReclaimAsk {
        is_dry: args.dry_run,
        is_full: args.full,
    };
    let told = reclaim(&reached.owner(), &args.drive, ask)?;
    reached.stop_waiting();
    reached.close()?;
    let most = holding_most(&told);
    if args.json {
        return output::json(&json(args, &told, &most));
    }
    let freed = if args.dry_run { "would be freed" } else { "freed" };
    let mut facts = vec![
        (
            freed.to_owned(),
            format!(
                "{} in {}",
                output::bytes(told.freed),
                counted(told.objects, "object")
            ),
        ),
        ("needed".to_owned(), output::bytes(told.needed)),
    ];
    let rest = [
        ("given up, deleted with the next folds", told.waiting),
        ("not needed, in packs with something that is", told.scattered),
        ("kept for what sessions may still name", told.held),
    ];
    let rest = rest.into_iter().filter(|(_, bytes)| *bytes > 0);
    facts.extend(rest.map(|(what, bytes)| (what.to_owned(), output::bytes(bytes))));
    facts.extend(
        told.holders
            .iter()
            .map(|who| ("which wait for".to_owned(), who.clone())),
    );
    let held = |line: &LineUsage| {
        let kind = if line.is_branch { "branch" } else { "checkpoint" };
        (
            format!("held by the {kind} {} alone", line.name),
            output::bytes(line.own),
        )
    };
    facts.extend(most.iter().map(held));
    output::facts(&facts)
}

/// Returns the branches and checkpoints that hold most alone.
fn holding_most(told: &ReclaimTold) -> Vec<LineUsage> {
    let mut lines: Vec<_> = told
        .usage
        .lines
        .iter()
        .filter(|line| line.own > 0)
        .cloned()
        .collect();
    lines.sort_by(|one, other| other.own.cmp(&one.own).then_with(|| one.name.cmp(&other.name)));
    lines.truncate(TOLD_MAX);
    lines
}

fn json(args: &Args, told: &ReclaimTold, most: &[LineUsage]) -> serde_json::Value {
    let held = |line: &LineUsage| {
        serde_json::json!({
            "name": line.name,
            "kind": if line.is_branch { "branch" } else { "checkpoint" },
            "own": line.own,
        })
    };
    serde_json::json!({
        "drive": args.drive.as_str(),
        "dry_run": args.dry_run,
        "freed": told.freed,
        "objects": told.objects,
        "waiting": told.waiting,
        "scattered": told.scattered,
        "held": told.held,
        "needed": told.needed,
        "holders": told.holders,
        "held_by": most.iter().map(held).collect::<Vec<_>>(),
        "ever": told.ever.map(|ever| serde_json::json!({"bytes": ever.bytes, "objects": ever.objects})),
    })
}
