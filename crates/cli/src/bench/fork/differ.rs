//! Two forks of a large tree, each changed a little: what differs should cost what has changed.

use super::yard::{Yard, change_tree, make_tree};
use super::{Found, Scale};
use crate::bench::measure::Stopwatch;
use crate::bench::row::{Fact, Row};
use crate::bench::statistics::median;
use anyhow::{Result, ensure};
use tenure_model::Ino;
use tenure_wire::DiffAsk;

/// Files that each fork changes.
const CHANGES: u64 = 100;
/// What the owner may take for it.
const OWNER_MAX: f64 = 0.050;

/// Compares the forks, asked as a command asks.
pub(super) fn measure(yard: &Yard<'_>, scale: &Scale, found: &mut Found) -> Result<()> {
    let files = scale.sizes.iter().copied().max().unwrap_or(0);
    let drive = yard.drive("differ")?;
    make_tree(&drive.main, files)?;
    let place = yard.place("changed")?;
    for fork in ["one", "other"] {
        drive.timed(&["fork", &drive.at("main"), fork])?;
        drive.program.mount(&drive.at(fork), &place, &[])?;
        change_tree(&place, files, (CHANGES, fork))?;
        drive.program.unmount(&place)?;
    }
    let seconds: Vec<f64> = (0..scale.rounds)
        .map(|_| {
            drive.way().connected(|owner| {
                let watch = Stopwatch::start();
                let (mut behind, mut count) = (Some(Ino(0)), 0);
                while let Some(ino) = behind {
                    let told = owner.diff(&DiffAsk {
                        before: "one".to_owned(),
                        after: "other".to_owned(),
                        below: Box::default(),
                        behind: ino,
                    })?;
                    count += told.found.len() as u64;
                    behind = told.behind;
                }
                let expected = CHANGES.min(files);
                ensure!(
                    count == expected,
                    "{count} files are told to differ, not {expected}"
                );
                Ok(watch.seconds())
            })
        })
        .collect::<Result<_>>()?;
    found.rows.push(Row {
        name: "diff",
        what: "what differs between two forks of the largest tree, in each of which 100 files were changed: asked over a socket",
        facts: vec![Fact::at_most("seconds, median", median(&seconds), OWNER_MAX)],
        seconds,
        baseline: Vec::new(),
    });
    Ok(())
}
