//! Branches that machines share: how fast they work in one, and how soon each sees what another does.

use super::Scale;
use super::town::{Host, Town};
use crate::bench::command::run;
use crate::bench::interrupt;
use crate::bench::measure::Stopwatch;
use crate::bench::named;
use crate::bench::row::{Fact, Row};
use crate::bench::statistics::{median, percentile};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The least that two machines keep of their speed when they share a branch, and that a builder keeps beside a poller.
const TOGETHER_MIN: f64 = 0.8;
const BESIDE_POLLER_MIN: f64 = 0.9;
/// Creates a second of two machines in one directory.
const ONE_DIRECTORY_MIN: f64 = 3_000.0;
/// How soon another machine sees a change, half of the times and nearly always; and where it must be recalled first what another
/// does alone.
const SEEN_MEDIAN: f64 = 0.005;
const SEEN_MAX: f64 = 0.050;
const RECALLED_MAX: f64 = 0.100;
/// How long a change may take to be seen before it counts as not seen at all.
const SEEN_NEVER: f64 = 30.0;
/// Files that a machine makes before it is timed, and alone before another asks; files of a builder's directory.
const FIRST: u64 = 50;
const IN_DIRECTORY: u64 = 100;
/// How often a poller looks.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// Two machines that make files: in two directories of a branch that they share and in two branches of their own, and in one
/// directory.
pub(super) fn creating(town: &mut Town, scale: &Scale) -> Result<Vec<Row>> {
    const DRIVE: &str = "creating";
    town.create(DRIVE)?;
    let own = ["one", "two"].map(|branch| format!("{DRIVE}@{branch}"));
    ["one", "two"]
        .iter()
        .try_for_each(|branch| town.fork(DRIVE, branch))?;
    let (mut apart, mut two, mut one) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..scale.shared_rounds {
        for (host, branch) in town.hosts.iter_mut().zip(&own) {
            host.mount(branch)?;
        }
        apart.push(together(&town.hosts, ["a", "b"], (round, scale.shared_files))?);
        town.hosts.iter_mut().try_for_each(Host::unmount)?;
        for host in &mut town.hosts {
            host.mount_shared(DRIVE)?;
        }
        two.push(together(&town.hosts, ["a", "b"], (round, scale.shared_files))?);
        one.push(together(&town.hosts, ["c", "c"], (round, scale.shared_files))?);
        town.hosts.iter_mut().try_for_each(Host::unmount)?;
    }
    let kept: Vec<f64> = apart.iter().zip(&two).map(|(apart, two)| apart / two).collect();
    let files = 2.0 * scale.shared_files as f64;
    let row = |name, what, seconds: Vec<f64>, baseline, fact| Row {
        name,
        what,
        facts: vec![
            fact,
            Fact::told("creates a second together", files / median(&seconds)),
        ],
        seconds,
        baseline,
    };
    let rate = files / median(&one);
    Ok(vec![
        row(
            "shared_two_directories",
            "two machines that make files in two directories of one shared branch, beside each in a branch of its own",
            two,
            apart,
            Fact::at_least("of two private branches, median", median(&kept), TOGETHER_MIN),
        ),
        Row {
            name: "shared_one_directory",
            what: "two machines that make files in one directory of a shared branch",
            seconds: one,
            baseline: Vec::new(),
            facts: vec![Fact::at_least(
                "creates a second together",
                rate,
                ONE_DIRECTORY_MIN,
            )],
        },
    ])
}

/// Lets each machine make so many files in a directory; returns how many seconds that took until both had.
fn together(hosts: &[Host], directories: [&str; 2], (round, files): (u32, u64)) -> Result<f64> {
    let places: Vec<_> = hosts
        .iter()
        .zip(directories)
        .map(|(host, directory)| host.dir.join(format!("{directory}-{round}")))
        .collect();
    for (machine, at) in places.iter().enumerate() {
        named::create_dir_all(at)?;
        make(at, (machine, "first"), FIRST)?;
    }
    let watch = Stopwatch::start();
    std::thread::scope(|scope| {
        let making: Vec<_> = places
            .iter()
            .enumerate()
            .map(|(machine, at)| scope.spawn(move || make(at, (machine, "then"), files)))
            .collect();
        making
            .into_iter()
            .try_for_each(|making| making.join().expect("a machine does not panic"))
    })?;
    Ok(watch.seconds())
}

