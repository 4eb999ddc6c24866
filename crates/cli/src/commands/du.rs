//! `tenure du`: what the branches and checkpoints of a drive need of the bucket.

use crate::output;
use crate::place::Place;
use crate::reach;
use anyhow::Result;
use std::collections::BTreeMap;
use tenure_client::{BranchInfo, Lines};
use tenure_model::DriveName;
use tenure_wire::LineUsage;

/// Show how many bytes of the bucket each branch and checkpoint needs alone, and how many they share
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure du work\n  tenure du work --json\n\nOWN is what nothing else needs: so much may be reclaimed once that branch or checkpoint is deleted. FILES is what its files\nhold, wherever that is shared. Bytes are counted as they were written, before compression; what nothing needs any more\nis not counted. Every page of the drive is looked at once, or twice where it is shared."
)]
pub(crate) struct Args {
    /// The drive
    #[arg(value_parser = DriveName::parse)]
    drive: DriveName,
    /// Also those that the drive has made by itself, each on a line
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is told of one.
struct Row<'a> {
    usage: &'a LineUsage,
    line: Option<&'a BranchInfo>,
}

impl Row<'_> {
    fn kind(&self) -> &'static str {
        match self.line {
            Some(line) if line.is_stray => "stray",
            Some(_) | None if self.usage.is_branch => "branch",
            Some(_) | None => "checkpoint",
        }
    }

    fn is_automatic(&self) -> bool {
        self.line.is_some_and(|line| line.is_automatic)
    }
}

/// Shows what is needed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut reached = reach::drive_to_read(&args.place, &args.drive, "du")?;
    let lines = Lines::of(reached.owner());
    let usage = lines.usage()?;
    let told = lines.all()?;
    reached.stop_waiting();
    reached.close()?;
    let by_number: BTreeMap<_, _> = told.iter().filter_map(|line| Some((line.line?, line))).collect();
    let mut rows: Vec<_> = usage
        .lines
        .iter()
        .map(|usage| Row {
            usage,
            line: by_number.get(&usage.line).copied(),
        })
        .collect();
    rows.sort_by(|one, other| {
        let key = |row: &Row<'_>| (std::cmp::Reverse(row.usage.own), row.usage.name.clone());
        key(one).cmp(&key(other))
    });
    let own: u64 = usage.lines.iter().map(|line| line.own).sum();
    let total = own + usage.shared + usage.by_checkpoints + usage.by_history + usage.by_readers;
    if args.json {
        let rows: Vec<_> = rows.iter().map(json).collect();
        return output::json(&serde_json::json!({
            "drive": args.drive.as_str(),
            "bytes": total,
            "own": own,
            "shared": usage.shared,
            "shared_by_checkpoints": usage.by_checkpoints,
            "history": usage.by_history,
            "readers": usage.by_readers,
            "lines": rows,
        }));
    }
    let mut table = output::table(["OWN", "FILES", "KIND", "NAME", "FROM"]);
    for row in rows.iter().filter(|row| args.all || !row.is_automatic()) {
        table.add_row([
            output::bytes(row.usage.own),
            row.line
                .map_or_else(String::new, |line| output::bytes(line.bytes)),
            row.kind().to_owned(),
            row.usage.name.clone(),
            row.line.map_or_else(String::new, |line| line.from.clone()),
        ]);
    }
    output::rows(&table)?;
    let automatic: u64 = rows
        .iter()
        .filter(|row| row.is_automatic())
        .map(|row| row.usage.own)
        .sum();
    let seldom = [
        ("held by states to which merges go back", usage.by_history),
        ("held by who reads what is gone", usage.by_readers),
    ];
    let mut sums = vec![
        ("shared by branches", usage.shared),
        ("held by several checkpoints and no branch", usage.by_checkpoints),
        ("held by single checkpoints that the drive made", automatic),
    ];
    sums.extend(seldom.into_iter().filter(|(_, bytes)| *bytes > 0));
    sums.push(("in all", total));
    let facts: Vec<_> = sums
        .into_iter()
        .map(|(what, bytes)| (what.to_owned(), output::bytes(bytes)))
        .collect();
    output::facts(&facts)
}

fn json(row: &Row<'_>) -> serde_json::Value {
    serde_json::json!({
        "name": row.usage.name,
        "kind": row.kind(),
        "own": row.usage.own,
        "files": row.line.map(|line| line.bytes),
        "from": row.line.map(|line| line.from.as_str()),
        "automatic": row.is_automatic(),
    })
}
