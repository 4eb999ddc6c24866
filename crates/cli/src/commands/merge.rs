//! `tenure merge`: takes into a branch what another has changed.

use super::conflicts::kind;
use crate::error::Told;
use crate::output;
use crate::place::Place;
use crate::reach;
use anyhow::Result;
use tenure_client::Reviews;
use tenure_model::{BranchName, DriveName, FileOutcome, Ref, What, shown};
use tenure_wire::{MergeAsk, MergeTold, Unsettled};

/// Take into a branch what another branch or a checkpoint has changed since both were one; of a mounted one, as far as it was synced
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure merge work@attempt-1 main --dry-run\n  tenure merge work@attempt-1 main\n  tenure conflicts work@main\n\nWhat only one side has changed is as that side has it; files are followed where they were renamed. Where both have changed a file differently, that of INTO stays, and the other is kept beside it as NAME~FROM until `tenure resolve` says what is to be; the tree can be used meanwhile. A merge is made whole or not at all, and what INTO was before is a checkpoint.\n\nINTO may be mounted, here or elsewhere: its mounts show what it has become at once, and what is open there stays open.\n\nExit codes: 0 merged without conflicts (or nothing was to be done), 1 merged with conflicts, or refused"
)]
pub(crate) struct Args {
    /// The drive, and the branch or checkpoint that is merged
    #[arg(value_name = "DRIVE@FROM", value_parser = Ref::parse)]
    from: Ref,
    /// The branch that takes it in, of the same drive
    #[arg(value_name = "INTO|DRIVE@INTO")]
    into: String,
    /// Only tell what would become of each file
    #[arg(long)]
    dry_run: bool,
    /// Merge also what has conflicts that nobody has settled: they are conflicts of INTO then, too
    #[arg(long)]
    with_conflicts: bool,
    /// The checkpoint that both have become of, where an earlier version has made the branches
    #[arg(long, value_name = "CHECKPOINT")]
    base: Option<String>,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Merges.
pub(crate) fn run(args: &Args) -> Result<()> {
    let drive = &args.from.drive;
    let into = into(drive, &args.into, &args.place)?;
    let ask = MergeAsk {
        base: args.base.clone(),
        is_dry: args.dry_run,
        unsettled: match args.with_conflicts {
            true => Unsettled::Taken,
            false => Unsettled::Refused,
        },
        ..MergeAsk::new(args.from.at.as_deref().unwrap_or(reach::MAIN), into)
    };
    let mut reached = reach::drive_for(&args.place, drive, "merge")?;
    let owner = reached.owner();
    reach::line(&owner, &args.place, drive, &ask.from)?;
    reach::line(&owner, &args.place, drive, ask.into.as_str())?;
    let told = Reviews::of(owner, reach::who("tenure merge".to_owned(), false)).merge(&ask)?;
    reached.stop_waiting();
    reached.close()?;
    if args.json {
        output::json(&json(&ask, &told))?;
    } else {
        show(drive, &ask, &told)?;
    }
    outcome(drive, &ask, &told, &args.place)
}

/// Shows what has become of each file.
pub(crate) fn show(drive: &DriveName, ask: &MergeAsk, told: &MergeTold) -> Result<()> {
    told.files.iter().try_for_each(|file| output::line(line(file)))?;
    output::line(summary(drive, ask, told))
}

/// Fails where there are conflicts, with what helps.
pub(crate) fn outcome(drive: &DriveName, ask: &MergeAsk, told: &MergeTold, place: &Place) -> Result<()> {
    if told.conflicts == 0 {
        return Ok(());
    }
    let counted = tenure_model::counted(told.conflicts, "conflict");
    let options = place.options();
    if ask.is_dry {
        return Err(Told::refused(
            format!("there would be {counted}"),
            format!(
                "tenure merge {drive}@{} {}{options} merges all the same, and keeps both sides of each",
                ask.from, ask.into
            ),
        ));
    }
    Err(Told::refused(
        format!("it is merged, and {drive}@{} has {counted}", ask.into),
        format!("tenure conflicts {drive}@{}{options}", ask.into),
    ))
}

/// Returns the branch that a word names, alone or behind the drive.
fn into(drive: &DriveName, word: &str, place: &Place) -> Result<BranchName> {
    let name = match word.split_once('@') {
        Some((other, _)) if other != drive.as_str() => {
            return Err(Told::refused(
                format!("branches of one drive are merged, not of {drive} and {other}"),
                format!("tenure branch list {drive}{}", place.options()),
            ));
        }
        Some((_, name)) => name,
        None => word,
    };
    BranchName::parse(name).map_err(|why| anyhow::anyhow!(why))
}

/// Says in a word what has become of a file.
fn what(file: &FileOutcome) -> String {
    match &file.what {
        What::Taken => "taken".to_owned(),
        What::Removed => "removed".to_owned(),
        What::Merged(driver) => format!("merged by {driver}"),
        What::Conflicted(conflict) => format!("conflict, {}", kind(*conflict)),
    }
}

pub(crate) fn line(file: &FileOutcome) -> String {
    format!("{}  {}", what(file), shown(&file.path))
}

fn summary(drive: &DriveName, ask: &MergeAsk, told: &MergeTold) -> String {
    let MergeAsk {
        from, into, is_dry, ..
    } = ask;
    let more = match told.more {
        0 => String::new(),
        more => format!("{} more. ", tenure_model::counted(more, "file")),
    };
    match &told.before {
        _ if *is_dry => format!("{more}Nothing was done"),
        None => format!("{drive}@{into} has all that {from} has changed; nothing was done"),
        Some(before) => format!(
            "{more}{drive}@{into} has what {from} has changed; {drive}@{before} is what it was before"
        ),
    }
}

pub(crate) fn json(ask: &MergeAsk, told: &MergeTold) -> serde_json::Value {
    let file = |file: &FileOutcome| {
        let (what, driver, conflict) = match &file.what {
            What::Taken => ("taken", None, None),
            What::Removed => ("removed", None, None),
            What::Merged(driver) => ("merged", Some(driver.as_str()), None),
            What::Conflicted(kind) => ("conflicted", None, Some(kind.word())),
        };
        serde_json::json!({
            "path": shown(&file.path), "what": what, "driver": driver, "conflict": conflict,
        })
    };
    serde_json::json!({
        "from": ask.from,
        "into": ask.into.as_str(),
        "done": told.before.is_some(),
        "before": told.before,
        "files": told.files.iter().map(file).collect::<Vec<_>>(),
        "more": told.more,
        "conflicts": told.conflicts,
    })
}
