//! How answers reach the thread of a queue, from whatever thread they are given.
//!
//! Only that thread may submit to its ring, so answers are left with it and it is woken where it sleeps. Invariant: an
//! answer that was left before the queue ended is committed; no answer is left in a sleeping queue without waking it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::slot::{Memory, Space};
use crate::kernel::channel::Channel;
use crate::kernel::interrupt::Interrupts;

/// The largest answer to a request with a name: CREATE's.
const INLINE: usize = 144;

/// The side of a queue that other threads see.
#[derive(Debug)]
pub(super) struct Queue {
    answers: Mutex<Vec<Answer>>,
    /// Whether the thread sleeps, or is about to, and must be woken.
    asleep: AtomicBool,
    ended: AtomicBool,
    wake: OwnedFd,
    /// Keeps the slots' memory for answers that are given when the thread is gone.
    memory: Mutex<Vec<Arc<Memory>>>,
    channel: OnceLock<Arc<Channel>>,
}

/// What is committed.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) slot: usize,
    error: i32,
    len: u32,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    /// In the slot already.
    Placed,
    Inline([u8; INLINE]),
    Heap(Box<[u8]>),
}

/// The right to answer the request in a slot.
#[derive(Debug)]
pub(in crate::kernel) struct Ticket {
    queue: Arc<Queue>,
    slot: usize,
    space: Space,
    /// Whether the request's handler may be reading the slot's payload.
    lent: bool,
}

impl Answer {
    /// Returns the answer with no bytes, or with bytes that stand in the slot.
    pub(super) fn placed(slot: usize, error: Option<Errno>, len: usize) -> Answer {
        let error = error.map_or(0, |errno| -errno.raw_os_error());
        let len = u32::try_from(len).expect("an answer fits in its slot");
        Answer {
            slot,
            error,
            len,
            bytes: Bytes::Placed,
        }
    }

    /// Returns the answer with these bytes.
    fn carried(slot: usize, parts: &[&[u8]], len: usize) -> Answer {
        let bytes = if len <= INLINE {
            let mut inline = [0; INLINE];
            let mut at = 0;
            for part in parts {
                inline[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            Bytes::Inline(inline)
        } else {
            Bytes::Heap(parts.concat().into_boxed_slice())
        };
        Answer {
            bytes,
            ..Answer::placed(slot, None, len)
        }
    }

    pub(super) fn error(&self) -> i32 {
        self.error
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the bytes that are still to be put into the slot.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::Placed => None,
            Bytes::Inline(bytes) => Some(&bytes[..self.len as usize]),
            Bytes::Heap(bytes) => Some(bytes),
        }
    }
}

impl Queue {
    pub(super) fn new() -> Result<Arc<Queue>, Errno> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Queue {
            answers: Mutex::new(Vec::new()),
            asleep: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            wake,
            memory: Mutex::new(Vec::new()),
            channel: OnceLock::new(),
        }))
    }

    /// Says which connection the queue belongs to, before its first request.
    pub(super) fn connect(&self, channel: &Arc<Channel>) {
        self.channel.get_or_init(|| Arc::clone(channel));
    }

    pub(super) fn eventfd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Takes a wake-up out of the eventfd, so that the next one counts.
    pub(super) fn woken(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    pub(super) fn keep(&self, memory: Arc<Memory>) {
        self.memory.lock().push(memory);
    }

    /// Leaves an answer to be committed.
    pub(super) fn answer(&self, answer: Answer) {
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        self.answers.lock().push(answer);
        if self.asleep.swap(false, Ordering::SeqCst) {
            // The eventfd's counter cannot run over: the thread takes it back to 0 each time.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Takes the answers that were left, into an empty list.
    pub(super) fn take_answers(&self, answers: &mut Vec<Answer>) {
        std::mem::swap(&mut *self.answers.lock(), answers);
    }

    /// Returns whether the thread may go to sleep: from now on it is woken when an answer is left.
    pub(super) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        self.answers.lock().is_empty()
    }

    /// Says that the thread looks for answers by itself.
    pub(super) fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Says that nothing is committed any more.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.answers.lock().clear();
    }
}

impl Ticket {
    pub(super) fn new(queue: &Arc<Queue>, slot: usize, space: Space, lent: bool) -> Ticket {
        Ticket {
            queue: Arc::clone(queue),
            slot,
            space,
            lent,
        }
    }

    pub(in crate::kernel) fn interrupts(&self) -> &Interrupts {
        self.queue
            .channel
            .get()
            .expect("a queue is connected before its first request")
            .interrupts()
    }

    /// Answers the request; an answer that is larger than what was asked for is refused.
    pub(in crate::kernel) fn send(&self, error: Option<Errno>, parts: &[&[u8]]) -> Result<(), Errno> {
        let len = parts.iter().map(|part| part.len()).sum();
        let (answer, result) = if error.is_some() {
            (Answer::placed(self.slot, error, 0), Ok(()))
        } else if len > self.space.size() {
            (Answer::placed(self.slot, Some(Errno::IO), 0), Err(Errno::INVAL))
        } else if self.lent {
            (Answer::carried(self.slot, parts, len), Ok(()))
        } else {
            // SAFETY: the request had no payload, so that nobody reads it; the slot is with this request until its
            // answer is left below, and the queue keeps the memory.
            unsafe { self.space.fill(parts) };
            (Answer::placed(self.slot, None, len), Ok(()))
        };
        self.queue.answer(answer);
        result
    }
}
