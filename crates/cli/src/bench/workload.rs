//! The pieces of work that are measured, one file per kind.

use anyhow::Result;

use super::floor::Callers;
use super::input::Inputs;
use super::measure::Round;

pub(crate) mod agent;
mod cargo_build;
mod checkout;
mod clone;
mod create_sync;
mod day;
mod huge;
mod npm_ci;
mod operations;
mod remove;
mod sequential;
mod small_reads;
mod sqlite;
mod untar;

/// A piece of work that yields one or more metrics in each round.
pub(crate) trait Workload {
    /// Returns what it measures.
    fn metrics(&self) -> &[Metric];

    /// Returns how often it is repeated on each side unless the person says.
    fn rounds(&self) -> usize {
        5
    }

    /// Tells whether each round begins on a side that was just made. Then no round finds the contents of another, which
    /// a side that stores equal contents once would not have to write.
    fn begins_fresh(&self) -> bool {
        true
    }

    /// Returns who asks the kernel: what a request costs depends on it.
    fn callers(&self) -> Callers {
        Callers::One
    }

    /// Makes the inputs that it needs.
    fn prepare(&self, _inputs: &Inputs) -> Result<()> {
        Ok(())
    }

    /// Prepares a side, once, for all rounds. Nothing is measured.
    fn set_up(&self, _round: &mut Round<'_>) -> Result<()> {
        Ok(())
    }

    /// Does the work once and leaves a sample of each metric in `round`.
    fn round(&self, round: &mut Round<'_>) -> Result<()>;
}

/// One thing that is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    /// What is done and from which state of the caches, in a person's words.
    pub(crate) what: &'static str,
}

/// Returns a metric.
const fn metric(name: &'static str, what: &'static str) -> Metric {
    Metric { name, what }
}

/// How much of each kind of work is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) sqlite_commits: u64,
    pub(crate) synced_files: u64,
    pub(crate) sequential_bytes: u64,
    pub(crate) operations: u64,
    pub(crate) listed_entries: u64,
    pub(crate) huge_files: u64,
    pub(crate) huge_bytes: u64,
}

impl Scale {
    /// The scale that targets are given for.
    pub(crate) const FULL: Scale = Scale {
        sqlite_commits: 1_000,
        synced_files: 1_000,
        sequential_bytes: 1 << 30,
        operations: 2_000,
        listed_entries: 10_000,
        huge_files: 1_000_000,
        huge_bytes: 10 << 30,
    };

    /// A look that takes little time and proves little.
    pub(crate) const QUICK: Scale = Scale {
        sqlite_commits: 200,
        synced_files: 200,
        sequential_bytes: 128 << 20,
        operations: 400,
        listed_entries: 2_000,
        huge_files: 50_000,
        huge_bytes: 1 << 30,
    };
}

/// Returns the agent's day.
pub(crate) fn day() -> Vec<Box<dyn Workload>> {
    vec![Box::new(day::Day)]
}

/// Returns the file-system workloads; with `huge`, also those that take a large disk and long.
pub(crate) fn fs(scale: Scale, huge: bool) -> Vec<Box<dyn Workload>> {
    let mut workloads: Vec<Box<dyn Workload>> = vec![
        Box::new(clone::Clone),
        Box::new(npm_ci::NpmCi),
        Box::new(untar::Untar),
        Box::new(remove::Remove),
        Box::new(checkout::Checkout),
        Box::new(sqlite::Sqlite {
            commits: scale.sqlite_commits,
        }),
        Box::new(create_sync::CreateSync {
            files: scale.synced_files,
        }),
        Box::new(sequential::Sequential {
            bytes: scale.sequential_bytes,
        }),
        Box::new(cargo_build::CargoBuild),
        Box::new(small_reads::SmallReads),
    ];
    if huge {
        workloads.push(Box::new(huge::HugeTree {
            files: scale.huge_files,
        }));
        workloads.push(Box::new(huge::HugeFile {
            bytes: scale.huge_bytes,
        }));
    }
    workloads
}

/// Returns the single operations.
pub(crate) fn micro(scale: Scale) -> Vec<Box<dyn Workload>> {
    vec![Box::new(operations::Operations {
        count: scale.operations,
        listed_entries: scale.listed_entries,
    })]
}

/// Returns bytes that neither compress nor repeat: xorshift64* from `seed`.
pub(crate) fn incompressible(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_two_rounds_share_nothing() {
        let (one, other) = (incompressible(1, 1 << 12), incompressible(2, 1 << 12));
        assert_eq!(one.len(), 1 << 12);
        assert!(one.chunks(16).zip(other.chunks(16)).all(|(a, b)| a != b));
    }

    #[test]
    fn no_two_metrics_of_a_command_have_one_name() {
        for workloads in [day(), fs(Scale::FULL, true), micro(Scale::FULL)] {
            let mut names: Vec<_> = workloads
                .iter()
                .flat_map(|w| w.metrics())
                .map(|metric| metric.name)
                .collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
