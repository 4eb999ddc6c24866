//! Which inodes and entries differ between two states of a branch: what whoever has caches of the one must forget before the other.
//!
//! It reads what [`Tree::diff`](crate::Tree::diff) reads, and goes on where it stood after a page was [`Missing`].

use crate::branch::Branch;
use crate::change::entry_parts;
use crate::key::Named;
use crate::tree::Missing;
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use tenure_model::Ino;

/// What differs between two states of a branch.
pub struct Altered {
    before: Branch,
    after: Branch,
    /// The last key that was told.
    last: Option<Vec<u8>>,
    inodes: BTreeSet<Ino>,
    entries: Vec<(Ino, Box<[u8]>)>,
}

impl Altered {
    /// Begins.
    pub fn new(before: Branch, after: Branch) -> Self {
        Self {
            before,
            after,
            last: None,
            inodes: BTreeSet::new(),
            entries: Vec::new(),
        }
    }

    /// Finds all that differs.
    pub fn go_on(&mut self) -> Result<(), Missing> {
        let from = self.last.clone();
        let from = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let Self {
            before,
            after,
            last,
            inodes,
            entries,
        } = self;
        before.tree.diff(&after.tree, from, |key, old, new| {
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            match Named::parse(key) {
                Some(
                    Named::Attr(ino) | Named::Target(ino) | Named::Xattr(ino, _) | Named::Extent(ino, _),
                ) => {
                    inodes.insert(ino);
                }
                Some(Named::Entry(directory, _)) => {
                    inodes.insert(directory);
                    let names = [old, new].into_iter().flatten().filter_map(|value| {
                        let (_, _, name) = entry_parts(value).ok()?;
                        Some((directory, Box::from(name)))
                    });
                    entries.extend(names);
                }
                Some(Named::Orphan(_) | Named::Conflict(_)) | None => {}
            }
            ControlFlow::Continue(())
        })
    }

    /// Returns the inodes whose attributes or content differ, and directories of which entries do.
    pub fn inodes(&self) -> &BTreeSet<Ino> {
        &self.inodes
    }

    /// Returns the entries that one has and the other has not, or has otherwise: the directory and the name.
    pub fn entries(&self) -> &[(Ino, Box<[u8]>)] {
        &self.entries
    }
}
