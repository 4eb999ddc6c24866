//! Inodes that have ended, because they have no entry and nobody has them open: they are dropped by the settler once no
//! more of them come, so that whoever removes many files waits for no more than their names to go.
//!
//! Invariant: what is noted here is dropped, by this session or, if that ends before, when its branch is given back.

use crate::branch::{Branch, Inner, Threads};
use crate::ship::is_not_done;
use parking_lot::Mutex;
use std::collections::VecDeque;
use tenure_model::Ino;

/// How many may wait while more come: some hundred KiB, and a few tenths of a second's work.
const MANY: usize = 1 << 16;

/// Inodes that have ended and are still there.
#[derive(Default)]
pub(crate) struct Ended(Mutex<Inos>);

#[derive(Default)]
struct Inos {
    /// Oldest first.
    inos: VecDeque<Ino>,
    /// Whether one came since somebody looked.
    has_grown: bool,
}

impl Ended {
    /// Notes one; returns how many there are.
    fn note(&self, ino: Ino) -> usize {
        let mut ended = self.0.lock();
        ended.inos.push_back(ino);
        ended.has_grown = true;
        ended.inos.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().inos.is_empty()
    }

    /// Tells whether none came since this was asked last.
    pub(crate) fn rests(&self) -> bool {
        !std::mem::take(&mut self.0.lock().has_grown)
    }

    fn take(&self) -> Option<Ino> {
        self.0.lock().inos.pop_front()
    }

    fn put_back(&self, ino: Ino) {
        self.0.lock().inos.push_front(ino);
    }
}

impl Branch {
    /// Forgets an inode that has no entry and that nobody has open any more; soon, so that the caller waits for nothing.
    pub fn drop_orphan_soon(&self, ino: Ino) {
        self.inner.note_ended(ino);
    }
}

impl Inner {
    /// Notes an inode that has ended.
    pub(crate) fn note_ended(&self, ino: Ino) {
        let count = self.ended.note(ino);
        if self.options.threads == Threads::None {
            return self.drop_ended();
        }
        if count == 1 {
            self.waiting.changed();
        }
        if count >= MANY {
            self.waiting.settle();
        }
    }

    /// Drops what has ended. What cannot be dropped now, because too much waits for the bucket, stays for another time.
    pub(crate) fn drop_ended(&self) {
        while let Some(ino) = self.ended.take() {
            match self.drop_orphan(ino) {
                Ok(()) => {}
                Err(error) if is_not_done(&error) => return self.ended.put_back(ino),
                Err(error) => {
                    tracing::debug!(%ino, %error, "an unlinked inode stays until the branch is given back");
                }
            }
        }
    }
}
