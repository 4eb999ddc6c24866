//! The journal of an owner: records are put in order at once, and are durable later.
//!
//! Whoever commits takes everything that waits and writes it as one group. That is the journal's thread, or the
//! thread of a caller that needs to wait anyway: then no other thread has to be woken for it.
//! Invariant: callbacks run in the order of the records, each once; after a failed write nothing succeeds any more.

mod commit;
mod publish;
mod threads;

use crate::chain::Position;
use crate::epoch::Claim;
use crate::manifest::Manifest;
use crate::open::{Beginning, Opening};
use crate::replay::Segment;
use crate::room::{Preparer, Room, Sizes, planned_len};
use crate::seal::{self, Seal};
use commit::Writer;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use tenure_model::limits::MESSAGE_LEN_MAX;
use tenure_model::{Epoch, Failure, Seq};
use tenure_store::{Bucket, Disk, Lock, Signal};

/// Bytes in one record: a batch arrives in one message.
pub const RECORD_LEN_MAX: usize = MESSAGE_LEN_MAX;

/// Is told once a record is durable (with its place), or why it is not. Runs on the thread that committed,
/// in the order of the records; it must not wait for a later one.
pub type Done = Box<dyn FnOnce(Result<Position, Failure>) + Send>;

/// The journal of a drive's owner. Shared by threads.
pub struct Journal {
    claim: Claim,
    bucket: Arc<dyn Bucket>,
    disk: Arc<dyn Disk>,
    sizes: Sizes,
    /// Where this epoch began.
    began: Position,
    queue: Mutex<Queue>,
    /// Told when something became durable, or when a committer stepped back.
    progress: Condvar,
    /// Held by whoever commits.
    writer: Mutex<Writer>,
    preparer: Mutex<Preparer>,
    kept: Mutex<Kept>,
    commit_signal: Arc<Signal>,
    prepare_signal: Arc<Signal>,
    _lock: Lock,
}

/// What is accepted, and how far it is durable.
struct Queue {
    waiting: VecDeque<Waiting>,
    last: Seq,
    durable: Position,
    committing: bool,
    /// Why nothing succeeds any more.
    stopped: Option<Failure>,
    /// Set when nothing more is accepted.
    closed: bool,
    room: Room,
}

struct Waiting {
    record: Vec<u8>,
    done: Done,
}

/// What the drive still has of earlier times, until a fold makes it unnecessary.
struct Kept {
    /// Every segment but the one in use and those after it, in order.
    segments: Vec<Segment>,
    /// Every manifest but damaged ones, in order.
    manifests: Vec<Seq>,
}

/// Who may use the last of the room.
#[derive(Clone, Copy)]
enum Reserve {
    Leave,
    Use,
}

impl Journal {
    pub(crate) fn new(opening: Opening, beginning: Beginning) -> Self {
        let Opening {
            bucket,
            disk,
            lock,
            claim,
            latest,
            sizes,
        } = opening;
        let at = beginning.at;
        Self {
            began: at,
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                last: at.seq,
                durable: at,
                committing: false,
                stopped: None,
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
            commit_signal: Arc::default(),
            prepare_signal: Arc::default(),
            claim,
            bucket,
            disk,
            sizes,
            _lock: lock,
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

    /// Starts the threads that commit and that prepare segments; they end when the journal is dropped.
    pub fn start_threads(self: &Arc<Self>) -> Result<(), Failure> {
        threads::start(self)
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

impl Drop for Journal {
    fn drop(&mut self) {
        self.commit_signal.end();
        self.prepare_signal.end();
        for waiting in self.queue.get_mut().waiting.drain(..) {
            (waiting.done)(Err(closed()));
        }
    }
}
