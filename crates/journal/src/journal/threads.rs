//! The journal's threads: one commits what waits, one does what would hold up later records.

use super::order::Order;
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;
use tenure_model::Failure;
use tenure_store::Signal;

/// The threads that work for an order of records.
#[derive(Default)]
pub(super) struct Threads {
    started: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    pub(super) fn start(&self, order: &Arc<Order>) -> Result<(), Failure> {
        self.spawn("journal-commit", order, |order| {
            while order.commit_signal.wait() {
                order.commit_waiting();
                order.heal();
            }
        })?;
        let Some(signal) = order.tier.ahead_signal() else {
            return Ok(());
        };
        signal.raise();
        self.spawn("journal-ahead", order, |order| {
            while order.tier.ahead_signal().is_some_and(Signal::wait) {
                order.tier.work_ahead();
            }
        })
    }

    fn spawn(&self, name: &str, order: &Arc<Order>, run: fn(&Order)) -> Result<(), Failure> {
        let order = order.clone();
        let started = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&order));
        let started =
            started.map_err(|error| Failure::DidNotHappen(format!("cannot start a thread: {error}")))?;
        self.started.lock().push(started);
        Ok(())
    }

    /// Waits until every thread has ended, but for the one that asks.
    pub(super) fn join(&self) {
        for thread in std::mem::take(&mut *self.started.lock()) {
            if thread.thread().id() != std::thread::current().id() {
                // A thread that has panicked has stopped the journal and said so.
                let _ = thread.join();
            }
        }
    }
}
