//! The journal's threads: one commits what waits, one makes segments before they are needed.

use super::Journal;
use std::sync::{Arc, Weak};
use tenure_model::Failure;
use tenure_store::Signal;

pub(super) fn start(journal: &Arc<Journal>) -> Result<(), Failure> {
    journal.prepare_signal.raise();
    spawn(
        "journal-commit",
        journal,
        &journal.commit_signal,
        Journal::commit_waiting,
    )?;
    spawn(
        "journal-prepare",
        journal,
        &journal.prepare_signal,
        Journal::prepare_ahead,
    )
}

/// Starts a thread that does its work at each signal. It ends when the journal is dropped.
fn spawn(
    name: &str,
    journal: &Arc<Journal>,
    signal: &Arc<Signal>,
    work: fn(&Journal),
) -> Result<(), Failure> {
    let (journal, signal): (Weak<Journal>, _) = (Arc::downgrade(journal), signal.clone());
    let run = move || {
        while signal.wait() {
            let Some(journal) = journal.upgrade() else { return };
            work(&journal);
        }
    };
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    started
        .map(|_| ())
        .map_err(|error| Failure::DidNotHappen(format!("cannot start a thread: {error}")))
}

impl Journal {
    fn prepare_ahead(&self) {
        let (low, left) = {
            let queue = self.queue.lock();
            (queue.room.is_low(), queue.room.left())
        };
        if low {
            // A full disk is what the next append hears of that finds no room.
            let _ = self.prepare_more(0, left);
        }
    }
}
