//! The order of records: accepted at once, durable later.
//!
//! Whoever commits takes everything that waits and writes it as one group. That is the journal's thread, or the
//! thread of a caller that needs to wait anyway: then no other thread has to be woken for it.
//! Invariant: callbacks run in the order of the records, each once; nothing behind a failed write is durable before that
//! was made again.

use super::commit::Writer;
use super::{Done, publish};
use crate::chain::Position;
use crate::epoch::Claim;
use crate::manifest::Manifest;
use crate::open::{Beginning, Opening};
use crate::replay::Segment;
use crate::room::{Preparer, Room, Sizes, planned_len};
use crate::seal::{self, Seal};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use tenure_model::limits::MESSAGE_LEN_MAX;
use tenure_model::{Epoch, Failure, Seq};
use tenure_store::{Bucket, Disk, Lock, Signal};

/// Bytes in one record: a batch arrives in one message.
pub const RECORD_LEN_MAX: usize = MESSAGE_LEN_MAX;

/// The order of a drive's records, as its owner keeps it. Shared by threads.
pub struct Order {
    pub(super) claim: Claim,
    pub(super) bucket: Arc<dyn Bucket>,
    pub(super) disk: Arc<dyn Disk>,
    sizes: Sizes,
    /// Where this epoch began.
    pub(super) began: Position,
    pub(super) queue: Mutex<Queue>,
    /// Told when something became durable, or when a committer stepped back.
    pub(super) progress: Condvar,
    /// Held by whoever commits.
    pub(super) writer: Mutex<Writer>,
    preparer: Mutex<Preparer>,
    pub(super) kept: Mutex<Kept>,
    pub(super) commit_signal: Signal,
    pub(super) prepare_signal: Signal,
}

/// What is accepted, and how far it is durable.
pub(super) struct Queue {
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) last: Seq,
    pub(super) durable: Position,
    pub(super) committing: bool,
    /// Why nothing succeeds any more.
    pub(super) stopped: Option<Failure>,
    /// Why the last write failed, if it did: what waits is tried again when somebody commits.
    pub(super) failed: Option<Failure>,
    /// Writes that have failed so far.
    pub(super) failures: u64,
    /// Set when nothing more is accepted.
    closed: bool,
    pub(super) room: Room,
}

pub(super) struct Waiting {
    pub(super) record: Vec<u8>,
    pub(super) done: Done,
}

/// What the drive still has of earlier times, until a fold makes it unnecessary.
pub(super) struct Kept {
    /// Every segment but the one in use and those after it, in order.
    pub(super) segments: Vec<Segment>,
    /// Every manifest but damaged ones, in order.
    pub(super) manifests: Vec<Seq>,
}

/// Who may use the last of the room.
#[derive(Clone, Copy)]
enum Reserve {
    Leave,
    Use,
}

