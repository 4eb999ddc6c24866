//! `tenure review`: what branches have changed that wait for somebody to look at it, and what becomes of that.

use crate::clock::MachineClock;
use crate::commands::delegations::ago;
use crate::commands::{diff, merge};
use crate::error::Told;
use crate::output;
use crate::place::Place;
use crate::reach::{self, AnyOwner};
use anyhow::{Result, anyhow};
use std::ffi::OsString;
use tenure_client::{Lines, Reviews};
use tenure_model::{BranchName, Clock, DriveName, FileOutcome, Ref, shown};
use tenure_wire::{Marked, MergeAsk, MergeTold};

/// Show, accept or reject what branches have changed that were made by `tenure fork --staged`
#[derive(Debug, clap::Subcommand)]
#[command(
    after_help = "Examples:\n  tenure fork work fix-1 --staged\n  tenure review list work\n  tenure review show work@fix-1\n  tenure review accept work@fix-1 src docs/fix.md\n  tenure review accept work@fix-1\n  tenure review reject work@fix-2\n\nWhat is accepted is merged into the branch that the staged one was made from; what is not stays staged. Accepting makes no conflict:\nwhat would is refused, and merged the other way round first. A protected branch (tenure branch protect) changes in no other way."
)]
pub(crate) enum Command {
    /// List the branches that wait for a review, for which branch, how much they have changed, and who has staged them
    List {
        /// The drive
        #[arg(value_parser = DriveName::parse)]
        drive: DriveName,
        /// Also those of which nothing is left to be looked at
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        place: Place,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what accepting a branch would do to each file, and what differs
    Show {
        #[command(flatten)]
        of: Of,
        /// Show no text that differs
        #[arg(long)]
        stat: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Merge what a branch has changed, or what of it is at some paths, into the branch for which it was staged
    Accept {
        #[command(flatten)]
        of: Of,
        /// Files and directories of the drive; everything where none is named
        paths: Vec<OsString>,
        /// Keep the branch also where all of it was accepted
        #[arg(long)]
        keep: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a branch that waits for a review, with all that it has changed
    Reject {
        #[command(flatten)]
        of: Of,
    },
}

/// Which branch.
#[derive(Debug, clap::Args)]
pub(crate) struct Of {
    /// The drive and its staged branch
    #[arg(value_name = "DRIVE@BRANCH", value_parser = Ref::parse)]
    of: Ref,
    #[command(flatten)]
    place: Place,
}

/// A branch that waits for a review.
struct Staged {
    drive: DriveName,
    branch: BranchName,
    into: BranchName,
    marked: Marked,
}

/// Does what the command says.
pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List {
            drive,
            all,
            place,
            json,
        } => list((drive, *all), place, *json),
        Command::Show { of, stat, json } => show(of, *stat, *json),
        Command::Accept {
            of,
            paths,
            keep,
            json,
        } => accept(of, paths, *keep, *json),
        Command::Reject { of } => reject(of),
    }
}

fn reviews(owner: AnyOwner) -> Reviews<tenure_core::Branch> {
    Reviews::of(owner, reach::who("tenure review".to_owned(), false))
}

/// A branch in the list, and how many files it has changed that are not accepted; none where that cannot be told.
struct Waiting {
    marked: Marked,
    into: String,
    files: Option<u64>,
}

fn waiting(reviews: &Reviews<tenure_core::Branch>) -> Result<Vec<Waiting>> {
    let mut all = Vec::new();
    for marked in reviews.marks()? {
        let Some(into) = marked.into.clone() else { continue };
        // One whose base is gone can only be rejected.
        let named = BranchName::parse(&marked.branch)
            .ok()
            .zip(BranchName::parse(&into).ok());
        let told = named.and_then(|(branch, into)| reviews.preview(&branch, &into).ok());
        all.push(Waiting {
            marked,
            into,
            files: told.map(|told| told.files.len() as u64 + told.more),
        });
    }
    Ok(all)
}

fn list((drive, all): (&DriveName, bool), place: &Place, json: bool) -> Result<()> {
    let reached = reach::drive_for(place, drive, "review")?;
    let mut waiting = waiting(&reviews(reached.owner()))?;
    reached.close()?;
    let count = waiting.len();
    waiting.retain(|one| all || one.files != Some(0));
    if json {
        let shown = |one: &Waiting| {
            serde_json::json!({
                "branch": one.marked.branch, "into": one.into, "files": one.files, "by": one.marked.by,
                "since": one.marked.time.secs,
            })
        };
        return output::json(&waiting.iter().map(shown).collect::<Vec<_>>());
    }
    if waiting.is_empty() {
        let rest = match count {
            0 => String::new(),
            count => format!(
                "; --all lists {} of which nothing is left",
                tenure_model::counted(count as u64, "staged branch")
            ),
        };
        return output::line(format_args!("{drive} has nothing that waits for a review{rest}"));
    }
    let now = MachineClock.now();
    let mut table = output::table(["BRANCH", "INTO", "FILES", "SINCE", "STAGED BY"]);
    for one in &waiting {
        table.add_row([
            one.marked.branch.clone(),
            one.into.clone(),
            one.files
                .map_or_else(|| "?".to_owned(), |files| files.to_string()),
            ago(now.secs - one.marked.time.secs),
            one.marked.by.clone(),
        ]);
    }
    output::rows(&table)
}

impl Of {
    /// Finds the branch, which must wait for a review.
    fn staged(&self, reviews: &Reviews<tenure_core::Branch>) -> Result<Staged> {
        let (drive, name) = (&self.of.drive, self.of.at.as_deref().unwrap_or(reach::MAIN));
        let found = reviews
            .marks()?
            .into_iter()
            .find_map(|marked| (marked.branch == name).then(|| Some((marked.into.clone()?, marked)))?);
        let Some((into, marked)) = found else {
            return Err(Told::refused(
                format!("{drive}@{name} does not wait for a review"),
                format!(
                    "tenure review list {drive}{0} shows those that do; tenure branch stage {drive} {name}{0} lets this one",
                    self.place.options()
                ),
            ));
        };
        Ok(Staged {
            drive: drive.clone(),
            branch: BranchName::parse(name).map_err(|why| anyhow!(why))?,
            into: BranchName::parse(&into).map_err(|why| anyhow!(why))?,
            marked,
        })
    }
}

impl Staged {
    fn ask(&self, is_dry: bool) -> MergeAsk {
        MergeAsk {
            is_dry,
            ..MergeAsk::new(self.branch.as_str(), self.into.clone())
        }
    }

