//! The simulator's command: lets worlds happen by their seeds, and prints what broke and how to see it again.

use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;
use tenure_sim::crowd;
use tenure_sim::fault::Plant;
use tenure_sim::servers::{self, Flaw};
use tenure_sim::workload::Profile;
use tenure_sim::world::{Counts, Options, Report, run};

/// Lets worlds happen: a drive, a client and a disk that fails, all from one seed.
#[derive(Parser)]
#[command(
    name = "tenure-sim",
    after_help = "Examples:\n  tenure-sim --seeds 1..1000\n  tenure-sim --seed 42 --trace\n  tenure-sim --commit \"$(git rev-parse HEAD)\" --count 200\n  tenure-sim --for 60"
)]
struct Arguments {
    /// One seed; it is run twice, to see that it does the same.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Seeds from one up to, and without, another.
    #[arg(long, value_name = "FROM..TO", value_parser = seed_range)]
    seeds: Option<std::ops::Range<u64>>,
    /// Seeds that a commit's hash chooses.
    #[arg(long, value_name = "HASH", value_parser = seed_of_commit)]
    commit: Option<u64>,
    /// How many seeds.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Ends after so many seconds, though there may be more seeds.
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Prints every event.
    #[arg(long)]
    trace: bool,
    /// Puts a fault of ours in, such as acknowledges-early; a wrong name lists all.
    #[arg(long, value_parser = plant)]
    plant: Option<Plant>,
    /// Crowds instead of worlds: threads of one client, cut off by a power loss, and of several that share a branch. They do not
    /// repeat themselves.
    #[arg(long, conflicts_with_all = ["plant", "profile", "trace"])]
    crowds: bool,
    /// Several servers over one bucket without a lock instead of worlds.
    #[arg(long, conflicts_with_all = ["plant", "profile", "crowds"])]
    servers: bool,
    /// Puts a fault of ours into the servers or their store, such as gathers-nobody; a wrong name lists all.
    #[arg(long, requires = "servers", value_parser = flaw)]
    flaw: Option<Flaw>,
    /// Only worlds of this kind: small-files, database, savers, big-files, deep-trees or mixed.
    #[arg(long, value_parser = profile)]
    profile: Option<Profile>,
}

fn seed_range(text: &str) -> Result<std::ops::Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("it is written FROM..TO")?;
    let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
    Ok(number(from)?..number(to)?)
}

fn seed_of_commit(text: &str) -> Result<u64, String> {
    let first = text.get(..12).ok_or("a commit's hash has 12 digits at least")?;
    u64::from_str_radix(first, 16).map_err(|_| format!("{text:?} is not a commit's hash"))
}

fn profile(text: &str) -> Result<Profile, String> {
    named(text, &Profile::ALL)
}

fn flaw(text: &str) -> Result<Flaw, String> {
    named(text, &Flaw::ALL)
}

fn plant(text: &str) -> Result<Plant, String> {
    named(text, &Plant::ALL)
}

/// Returns the one whose name, in small letters and with dashes, `text` is.
fn named<T: Copy + std::fmt::Debug>(text: &str, all: &[T]) -> Result<T, String> {
    let found = all.iter().find(|one| name(one) == text).copied();
    found.ok_or_else(|| {
        format!(
            "there are {}",
            all.iter().map(name).collect::<Vec<_>>().join(", ")
        )
    })
}

fn name(one: &impl std::fmt::Debug) -> String {
    let letters = |c: char| {
        c.is_uppercase()
            .then_some('-')
            .into_iter()
            .chain(c.to_lowercase())
    };
    format!("{one:?}").chars().flat_map(letters).skip(1).collect()
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seeds = if let Some(seed) = arguments.seed {
        seed..seed + 1
    } else if let Some(seeds) = arguments.seeds.clone() {
        seeds
    } else {
        let from = arguments.commit.unwrap_or(1);
        from..from.saturating_add(arguments.count.unwrap_or(u64::MAX >> 1))
    };
    let (end, began) = (arguments.seconds.map(Duration::from_secs), now());
    let seeds = seeds.take_while(|_| end.is_none_or(|end| now().saturating_sub(began) < end));
    if arguments.crowds {
        run_crowds(seeds)
    } else if arguments.servers {
        run_servers(seeds, &arguments)
    } else {
        run_worlds(seeds, &arguments)
    }
}