fn make(at: &Path, (machine, name): (usize, &str), files: u64) -> Result<()> {
    for number in 0..files {
        interrupt::check()?;
        named::create_new(at.join(format!("{name}-{machine}-{number}")))?;
    }
    Ok(())
}

/// What one machine does and another is to see.
struct Change {
    name: &'static str,
    what: &'static str,
    /// What is there before, what is done, and how it is seen: of the `number`th.
    prepare: fn(&Path, u64) -> Result<()>,
    act: fn(&Path, u64) -> Result<()>,
    is_seen: fn(&Path, u64) -> bool,
}

const CHANGES: [Change; 3] = [
    Change {
        name: "sees_new_file",
        what: "a new file: from before it is made until another machine's stat finds it, which asks all the time",
        prepare: |_, _| Ok(()),
        act: |dir, number| Ok(File::create_new(dir.join(number.to_string())).map(drop)?),
        is_seen: |dir, number| dir.join(number.to_string()).exists(),
    },
    Change {
        name: "sees_changed_byte",
        what: "a changed byte: from before it is written until another machine's read gives it, which asks all the time",
        prepare: |dir, number| Ok(named::write(dir.join(number.to_string()), b"before")?),
        act: |dir, number| {
            let file = File::options().write(true).open(dir.join(number.to_string()))?;
            Ok(file.write_all_at(b"B", 0)?)
        },
        is_seen: |dir, number| fs::read(dir.join(number.to_string())).is_ok_and(|read| read == b"Before"),
    },
    Change {
        name: "sees_rename",
        what: "a rename: from before it is done until another machine finds the new name and not the old one, which asks all the time",
        prepare: |dir, number| Ok(named::write(dir.join(number.to_string()), b"before")?),
        act: |dir, number| {
            let (old, new) = (dir.join(number.to_string()), dir.join(format!("new-{number}")));
            Ok(named::rename(old, new)?)
        },
        is_seen: |dir, number| {
            dir.join(format!("new-{number}")).exists() && !dir.join(number.to_string()).exists()
        },
    },
];

/// How soon another machine sees what one does in a branch that they share.
pub(super) fn sees(town: &mut Town, scale: &Scale) -> Result<Vec<Row>> {
    const DRIVE: &str = "seeing";
    town.create(DRIVE)?;
    for host in &mut town.hosts {
        host.mount_shared(DRIVE)?;
    }
    let [one, other] = &town.hosts[..] else {
        anyhow::bail!("there are two hosts")
    };
    let mut rows = Vec::new();
    for change in &CHANGES {
        let dirs = new_directory(&one.dir, &other.dir, change.name)?;
        let seconds = (0..scale.changes)
            .map(|number| seen(change, &dirs, number))
            .collect::<Result<Vec<_>>>()?;
        let facts = vec![
            Fact::at_most("seconds, median", median(&seconds), SEEN_MEDIAN),
            Fact::at_most("seconds, 99th percentile", percentile(&seconds, 0.99), SEEN_MAX),
        ];
        rows.push(Row {
            name: change.name,
            what: change.what,
            seconds,
            baseline: Vec::new(),
            facts,
        });
    }
    rows.push(recalled(&one.dir, &other.dir, scale)?);
    town.hosts.iter_mut().try_for_each(Host::unmount)?;
    Ok(rows)
}

/// Makes a directory; returns it as each of the machines has it.
fn new_directory(one: &Path, other: &Path, name: &str) -> Result<[PathBuf; 2]> {
    named::create_dir(one.join(name))?;
    Ok([one.join(name), other.join(name)])
}

/// Returns how many seconds one change takes to be seen by a machine that asks all the time.
fn seen(change: &Change, [one, other]: &[PathBuf; 2], number: u64) -> Result<f64> {
    interrupt::check()?;
    (change.prepare)(one, number)?;
    ensure!(!(change.is_seen)(other, number), "it is seen before it is done");
    let (watch, both) = (Stopwatch::start(), Barrier::new(2));
    let (begun, seen) = std::thread::scope(|scope| {
        let seeing = scope.spawn(|| {
            both.wait();
            when_seen(&watch, || (change.is_seen)(other, number))
        });
        both.wait();
        let begun = watch.seconds();
        let done = (change.act)(one, number);
        let seen = seeing.join().expect("who looks does not panic");
        done.map(|()| (begun, seen))
    })?;
    Ok(seen.context("another machine does not see it")? - begun)
}

