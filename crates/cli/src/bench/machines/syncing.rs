//! Files of 4 KiB made and synced one after the other, beside the store's own put of as many bytes through the same proxy.

use super::Scale;
use super::load::{FILE_LEN, create};
use super::town::Town;
use crate::bench::interrupt;
use crate::bench::measure::Stopwatch;
use crate::bench::named;
use crate::bench::row::{Fact, Row};
use crate::bench::statistics::percentile;
use crate::bench::workload::incompressible;
use anyhow::Result;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure_store::{Bucket, Key};

const DRIVE: &str = "syncing";
/// Puts of the store's own that are timed.
const PUTS: u64 = 200;
/// Bytes that a bulk write gives at once.
const PIECE: usize = 1 << 20;
/// Files that are timed beside a bulk write, at least: it may be over before.
const BESIDE_MIN: usize = 20;

/// One program, and nothing else.
pub(super) fn alone(town: &mut Town, scale: &Scale) -> Result<Vec<Row>> {
    let puts = puts(town, "alone")?;
    let dir = begun(town, "alone")?;
    let before = town.requests().0;
    let files = 0..scale.synced_files;
    let seconds = files
        .map(|number| create(&dir.join(number.to_string()), number))
        .collect::<Result<Vec<_>>>()?;
    let requests = (town.requests().0 - before) as f64 / seconds.len() as f64;
    town.hosts[0].unmount()?;
    let against = |fraction| percentile(&seconds, fraction) / percentile(&puts, fraction);
    let facts = vec![
        Fact::at_most("requests a sync", requests, 1.05),
        Fact::at_most("of the store's put, median", against(0.50), 1.2),
        Fact::at_most("of the store's put, 99th percentile", against(0.99), 1.5),
    ];
    Ok(vec![Row {
        name: "create_fsync",
        what: "create, write 4 KiB, fsync, close, beside the store's own put of 4 KiB",
        seconds,
        baseline: puts,
        facts,
    }])
}

/// The same while a large file is written in the same branch.
pub(super) fn beside_bulk(town: &mut Town, scale: &Scale) -> Result<Vec<Row>> {
    let dir = begun(town, "beside")?;
    let count = (scale.synced_files / 10).max(BESIDE_MIN as u64);
    let alone = (0..count)
        .map(|number| create(&dir.join(format!("alone-{number}")), 1 << 32 | number))
        .collect::<Result<Vec<_>>>()?;
    let is_over = AtomicBool::new(false);
    let (seconds, written) = std::thread::scope(|scope| {
        let bulk = scope.spawn(|| {
            let watch = Stopwatch::start();
            let written = write_bulk(&dir.join("bulk"), scale.bulk_bytes);
            is_over.store(true, Ordering::Relaxed);
            written.map(|()| watch.seconds())
        });
        let mut seconds = Vec::new();
        let mut failed = None;
        while !is_over.load(Ordering::Relaxed) || seconds.len() < BESIDE_MIN {
            let number = seconds.len() as u64;
            match create(&dir.join(number.to_string()), 2 << 32 | number) {
                Ok(took) => seconds.push(took),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let written = bulk.join().expect("a writer does not panic");
        failed.map_or(Ok((seconds, written)), Err)
    })?;
    let written = written?;
    town.hosts[0].unmount()?;
    let facts = vec![
        Fact::at_most(
            "of the same alone, median",
            percentile(&seconds, 0.50) / percentile(&alone, 0.50),
            2.0,
        ),
        Fact::told(
            "of the same alone, 99th percentile",
            percentile(&seconds, 0.99) / percentile(&alone, 0.99),
        ),
        Fact::told(
            "MB a second of the large file, until durable",
            scale.bulk_bytes as f64 / 1e6 / written,
        ),
    ];
    Ok(vec![Row {
        name: "create_fsync_beside_bulk",
        what: "the same while a file of 1 GiB is written in the same branch, beside the same just before",
        seconds,
        baseline: alone,
        facts,
    }])
}

/// Many mounts of one drive, each of a branch of its own, that all sync.
pub(super) fn many_clients(town: &mut Town, scale: &Scale) -> Result<Vec<Row>> {
    const MANY: &str = "many";
    let puts = puts(town, "many")?;
    town.create(MANY)?;
    let mut hosts = town.more_hosts(scale.clients)?;
    for (number, host) in hosts.iter_mut().enumerate() {
        let branch = format!("client-{number}");
        town.fork(MANY, &branch)?;
        host.mount(&format!("{MANY}@{branch}"))?;
        create(&host.dir.join("first"), number as u64)?;
    }
    let before = town.requests().1;
    let watch = Stopwatch::start();
    let all = std::thread::scope(|scope| {
        let syncing: Vec<_> = hosts
            .iter()
            .enumerate()
            .map(|(number, host)| {
                let dir = &host.dir;
                scope.spawn(move || sync_for(dir, number as u64, scale.together))
            })
            .collect();
        let joined = syncing
            .into_iter()
            .map(|one| one.join().expect("a client does not panic"));
        joined.collect::<Result<Vec<_>>>()
    })?;
    let took = watch.seconds();
    let put = (town.requests().1 - before) as f64;
    hosts.iter_mut().try_for_each(super::town::Host::unmount)?;
    let seconds: Vec<f64> = all.into_iter().flatten().collect();
    let facts = vec![
        Fact::at_least("syncs a second", seconds.len() as f64 / took, 1_000.0),
        Fact::at_most("puts a second", put / took, 100.0),
        Fact::at_most(
            "of the store's put, 99th percentile",
            percentile(&seconds, 0.99) / percentile(&puts, 0.50),
            2.5,
        ),
        Fact::told("clients", f64::from(scale.clients)),
    ];
    Ok(vec![Row {
        name: "many_clients",
        what: "64 mounts of one drive, each of its own branch, that have synced once before: create, write 4 KiB, fsync, close, all at once; beside the store's put",
        seconds,
        baseline: puts,
        facts,
    }])
}

fn sync_for(dir: &Path, client: u64, time: Duration) -> Result<Vec<f64>> {
    let watch = Stopwatch::start();
    let mut seconds = Vec::new();
    while watch.seconds() < time.as_secs_f64() {
        let number = seconds.len() as u64;
        seconds.push(create(&dir.join(number.to_string()), client << 32 | number)?);
    }
    Ok(seconds)
}

/// Mounts the drive of this room, and returns a new directory there.
fn begun(town: &mut Town, name: &str) -> Result<PathBuf> {
    // It is there already, if another row has made it.
    let _ = town.create(DRIVE);
    let host = &mut town.hosts[0];
    host.mount(DRIVE)?;
    let dir = host.dir.join(name);
    named::create_dir(&dir)?;
    host.sync()?;
    Ok(dir)
}

/// Times the store's own puts of 4 KiB.
fn puts(town: &Town, name: &str) -> Result<Vec<f64>> {
    let store = town.store()?;
    let put = |number: u64| {
        interrupt::check()?;
        let key = Key::parse(&format!("{name}/{number}")).expect("letters and digits make a key");
        let content = incompressible(number, FILE_LEN);
        let watch = Stopwatch::start();
        store.put_if_absent(&key, &content)?;
        Ok(watch.seconds())
    };
    (0..PUTS).map(put).collect()
}

fn write_bulk(at: &Path, bytes: u64) -> Result<()> {
    let mut file = named::create_new(at)?;
    for piece in 0..bytes / PIECE as u64 {
        interrupt::check()?;
        file.write_all(&incompressible(3 << 32 | piece, PIECE))?;
    }
    Ok(file.sync_all()?)
}
