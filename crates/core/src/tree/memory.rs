//! How many bytes the pages of one owner take, counted where pages are made, changed, loaded, evicted and dropped.
//!
//! It is a sum, not a list: it says how much there is, never which page. Every page carries the count it was made
//! under; forks, copies and loaded children inherit it. So all who share pages share it, and it is the place where one
//! of them can ask that nothing is evicted for a while.

use parking_lot::{RwLock, RwLockReadGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The count of bytes in pages; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    resident: AtomicUsize,
    dirty: AtomicUsize,
    /// Read by those who hold pages, written by who evicts one.
    gate: RwLock<()>,
}

/// While it lives, no page under the count is evicted: what was read can be read again and changed. Whoever has one
/// must not evict.
#[must_use = "pages are held only while it lives"]
#[derive(Debug)]
pub struct Hold<'a>(#[expect(dead_code, reason = "it is there to be dropped")] RwLockReadGuard<'a, ()>);

impl Memory {
    /// Returns a count of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the bytes of all pages in memory, clean and dirty.
    pub fn resident_bytes(&self) -> usize {
        self.0.resident.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the pages that a fold has not written; they cannot be evicted.
    pub fn dirty_bytes(&self) -> usize {
        self.0.dirty.load(Ordering::Relaxed)
    }

    /// Holds every page under the count; it costs next to nothing and may be nested.
    pub fn hold(&self) -> Hold<'_> {
        // Recursive: who holds already must not queue behind an evictor that waits for it.
        Hold(self.0.gate.read_recursive())
    }

    /// Runs `evict` while nobody holds pages.
    pub(super) fn while_not_held<R>(&self, evict: impl FnOnce() -> R) -> R {
        let _alone = self.0.gate.write();
        evict()
    }

    /// Counts `to` resident bytes where `from` were counted.
    pub(super) fn resident(&self, from: usize, to: usize) {
        change(&self.0.resident, from, to);
    }

    /// Counts `to` dirty bytes where `from` were counted.
    pub(super) fn dirty(&self, from: usize, to: usize) {
        change(&self.0.dirty, from, to);
    }
}

/// Adds `to - from`; a difference below zero wraps twice and comes out right.
fn change(count: &AtomicUsize, from: usize, to: usize) {
    if from != to {
        count.fetch_add(to.wrapping_sub(from), Ordering::Relaxed);
    }
}
