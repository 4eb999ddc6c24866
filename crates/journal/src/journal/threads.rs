//! The journal's threads: one commits what waits, one makes segments before they are needed.

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
        order.prepare_signal.raise();
        self.spawn(
            "journal-commit",
            order,
            |order| &order.commit_signal,
            Order::commit_waiting,
        )?;
        self.spawn(
            "journal-prepare",
            order,
            |order| &order.prepare_signal,
            Order::prepare_ahead,
        )
    }

    /// Starts a thread that does its work at each signal, until the signal's end.
    fn spawn(
        &self,
        name: &str,
        order: &Arc<Order>,
        signal: fn(&Order) -> &Signal,
        work: fn(&Order),
    ) -> Result<(), Failure> {
        let order = order.clone();
        let run = move || {
            while signal(&order).wait() {
                work(&order);
            }
        };
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(run);
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
