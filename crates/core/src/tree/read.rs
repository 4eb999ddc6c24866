//! Finding entries: one key, the greatest key up to another, or a range in order.
//!
//! A page is held for reading while what is below it is read, so an evictor passes it by.

use super::entries::Entries;
use super::page::{Body, Branch, Missing, Page};
use std::ops::{Bound, ControlFlow, Range};
use std::sync::Arc;

/// Is told a key and its value, and says whether to go on.
pub(super) type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Reads the value of `key`.
pub(super) fn get<R>(
    edge: &Arc<Page>,
    key: &[u8],
    read: impl FnOnce(&[u8]) -> R,
) -> Result<Option<R>, Missing> {
    match &*edge.read()? {
        Body::Leaf(entries) => Ok(entries.find(key).ok().map(|at| read(entries.value(at)))),
        Body::Branch(branch) => get(&branch.children[branch.child_for(key)], key, read),
    }
}

/// Visits the greatest entry up to `key`, or the greatest of all; tells whether there was one.
pub(super) fn floor(
    edge: &Arc<Page>,
    key: Option<&[u8]>,
    visit: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<bool, Missing> {
    match &*edge.read()? {
        Body::Leaf(entries) => {
            let end = key.map_or(entries.len(), |key| {
                entries.find(key).map_or_else(|at| at, |at| at + 1)
            });
            if end > 0 {
                let mut key = Vec::new();
                let value = entries.read(end - 1, &mut key);
                visit(&key, value);
            }
            Ok(end > 0)
        }
        Body::Branch(branch) => {
            let at = key.map_or(branch.children.len() - 1, |key| branch.child_for(key));
            // Only a root is empty: whatever is before the child has an entry.
            Ok(floor(&branch.children[at], key, visit)?
                || at > 0 && floor(&branch.children[at - 1], None, visit)?)
        }
    }
}

/// Visits the entries between the bounds in order, until `visit` breaks. `key` is room for keys.
pub(super) fn scan(
    edge: &Arc<Page>,
    (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    key: &mut Vec<u8>,
    visit: &mut Visit<'_>,
) -> Result<ControlFlow<()>, Missing> {
    match &*edge.read()? {
        Body::Leaf(entries) => {
            for at in entries.between(from, to) {
                let value = entries.read(at, key);
                if visit(key, value).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Body::Branch(branch) => {
            let children = branch.between(from, to);
            let mut from = from;
            for at in children {
                if scan(&branch.children[at], (from, to), key, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                from = Bound::Unbounded;
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

impl Entries {
    /// Returns which entries lie between the bounds.
    pub(super) fn between(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Range<usize> {
        let first = match from {
            Bound::Unbounded => 0,
            Bound::Included(key) => self.find(key).unwrap_or_else(|at| at),
            Bound::Excluded(key) => self.find(key).map_or_else(|at| at, |at| at + 1),
        };
        let end = match to {
            Bound::Unbounded => self.len(),
            Bound::Included(key) => self.find(key).map_or_else(|at| at, |at| at + 1),
            Bound::Excluded(key) => self.find(key).unwrap_or_else(|at| at),
        };
        first..end.max(first)
    }
}

impl Branch {
    /// Returns which children may hold keys between the bounds.
    pub(super) fn between(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Range<usize> {
        let first = match from {
            Bound::Unbounded => 0,
            Bound::Included(key) | Bound::Excluded(key) => self.child_for(key),
        };
        let end = match to {
            Bound::Unbounded => self.children.len(),
            Bound::Included(key) => self.child_for(key) + 1,
            // The child that begins at the bound holds nothing below it.
            Bound::Excluded(key) => self.separators.find(key).unwrap_or_else(|at| at) + 1,
        };
        first..end.max(first)
    }
}
