//! What was fetched last, in memory: neighbours wait there for whom they were fetched, also where there is no folder.

use super::run::Run;
use crate::pack::PackName;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes in memory, of all drives of the process: several windows for each of the threads that read.
const BYTES_MAX: u64 = 32 << 20;

/// What was fetched last.
#[derive(Default)]
pub(super) struct Memory(Mutex<Runs>);

#[derive(Default)]
struct Runs {
    /// The newest first.
    runs: VecDeque<(PackName, Arc<Run>)>,
    bytes: u64,
}

impl Memory {
    /// Completes a run with what is here.
    pub(super) fn look_up(&self, name: PackName, run: &mut Run) {
        let near = |blocks: std::ops::Range<usize>| {
            let wanted = run.blocks();
            blocks.start < wanted.end && wanted.start < blocks.end
        };
        let runs = self.0.lock();
        let found = runs
            .runs
            .iter()
            .filter(|(of, kept)| *of == name && near(kept.blocks()));
        let found: Vec<_> = found.map(|(_, kept)| kept.clone()).collect();
        drop(runs);
        found.iter().for_each(|kept| run.take(kept));
    }

    /// Keeps a run, and forgets the oldest ones.
    pub(super) fn keep(&self, name: PackName, run: Arc<Run>) {
        let mut runs = self.0.lock();
        runs.bytes += run.len();
        runs.runs.push_front((name, run));
        while runs.bytes > BYTES_MAX
            && let Some((_, oldest)) = runs.runs.pop_back()
        {
            runs.bytes -= oldest.len();
        }
    }
}
