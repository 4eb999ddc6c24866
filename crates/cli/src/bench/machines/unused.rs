//! What is asked of the store when nothing new is wanted of it.

use super::Scale;
use super::town::{Host, Town};
use crate::bench::command::{git, run};
use crate::bench::measure::Stopwatch;
use crate::bench::named;
use crate::bench::row::{Fact, Row};
use crate::bench::workload::incompressible;
use anyhow::Result;
use std::time::Duration;

const DRIVE: &str = "unused";
/// Its directory, and files in it.
const REPOSITORY: &str = "repository";
const FILES: u64 = 2_000;
/// Times that it is looked at.
const LOOKS: u32 = 10;
/// After which an owner that was in use asks nothing more.
const LAST_CHECK: Duration = Duration::from_secs(2);

/// `git status` again and again, and then nothing.
pub(super) fn status_and_idle(town: &mut Town, scale: &Scale) -> Result<Vec<Row>> {
    town.create(DRIVE)?;
    town.hosts[0].mount(DRIVE)?;
    let at = town.hosts[0].dir.join(REPOSITORY);
    named::create_dir(&at)?;
    run(git(&at).args(["init", "--quiet"]))?;
    for number in 0..FILES {
        named::write(at.join(number.to_string()), incompressible(number, 512))?;
    }
    run(git(&at).args(["add", "."]))?;
    run(git(&at).args(["commit", "--quiet", "--message", "all"]))?;
    town.hosts[0].unmount()?;
    let mut machines = town.machines(scale.machines)?;
    for (number, machine) in machines.iter_mut().enumerate() {
        let branch = format!("machine-{number}");
        town.fork(DRIVE, &branch)?;
        machine.mount(&format!("{DRIVE}@{branch}"))?;
        look(machine)?;
        machine.sync()?;
    }
    let (before, mut seconds, all) = (town.requests().0, Vec::new(), Stopwatch::start());
    for _ in 0..LOOKS {
        for machine in &machines {
            seconds.push(look(machine)?);
        }
    }
    // An owner in use makes sure once a second that it is one, and what was asked a moment ago may still be on its way.
    let checks = all.seconds().ceil() + 1.0;
    let asked = (town.requests().0 - before) as f64;
    let status = Row {
        name: "status_warm",
        what: "git status of a repository of 2,000 files on 10 machines, ten times each; requests to the store beyond one a second",
        seconds,
        baseline: Vec::new(),
        facts: vec![Fact::at_most(
            "requests beyond one a second",
            (asked - checks).max(0.0),
            0.0,
        )],
    };
    machines.iter().try_for_each(Host::sync)?;
    std::thread::sleep(LAST_CHECK);
    let before = town.requests().0;
    std::thread::sleep(scale.unused);
    let asked = (town.requests().0 - before) as f64;
    machines.iter_mut().try_for_each(Host::unmount)?;
    Ok(vec![
        status,
        Row {
            name: "idle",
            what: "the same machines, on which nobody does anything for a minute: requests to the store",
            seconds: vec![scale.unused.as_secs_f64()],
            baseline: Vec::new(),
            facts: vec![Fact::at_most("requests", asked, 0.0)],
        },
    ])
}

/// Looks at the repository, and returns how many seconds that took.
fn look(machine: &Host) -> Result<f64> {
    let watch = Stopwatch::start();
    run(git(&machine.dir.join(REPOSITORY)).args(["status", "--short"]))?;
    Ok(watch.seconds())
}
