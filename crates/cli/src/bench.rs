//! `tenure bench`: how fast a drive is, each piece of work beside the same work on this machine's disk, fairly.
//!
//! The measured side is driven from outside, by the commands that a person types; the bench knows no other room of the
//! project. Rounds are interleaved, side by side; ratios are paired by round; medians come with their bounds. See
//! docs/BENCHMARKS.md for the method and `target` for what the numbers are to be.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

mod account;
mod command;
mod demo;
mod disk;
mod floor;
mod fork;
mod input;
mod interrupt;
mod limit;
mod machine;
mod machines;
mod measure;
mod named;
mod progress;
mod report;
mod result;
mod row;
mod side;
mod statistics;
mod switch;
mod target;
mod workload;

use disk::{Disk, Format, Scratch};
use floor::Callers;
use input::Inputs;
use limit::Limit;
use machine::Machine;
use measure::Round;
use progress::Progress;
use report::{Idle, Report};
use result::Outcome;
use side::{Ext4, Plain, Side, Tenure};
use target::DiskSpeed;
use workload::{Metric, Scale, Workload};

use crate::error::Told;
use crate::output;

/// How long the measured side is watched while nobody asks anything of it.
const IDLE: Duration = Duration::from_secs(10);

/// Measure a drive beside this machine's disk
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tenure bench day\n  tenure bench fs --only clone,npm_ci --rounds 11\n  tenure bench micro --json > micro.json\n  tenure bench fs --limit-cloud"
)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Debug, Subcommand)]
enum Suite {
    /// Measure the agent's day: clone, npm ci, edit, commit, look
    Day(Options),
    /// Measure file-system workloads, from git clone to SQLite
    Fs(Options),
    /// Measure single operations
    Micro(Options),
    /// Measure what several machines see that share a bucket on S3
    Machines(machines::MachinesArgs),
    /// Measure checkpoints and forks of trees of any size, beside snapshots and copies of this machine's file systems
    Fork(fork::ForkArgs),
    /// Show the agent's day: work, crash, a new machine, forks
    Demo(demo::DemoArgs),
}

#[derive(Debug, Args)]
struct Options {
    /// Rounds on each side [default: 5; 11 for clone and npm_ci in `fs`; 2 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Measure only these workloads
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Do less of everything: a look, not a measurement
    #[arg(long)]
    quick: bool,
    /// Measure also a tree of 1,000,000 files and a file of 10 GiB (`fs` only)
    #[arg(long)]
    huge: bool,
    /// Hold both disks to a cloud volume's 3,000 requests and 125 MB a second
    #[arg(long)]
    limit_cloud: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Size of each side's disk, in GiB [default: 4; 20 with --huge]
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..=1024))]
    disk_size: Option<u64>,
    #[command(flatten)]
    places: Places,
    /// Measure this directory instead of a Tenure drive
    #[arg(long, value_name = "DIR")]
    side_a: Option<PathBuf>,
    /// Measure against this directory instead of a fair ext4
    #[arg(long, value_name = "DIR")]
    side_b: Option<PathBuf>,
    /// Measure against a second fair ext4 instead of a Tenure drive: what the bench itself cannot tell apart
    #[arg(long, hide = true, conflicts_with = "side_a")]
    null: bool,
}

/// Where the bench finds and keeps things.
#[derive(Debug, Args)]
struct Places {
    /// Clone this repository instead of the one made from published crates
    #[arg(long, value_name = "PATH")]
    repo: Option<PathBuf>,
    /// Where the disks are made, and removed afterwards
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    scratch: PathBuf,
    /// Where the inputs are kept [default: $XDG_CACHE_HOME/tenure-bench]
    #[arg(long, value_name = "DIR")]
    inputs: Option<PathBuf>,
    /// The program to measure, instead of this one
    #[arg(long, value_name = "PATH", hide = true)]
    tenure: Option<PathBuf>,
    /// A further argument of each `tenure mount`
    #[arg(long, value_name = "ARG", hide = true, allow_hyphen_values = true)]
    mount_arg: Vec<OsString>,
}

/// What a suite looks at beside its workloads.
#[derive(Debug, Clone, Copy)]
struct Looks {
    /// What the measured side does while nobody asks anything of it.
    idle: bool,
    /// What a request costs that does nothing, before each round. Not worth it where a round takes milliseconds: its CPU
    /// is counted in hundredths of a second.
    floors: bool,
}

