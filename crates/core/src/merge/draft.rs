//! A branch in the making: what it is to become differs in some records from what it is.
//!
//! Changes are made in steps. Invariant: a step that meets a page which is missing has changed nothing; it is done again once that is there.

use crate::branch::Branch;
use crate::change::{Found, entry_parts, write_entry};
use crate::key::{Key, Named};
use crate::tree::{Missing, Tree};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use tenure_model::codec::Codec;
use tenure_model::{Attr, Ino, Name, Piece, Timestamp};

/// A record: its key, and its value.
type Row = (Vec<u8>, Vec<u8>);

/// Records by their keys; none of those that are to go.
type Rows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

pub(super) struct Draft {
    /// What the branch is.
    ours: Branch,
    /// What was changed by the steps that are done.
    done: Changes,
    /// What the step changes that is under way.
    step: Changes,
}

#[derive(Default)]
struct Changes {
    rows: Rows,
    inodes: i64,
    bytes: i64,
}

impl Draft {
    pub(super) fn of(ours: Branch) -> Self {
        Self {
            ours,
            done: Changes::default(),
            step: Changes::default(),
        }
    }

    /// Begins a step; what the one before has changed counts only if it was kept.
    pub(super) fn begin(&mut self) {
        self.step = Changes::default();
    }

    /// Keeps what the step has changed.
    pub(super) fn keep(&mut self) {
        let Changes { rows, inodes, bytes } = std::mem::take(&mut self.step);
        self.done.rows.extend(rows);
        self.done.inodes += inodes;
        self.done.bytes += bytes;
    }

    fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Missing> {
        let changed = self.step.rows.get(key).or_else(|| self.done.rows.get(key));
        match changed {
            Some(value) => Ok(value.as_deref().map(read)),
            None => self.ours.tree.get(key, read),
        }
    }