    fn json(&self, told: &MergeTold) -> serde_json::Value {
        let mut json = merge::json(&self.ask(told.before.is_none()), told);
        json["by"] = self.marked.by.clone().into();
        json
    }
}

fn show(of: &Of, stat: bool, json: bool) -> Result<()> {
    let mut reached = reach::drive_for(&of.place, &of.of.drive, "review")?;
    let owner = reached.owner();
    let reviews = reviews(reached.owner());
    let staged = of.staged(&reviews)?;
    let told = reviews.preview(&staged.branch, &staged.into)?;
    reached.stop_waiting();
    if json {
        reached.close()?;
        return output::json(&staged.json(&told));
    }
    output::line(format_args!(
        "{0}@{1} for {0}@{2}, staged by {3}",
        staged.drive, staged.branch, staged.into, staged.marked.by
    ))?;
    told.files
        .iter()
        .try_for_each(|file| output::line(merge::line(file)))?;
    if !stat {
        let is_told = |path: &[u8]| told.files.iter().any(|file| *file.path == *path);
        diff::print_those(&owner, (staged.into.as_str(), staged.branch.as_str()), &is_told)?;
    }
    reached.close()?;
    let options = of.place.options();
    output::note(format_args!(
        "tenure review accept {0}@{1} [PATH...]{options} merges it into {2}; tenure review reject {0}@{1}{options} deletes it",
        staged.drive, staged.branch, staged.into
    ));
    Ok(())
}

fn accept(of: &Of, paths: &[OsString], keep: bool, json: bool) -> Result<()> {
    let mut reached = reach::drive_for(&of.place, &of.of.drive, "review")?;
    let reviews = reviews(reached.owner());
    let staged = of.staged(&reviews)?;
    let named: Vec<Box<[u8]>> = paths.iter().map(|path| diff::below(Some(path))).collect();
    if named.iter().any(|path| path.is_empty()) {
        return Err(Told::refused(
            "a path names nothing in the drive",
            "a path in the drive, such as src/main.rs; without any, all is accepted",
        ));
    }
    let told = reviews.accept(&staged.branch, named)?;
    reached.stop_waiting();
    let left = reviews.preview(&staged.branch, &staged.into)?;
    // One that somebody works in stays for what he still does.
    let is_over = left.files.is_empty() && !keep && {
        let lines = Lines::of(reached.owner());
        lines.delete(&staged.branch).is_ok()
    };
    reached.close()?;
    if json {
        let mut json = staged.json(&told);
        json["left"] = left.files.iter().map(|file| shown(&file.path)).collect();
        json["deleted"] = is_over.into();
        return output::json(&json);
    }
    merge::show(&staged.drive, &staged.ask(false), &told)?;
    let at = format!("{}@{}", staged.drive, staged.branch);
    match (is_over, left.files.len()) {
        (true, _) => output::note(format_args!("all of {at} is accepted, and it is deleted")),
        (false, 0) => output::note(format_args!("all of {at} is accepted; it is kept")),
        (false, _) => {
            let paths: Vec<_> = left
                .files
                .iter()
                .map(|file: &FileOutcome| shown(&file.path))
                .collect();
            output::note(format_args!("still staged in {at}: {}", paths.join(", ")));
        }
    }
    Ok(())
}

fn reject(of: &Of) -> Result<()> {
    let reached = reach::drive_for(&of.place, &of.of.drive, "review")?;
    let staged = of.staged(&reviews(reached.owner()))?;
    Lines::of(reached.owner()).delete(&staged.branch)?;
    reached.close()?;
    output::line(format_args!(
        "{}@{} is rejected and deleted; {} is as it was",
        staged.drive, staged.branch, staged.into
    ))
}
