//! `tenure drive`: makes, lists, shows and deletes drives.

use crate::drives::Drives;
use crate::duration;
use crate::error::Told;
use crate::output;
use crate::pins;
use crate::place::Place;
use crate::reach;
use anyhow::Result;
use std::time::Duration;
use tenure_client::Lines;
use tenure_model::DriveName;
use tenure_model::record::Plan;
use tenure_server::{Listing, Part};

/// Make, list, show and delete drives
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a drive with an empty branch `main`
    Create {
        /// The drive's name
        #[arg(value_parser = DriveName::parse)]
        drive: DriveName,
        #[command(flatten)]
        place: Place,
    },
    /// List the drives of the bucket
    List {
        #[command(flatten)]
        place: Place,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a drive: its epoch, its tier, its journal, how many branches and checkpoints, and who owns it
    Show {
        /// The drive
        #[arg(value_parser = DriveName::parse)]
        drive: DriveName,
        #[command(flatten)]
        place: Place,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say when the drive makes checkpoints by itself: of each branch that has changed since the last one, such as every 10 minutes.
    /// Those of the last hour are all kept, of those before one an hour. tenure branch list --all shows them
    #[command(
        after_help = "Examples:\n  tenure drive set work --checkpoint-every 5m --checkpoint-keep 2d\n  tenure drive set work --checkpoint-every never"
    )]
    Set {
        /// The drive
        #[arg(value_parser = DriveName::parse)]
        drive: DriveName,
        /// Time between two checkpoints of a branch at least (5m, 1h), or `never` [default: 10m in a new drive]
        #[arg(long, value_name = "TIME", value_parser = every)]
        checkpoint_every: Option<Duration>,
        /// How long they are kept [default: 1d in a new drive]
        #[arg(long, value_name = "TIME", value_parser = duration::lasting)]
        checkpoint_keep: Option<Duration>,
        #[command(flatten)]
        place: Place,
    },
    /// Delete a drive with everything in it
    Delete {
        /// The drive
        #[arg(value_parser = DriveName::parse)]
        drive: DriveName,
        /// Really delete it: nothing of it can be brought back
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        place: Place,
    },
}

/// Does what the command says.
pub(crate) fn run(command: &Command) -> Result<()> {
    let done = act(command);
    pins::tell_news();
    done
}

fn act(command: &Command) -> Result<()> {
    match command {
        Command::Create { drive, place } => {
            Drives::made(place)?.create(drive)?;
            output::line(format_args!(
                "made the drive {drive}; `tenure mount {drive} DIR{}` mounts it",
                place.options()
            ))
        }
        Command::List { place, json } => list(place, *json),
        Command::Show { drive, place, json } => show(drive, place, *json),
        Command::Set {
            drive,
            checkpoint_every,
            checkpoint_keep,
            place,
        } => set(drive, (*checkpoint_every, *checkpoint_keep), place),
        Command::Delete { drive, yes, place } => delete(drive, *yes, place),
    }
}

fn list(place: &Place, json: bool) -> Result<()> {
    let Listing {
        drives,
        parts,
        unclear,
    } = Drives::of(place)?.list()?;
    for failure in unclear {
        output::note(format_args!("note: {failure}"));
    }
    for (name, part) in parts {
        output::note(format_args!("note: {}", of_a_part(&name, part, place)));
    }
    if json {
        return output::json(&drives.iter().map(DriveName::as_str).collect::<Vec<_>>());
    }
    drives.iter().try_for_each(output::line)
}

/// Says what is there of a drive that is none, and what helps.
fn of_a_part(name: &DriveName, part: Part, place: &Place) -> String {
    let options = place.options();
    match part {
        Part::Begun => format!(
            "{name} is incomplete: it was begun and never finished (tenure drive create {name}{options} finishes it, tenure drive delete \
             {name}{options} --yes takes it away)"
        ),
        Part::Deleted => {
            format!("{name} is being deleted (tenure drive delete {name}{options} --yes finishes that)")
        }
    }
}

fn show(drive: &DriveName, place: &Place, json: bool) -> Result<()> {
    let reached = reach::drive_to_read(place, drive, "drive show")?;
    let status = reached.owner().status()?;
    let lines = reached.owner().branches()?;
    let plan = reached.owner().plan()?;
    reached.close()?;
    let shown = serde_json::json!({
        "drive": status.drive,
        "epoch": status.epoch.0,
        "tier": status.tier,
        "journal_bytes": status.journal_bytes,
        "branches": lines.iter().filter(|line| line.branch.is_some()).count(),
        "checkpoints": lines.iter().filter(|line| line.branch.is_none() && !line.is_automatic).count(),
        "automatic_checkpoints": planned(plan),
        "owner_pid": status.pid,
        "trouble": status.trouble,
    });
    if json {
        return output::json(&shown);
    }
    let said = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let facts: Vec<_> = shown
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.replace('_', " "), said(value)))
        .collect();
    output::facts(&facts)
}

/// Reads a time between checkpoints; none are made every zero seconds.
fn every(text: &str) -> Result<Duration, String> {
    match text {
        "never" => Ok(Duration::ZERO),
        text => duration::lasting(text),
    }
}

fn set(drive: &DriveName, (every, keep): (Option<Duration>, Option<Duration>), place: &Place) -> Result<()> {
    let reached = reach::drive_for(place, drive, "drive set")?;
    let lines = Lines::of(reached.owner());
    let mut plan = lines.plan()?;
    if let Some(every) = every {
        plan.every_secs = every.as_secs();
    }
    if let Some(keep) = keep {
        plan.keep_secs = keep.as_secs();
    }
    if every.is_some() || keep.is_some() {
        lines.set_plan(plan)?;
    }
    reached.close()?;
    output::line(format_args!(
        "{drive} makes checkpoints by itself {}",
        planned(plan)
    ))
}

/// Says when checkpoints are made.
fn planned(plan: Plan) -> String {
    let words = |secs| duration::words(Duration::from_secs(secs));
    match plan.every_secs {
        0 => "never".to_owned(),
        every => format!(
            "every {} while something changes, each kept for {}, after an hour one an hour",
            words(every),
            words(plan.keep_secs)
        ),
    }
}

fn delete(drive: &DriveName, yes: bool, place: &Place) -> Result<()> {
    if !yes {
        return Err(Told::refused(
            format!("deleting {drive} takes everything in it, for ever"),
            format!("tenure drive delete {drive}{} --yes", place.options()),
        ));
    }
    Drives::of(place)?.delete(drive)?;
    output::line(format_args!("deleted the drive {drive}"))
}
