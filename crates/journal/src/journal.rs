//! The journal of a drive's owner: the order of its records, and the threads that work for it.
//!
//! Invariant: when a journal is dropped its threads have ended, and only then is the drive's lock given back: nothing
//! is written behind the back of the next owner.

mod commit;
mod order;
mod progress;
mod publish;
mod queue;
mod threads;

pub use order::{Order, RECORD_LEN_MAX};
pub use publish::MANIFESTS_KEPT;
pub(crate) use queue::{GROUP_LEN_MAX, Waiting, closed};

use crate::chain::Position;
use crate::epoch::Claim;
use crate::tier::Keeping;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{Failure, Seq};
use tenure_store::{Bucket, Lock};
use threads::Threads;

/// Is told once a record is durable (with its place), or why it is not. Runs on the thread that committed,
/// in the order of the records; it must not wait for a later one.
pub type Done = Box<dyn FnOnce(Result<Position, Failure>) + Send>;

/// Where a journal begins.
pub(crate) struct Beginning {
    pub(crate) claim: Claim,
    /// The last record of the epochs before.
    pub(crate) at: Position,
    /// Every manifest that is whole, in order.
    pub(crate) manifests: Vec<Seq>,
    /// When the epochs before were found sealed, by the owner's clock, unless nobody else can answer any more.
    pub(crate) sealed_since: Option<Duration>,
}

/// The journal of a drive's owner. It is its [`Order`], and holds the drive's lock.
///
/// Dropping it waits for its threads, and tells what was not written: hold no lock that a callback takes.
pub struct Journal {
    order: Arc<Order>,
    threads: Threads,
    _lock: Option<Arc<Lock>>,
}

impl Journal {
    pub(crate) fn new(
        bucket: Arc<dyn Bucket>,
        tier: Box<dyn Keeping>,
        beginning: Beginning,
        lock: Option<Arc<Lock>>,
    ) -> Self {
        Self {
            order: Arc::new(Order::new(bucket, tier, beginning)),
            threads: Threads::default(),
            _lock: lock,
        }
    }

    /// Starts the threads that commit and that work ahead; they end when the journal is dropped.
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
