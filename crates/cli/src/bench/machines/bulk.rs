//! Many files at once: until they are in the bucket, and read again on a machine that has nothing.

use super::Scale;
use super::load::FILE_LEN;
use super::town::{Host, Town};
use crate::bench::command::run;
use crate::bench::input::{App, walk, warm};
use crate::bench::interrupt;
use crate::bench::measure::Stopwatch;
use crate::bench::named;
use crate::bench::row::{Fact, Row};
use crate::bench::statistics::median;
use crate::bench::workload::incompressible;
use anyhow::{Result, ensure};

/// Files of each directory.
const IN_DIRECTORY: u64 = 100;

/// `npm ci` until it is durable in the bucket, and in a folder of this machine.
pub(super) fn npm_ci(town: &mut Town, scale: &Scale) -> Result<Vec<Row>> {
    let inputs = town.inputs();
    let app = inputs.app()?;
    let mut folder = town.folder_host()?;
    let (mut seconds, mut baseline) = (Vec::new(), Vec::new());
    for round in 0..scale.npm_rounds {
        let drive = format!("npm-{round}");
        town.create(&drive)?;
        seconds.push(install(&mut town.hosts[0], app, &drive)?);
        baseline.push(install(&mut folder, app, &drive)?);
    }
    let ratios: Vec<f64> = seconds
        .iter()
        .zip(&baseline)
        .map(|(bucket, folder)| bucket / folder)
        .collect();
    let facts = vec![Fact::at_most("of the folder tier, median", median(&ratios), 1.15)];
    Ok(vec![Row {
        name: "npm_ci",
        what: "npm ci --offline from a warm npm cache until durable in the bucket, beside the folder tier",
        seconds,
        baseline,
        facts,
    }])
}

/// Installs the application in a new drive.
fn install(host: &mut Host, app: &App, drive: &str) -> Result<f64> {
    warm(&app.cache())?;
    host.mount(drive)?;
    let at = host.dir.join("app");
    app.put_manifest(&at)?;
    let watch = Stopwatch::start();
    run(&mut app.install(&at))?;
    host.sync()?;
    let took = watch.seconds();
    host.unmount()?;
    Ok(took)
}

/// Small files until they are in the bucket; then every one of them read where nothing is in any memory.
pub(super) fn small_files(town: &mut Town, scale: &Scale) -> Result<Vec<Row>> {
    const DRIVE: &str = "small";
    town.create(DRIVE)?;
    let host = &mut town.hosts[0];
    host.mount(DRIVE)?;
    let watch = Stopwatch::start();
    for number in 0..scale.small_files {
        interrupt::check()?;
        let directory = host.dir.join(format!("d-{}", number / IN_DIRECTORY));
        if number % IN_DIRECTORY == 0 {
            named::create_dir(&directory)?;
        }
        named::write(
            directory.join(number.to_string()),
            incompressible(number, FILE_LEN),
        )?;
    }
    host.sync()?;
    let written = watch.seconds();
    host.unmount()?;
    town.restart_servers()?;
    let host = &mut town.hosts[1];
    host.mount(DRIVE)?;
    let mut files = 0;
    let watch = Stopwatch::start();
    walk(&host.dir, &mut |file| {
        files += u64::from(named::read(file)?.len() == FILE_LEN);
        Ok(())
    })?;
    let read = watch.seconds();
    host.unmount()?;
    ensure!(
        files == scale.small_files,
        "{files} of {} files are whole",
        scale.small_files
    );
    let count = scale.small_files as f64;
    Ok(vec![
        Row {
            name: "small_files",
            what: "19,000 files of 4 KiB made by one program, then one sync of all",
            seconds: vec![written],
            baseline: Vec::new(),
            facts: vec![Fact::at_least("files a second", count / written, 5_000.0)],
        },
        Row {
            name: "small_reads_cold",
            what: "each of them read on another machine, one after the other; servers and mount have just begun",
            seconds: vec![read],
            baseline: Vec::new(),
            facts: vec![Fact::at_least("files a second", count / read, 2_000.0)],
        },
    ])
}
