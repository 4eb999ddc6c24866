//! The first `git status` in a fork, on the machine that has worked in its base.

use super::yard::{Yard, sync};
use super::{Found, Scale};
use crate::bench::command::{git, run};
use crate::bench::disk;
use crate::bench::measure::Stopwatch;
use crate::bench::row::{Fact, Row};
use crate::bench::side;
use crate::bench::statistics::median;
use anyhow::Result;
use std::path::Path;

/// What it may take, of what it takes on the local disk after dropped caches.
const STATUS_MAX: f64 = 1.2;

/// Looks at a clone in a new fork each time, and at the same clone on the local disk with cold caches.
pub(super) fn measure(yard: &Yard<'_>, scale: &Scale, found: &mut Found) -> Result<()> {
    let repository = yard.inputs.repository()?;
    let drive = yard.drive("status")?;
    let local = yard.local("clone")?;
    for at in [&drive.main.join("clone"), &local] {
        repository.clone_into(at)?;
        // An index written in the same moment as its files is looked at more closely, until the next status writes it.
        look(at)?;
    }
    sync(&drive.main)?;
    let place = yard.place("looked-at")?;
    let (mut forks, mut disks) = (Vec::new(), Vec::new());
    for round in 0..scale.rounds {
        let fork = format!("look-{round}");
        drive.timed(&["fork", &drive.at("main"), &fork])?;
        drive.program.mount(&drive.at(&fork), &place, &[])?;
        forks.push(look(&place.join("clone"))?);
        drive.program.unmount(&place)?;
        disk::drop_kernel_caches()?;
        side::warm_program("git")?;
        disks.push(look(&local)?);
    }
    let ratios: Vec<f64> = forks.iter().zip(&disks).map(|(fork, disk)| fork / disk).collect();
    found.rows.push(Row {
        name: "status",
        what: "the first git status in a fork; baseline: on ext4 after dropped caches",
        seconds: forks,
        baseline: disks,
        facts: vec![Fact::at_most(
            "of the local disk's, median",
            median(&ratios),
            STATUS_MAX,
        )],
    });
    Ok(())
}

/// Returns the seconds that `git status` takes.
fn look(clone: &Path) -> Result<f64> {
    let watch = Stopwatch::start();
    run(git(clone).args(["status", "--short"]))?;
    Ok(watch.seconds())
}
