//! `tenure bench machines`: what several machines see that share a bucket on S3 behind a network.
//!
//! The hosts are network namespaces of this machine (without root, processes with homes of their own), the bucket is SeaweedFS behind
//! the store's own proxy, which is as slow as it is told: what costs requests costs time. Everything is driven by the commands that a person types.
//! Each row is judged by its target here; rows in which something is killed count what was acknowledged and is not there afterwards.

mod bulk;
mod handover;
mod load;
mod network;
mod shared;
mod syncing;
mod takeover;
mod town;
mod unused;

use super::Places;
use super::machine::Machine;
use super::progress::Progress;
use super::row::{self, Row};
use super::switch;
use crate::error::Told;
use crate::output;
use anyhow::Result;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use tenure_store::proxy::Delays;
use town::Town;

/// What is measured, and how often.
#[derive(Debug, clap::Args)]
pub(crate) struct MachinesArgs {
    /// How long the store takes for a put and for a get, in milliseconds
    #[arg(long, value_name = "PUT,GET", value_delimiter = ',', num_args = 1..=2, default_values_t = [30, 15])]
    bucket_latency: Vec<u64>,
    /// How often something is killed, in the rows in which something is [default: 5; 1 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
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
    /// SeaweedFS's program [default: the one that `./check stores` has installed]
    #[arg(long, value_name = "FILE")]
    weed: Option<PathBuf>,
    #[command(flatten)]
    places: Places,
}

/// How much of each kind of work is done.
#[derive(Clone, Copy, Debug)]
struct Scale {
    trials: u32,
    synced_files: u64,
    bulk_bytes: u64,
    clients: u32,
    small_files: u64,
    npm_rounds: u32,
    /// Machines that look at a repository, each at a branch of its own.
    machines: u32,
    /// Files that each of two machines makes in a shared branch, how often, and changes that one is to see of the other.
    shared_files: u64,
    shared_rounds: u32,
    changes: u64,
    /// For how long something is built beside a poller.
    polled: Duration,
    /// For how long many clients sync at once, and for how long nobody does anything.
    together: Duration,
    unused: Duration,
}

impl Scale {
    fn of(args: &MachinesArgs) -> Self {
        let full = Scale {
            trials: args.trials.unwrap_or(5),
            synced_files: 1_000,
            bulk_bytes: 1 << 30,
            clients: 64,
            small_files: 19_000,
            npm_rounds: 3,
            machines: 10,
            shared_files: 2_000,
            shared_rounds: 3,
            changes: 200,
            polled: Duration::from_secs(5),
            together: Duration::from_secs(10),
            unused: Duration::from_secs(60),
        };
        if !args.quick {
            return full;
        }
        Scale {
            trials: args.trials.unwrap_or(1),
            synced_files: 200,
            bulk_bytes: 64 << 20,
            clients: 8,
            small_files: 2_000,
            npm_rounds: 1,
            machines: 3,
            shared_files: 300,
            shared_rounds: 1,
            changes: 20,
            polled: Duration::from_secs(2),
            together: Duration::from_secs(3),
            unused: Duration::from_secs(5),
        }
    }
}

/// One piece of work, and the rows that it yields.
type Work = fn(&mut Town, &Scale) -> Result<Vec<Row>>;

/// All of it, each with the names of its rows.
const WORK: &[(&[&str], Work)] = &[
    (&["mount_released", "mount_released_fast"], handover::released),
    (&["holder_killed"], takeover::holder_killed),
    (&["holder_cut_off"], takeover::holder_cut_off),
    (&["server_killed"], takeover::server_killed),
    (&["server_stopped"], takeover::server_stopped),
    (&["create_fsync"], syncing::alone),
    (&["create_fsync_beside_bulk"], syncing::beside_bulk),
    (&["many_clients"], syncing::many_clients),
    (&["npm_ci"], bulk::npm_ci),
    (&["small_files", "small_reads_cold"], bulk::small_files),
    (&["status_warm", "idle"], unused::status_and_idle),
    (
        &["shared_two_directories", "shared_one_directory"],
        shared::creating,
    ),
    (
        &["sees_new_file", "sees_changed_byte", "sees_rename", "sees_alone"],
        shared::sees,
    ),
    (&["poller"], shared::poller),
];

/// Runs what `args` ask for and prints the result.
pub(super) fn run(args: &MachinesArgs) -> Result<()> {
    let chosen = chosen(&args.only)?;
    let progress = Progress::on_stderr();
    let scale = Scale::of(args);
    let [put, get] = latency(&args.bucket_latency);
    let machine = Machine::here(switch::measure()?, None, None);
    let mut town = Town::make(&args.places, args.weed.as_deref(), Delays { put, get }, progress)?;
    let mut notes = vec![
        format!(
            "The store takes {} ms for a put and {} ms for a get.",
            put.as_millis(),
            get.as_millis()
        ),
        town.note(),
    ];
    if args.quick {
        notes.push("Quick: less work and few trials. A look, not a measurement.".to_owned());
    }
    let mut rows = Vec::new();
    for (names, work) in chosen {
        let _step = progress.step(&names.join(", "));
        rows.extend(work(&mut town, &scale)?);
    }
    drop(town);
    if args.json {
        let report = json!({
            "machine": machine.json(),
            "notes": notes,
            "workloads": rows.iter().map(Row::json).collect::<Vec<_>>(),
        });
        return output::line(format_args!("{report:#}"));
    }
    let notes = notes.join("\n");
    output::line(format_args!("{}{notes}\n{}", machine.lines(), row::table(&rows)))
}

fn latency(milliseconds: &[u64]) -> [Duration; 2] {
    let put = milliseconds.first().copied().unwrap_or(30);
    let get = milliseconds.get(1).copied().unwrap_or(put / 2);
    [put, get].map(Duration::from_millis)
}

fn chosen(wanted: &[String]) -> Result<Vec<&'static (&'static [&'static str], Work)>> {
    let is_known = |name: &&String| WORK.iter().any(|(names, _)| names.contains(&name.as_str()));
    if let Some(unknown) = wanted.iter().find(|name| !is_known(name)) {
        let all: Vec<_> = WORK.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        return Err(Told::refused(
            format!("there is no row {unknown}"),
            format!("--only {}", all.join(",")),
        ));
    }
    let is_wanted =
        |names: &[&str]| wanted.is_empty() || wanted.iter().any(|name| names.contains(&name.as_str()));
    Ok(WORK.iter().filter(|(names, _)| is_wanted(names)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_name_and_an_unknown_one_is_refused() {
        assert_eq!(chosen(&[]).expect("all").len(), WORK.len());
        let one = chosen(&["idle".to_owned()]).expect("there is one");
        assert_eq!(one.len(), 1);
        assert!(chosen(&["idol".to_owned()]).is_err());
    }

    #[test]
    fn a_get_takes_half_of_a_put_unless_it_is_said() {
        let milliseconds = |times: [Duration; 2]| times.map(|time| time.as_millis());
        assert_eq!(milliseconds(latency(&[3])), [3, 1]);
        assert_eq!(milliseconds(latency(&[30, 15])), [30, 15]);
    }
}
