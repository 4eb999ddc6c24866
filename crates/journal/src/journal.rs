//! The journal of a drive's owner: the order of its records, and the threads that work for it.
//!
//! Invariant: when a journal is dropped its threads have ended, and only then is the drive's lock given back: nothing
//! is written behind the back of the next owner.

mod commit;
mod order;
mod publish;
mod threads;

pub use order::{Order, RECORD_LEN_MAX};

use crate::chain::Position;
use crate::open::{Beginning, Opening};
use std::ops::Deref;
use std::sync::Arc;
use tenure_model::Failure;
use tenure_store::Lock;
use threads::Threads;

/// Is told once a record is durable (with its place), or why it is not. Runs on the thread that committed,
/// in the order of the records; it must not wait for a later one.
pub type Done = Box<dyn FnOnce(Result<Position, Failure>) + Send>;

/// The journal of a drive's owner. It is its [`Order`], and holds the drive's lock.
///
/// Dropping it waits for its threads, and tells what was not written: hold no lock that a callback takes.
pub struct Journal {
    order: Arc<Order>,
    threads: Threads,
    _lock: Lock,
}

impl Journal {
    pub(crate) fn new(opening: Opening, beginning: Beginning) -> Self {
        let (order, lock) = Order::new(opening, beginning);
        Self {
            order: Arc::new(order),
            threads: Threads::default(),
            _lock: lock,
        }
    }

    /// Starts the threads that commit and that prepare segments; they end when the journal is dropped.
    pub fn start_threads(&self) -> Result<(), Failure> {
        self.threads.start(&self.order)
    }
}

impl Deref for Journal {
    type Target = Order;

    fn deref(&self) -> &Order {
        &self.order
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.order.abandon();
        self.threads.join();
    }
}
