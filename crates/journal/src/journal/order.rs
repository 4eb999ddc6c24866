//! The order of records: accepted at once, durable later.
//!
//! Whoever commits takes everything that waits and sends it as one group. That is the journal's thread, or the
//! thread of a caller that needs to wait anyway: then no other thread has to be woken for it.
//! Invariant: callbacks run in the order of the records, each once; nothing behind a failed write is told before that
//! was made again.

use super::queue::{Queue, Waiting, closed};
use super::{Beginning, Done, publish};
use crate::chain::Position;
use crate::epoch::Claim;
use crate::manifest::Manifest;
use crate::tier::{Keeping, Reserve};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::limits::MESSAGE_LEN_MAX;
use tenure_model::{Address, Epoch, Failure, Seq};
use tenure_store::{Bucket, Signal};

/// Bytes in one record: a batch arrives in one message.
pub const RECORD_LEN_MAX: usize = MESSAGE_LEN_MAX;

/// The order of a drive's records, as its owner keeps it. Shared by threads.
pub struct Order {
    pub(super) claim: Claim,
    pub(super) bucket: Arc<dyn Bucket>,
    pub(super) tier: Box<dyn Keeping>,
    /// Where this epoch began.
    pub(super) began: Position,
    sealed_since: Option<Duration>,
    pub(super) queue: Mutex<Queue>,
    /// Held by whoever makes a group of what waits.
    pub(super) forming: Mutex<()>,
    /// Every manifest but damaged ones, in order.
    pub(super) manifests: Mutex<Vec<Seq>>,
    pub(super) commit_signal: Signal,
}

impl Order {
    pub(super) fn new(bucket: Arc<dyn Bucket>, tier: Box<dyn Keeping>, beginning: Beginning) -> Self {
        Self {
            claim: beginning.claim,
            bucket,
            tier,
            began: beginning.at,
            sealed_since: beginning.sealed_since,
            queue: Mutex::new(Queue::new(beginning.at)),
            forming: Mutex::default(),
            manifests: Mutex::new(beginning.manifests),
            commit_signal: Signal::default(),
        }
    }

    /// Returns the owner's epoch.
    pub fn epoch(&self) -> Epoch {
        self.claim.epoch
    }

    /// Returns where this epoch began: behind the last record of the one before.
    pub fn began(&self) -> Position {
        self.began
    }

    /// Returns since when, by the owner's clock, no owner before this one can prove itself any more. Until its time is over from
    /// then on, it may still answer; this one answers nothing before. None when there is nobody to be waited for.
    pub fn sealed_since(&self) -> Option<Duration> {
        self.sealed_since
    }

    /// Returns how long ago, by the owner's clock, it was certain that this epoch went on: when the last record was sent that
    /// is durable, or the last look that was good. Zero where a lock keeps others away.
    pub fn proof_age(&self) -> Duration {
        self.tier.proof_age()
    }

    /// Puts a record in order without waking a committer: `commit_through` or the next `append` commits it.
    /// A failure means that it was not accepted.
    pub fn enqueue(&self, record: Vec<u8>, done: Done) -> Result<Seq, Failure> {
        self.accept(record, done, Reserve::Leave).map(|(seq, _)| seq)
    }

    /// Puts a record in order and has the journal's thread commit it. A failure means that it was not accepted.
    pub fn append(&self, record: Vec<u8>, done: Done) -> Result<Seq, Failure> {
        self.accept_and_wake(record, done, Reserve::Leave)
    }

    /// As `append`, for records that free space: may use the last of the room, kept for them.
    pub fn append_from_reserve(&self, record: Vec<u8>, done: Done) -> Result<Seq, Failure> {
        self.accept_and_wake(record, done, Reserve::Use)
    }

    /// Has the journal's thread commit what was enqueued, unless as many commit already as may: one of them finds it.
    pub fn commit_soon(&self) {
        if self.queue.lock().committers < self.tier.sends_max() {
            self.commit_signal.raise();
        }
    }

    /// Puts a record in order and returns its place when it is durable, without a hand-over to another thread.
    pub fn append_now(&self, record: Vec<u8>) -> Result<Position, Failure> {
        let place = Arc::new(Mutex::new(None));
        let told = place.clone();
        let done = Box::new(move |outcome| *told.lock() = Some(outcome));
        let seq = self.enqueue(record, done)?;
        let committed = self.commit_through(seq);
        let outcome = place.lock().take();
        match (outcome, committed) {
            (Some(outcome), _) => outcome,
            (None, Err(failure)) => Err(failure),
            (None, Ok(())) => unreachable!("the callback of a record that is durable has run"),
        }
    }

