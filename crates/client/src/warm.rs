//! What is read soon is brought before: what a person names, or what was read first the last time.
//!
//! Reading it is what brings it: the owner's packs, and the cache that they are read through, keep what came. Invariant:
//! nothing of it shows in the branch.

use crate::branch::{Branch, Inner};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tenure_model::{Ino, Kind};
use tenure_wire::Error;

/// Bytes of a part of a file.
const PART_LEN: u64 = 1 << 20;
/// Parts that are noted: files of a large build's first seconds.
const NOTED_MAX: usize = 16 << 10;

/// Part of a file, by its number, or a directory as part 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Of which inode.
    pub ino: Ino,
    /// Which MiB of it.
    pub number: u64,
}

/// What is to be brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A file, or a directory with all that is below it.
    Whole(Ino),
    /// A part of a file, or a directory's entries.
    Part(Part),
}

/// How much was brought so far.
#[derive(Debug, Default)]
pub struct Brought {
    /// Files and directories that are to be read, as far as they are known.
    pub found: AtomicU64,
    /// Those that were read.
    pub done: AtomicU64,
    /// Bytes of contents that were read.
    pub bytes: AtomicU64,
}

/// Notes what is read, while somebody wants to know.
#[derive(Default)]
pub(crate) struct Noted {
    is_on: AtomicBool,
    parts: Mutex<BTreeSet<Part>>,
}

impl Noted {
    /// Notes a read of some bytes of an inode.
    pub(crate) fn note(&self, ino: Ino, offset: u64, len: usize) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let mut parts = self.parts.lock();
        let last = offset.saturating_add(len as u64).saturating_sub(1).max(offset);
        parts.extend((offset / PART_LEN..=last / PART_LEN).map(|number| Part { ino, number }));
        if parts.len() >= NOTED_MAX {
            self.is_on.store(false, Ordering::Relaxed);
        }
    }
}

impl Branch {
    /// Notes what is read from now on.
    pub fn note_reads(&self) {
        self.inner.noted.is_on.store(true, Ordering::Relaxed);
    }

    /// Returns what was read meanwhile; nothing more is noted.
    pub fn noted_reads(&self) -> BTreeSet<Part> {
        self.inner.noted.is_on.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.inner.noted.parts.lock())
    }

    /// Reads what is wanted, one after the other, and notes in `brought` how much that was. `goes_on` is asked before each
    /// read: it may wait, and ends it all by false. What is not there any more, or cannot be read, is left out.
    pub fn bring(&self, wanted: Vec<Wanted>, brought: &Brought, goes_on: &dyn Fn() -> bool) {
        brought.found.fetch_add(wanted.len() as u64, Ordering::Relaxed);
        let mut bytes = vec![0; PART_LEN as usize];
        let mut left = wanted;
        left.reverse();
        while let Some(next) = left.pop() {
            match self.inner.bring(next, &mut bytes, brought, goes_on) {
                ControlFlow::Break(()) => return,
                ControlFlow::Continue(found) => {
                    brought.found.fetch_add(found.len() as u64, Ordering::Relaxed);
                    left.extend(found.into_iter().rev());
                }
            }
            brought.done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Inner {
    /// Reads one of the things that are wanted, and returns what is below it.
    fn bring(
        &self,
        wanted: Wanted,
        into: &mut [u8],
        brought: &Brought,
        goes_on: &dyn Fn() -> bool,
    ) -> ControlFlow<(), Vec<Wanted>> {
        if !goes_on() {
            return ControlFlow::Break(());
        }
        let ino = match wanted {
            Wanted::Whole(ino) | Wanted::Part(Part { ino, .. }) => ino,
        };
        let Ok(attr) = self.read(|state| state.attr(ino)) else {
            return ControlFlow::Continue(Vec::new());
        };
        if attr.kind == Kind::Directory {
            let listed = self.listed(ino).unwrap_or_default();
            let below = listed.into_iter().map(Wanted::Whole);
            return ControlFlow::Continue(match wanted {
                Wanted::Whole(_) => below.collect(),
                Wanted::Part(_) => Vec::new(),
            });
        }
        if attr.kind != Kind::File {
            return ControlFlow::Continue(Vec::new());
        }
        let parts = match wanted {
            Wanted::Whole(_) => 0..attr.size.div_ceil(PART_LEN),
            Wanted::Part(part) => part.number..part.number.saturating_add(1),
        };
        for offset in parts.filter_map(|part| part.checked_mul(PART_LEN)) {
            if !goes_on() {
                return ControlFlow::Break(());
            }
            let read = self.read_at(ino, offset, into).unwrap_or_default();
            brought.bytes.fetch_add(read as u64, Ordering::Relaxed);
        }
        ControlFlow::Continue(Vec::new())
    }

    fn listed(&self, directory: Ino) -> Result<Vec<Ino>, Error> {
        self.read(|state| {
            let mut entries = Vec::new();
            state.branch.list(directory, 0, |entry| {
                entries.push(entry.ino);
                ControlFlow::Continue(())
            })?;
            Ok(entries)
        })
    }
}