/// Runs what `args` ask for and prints the result.
pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    interrupt::watch()?;
    let (workloads, options) = match &args.suite {
        Suite::Demo(demo) => return demo::run_story(demo),
        Suite::Machines(machines) => return machines::run(machines),
        Suite::Fork(fork) => return fork::run(fork),
        Suite::Day(options) => (workload::day(), options),
        Suite::Fs(options) => (workload::fs(options.scale(), options.huge), options),
        Suite::Micro(options) => (workload::micro(options.scale()), options),
    };
    let looks = Looks {
        idle: matches!(args.suite, Suite::Day(_)),
        floors: !matches!(args.suite, Suite::Micro(_)),
    };
    let workloads = chosen(workloads, &options.only)?;
    let report = options.measure(&workloads, looks)?;
    if options.json {
        return output::line(format_args!("{:#}", report.json()));
    }
    output::line(report.table())
}

impl Options {
    fn scale(&self) -> Scale {
        if self.quick { Scale::QUICK } else { Scale::FULL }
    }

    fn measure(&self, workloads: &[Box<dyn Workload>], looks: Looks) -> Result<Report> {
        let progress = Progress::on_stderr();
        let inputs = self.places.inputs(progress)?;
        // First what can take long or fail without a disk.
        for workload in workloads {
            workload.prepare(&inputs)?;
        }
        let scratch = Scratch::make(&self.places.scratch)?;
        let mut sides = self.sides(&scratch, progress)?;
        let limit = self.limit(&sides)?;
        let machine = look_at_machine(sides[0].as_ref(), progress)?;
        let mut outcomes = Vec::new();
        for workload in workloads {
            outcomes.extend(self.measure_one(workload.as_ref(), &mut sides, &inputs, looks, progress)?);
        }
        outcomes.retain(|outcome| {
            self.only.is_empty() || self.only.iter().any(|name| *name == outcome.metric.name)
        });
        let idle = if looks.idle {
            Some(watch_idle(sides[0].as_ref(), progress)?)
        } else {
            None
        };
        Ok(Report {
            machine,
            sides: [sides[0].name().to_owned(), sides[1].name().to_owned()],
            notes: self.notes(limit.as_ref()),
            disk: if limit.is_some() {
                DiskSpeed::Limited
            } else {
                DiskSpeed::Full
            },
            outcomes,
            idle,
        })
    }

    /// Does all rounds of one workload, A B A B, and returns an outcome for each of its metrics.
    fn measure_one(
        &self,
        workload: &dyn Workload,
        sides: &mut [Box<dyn Side>; 2],
        inputs: &Inputs,
        looks: Looks,
        progress: Progress,
    ) -> Result<Vec<Outcome>> {
        let rounds = self
            .rounds
            .map_or_else(|| if self.quick { 2 } else { workload.rounds() }, usize::from);
        let mut outcomes: Vec<Outcome> = workload
            .metrics()
            .iter()
            .map(|metric| Outcome {
                metric: *metric,
                tenure: Vec::new(),
                baseline: Vec::new(),
                floors: Vec::new(),
            })
            .collect();
        let names = workload
            .metrics()
            .iter()
            .map(|metric| metric.name)
            .take(4)
            .collect::<Vec<_>>()
            .join(", ");
        let step = progress.step(&format!("{names}: preparing"));
        for side in sides.iter_mut() {
            side.fresh()?;
            workload.set_up(&mut Round {
                side: side.as_mut(),
                inputs,
                seed: 0,
                samples: Vec::new(),
            })?;
        }
        for number in 0..rounds {
            for (place, side) in sides.iter_mut().enumerate() {
                step.now(format!(
                    "{names}: round {} of {rounds} on {}",
                    number + 1,
                    side.name()
                ));
                if workload.begins_fresh() {
                    side.fresh()?;
                }
                let floor = if looks.floors {
                    floor::measure(side.as_ref(), workload.callers())?
                } else {
                    None
                };
                outcomes
                    .iter_mut()
                    .for_each(|outcome| outcome.floors.extend(floor));
                let seed = (number * 2 + place + 1) as u64;
                let mut round = Round {
                    side: side.as_mut(),
                    inputs,
                    seed,
                    samples: Vec::new(),
                };
                workload.round(&mut round)?;
                keep(&mut outcomes, place, round.samples);
            }
        }
        Ok(outcomes)
    }

    fn sides(&self, scratch: &Scratch, progress: Progress) -> Result<[Box<dyn Side>; 2]> {
        let size = self.disk_size.unwrap_or(if self.huge { 20 } else { 4 }) << 30;
        let measured: Box<dyn Side> = match &self.side_a {
            Some(directory) => Box::new(Plain::inside(directory)?),
            None if self.null => Box::new(Ext4::on(Disk::make(
                scratch,
                ("disk-a", Format::Ext4),
                size,
                progress,
            )?)?),
            None => {
                let disk = Disk::make(scratch, ("disk-a", Format::Ext4), size, progress)?;
                let executable = self.places.tenure()?;
                Box::new(Tenure::on(
                    disk,
                    &executable,
                    scratch.path(),
                    &self.places.mount_arg,
                )?)
            }
        };
        let baseline: Box<dyn Side> = match &self.side_b {
            Some(directory) => Box::new(Plain::inside(directory)?),
            None => Box::new(Ext4::on(Disk::make(
                scratch,
                ("disk-b", Format::Ext4),
                size,
                progress,
            )?)?),
        };
        Ok([measured, baseline])
    }

