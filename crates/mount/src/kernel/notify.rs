//! What the daemon tells the kernel unasked: forget this, look that up again, here are bytes.
//!
//! The kernel may make a notification wait for requests that the daemon has yet to answer, so they are sent by a thread
//! of their own and never by the caller. Invariant: they are sent in the order in which they were given; at most
//! [`QUEUE_MAX`] of them and [`QUEUE_BYTES_MAX`] bytes wait.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::abi::{self, notify};
use super::channel::Channel;

/// How many notifications may wait: one for each inode of a large recall.
const QUEUE_MAX: usize = 1 << 16;
/// How many bytes of names and contents may wait.
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// One notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The cached attributes of an inode are wrong, and its bytes from `offset` on: `length` of them, or all where it is 0;
    /// a negative offset leaves the bytes alone. Dirty pages are written first.
    InvalInode {
        /// The inode.
        ino: u64,
        /// The first byte.
        offset: i64,
        /// How many bytes.
        length: i64,
    },
    /// A cached name is wrong; what is below it is dropped with it.
    InvalEntry {
        /// The directory.
        parent: u64,
        /// The name.
        name: Vec<u8>,
    },
    /// A cached name has to be looked up again (needs `HAS_EXPIRE_ONLY`).
    ExpireEntry {
        /// The directory.
        parent: u64,
        /// The name.
        name: Vec<u8>,
    },
    /// A name was removed: open directories and watches learn it too.
    Delete {
        /// The directory.
        parent: u64,
        /// The inode that had the name.
        child: u64,
        /// The name.
        name: Vec<u8>,
    },
    /// Bytes for the kernel's cache.
    Store {
        /// The inode.
        ino: u64,
        /// Where they belong.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// Why a notification was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// Too many wait. The caller must not block here; it may try again when a notification of its is done.
    #[error("too many notifications wait for the kernel")]
    Full,
    /// The mount is gone, and its caches with it.
    #[error("the mount is gone")]
    Ended,
}

/// Called with what the kernel said; that it held nothing of the kind is success.
type Done = Box<dyn FnOnce(Result<(), Errno>) + Send>;

/// Sends notifications; a clone sends to the same kernel.
#[derive(Clone)]
pub struct Notifier(Arc<Queue>);

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Notifier")
    }
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Notice, Option<Done>)>,
    bytes: usize,
    ended: bool,
}

impl Notice {
    fn len(&self) -> usize {
        match self {
            Notice::InvalInode { .. } => 0,
            Notice::InvalEntry { name, .. }
            | Notice::ExpireEntry { name, .. }
            | Notice::Delete { name, .. } => name.len(),
            Notice::Store { bytes, .. } => bytes.len(),
        }
    }

    fn send(&self, channel: &Channel) -> Result<(), Errno> {
        match self {
            &Notice::InvalInode {
                ino,
                offset: off,
                length: len,
            } => {
                let inode = abi::NotifyInvalInode { ino, off, len };
                channel.notify(notify::INVAL_INODE, &[inode.as_bytes()])
            }
            Notice::InvalEntry { parent, name } => inval_entry(channel, *parent, name, 0),
            Notice::ExpireEntry { parent, name } => inval_entry(channel, *parent, name, notify::EXPIRE_ONLY),
            Notice::Delete { parent, child, name } => {
                let namelen = length(name)?;
                let delete = abi::NotifyDelete {
                    parent: *parent,
                    child: *child,
                    namelen,
                    padding: 0,
                };
                channel.notify(notify::DELETE, &[delete.as_bytes(), name, b"\0"])
            }
            Notice::Store { ino, offset, bytes } => {
                let size = length(bytes)?;
                let store = abi::NotifyStore {
                    nodeid: *ino,
                    offset: *offset,
                    size,
                    padding: 0,
                };
                channel.notify(notify::STORE, &[store.as_bytes(), bytes])
            }
        }
    }
}

fn inval_entry(channel: &Channel, parent: u64, name: &[u8], flags: u32) -> Result<(), Errno> {
    let entry = abi::NotifyInvalEntry {
        parent,
        namelen: length(name)?,
        flags,
    };
    channel.notify(notify::INVAL_ENTRY, &[entry.as_bytes(), name, b"\0"])
}

fn length(bytes: &[u8]) -> Result<u32, Errno> {
    u32::try_from(bytes.len()).map_err(|_| Errno::TOOBIG)
}

impl Notifier {
    /// Starts the thread that sends to `channel`.
    pub(super) fn spawn(channel: Arc<Channel>) -> io::Result<(Notifier, JoinHandle<()>)> {
        let queue = Arc::new(Queue::default());
        let notifier = Notifier(Arc::clone(&queue));
        let thread = std::thread::Builder::new()
            .name("fuse-notify".into())
            .spawn(move || queue.send_all(&channel))?;
        Ok((notifier, thread))
    }

    /// Sends a notification some time after this returns.
    pub fn send(&self, notice: Notice) -> Result<(), NotTaken> {
        self.0.push(notice, None)
    }

    /// Sends a notification, and calls `done` on the notifier's thread when the kernel has acted on it (and on all before it).
    /// `done` is not called where this returns an error.
    pub fn send_then(
        &self,
        notice: Notice,
        done: impl FnOnce(Result<(), Errno>) + Send + 'static,
    ) -> Result<(), NotTaken> {
        self.0.push(notice, Some(Box::new(done)))
    }

    /// Ends the thread; what waits is answered with ENODEV.
    pub(super) fn end(&self) {
        self.0.state.lock().ended = true;
        self.0.filled.notify_all();
    }
}

impl Queue {
    fn push(&self, notice: Notice, done: Option<Done>) -> Result<(), NotTaken> {
        let mut state = self.state.lock();
        if state.ended {
            return Err(NotTaken::Ended);
        }
        let bytes = state.bytes + notice.len();
        if state.waiting.len() == QUEUE_MAX || bytes > QUEUE_BYTES_MAX {
            return Err(NotTaken::Full);
        }
        state.bytes = bytes;
        state.waiting.push_back((notice, done));
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    fn send_all(&self, channel: &Channel) {
        while let Some((notice, done, ended)) = self.next() {
            let result = if ended {
                Err(Errno::NODEV)
            } else {
                notice.send(channel)
            };
            let result = match result {
                Err(Errno::NOENT) => Ok(()),
                result => result,
            };
            if let Some(done) = done {
                let called = catch_unwind(AssertUnwindSafe(|| done(result)));
                if called.is_err() {
                    tracing::error!("what was to be done after a notification panicked");
                }
            }
        }
    }

    /// Waits for the next notification; returns whether the mount is gone with it, and nothing when that is so and none is left.
    fn next(&self) -> Option<(Notice, Option<Done>, bool)> {
        let mut state = self.state.lock();
        loop {
            if let Some((notice, done)) = state.waiting.pop_front() {
                state.bytes -= notice.len();
                return Some((notice, done, state.ended));
            }
            if state.ended {
                return None;
            }
            self.filled.wait(&mut state);
        }
    }
}