fn when_seen(watch: &Stopwatch, is_seen: impl Fn() -> bool) -> Option<f64> {
    while !is_seen() {
        if watch.seconds() > SEEN_NEVER {
            return None;
        }
    }
    Some(watch.seconds())
}

/// The same of a new file in a directory in which a machine has worked alone, and another looks for the first time.
fn recalled(one: &Path, other: &Path, scale: &Scale) -> Result<Row> {
    let mut seconds = Vec::new();
    for number in 0..scale.changes / 4 {
        let [here, there] = new_directory(one, other, &format!("alone-{number}"))?;
        make(&here, (0, "alone"), FIRST)?;
        let watch = Stopwatch::start();
        named::create_new(here.join("new"))?;
        let seen = when_seen(&watch, || there.join("new").exists());
        seconds.push(seen.context("another machine does not see it")?);
    }
    let facts = vec![Fact::at_most(
        "seconds, 99th percentile",
        percentile(&seconds, 0.99),
        RECALLED_MAX,
    )];
    Ok(Row {
        name: "sees_alone",
        what: "a new file in a directory in which its machine has worked alone, until another one finds it, which asks for the first time",
        seconds,
        baseline: Vec::new(),
        facts,
    })
}

/// A builder in a shared branch beside another machine that lists its directory each second, and without.
pub(super) fn poller(town: &mut Town, scale: &Scale) -> Result<Vec<Row>> {
    const DRIVE: &str = "polling";
    town.create(DRIVE)?;
    for host in &mut town.hosts {
        host.mount_shared(DRIVE)?;
    }
    let [builder, poller] = &town.hosts[..] else {
        anyhow::bail!("there are two hosts")
    };
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for round in 0..scale.shared_rounds {
        let dirs = new_directory(&builder.dir, &poller.dir, &format!("alone-{round}"))?;
        alone.push(built(&dirs[0], scale.polled, &AtomicU64::new(0))?);
        let dirs = new_directory(&builder.dir, &poller.dir, &format!("beside-{round}"))?;
        beside.push(built_beside(&dirs, scale.polled)?);
    }
    town.hosts.iter_mut().try_for_each(Host::unmount)?;
    let kept: Vec<f64> = alone
        .iter()
        .zip(&beside)
        .map(|(alone, beside)| beside / alone)
        .collect();
    let each = |rates: &[f64]| rates.iter().map(|rate| 1.0 / rate).collect();
    Ok(vec![Row {
        name: "poller",
        what: "a file made, written and closed by a builder in a shared branch beside `ls -l` of its directory each second on another machine, beside the same without",
        seconds: each(&beside),
        baseline: each(&alone),
        facts: vec![
            Fact::at_least("of the speed alone, median", median(&kept), BESIDE_POLLER_MIN),
            Fact::told("files a second beside it", median(&beside)),
        ],
    }])
}

/// Makes files in one directory after the other for a while; returns how many a second. The number of the directory is told.
fn built(dir: &Path, time: Duration, directory: &AtomicU64) -> Result<f64> {
    let (watch, mut files) = (Stopwatch::start(), 0);
    while watch.seconds() < time.as_secs_f64() {
        interrupt::check()?;
        let number = files / IN_DIRECTORY;
        let at = dir.join(number.to_string());
        if files % IN_DIRECTORY == 0 {
            named::create_dir(&at)?;
            directory.store(number, Ordering::Relaxed);
        }
        named::write(at.join(files.to_string()), b"built")?;
        files += 1;
    }
    Ok(files as f64 / watch.seconds())
}

fn built_beside([here, there]: &[PathBuf; 2], time: Duration) -> Result<f64> {
    let (directory, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let polling = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let at = there.join(directory.load(Ordering::Relaxed).to_string());
                // The first directory may not be there yet.
                if at.exists() {
                    run(Command::new("ls").arg("-l").arg(at))?;
                }
                std::thread::sleep(POLL_EVERY);
            }
            anyhow::Ok(())
        });
        let built = built(here, time, &directory);
        is_over.store(true, Ordering::Relaxed);
        polling.join().expect("a poller does not panic")?;
        built
    })
}
