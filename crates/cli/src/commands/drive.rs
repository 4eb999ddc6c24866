//! `tenure drive`: makes, lists, shows and deletes drives.

use crate::drives::Drives;
use crate::error::Told;
use crate::output;
use crate::pins;
use crate::place::Place;
use crate::reach;
use anyhow::Result;
use tenure_model::DriveName;
use tenure_server::Listing;

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
        Command::Delete { drive, yes, place } => delete(drive, *yes, place),
    }
}

fn list(place: &Place, json: bool) -> Result<()> {
    let Listing { drives, unclear } = Drives::of(place)?.list()?;
    for failure in unclear {
        output::note(format_args!("note: {failure}"));
    }
    if json {
        return output::json(&drives.iter().map(DriveName::as_str).collect::<Vec<_>>());
    }
    drives.iter().try_for_each(output::line)
}

fn show(drive: &DriveName, place: &Place, json: bool) -> Result<()> {
    let reached = reach::drive_for(place, drive, "drive show")?;
    let status = reached.owner().status()?;
    let lines = reached.owner().branches()?;
    reached.close()?;
    let shown = serde_json::json!({
        "drive": status.drive,
        "epoch": status.epoch.0,
        "tier": status.tier,
        "journal_bytes": status.journal_bytes,
        "branches": lines.iter().filter(|line| line.branch.is_some()).count(),
        "checkpoints": lines.iter().filter(|line| line.branch.is_none()).count(),
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