fn run_crowds(seeds: impl Iterator<Item = u64>) -> ExitCode {
    let (mut crowds, mut cut_off, mut syncs) = (0, 0, 0);
    for seed in seeds {
        for report in [crowd::run(seed), crowd::meet(seed)] {
            if let Some(broken) = report.broken {
                println!("crowd {seed}: {}", broken.0);
                return ExitCode::FAILURE;
            }
            cut_off += u64::from(report.was_cut_off);
            syncs += report.syncs;
        }
        crowds += 1;
    }
    println!("{crowds} crowds, {cut_off} cut off: {syncs} syncs; every promise was kept");
    ExitCode::SUCCESS
}

fn run_servers(seeds: impl Iterator<Item = u64>, arguments: &Arguments) -> ExitCode {
    let options = servers::Options {
        flaw: arguments.flaw,
        is_printed: arguments.trace,
    };
    let (mut worlds, mut syncs, mut looks, mut epochs) = (0, 0, 0, 0);
    for seed in seeds {
        let report = servers::run(seed, options);
        if let Some(broken) = report.broken {
            report.last.iter().for_each(|event| println!("{event}"));
            println!("servers of seed {seed}: {}", broken.0);
            println!("again: cargo run -p tenure-sim -- --servers --seed {seed} --trace");
            return ExitCode::FAILURE;
        }
        worlds += 1;
        syncs += report.syncs;
        looks += report.looks;
        epochs += report.epochs;
    }
    println!(
        "{worlds} worlds of servers: {syncs} syncs, {looks} looks, {epochs} epochs; every promise was kept"
    );
    ExitCode::SUCCESS
}

fn run_worlds(seeds: impl Iterator<Item = u64>, arguments: &Arguments) -> ExitCode {
    let options = Options {
        profile: arguments.profile,
        plant: arguments.plant,
        is_printed: arguments.trace,
    };
    let (mut worlds, mut counts) = (0, Counts::default());
    for seed in seeds {
        let report = run(seed, &options);
        worlds += 1;
        counts.add(report.counts);
        if report.broken.is_some() {
            tell(&report, arguments);
            return ExitCode::FAILURE;
        }
        // The first is run again, so that every run of the command sees whether worlds repeat.
        let quiet = Options {
            is_printed: false,
            ..options
        };
        if worlds == 1 && run(seed, &quiet).trace != report.trace {
            println!("seed {seed}: the same seed gave another trace");
            return ExitCode::FAILURE;
        }
    }
    println!(
        "{worlds} worlds: {} steps, {} syncs, {} crashes, {} failures; every promise was kept",
        counts.steps, counts.syncs, counts.crashes, counts.failures
    );
    ExitCode::SUCCESS
}

fn tell(report: &Report, arguments: &Arguments) {
    let broken = report.broken.as_ref().expect("only what is broken is told");
    for event in &report.last {
        println!("{event}");
    }
    println!("seed {} ({:?}): {}", report.seed, report.profile, broken.0);
    let profile = arguments
        .profile
        .map(|profile| format!(" --profile {}", name(&profile)));
    let plant = arguments.plant.map(|plant| format!(" --plant {}", name(&plant)));
    let more = [profile, plant].into_iter().flatten().collect::<String>();
    println!(
        "again: cargo run -p tenure-sim -- --seed {}{more} --trace",
        report.seed
    );
}

/// Returns the time since the program began.
#[expect(
    clippy::disallowed_methods,
    reason = "the command is where worlds end and a real clock begins"
)]
fn now() -> Duration {
    static BEGAN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGAN.get_or_init(std::time::Instant::now).elapsed()
}