    /// Makes sure that a record of so many bytes has room; `Failure::NoSpace` when it has not.
    pub fn reserve(&self, bytes: usize) -> Result<(), Failure> {
        loop {
            let Err(lack) = self.tier.has_room(bytes) else {
                return Ok(());
            };
            self.queue.lock().check_open()?;
            self.tier.make_room(bytes, lack)?;
        }
    }

    /// Returns the last record that is durable; its callback has run.
    pub fn durable(&self) -> Position {
        self.queue.lock().durable
    }

    /// Tells whether nothing succeeds any more: it must be opened again.
    pub fn has_stopped(&self) -> bool {
        self.queue.lock().stopped.is_some()
    }

    /// Returns the last record that was put in order.
    pub fn last(&self) -> Seq {
        self.queue.lock().last
    }

    /// Returns how many segments this owner has begun which a later one reads one by one: on the bucket tier each costs it a
    /// request. 0 on the folder tier.
    pub fn segments(&self) -> u64 {
        self.tier.segments()
    }

    /// Draws up the manifest of the state at a place in the order.
    pub fn manifest(&self, at: Position, root: Option<Address>, state: Vec<u8>) -> Manifest {
        Manifest {
            drive: self.claim.drive.clone(),
            epoch: self.claim.epoch,
            at,
            tier: self.tier.kind(),
            segment: self.tier.segment_of(at.seq),
            root,
            state,
        }
    }

    /// Returns the record that the older of the two manifests follows that are kept: no recovery begins before it. None while there are
    /// fewer.
    pub fn reached(&self) -> Option<Seq> {
        publish::reached(self)
    }

    /// Deletes what else there is of manifests up to the newest: damaged ones, and what an owner before, which was deposed and did not
    /// know, has put since this one has looked.
    pub fn remove_others(&self) -> Result<(), Failure> {
        publish::remove_others(self)
    }

    /// Makes a manifest durable, then deletes the segments and manifests that no recovery needs any more.
    ///
    /// It must be of this epoch, at or behind where that began, and not beyond what is durable.
    pub fn publish(&self, manifest: &Manifest) -> Result<(), Failure> {
        publish::publish(self, manifest)
    }

    /// Makes everything durable that was accepted, accepts nothing more, and seals the epoch: the next owner need not
    /// look for its end, nor wait for anything. An epoch of which a write failed is left for the next owner to seal.
    ///
    /// Whoever calls this answers nothing any more. On the bucket tier an owner that still waits for the one before drops the
    /// journal instead, so that the next one waits.
    pub fn close(&self) -> Result<Position, Failure> {
        let last = {
            let mut queue = self.queue.lock();
            queue.close();
            queue.last
        };
        self.commit_through(last)?;
        let end = self.durable();
        self.tier.seal(end)?;
        Ok(end)
    }

    fn accept_and_wake(&self, record: Vec<u8>, done: Done, reserve: Reserve) -> Result<Seq, Failure> {
        let (seq, committing) = self.accept(record, done, reserve)?;
        // Whoever commits now finds it, or wakes the thread when it stops.
        if !committing {
            self.commit_signal.raise();
        }
        Ok(seq)
    }

    /// Puts a record in order; tells whether somebody commits at the moment.
    fn accept(&self, record: Vec<u8>, done: Done, reserve: Reserve) -> Result<(Seq, bool), Failure> {
        if !(1..=RECORD_LEN_MAX).contains(&record.len()) {
            return Err(Failure::DidNotHappen(format!(
                "a record of {} bytes is not 1 to {RECORD_LEN_MAX} bytes long",
                record.len()
            )));
        }
        loop {
            let mut queue = self.queue.lock();
            queue.check_open()?;
            let Err(lack) = self.tier.take_room(record.len(), reserve) else {
                let seq = queue.push(Waiting { record, done });
                return Ok((seq, queue.committers > 0));
            };
            drop(queue);
            self.tier.make_room(record.len(), lack)?;
        }
    }

    /// Accepts nothing more, and tells everything that waits that it was not written.
    pub(super) fn abandon(&self) {
        let waiting = {
            let mut queue = self.queue.lock();
            queue.close();
            queue.take_untold()
        };
        self.commit_signal.end();
        // Under the lock, so that nobody begins to wait who has not heard of it.
        self.queue.lock().wake(false);
        if let Some(signal) = self.tier.ahead_signal() {
            signal.end();
        }
        for waiting in waiting {
            (waiting.done)(Err(closed()));
        }
    }
}
