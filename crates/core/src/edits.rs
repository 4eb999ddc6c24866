//! The records that a change puts and removes.
//!
//! Invariant: applied, everything is put before anything is removed. A removal may empty a page, and then a page
//! beside it takes over its keys, which nobody has read; what is put after that could miss it. A record that is
//! removed is in a page that was read, wherever its neighbours went; at most one range is removed, before all else.

use crate::tree::Tree;
use tenure_model::codec::Codec;

/// Records to put, to remove, or to remove as a range.
#[derive(Default)]
pub(crate) struct Edits {
    bytes: Vec<u8>,
    list: Vec<Edit>,
    removals: usize,
}

#[derive(Clone, Copy)]
struct Edit {
    kind: EditKind,
    start: usize,
    middle: usize,
    end: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EditKind {
    Put,
    RemoveRange,
    Remove,
}

impl Edits {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn push(&mut self, kind: EditKind, first: &[u8], second: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(first);
        let middle = self.bytes.len();
        second(&mut self.bytes);
        let end = self.bytes.len();
        self.list.push(Edit {
            kind,
            start,
            middle,
            end,
        });
    }

    /// Puts what `write` appends under `key`, instead of what was put or removed there before.
    pub(crate) fn put_with(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        if self.removals > 0
            && let Some(at) = self.list.iter().position(|edit| self.removes(*edit, key))
        {
            self.list.remove(at);
            self.removals -= 1;
        }
        self.push(EditKind::Put, key, write);
    }

    fn removes(&self, edit: Edit, key: &[u8]) -> bool {
        edit.kind == EditKind::Remove && self.parts(edit).0 == key
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        self.put_with(key, |bytes| bytes.extend_from_slice(value));
    }

    pub(crate) fn put_value(&mut self, key: &[u8], value: &impl Codec) {
        self.put_with(key, |bytes| value.write(bytes));
    }

    /// Removes a record that is there.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        self.push(EditKind::Remove, key, |_| {});
        self.removals += 1;
    }

    /// Removes every record in `from..to`; a change removes one range at most.
    pub(crate) fn remove_range(&mut self, from: &[u8], to: &[u8]) {
        debug_assert!(self.list.iter().all(|edit| edit.kind != EditKind::RemoveRange));
        self.push(EditKind::RemoveRange, from, |bytes| bytes.extend_from_slice(to));
    }

    fn parts(&self, edit: Edit) -> (&[u8], &[u8]) {
        (
            &self.bytes[edit.start..edit.middle],
            &self.bytes[edit.middle..edit.end],
        )
    }

    /// Returns what was put or removed last under `key`, if anything was.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.list.iter().rev().find_map(|edit| {
            let (first, second) = self.parts(*edit);
            match edit.kind {
                EditKind::Put if first == key => Some(Some(second)),
                EditKind::Remove if first == key => Some(None),
                EditKind::RemoveRange if first <= key && key < second => Some(None),
                EditKind::Put | EditKind::Remove | EditKind::RemoveRange => None,
            }
        })
    }

    /// Makes the change in the tree on which it was decided.
    pub(crate) fn apply(&self, tree: &mut Tree) {
        for kind in [EditKind::Put, EditKind::RemoveRange, EditKind::Remove] {
            for edit in self.list.iter().filter(|edit| edit.kind == kind) {
                let (first, second) = self.parts(*edit);
                match kind {
                    EditKind::Put => tree.insert(first, second).map(drop),
                    EditKind::RemoveRange => tree.remove_range(first, second),
                    EditKind::Remove => tree.remove(first).map(drop),
                }
                .expect("decide has read every page that its decision changes");
            }
        }
    }
}