    fn limit(&self, sides: &[Box<dyn Side>; 2]) -> Result<Option<Limit>> {
        if !self.limit_cloud {
            return Ok(None);
        }
        let mut devices = Vec::new();
        for side in sides {
            let device = side.device_number()?;
            devices.push(device.with_context(|| {
                format!(
                    "{} is not on a disk of the bench's own, so its disk cannot be limited",
                    side.name()
                )
            })?);
        }
        Limit::set(&devices).map(Some)
    }

    fn notes(&self, limit: Option<&Limit>) -> Vec<String> {
        let mut notes = vec![
            "Durable: `sync -f` on ext4, fsync of the root on Tenure. Inputs warm; each round on a side just made, unless it reads what was there."
                .to_owned(),
        ];
        if self.quick {
            notes.push("Quick: less work and few rounds. A look, not a measurement.".to_owned());
        }
        notes.extend(limit.map(|limit| limit.note().to_owned()));
        notes
    }
}

impl Places {
    fn inputs(&self, progress: Progress) -> Result<Inputs> {
        let folder = match &self.inputs {
            Some(folder) => std::path::absolute(folder)?,
            None => cache_home("tenure-bench")
                .ok_or_else(|| Told::refused("there is no home directory", "name a folder with --inputs"))?,
        };
        Ok(Inputs::kept_in(folder, self.repo.clone(), progress))
    }

    fn tenure(&self) -> Result<PathBuf> {
        match &self.tenure {
            Some(path) => path
                .canonicalize()
                .with_context(|| format!("cannot find {}", path.display())),
            None => std::env::current_exe().context("this program cannot tell where it is"),
        }
    }
}

/// Keeps the workloads that yield one of the `wanted` metrics; all of them if none is wanted in particular.
fn chosen(workloads: Vec<Box<dyn Workload>>, wanted: &[String]) -> Result<Vec<Box<dyn Workload>>> {
    let metrics: Vec<Metric> = workloads
        .iter()
        .flat_map(|workload| workload.metrics())
        .copied()
        .collect();
    for name in wanted {
        if !metrics.iter().any(|metric| metric.name == name) {
            let names = metrics
                .iter()
                .map(|metric| metric.name)
                .collect::<Vec<_>>()
                .join(", ");
            return Err(Told::refused(
                format!("there is no workload {name:?} here"),
                format!("choose from {names}"),
            ));
        }
    }
    let is_wanted = |metric: &Metric| wanted.is_empty() || wanted.iter().any(|name| name == metric.name);
    Ok(workloads
        .into_iter()
        .filter(|workload| workload.metrics().iter().any(is_wanted))
        .collect())
}

/// Files each sample under its metric.
fn keep(outcomes: &mut [Outcome], place: usize, samples: Vec<(&'static str, measure::Sample)>) {
    for (name, sample) in samples {
        let outcome = outcomes.iter_mut().find(|outcome| outcome.metric.name == name);
        let outcome = outcome.expect("a workload records the metrics that it lists");
        if place == 0 {
            &mut outcome.tenure
        } else {
            &mut outcome.baseline
        }
        .push(sample);
    }
}

/// Measures what is nobody's code: two switches, and a request that does nothing.
fn look_at_machine(side: &dyn Side, progress: Progress) -> Result<Machine> {
    let _step = progress.step("a request that does nothing");
    let one = floor::measure(side, Callers::One)?;
    let several = floor::measure(side, Callers::Several)?;
    Ok(Machine::here(switch::measure()?, one, several))
}

/// Watches what a side does while nobody asks anything of it.
fn watch_idle(side: &dyn Side, progress: Progress) -> Result<Idle> {
    let _step = progress.step(&format!("watching {} idle for {} s", side.name(), IDLE.as_secs()));
    side.make_durable()?;
    let before = side.counters()?;
    std::thread::sleep(IDLE);
    interrupt::check()?;
    let after = side.counters()?;
    let total = |counters: &side::Counters| counters.requests.values().sum::<u64>();
    Ok(Idle {
        seconds: IDLE.as_secs_f64(),
        requests: total(&after).saturating_sub(total(&before)),
        bucket_requests: after.bucket_requests.saturating_sub(before.bucket_requests),
        cpu_seconds: (after.cpu_seconds() - before.cpu_seconds()).max(0.0),
    })
}

fn cache_home(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    named.or_else(home).map(|cache| cache.join(name))
}
