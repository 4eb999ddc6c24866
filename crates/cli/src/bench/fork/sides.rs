//! Two forks of a large tree, each changed a little: what differs, and to take one into the other, should cost what has changed.

use super::yard::{Drive, Yard, change_tree, make_tree};
use super::{Found, Scale};
use crate::bench::measure::Stopwatch;
use crate::bench::row::{Fact, Row};
use crate::bench::statistics::median;
use crate::reach::{self, AnyOwner};
use anyhow::{Result, ensure};
use tenure_model::record::Source;
use tenure_model::{BranchName, Ino};
use tenure_wire::{DiffAsk, ForkAsk, MergeAsk};

/// Files that each fork changes, none of which the other does.
const CHANGES: u64 = 100;
/// What the owner may take for it.
const OWNER_MAX: f64 = 0.050;
/// The forks.
const SIDES: [&str; 2] = ["one", "other"];

/// Compares the forks, and merges them.
pub(super) fn measure(yard: &Yard<'_>, scale: &Scale, found: &mut Found) -> Result<()> {
    let files = scale.sizes.iter().copied().max().unwrap_or(0);
    let drive = yard.drive("sides")?;
    make_tree(&drive.main, files)?;
    let place = yard.place("changed")?;
    let changes = CHANGES.min(files / 2);
    for (first, fork) in (0..).zip(SIDES) {
        drive.timed(&["fork", &drive.at("main"), fork])?;
        drive.program.mount(&drive.at(fork), &place, &[])?;
        change_tree(&place, files, (first, changes), fork)?;
        drive.program.unmount(&place)?;
    }
    found.rows.push(row(
        ("diff", "what differs between two forks of the largest tree, in each of which 100 files were changed: asked over a socket"),
        rounds(&drive, scale, |owner, _| diff(owner, 2 * changes))?,
    ));
    found.rows.push(row(
        (
            "merge",
            "the one of them taken into the other, until that is durable: asked over a socket",
        ),
        rounds(&drive, scale, |owner, round| merge(owner, round, changes))?,
    ));
    Ok(())
}

/// Returns the seconds of each round.
fn rounds(
    drive: &Drive<'_>,
    scale: &Scale,
    each: impl Fn(&AnyOwner, u32) -> Result<f64>,
) -> Result<Vec<f64>> {
    let one = |round| drive.way().connected(|owner| each(owner, round));
    (0..scale.rounds).map(one).collect()
}

fn row((name, what): (&'static str, &'static str), seconds: Vec<f64>) -> Row {
    Row {
        name,
        what,
        facts: vec![Fact::at_most("seconds, median", median(&seconds), OWNER_MAX)],
        seconds,
        baseline: Vec::new(),
    }
}

/// Asks what differs, as a command asks.
fn diff(owner: &AnyOwner, expected: u64) -> Result<f64> {
    let watch = Stopwatch::start();
    let (mut behind, mut count) = (Some(Ino(0)), 0);
    while let Some(ino) = behind {
        let told = owner.diff(&DiffAsk {
            before: SIDES[0].to_owned(),
            after: SIDES[1].to_owned(),
            below: Box::default(),
            behind: ino,
        })?;
        count += told.found.len() as u64;
        behind = told.behind;
    }
    ensure!(
        count == expected,
        "{count} files are told to differ, not {expected}"
    );
    Ok(watch.seconds())
}

/// Takes the one into a fork of the other.
fn merge(owner: &AnyOwner, round: u32, expected: u64) -> Result<f64> {
    let into = BranchName::parse(&format!("into-{round}")).expect("such a name is valid");
    let lines = owner.branches()?;
    let other = lines.iter().find(|line| line.name == SIDES[1]);
    let other = other.and_then(|line| line.branch).expect("it was made");
    owner.fork(&ForkAsk::new(Source::Branch(other), into.clone()))?;
    let ask = MergeAsk::new(SIDES[0], into);
    let watch = Stopwatch::start();
    let told = owner.merge(&reach::who("tenure bench".to_owned(), false), &ask)?;
    let seconds = watch.seconds();
    let taken = told.files.len() as u64;
    ensure!(
        taken == expected && told.conflicts == 0,
        "{taken} files were taken, not {expected}, with {} conflicts",
        told.conflicts
    );
    Ok(seconds)
}
