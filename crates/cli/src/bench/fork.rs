//! `tenure bench fork`: what checkpoints and forks cost, by how large a tree is, how many there are and how deep.
//!
//! Everything stands on the folder tier, on a disk that is made as the one of `bench fs`; beside it, in the same run, snapshots of btrfs, a mount of
//! overlayfs and `cp -a`. Commands are timed from their start to their end, as a person waits for them; what many connections ask
//! at once is asked by this process.

mod depth;
mod reclaim;
mod rival;
mod sides;
mod sizes;
mod status;
mod swarm;
mod yard;

use super::Places;
use super::machine::Machine;
use super::progress::Progress;
use super::row::{self, Row};
use super::switch;
use crate::error::Told;
use crate::output;
use anyhow::Result;
use serde_json::{Value, json};
use yard::Yard;

/// What is measured, and how often.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure bench fork\n  tenure bench fork --only sizes --sizes 1000,100000\n  tenure bench fork --json > fork.json"
)]
pub(crate) struct ForkArgs {
    /// Files of the trees that are forked [default: 1000,100000,1000000; 100,10000 with --quick]
    #[arg(long, value_name = "FILES", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    sizes: Vec<u64>,
    /// How often each command is run for a size [default: 40; 5 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    trials: Option<u32>,
    /// Measure only these rows
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Do less of everything: a look, not a measurement
    #[arg(long)]
    quick: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    places: Places,
}

/// How much of each kind of work is done.
#[derive(Clone, Debug)]
struct Scale {
    sizes: Vec<u64>,
    trials: u32,
    /// Forks of one base, all of which are then written to; and forks of which each changes one byte.
    forks: u32,
    small_forks: u32,
    /// Forks of forks.
    depth: u32,
    /// Times that trees are compared, merged or looked at.
    rounds: u32,
}

impl Scale {
    fn of(args: &ForkArgs) -> Self {
        let sizes = |default: &[u64]| match &args.sizes[..] {
            [] => default.to_vec(),
            sizes => sizes.to_vec(),
        };
        if args.quick {
            return Scale {
                sizes: sizes(&[100, 10_000]),
                trials: args.trials.unwrap_or(5),
                forks: 100,
                small_forks: 200,
                depth: 20,
                rounds: 2,
            };
        }
        Scale {
            sizes: sizes(&[1_000, 100_000, 1_000_000]),
            trials: args.trials.unwrap_or(40),
            forks: 1_000,
            small_forks: 10_000,
            depth: 200,
            rounds: 5,
        }
    }
}

/// What was measured: rows, and what is said of each size.
#[derive(Default)]
struct Found {
    rows: Vec<Row>,
    sizes: Vec<Value>,
}

/// One piece of work.
type Work = fn(&Yard<'_>, &Scale, &mut Found) -> Result<()>;

const WORK: &[(&str, Work)] = &[
    ("sizes", sizes::measure),
    ("swarm", swarm::at_once),
    ("space", swarm::space),
    ("reclaim", reclaim::measure),
    ("depth", depth::measure),
    ("sides", sides::measure),
    ("status", status::measure),
];

/// Runs what `args` ask for and prints the result.
pub(super) fn run(args: &ForkArgs) -> Result<()> {
    let chosen = chosen(&args.only)?;
    let (progress, scale) = (Progress::on_stderr(), Scale::of(args));
    let machine = Machine::here(switch::measure()?, None, None);
    let largest = scale.sizes.iter().copied().max().unwrap_or(0);
    let yard = Yard::make(&args.places, largest, progress)?;
    let mut found = Found::default();
    for (name, work) in chosen {
        let _step = progress.step(name);
        work(&yard, &scale, &mut found)?;
    }
    drop(yard);
    let mut notes = vec![
        "Folder tier. Commands from their start to their end; the drive is mounted meanwhile.".to_owned(),
    ];
    if args.quick {
        notes.push("Quick: less work and few trials. A look, not a measurement.".to_owned());
    }
    if args.json {
        let report = json!({
            "machine": machine.json(),
            "notes": notes,
            "sizes": found.sizes,
            "workloads": found.rows.iter().map(Row::json).collect::<Vec<_>>(),
        });
        return output::line(format_args!("{report:#}"));
    }
    let notes = notes.join("\n");
    output::line(format_args!(
        "{}{notes}\n{}",
        machine.lines(),
        row::table(&found.rows)
    ))
}

fn chosen(wanted: &[String]) -> Result<Vec<(&'static str, Work)>> {
    let is_known = |name: &&String| WORK.iter().any(|(known, _)| known == name);
    if let Some(unknown) = wanted.iter().find(|name| !is_known(name)) {
        let all: Vec<_> = WORK.iter().map(|(name, _)| *name).collect();
        return Err(Told::refused(
            format!("there is no row {unknown}"),
            format!("--only {}", all.join(",")),
        ));
    }
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    Ok(WORK.iter().copied().filter(|(name, _)| is_wanted(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_chosen_by_name_and_an_unknown_one_is_refused() {
        assert_eq!(chosen(&[]).expect("all").len(), WORK.len());
        assert_eq!(chosen(&["depth".to_owned()]).expect("there is one").len(), 1);
        assert!(chosen(&["deep".to_owned()]).is_err());
    }
}