impl Order {
    /// Begins where the epochs before ended; also returns the drive's lock.
    pub(super) fn new(opening: Opening, beginning: Beginning) -> (Self, Lock) {
        let Opening {
            bucket,
            disk,
            lock,
            claim,
            latest,
            sizes,
            ..
        } = opening;
        let at = beginning.at;
        let order = Self {
            began: at,
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                last: at.seq,
                durable: at,
                committing: false,
                stopped: None,
                failed: None,
                failures: 0,
                closed: false,
                room: Room::default(),
            }),
            progress: Condvar::new(),
            writer: Mutex::new(Writer::new(at)),
            preparer: Mutex::new(Preparer::new(
                disk.clone(),
                claim.drive.clone(),
                claim.epoch,
                sizes,
            )),
            kept: Mutex::new(Kept {
                segments: beginning.segments,
                manifests: latest.whole_seqs(),
            }),
            commit_signal: Signal::default(),
            prepare_signal: Signal::default(),
            claim,
            bucket,
            disk,
            sizes,
        };
        (order, lock)
    }

    /// Returns the owner's epoch.
    pub fn epoch(&self) -> Epoch {
        self.claim.epoch
    }

    /// Returns where this epoch began: behind the last record of the one before.
    pub fn began(&self) -> Position {
        self.began
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
        let planned = planned_len(bytes);
        loop {
            let left = {
                let queue = self.queue.lock();
                if queue.room.fits(planned, self.sizes.reserve) {
                    return Ok(());
                }
                queue.room.left()
            };
            self.prepare_more(planned, left)?;
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

    /// Makes a manifest durable, then deletes the segments and manifests that no recovery needs any more.
    ///
    /// It must be of this epoch, at or behind where that began, and not beyond what is durable.
    pub fn publish(&self, manifest: &Manifest) -> Result<(), Failure> {
        publish::publish(self, manifest)
    }

    /// Makes everything durable that was accepted, accepts nothing more, and seals the epoch: the next owner need not
    /// look for its end. An epoch of which a write failed is left for the next owner to seal.
    pub fn close(&self) -> Result<Position, Failure> {
        let last = {
            let mut queue = self.queue.lock();
            queue.closed = true;
            queue.last
        };
        self.commit_through(last)?;
        let end = self.durable();
        let seal = Seal {
            drive: self.claim.drive.clone(),
            epoch: self.claim.epoch,
            end,
            by: self.claim.epoch,
        };
        seal::put(&*self.bucket, &seal)?;
        let _preparing = self.preparer.lock();
        loop {
            let unused = self.queue.lock().room.advance();
            match unused {
                Some(unused) => self.disk.remove(&unused.key)?,
                None => return Ok(end),
            }
        }
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
        let planned = planned_len(record.len());
        let reserve = match reserve {
            Reserve::Leave => self.sizes.reserve,
            Reserve::Use => 0,
        };
        loop {
            let mut queue = self.queue.lock();
            queue.check_open()?;
            if queue.room.take(planned, reserve) {
                queue.last = queue.last.next();
                queue.waiting.push_back(Waiting { record, done });
                if queue.room.is_low() {
                    self.prepare_signal.raise();
                }
                return Ok((queue.last, queue.committing));
            }
            let left = queue.room.left();
            drop(queue);
            self.prepare_more(planned, left)?;
        }
    }

    /// Makes a segment before it is needed.
    pub(super) fn prepare_ahead(&self) {
        let (low, left) = {
            let queue = self.queue.lock();
            (queue.room.is_low(), queue.room.left())
        };
        if low {
            // A full disk is what the next append hears of that finds no room.
            let _ = self.prepare_more(0, left);
        }
    }

    /// Accepts nothing more, and tells everything that waits that it was not written.
    pub(super) fn abandon(&self) {
        let waiting = {
            let mut queue = self.queue.lock();
            queue.closed = true;
            std::mem::take(&mut queue.waiting)
        };
        self.commit_signal.end();
        self.prepare_signal.end();
        for waiting in waiting {
            (waiting.done)(Err(closed()));
        }
    }

    /// Makes another segment, unless somebody else did so since `left` bytes were left.
    fn prepare_more(&self, planned: u64, left: u64) -> Result<(), Failure> {
        let mut preparer = self.preparer.lock();
        {
            let queue = self.queue.lock();
            queue.check_open()?;
            if queue.room.left() > left {
                return Ok(());
            }
        }
        let prepared = preparer.prepare(planned)?;
        self.queue.lock().room.add(prepared);
        Ok(())
    }
}

impl Queue {
    /// Plans anew where what waits will lie, when so much is left in the segment in use, of how much.
    pub(super) fn plan(&mut self, free: u64, whole: u64) {
        let Self { waiting, room, .. } = self;
        room.plan(free, whole, waiting.iter().map(|waiting| waiting.record.len()));
    }

    fn check_open(&self) -> Result<(), Failure> {
        match &self.stopped {
            Some(failure) => Err(failure.clone()),
            None if self.closed => Err(closed()),
            None => Ok(()),
        }
    }
}

fn closed() -> Failure {
    Failure::DidNotHappen("the journal was closed".to_owned())
}
