//! How many bytes the pages of one owner take, counted where pages are made, changed, loaded, evicted and dropped.
//!
//! It is a sum, not a list: it says how much there is, never which page. Every page carries the count it was made
//! under; forks, copies and loaded children inherit it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The count of bytes in pages; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    resident: AtomicUsize,
    dirty: AtomicUsize,
}

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