    /// Returns the records between two keys.
    fn rows(&self, from: &[u8], to: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Missing> {
        let mut rows = BTreeMap::new();
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        self.ours.tree.scan(bounds.0, bounds.1, |key, value| {
            rows.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })?;
        for changes in [&self.done, &self.step] {
            for (key, value) in changes.rows.range::<[u8], _>(bounds) {
                match value {
                    Some(value) => drop(rows.insert(key.clone(), value.clone())),
                    None => drop(rows.remove(key)),
                }
            }
        }
        Ok(rows)
    }

    fn put(&mut self, key: &[u8], value: Vec<u8>) {
        self.step.rows.insert(key.to_vec(), Some(value));
    }

    fn remove(&mut self, key: &[u8]) {
        self.step.rows.insert(key.to_vec(), None);
    }

    pub(super) fn attr(&self, ino: Ino) -> Result<Option<Attr>, Missing> {
        self.get(&Key::attr(ino), |value| {
            Attr::parsed(value).expect("only valid attributes are put")
        })
    }

    pub(super) fn put_attr(&mut self, ino: Ino, attr: &Attr) {
        self.put(&Key::attr(ino), attr.written());
    }

    /// Returns what a name stands for in a directory.
    pub(super) fn find(&self, directory: Ino, name: &[u8]) -> Result<Option<Found>, Missing> {
        let cookies = self.ours.names.cookies(name);
        let (from, to) = (
            Key::entry(directory, cookies.start),
            Key::entry(directory, cookies.end),
        );
        let rows = self.rows(&from, &to)?;
        Ok(rows.iter().find_map(|(key, value)| {
            let (ino, d_type, found) = entry_parts(value).expect("only valid entries are put");
            let Some(Named::Entry(_, cookie)) = Named::parse(key) else {
                return None;
            };
            (found == name).then_some(Found { cookie, ino, d_type })
        }))
    }

    /// Gives an inode a name that is free, and counts it in the directory; tells whether there was room for it.
    pub(super) fn add_entry(
        &mut self,
        (directory, name): (Ino, &Name),
        (ino, is_directory, d_type): (Ino, bool, u8),
        time: Option<Timestamp>,
    ) -> Result<bool, Missing> {
        for cookie in self.ours.names.cookies(name.as_bytes()) {
            let key = Key::entry(directory, cookie);
            if self.get(&key, |_| ())?.is_none() {
                let mut value = Vec::new();
                write_entry(&mut value, ino, d_type, name);
                self.put(&key, value);
                self.count(directory, 1, i32::from(is_directory), time)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes an entry away, and counts that in its directory.
    pub(super) fn remove_entry(
        &mut self,
        directory: Ino,
        (cookie, is_directory): (u64, bool),
        time: Option<Timestamp>,
    ) -> Result<(), Missing> {
        self.remove(&Key::entry(directory, cookie));
        self.count(directory, -1, -i32::from(is_directory), time)
    }

    fn count(
        &mut self,
        directory: Ino,
        entries: i64,
        directories: i32,
        time: Option<Timestamp>,
    ) -> Result<(), Missing> {
        let Some(mut attr) = self.attr(directory)? else {
            return Ok(());
        };
        attr.size = attr.size.saturating_add_signed(entries);
        attr.nlink = attr.nlink.saturating_add_signed(directories);
        if let Some(time) = time {
            (attr.mtime, attr.ctime) = (time, time);
        }
        self.put_attr(directory, &attr);
        Ok(())
    }

    /// Puts all that belongs to an inode of another branch but its entries, by another number and with these attributes.
    pub(super) fn take_inode(
        &mut self,
        (branch, ino): (&Branch, Ino),
        number: Ino,
        attr: &Attr,
    ) -> Result<(), Missing> {
        for (from, to) in [about(ino), content(ino)] {
            for (mut key, value) in rows_between(&branch.tree, &from, &to)? {
                key[1..9].copy_from_slice(&number.0.to_be_bytes());
                self.put(&key, value);
            }
        }
        self.put_attr(number, attr);
        self.step.inodes += 1;
        self.step.bytes += attr.allocated as i64;
        Ok(())
    }

    /// Removes all that belongs to an inode without entries.
    pub(super) fn drop_inode(&mut self, ino: Ino) -> Result<(), Missing> {
        let Some(attr) = self.attr(ino)? else {
            return Ok(());
        };
        for (from, to) in [about(ino), content(ino)] {
            for key in self.rows(&from, &to)?.into_keys() {
                self.remove(&key);
            }
        }
        self.step.inodes -= 1;
        self.step.bytes -= attr.allocated as i64;
        Ok(())
    }

    /// Lets an inode have the content of another branch's: its extents, or where it leads. Size and bytes are counted in `attr`, which
    /// the caller puts.
    pub(super) fn take_content(
        &mut self,
        (branch, ino): (&Branch, Ino),
        (number, attr): (Ino, &mut Attr),
    ) -> Result<(), Missing> {
        let theirs = branch.attr(ino)?.unwrap_or(*attr);
        let (from, to) = content(ino);
        let mut rows = rows_between(&branch.tree, &from, &to)?;
        let target = Key::target(ino);
        if let Some(value) = branch.tree.get(&target, <[u8]>::to_vec)? {
            rows.push((target.to_vec(), value));
        }
        self.clear_content(number)?;
        for (mut key, value) in rows {
            key[1..9].copy_from_slice(&number.0.to_be_bytes());
            self.put(&key, value);
        }
        self.step.bytes += theirs.allocated as i64 - attr.allocated as i64;
        (attr.size, attr.allocated, attr.rdev) = (theirs.size, theirs.allocated, theirs.rdev);
        Ok(())
    }

    /// Lets a file have these pieces and nothing else. Size and bytes are counted in `attr`, which the caller puts.
    pub(super) fn put_content(
        &mut self,
        (number, attr): (Ino, &mut Attr),
        pieces: &[Piece],
        size: u64,
    ) -> Result<(), Missing> {
        self.clear_content(number)?;
        for piece in pieces {
            self.put(&Key::extent(number, piece.offset), piece.extent.written());
        }
        let allocated = pieces.iter().map(|piece| piece.extent.len()).sum::<u64>();
        self.step.bytes += allocated as i64 - attr.allocated as i64;
        (attr.size, attr.allocated) = (size, allocated);
        Ok(())
    }

    fn clear_content(&mut self, number: Ino) -> Result<(), Missing> {
        let (from, to) = content(number);
        for key in self.rows(&from, &to)?.into_keys() {
            self.remove(&key);
        }
        Ok(())
    }

    /// Returns an inode's extended attributes.
    pub(super) fn xattrs(&self, ino: Ino) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Missing> {
        let rows = self.rows(&Key::xattr(ino, &[]), &Key::xattrs_end(ino))?;
        let name = |key: &[u8]| match Named::parse(key) {
            Some(Named::Xattr(_, name)) => name.to_vec(),
            _ => Vec::new(),
        };
        Ok(rows.into_iter().map(|(key, value)| (name(&key), value)).collect())
    }

    pub(super) fn put_xattr(&mut self, ino: Ino, name: &[u8], value: Option<&[u8]>) {
        let key = Key::xattr(ino, name);
        match value {
            Some(value) => self.put(&key, value.to_vec()),
            None => self.remove(&key),
        }
    }

    pub(super) fn has_conflict(&self, number: Ino) -> Result<bool, Missing> {
        Ok(self.get(&Key::conflict(number), |_| ())?.is_some())
    }

    pub(super) fn put_conflict(&mut self, number: Ino, value: Option<Vec<u8>>) {
        let key = Key::conflict(number);
        self.step.rows.insert(key.to_vec(), value);
    }

    /// Makes the changes in the branch itself, as far as no page is missing.
    pub(super) fn apply(&mut self) -> Result<(), Missing> {
        while let Some((key, value)) = self.done.rows.first_key_value() {
            match value {
                Some(value) => drop(self.ours.tree.insert(key, value)?),
                None => drop(self.ours.tree.remove(key)?),
            }
            self.done.rows.pop_first();
        }
        let totals = &mut self.ours.totals;
        totals.inodes = totals
            .inodes
            .saturating_add_signed(std::mem::take(&mut self.done.inodes));
        totals.bytes = totals
            .bytes
            .saturating_add_signed(std::mem::take(&mut self.done.bytes));
        Ok(())
    }

    /// Returns what the branch has become.
    pub(super) fn into_branch(self) -> Branch {
        self.ours
    }
}

/// Between which keys an inode's attributes are, its target and its extended attributes.
fn about(ino: Ino) -> (Key, Key) {
    (Key::attr(ino), Key::xattrs_end(ino))
}

/// Between which keys its extents are.
fn content(ino: Ino) -> (Key, Key) {
    (Key::extent(ino, 0), Key::extents_end(ino))
}

fn rows_between(tree: &Tree, from: &[u8], to: &[u8]) -> Result<Vec<Row>, Missing> {
    let mut rows = Vec::new();
    tree.scan(Bound::Included(from), Bound::Excluded(to), |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}
