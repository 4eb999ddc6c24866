//! A persistent tree of byte keys to byte values: what a branch of a drive is made of, and the drive's own state.
//!
//! It is a B+tree of small pages, copied when changed and shared otherwise, so that a clone is a fork and costs nothing.
//! Pages rest in the bucket under their digest: `fold` writes those that changed, and a page is loaded when a question
//! needs it. The tree does no I/O: it says which page is [`Missing`], the caller supplies its bytes and asks again. What keys and values mean is not
//! known here.
//!
//! Invariant: whatever returns `Missing` has changed nothing.

mod bytes;
mod check;
mod cut;
mod diff;
mod edit;
mod entries;
mod evict;
mod fold;
mod lengths;
mod memory;
mod page;
mod prefix;
mod read;
mod runs;
mod slot;

pub use bytes::KNOWN_PAGE;
pub use check::{Depth, Pages};
pub use evict::Hand;
pub use memory::{Hold, Memory};
pub use page::Missing;

use edit::{Act, Step};
use entries::{Entries, PAGE_LEN_MAX};
use page::{Body, LEAF, Page};
use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use tenure_model::Address;

/// A sorted map of byte keys to byte values. A clone is a fork: it costs nothing, and neither sees what the other changes.
#[derive(Clone)]
pub struct Tree {
    root: Arc<Page>,
}

impl Tree {
    /// Returns an empty tree, with a count of its own that its forks share.
    pub fn new() -> Self {
        Self {
            root: Page::new(Body::Leaf(Entries::new(LEAF)), &Memory::new()),
        }
    }

    /// Returns the tree that a fold stored at `at`, counted in `memory` as its forks are; nothing of it is loaded yet.
    pub fn stored(at: Address, memory: &Memory) -> Self {
        Self {
            root: Page::stored(at, None, memory),
        }
    }

    /// Returns where the tree is stored; none while it is dirty.
    pub fn address(&self) -> Option<Address> {
        self.root.address().copied()
    }

    /// Tells whether something has changed since the last fold.
    pub fn is_dirty(&self) -> bool {
        self.address().is_none()
    }

    /// Returns the count that the tree's pages are under.
    pub fn memory(&self) -> &Memory {
        self.root.memory()
    }

    /// Reads the value of `key`, if there is one.
    pub fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Missing> {
        read::get(&self.root, key, read)
    }

    /// Reads the entry with the greatest key that is not greater than `key`, if there is one.
    pub fn floor<R>(&self, key: &[u8], read: impl FnOnce(&[u8], &[u8]) -> R) -> Result<Option<R>, Missing> {
        let (mut read, mut answer) = (Some(read), None);
        read::floor(&self.root, Some(key), &mut |key, value| {
            answer = read.take().map(|read| read(key, value));
        })?;
        Ok(answer)
    }

    /// Visits the entries between the bounds in order, until `visit` breaks. After a `Missing`, go on behind the last key visited.
    pub fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Missing> {
        read::scan(&self.root, (from, to), &mut Vec::new(), &mut visit).map(drop)
    }

    /// Puts `value` at `key`; tells whether there was a value before.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Missing> {
        let mut was_there = false;
        self.edit(key, &mut |entries, found| match found {
            Ok(at) => {
                was_there = true;
                replace(entries, at, value)
            }
            Err(at) if at > 0 && at == entries.len() && entries.len_with(key, value) > PAGE_LEN_MAX => {
                Step::Beyond(Entries::one(LEAF, key, value))
            }
            Err(at) => {
                entries.insert(at, key, value);
                Step::Grown(at)
            }
        })?;
        Ok(was_there)
    }

    /// Replaces the value of `key`, if there is one, by what `change` makes of it; tells whether there was one.
    pub fn update<V: AsRef<[u8]>>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&[u8]) -> V,
    ) -> Result<bool, Missing> {
        let mut change = Some(change);
        self.edit(key, &mut |entries, found| {
            let Ok(at) = found else { return Step::Kept };
            let change = change.take().expect("an edit reaches one leaf, once");
            let value = change(entries.value(at));
            replace(entries, at, value.as_ref())
        })?;
        Ok(change.is_none())
    }

    /// Removes `key`; tells whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, Missing> {
        let mut was_there = false;
        self.edit(key, &mut |entries, found| match found {
            Ok(at) => {
                was_there = true;
                entries.remove(at..at + 1);
                Step::Shrunk
            }
            Err(_) => Step::Kept,
        })?;
        Ok(was_there)
    }

    /// Removes every key in `from..to`; pages that lie wholly between are not loaded.
    pub fn remove_range(&mut self, from: &[u8], to: &[u8]) -> Result<(), Missing> {
        cut::cut(&mut self.root, (Some(from), Some(to)))
    }

    fn edit(&mut self, key: &[u8], act: &mut Act<'_>) -> Result<(), Missing> {
        edit::edit(&mut self.root, key, act)
    }

    /// Writes every page that changed since the last fold with `put`, which says where it rests, and returns where the tree rests.
    /// Pages are written in the same order for the same tree, children first. What was put before a failure stays stored.
    pub fn fold<E>(&self, put: &mut dyn FnMut(&[u8]) -> Result<Address, E>) -> Result<Address, E> {
        fold::fold(&self.root, &mut Vec::new(), put)
    }

    /// Forgets clean pages that were not read lately until `wanted` bytes are freed or no more can be; returns the bytes
    /// freed. It waits while others [hold](Memory::hold) pages.
    pub fn evict(&self, hand: &mut Hand, wanted: usize) -> usize {
        evict::evict(&self.root, hand, wanted)
    }

    /// Tells each key from `from` on whose value differs, in order: the key, its value here, its value in `after`.
    /// After a `Missing`, go on behind the last key told. Pages that both trees have are skipped unread.
    pub fn diff(
        &self,
        after: &Tree,
        from: Bound<&[u8]>,
        mut tell: impl FnMut(&[u8], Option<&[u8]>, Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<(), Missing> {
        diff::diff(&self.root, &after.root, from, &mut tell)
    }

    /// Visits the address of every stored page, children before parents. After a `Missing`, ask again with the same visitor.
    pub fn pages(&self, visitor: &mut dyn Pages) -> Result<(), Missing> {
        check::pages(&self.root, visitor)
    }

    /// Panics unless the pages in memory are a tree: order, separators, sizes, and what is dirty.
    pub fn check(&self, depth: Depth) {
        check::check(&self.root, depth);
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address() {
            Some(at) => write!(f, "Tree({at:?})"),
            None => f.write_str("Tree(dirty)"),
        }
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self::new()
    }
}

/// Puts `value` at entry `at`; the same value again is no change.
fn replace(entries: &mut Entries, at: usize, value: &[u8]) -> Step {
    let old = entries.value(at);
    if old == value {
        return Step::Kept;
    }
    let step = if value.len() < old.len() {
        Step::Shrunk
    } else {
        Step::Grown(at)
    };
    entries.replace(at, value);
    step
}
