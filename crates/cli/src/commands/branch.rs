//! `tenure branch`: what branches and checkpoints there are, and what was made from what.

mod tree;

use crate::clock::MachineClock;
use crate::commands::delegations::ago;
use crate::duration;
use crate::error::Told;
use crate::output;
use crate::place::Place;
use crate::reach;
use anyhow::Result;
use tenure_client::{BranchInfo, Lines, Reviews};
use tenure_model::{BranchName, Clock, DriveName, Timestamp};

/// List, show, rename, delete and draw branches and checkpoints
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the branches and checkpoints of a drive, and strays: what a mount had not made durable when its branch was taken from it
    List {
        #[command(flatten)]
        of: Of,
        /// Also those that the drive has made by itself
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a branch or checkpoint: what it was made from and when, what was made from it, who holds it, until when it is kept
    Show {
        #[command(flatten)]
        of: Of,
        /// The branch or checkpoint
        #[arg(value_parser = BranchName::parse)]
        name: BranchName,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give a branch or checkpoint another name; whoever has it mounted goes on
    Rename {
        #[command(flatten)]
        of: Of,
        /// The branch or checkpoint
        #[arg(value_parser = BranchName::parse)]
        name: BranchName,
        /// The new name
        #[arg(value_parser = BranchName::parse)]
        new: BranchName,
    },
    /// Delete a branch that nobody holds, a stray or a checkpoint; what others were made from it stays
    Delete {
        #[command(flatten)]
        of: Of,
        /// The branch or checkpoint
        #[arg(value_parser = BranchName::parse)]
        name: BranchName,
        /// Really delete it: nothing of it can be brought back. A stray needs no such word
        #[arg(long)]
        yes: bool,
    },
    /// Let a branch that is not mounted change only by accepted reviews (tenure fork --staged, tenure review): who mounts it, merges into it,
    /// undoes, restores, renames or deletes it is refused
    Protect {
        #[command(flatten)]
        of: Of,
        /// The branch
        #[arg(value_parser = BranchName::parse)]
        name: BranchName,
    },
    /// Let everybody change a branch again
    Unprotect {
        #[command(flatten)]
        of: Of,
        /// The branch
        #[arg(value_parser = BranchName::parse)]
        name: BranchName,
    },
    /// Let what a branch has changed wait for a review, after which it is merged into another
    Stage {
        #[command(flatten)]
        of: Of,
        /// The branch
        #[arg(value_parser = BranchName::parse)]
        name: BranchName,
        /// The branch into which it is accepted
        #[arg(long, default_value = reach::MAIN, value_parser = BranchName::parse)]
        into: BranchName,
    },
    /// Let a branch wait for a review no longer; what it has changed stays in it
    Unstage {
        #[command(flatten)]
        of: Of,
        /// The branch
        #[arg(value_parser = BranchName::parse)]
        name: BranchName,
    },
    /// Draw what was made from what
    #[command(after_help = "Example:\n  tenure branch tree work")]
    Tree {
        #[command(flatten)]
        of: Of,
        /// Also what the drive has made by itself
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Which drive.
#[derive(Debug, clap::Args)]
pub(crate) struct Of {
    /// The drive
    #[arg(value_parser = DriveName::parse)]
    drive: DriveName,
    #[command(flatten)]
    place: Place,
}

/// Does what the command says.
pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List { of, all, json } => list(of, *all, *json),
        Command::Show { of, name, json } => show(of, name, *json),
        Command::Rename { of, name, new } => rename(of, name, new),
        Command::Delete { of, name, yes } => delete(of, name, *yes),
        Command::Protect { of, name } => {
            of.reviews(|reviews| reviews.protect(name))?;
            output::line(format_args!(
                "{0}@{name} changes only by accepted reviews from now on: tenure fork {0}@{name} NEW --staged{1}",
                of.drive,
                of.place.options()
            ))
        }
        Command::Unprotect { of, name } => {
            of.reviews(|reviews| reviews.unprotect(name))?;
            output::line(format_args!("everybody may change {}@{name} again", of.drive))
        }
        Command::Stage { of, name, into } => {
            of.reviews(|reviews| reviews.stage(name, into))?;
            output::line(format_args!(
                "{0}@{name} waits for a review: tenure review show {0}@{name}{1}",
                of.drive,
                of.place.options()
            ))
        }
        Command::Unstage { of, name } => {
            of.reviews(|reviews| reviews.unstage(name))?;
            output::line(format_args!("{}@{name} waits for a review no longer", of.drive))
        }
        Command::Tree { of, all, json } => tree::run(of, *all, *json),
    }
}

impl Of {
    /// Says something of a branch.
    fn reviews(
        &self,
        say: impl FnOnce(&Reviews<tenure_core::Branch>) -> Result<(), tenure_wire::Error>,
    ) -> Result<()> {
        let reached = reach::drive_for(&self.place, &self.drive, "branch")?;
        let who = reach::who("tenure branch".to_owned(), false);
        say(&Reviews::of(reached.owner(), who))?;
        reached.close()
    }

    /// Returns every branch and checkpoint of the drive.
    fn lines(&self) -> Result<Vec<BranchInfo>> {
        let reached = reach::drive_to_read(&self.place, &self.drive, "branch")?;
        let lines = Lines::of(reached.owner()).all()?;
        reached.close()?;
        Ok(lines)
    }
}

fn rename(of: &Of, name: &BranchName, new: &BranchName) -> Result<()> {
    let reached = reach::drive_for(&of.place, &of.drive, "branch")?;
    reach::line(&reached.owner(), &of.place, &of.drive, name.as_str())?;
    Lines::of(reached.owner()).rename(name.as_str(), new)?;
    reached.close()?;
    output::line(format_args!("{0}@{name} is {0}@{new} from now on", of.drive))
}

fn delete(of: &Of, name: &BranchName, yes: bool) -> Result<()> {
    let (drive, place) = (&of.drive, &of.place);
    let reached = reach::drive_for(place, drive, "branch")?;
    // A stray is deleted by whoever has looked at it.
    if !yes && !reach::line(&reached.owner(), place, drive, name.as_str())?.is_stray {
        return Err(Told::refused(
            format!("deleting {drive}@{name} takes what is in no other branch or checkpoint, for ever"),
            format!("tenure branch delete {drive} {name}{} --yes", place.options()),
        ));
    }
    Lines::of(reached.owner()).delete(name)?;
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

/// Says how long a line is kept, where it is not for ever.
fn kept(line: &BranchInfo, now: Timestamp) -> Option<String> {
    let until = line.until?;
    Some(if until > now {
        format!("goes in {}", duration::words(until.since(now)))
    } else {
        "goes when nobody holds it".to_owned()
    })
}

/// Says what is said of a line besides.
fn said(line: &BranchInfo) -> Option<String> {
    let mark = line.mark.as_ref()?;
    Some(match mark.into.as_deref() {
        None => "protected".to_owned(),
        Some("") => "waits for a review for a branch that is gone".to_owned(),
        Some(into) => format!("waits for a review for {into}"),
    })
}

/// As [`said`], and by whom and when.
fn said_by(line: &BranchInfo, now: Timestamp) -> String {
    let said = said(line).zip(line.mark.as_ref());
    said.map_or_else(String::new, |(said, mark)| {
        format!("{said} (by {}, {})", mark.by, ago(now.secs - mark.time.secs))
    })
}

fn as_json(line: &BranchInfo) -> serde_json::Value {
    serde_json::json!({
        "name": line.name,
        "kind": kind(line),
        "from": line.from,
        "made": line.made.secs,
        "inodes": line.inodes,
        "bytes": line.bytes,
        "holder": line.holder,
        "message": line.message,
        "until": line.until.map(|until| until.secs),
        "automatic": line.is_automatic,
        "by": line.by,
        "protected": line.mark.as_ref().is_some_and(|mark| mark.into.is_none()),
        "staged_for": line.mark.as_ref().and_then(|mark| mark.into.as_deref()),
        "marked_by": line.mark.as_ref().map(|mark| mark.by.as_str()),
    })
}

fn list(of: &Of, all: bool, json: bool) -> Result<()> {
    let mut lines = of.lines()?;
    lines.retain(|line| all || !line.is_automatic);
    if json {
        return output::json(&lines.iter().map(as_json).collect::<Vec<_>>());
    }
    let now = MachineClock.now();
    let mut table = output::table(["NAME", "KIND", "FROM", "INODES", "BYTES", "HELD BY", "FOR"]);
    for line in &lines {
        let words = [Some(line.message.clone()), said(line), kept(line, now)];
        let words: Vec<_> = words
            .into_iter()
            .flatten()
            .filter(|word| !word.is_empty())
            .collect();
        table.add_row([
            line.name.clone(),
            kind(line).to_owned(),
            line.from.clone(),
            line.inodes.to_string(),
            output::bytes(line.bytes),
            line.holder.clone().unwrap_or_default(),
            words.join("; "),
        ]);
    }
    output::rows(&table)
}

fn show(of: &Of, name: &BranchName, json: bool) -> Result<()> {
    let reached = reach::drive_to_read(&of.place, &of.drive, "branch")?;
    let line = reach::line(&reached.owner(), &of.place, &of.drive, name.as_str())?;
    let lines = Lines::of(reached.owner()).all()?;
    reached.close()?;
    let made: Vec<_> = lines
        .iter()
        .filter(|other| other.base.is_some() && other.base == line.line)
        .collect();
    if json {
        let mut shown = as_json(&line);
        shown["made_from_it"] = made.iter().map(|other| other.name.as_str()).collect();
        return output::json(&shown);
    }
    let now = MachineClock.now();
    let named = |kinds: &[&str]| {
        let them = made
            .iter()
            .filter(|other| kinds.contains(&kind(other)) && !other.is_automatic);
        them.map(|other| other.name.clone())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let automatic = made.iter().filter(|other| other.is_automatic).count();
    let facts = [
        ("name", line.name.clone()),
        ("kind", kind(&line).to_owned()),
        ("from", line.from.clone()),
        ("for", line.message.clone()),
        (
            "made",
            format!("{} ({})", line.made.stamp(), ago(now.secs - line.made.secs)),
        ),
        ("made while it was held by", line.by.clone().unwrap_or_default()),
        ("inodes", line.inodes.to_string()),
        ("bytes", output::bytes(line.bytes)),
        ("held by", line.holder.clone().unwrap_or_default()),
        ("said of it", said_by(&line, now)),
        ("kept", kept(&line, now).unwrap_or_default()),
        ("branches of it", named(&["branch", "stray"])),
        ("checkpoints of it", named(&["checkpoint"])),
        (
            "checkpoints of it that the drive made",
            if automatic > 0 {
                automatic.to_string()
            } else {
                String::new()
            },
        ),
    ];
    let facts: Vec<_> = facts
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    output::facts(&facts)
}
