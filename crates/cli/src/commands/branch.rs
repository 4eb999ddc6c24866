//! `tenure branch`: what branches and checkpoints there are.

use crate::error::Told;
use crate::output;
use crate::place::Place;
use crate::reach;
use anyhow::Result;
use tenure_model::{BranchName, DriveName};
use tenure_wire::BranchInfo;

/// List and delete branches and checkpoints
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the branches and checkpoints of a drive, and strays: what a mount had not made durable when its branch was taken from it
    List {
        /// The drive
        #[arg(value_parser = DriveName::parse)]
        drive: DriveName,
        #[command(flatten)]
        place: Place,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a branch that nobody holds, a stray or a checkpoint; what others were made from it stays
    Delete {
        /// The drive
        #[arg(value_parser = DriveName::parse)]
        drive: DriveName,
        /// The branch or checkpoint
        #[arg(value_parser = BranchName::parse)]
        name: BranchName,
        /// Really delete it: nothing of it can be brought back. A stray needs no such word
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        place: Place,
    },
}

/// Lists or deletes.
pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List { drive, place, json } => list(drive, place, *json),
        Command::Delete {
            drive,
            name,
            yes,
            place,
        } => delete((drive, name), *yes, place),
    }
}

fn delete((drive, name): (&DriveName, &BranchName), yes: bool, place: &Place) -> Result<()> {
    let reached = reach::drive_for(place, drive, "branch")?;
    // A stray is deleted by whoever has looked at it.
    if !yes && !reach::line(&reached.owner(), place, drive, name.as_str())?.is_stray {
        return Err(Told::refused(
            format!("deleting {drive}@{name} takes what is in no other branch or checkpoint, for ever"),
            format!("tenure branch delete {drive} {name}{} --yes", place.options()),
        ));
    }
    reached.owner().delete_branch(name)?;
    reached.close()?;
    output::line(format_args!("{drive}@{name} is deleted"))
}

/// Says what a line is. A stray is in quarantine: nobody has looked at it yet.
fn kind(line: &BranchInfo) -> &'static str {
    match (line.branch, line.is_stray) {
        (None, _) => "checkpoint",
        (Some(_), false) => "branch",
        (Some(_), true) => "stray",
    }
}

fn list(drive: &DriveName, place: &Place, json: bool) -> Result<()> {
    let reached = reach::drive_for(place, drive, "branch")?;
    let lines = reached.owner().branches()?;
    reached.close()?;
    if json {
        let rows: Vec<_> = lines
            .iter()
            .map(|line| {
                serde_json::json!({
                    "name": line.name,
                    "kind": kind(line),
                    "from": line.from,
                    "made": line.made.secs,
                    "inodes": line.inodes,
                    "bytes": line.bytes,
                    "holder": line.holder,
                    "message": line.message,
                })
            })
            .collect();
        return output::json(&rows);
    }
    let mut table = output::table(["NAME", "KIND", "FROM", "INODES", "BYTES", "HELD BY", "FOR"]);
    for line in &lines {
        table.add_row([
            line.name.clone(),
            kind(line).to_owned(),
            line.from.clone(),
            line.inodes.to_string(),
            output::bytes(line.bytes),
            line.holder.clone().unwrap_or_default(),
            line.message.clone(),
        ]);
    }
    output::rows(&table)
}
