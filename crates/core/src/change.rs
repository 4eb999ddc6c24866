//! A change in the making: reads see what the same op has already put, the tree stays untouched.

use crate::branch::{Branch, Decision, Outcome, Totals, Undecided};
use crate::key::Key;
use crate::tree::Tree;
use tenure_model::codec::{Codec, Malformed};
use tenure_model::{Attr, Ino, Name, Refusal, Timestamp, limits};

/// Records to put, remove, or remove as a range, in order.
#[derive(Default)]
pub(crate) struct Edits {
    bytes: Vec<u8>,
    list: Vec<Edit>,
}

#[derive(Clone, Copy)]
struct Edit {
    kind: EditKind,
    start: u32,
    middle: u32,
    end: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EditKind {
    Put,
    Remove,
    RemoveRange,
}

impl Edits {
    fn push(&mut self, kind: EditKind, first: &[u8], second: impl FnOnce(&mut Vec<u8>)) {
        let place = |bytes: &Vec<u8>| u32::try_from(bytes.len()).expect("an op's edits are bounded by its message");
        let start = place(&self.bytes);
        self.bytes.extend_from_slice(first);
        let middle = place(&self.bytes);
        second(&mut self.bytes);
        self.list.push(Edit { kind, start, middle, end: place(&self.bytes) });
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        self.push(EditKind::Put, key, |bytes| bytes.extend_from_slice(value));
    }

    pub(crate) fn put_value(&mut self, key: &[u8], value: &impl Codec) {
        self.push(EditKind::Put, key, |bytes| value.write(bytes));
    }

    pub(crate) fn remove(&mut self, key: &[u8]) {
        self.push(EditKind::Remove, key, |_| {});
    }

    /// Removes every key in `from..to`.
    pub(crate) fn remove_range(&mut self, from: &[u8], to: &[u8]) {
        self.push(EditKind::RemoveRange, from, |bytes| bytes.extend_from_slice(to));
    }

    fn parts(&self, edit: Edit) -> (&[u8], &[u8]) {
        let (start, middle, end) = (edit.start as usize, edit.middle as usize, edit.end as usize);
        (&self.bytes[start..middle], &self.bytes[middle..end])
    }

    /// Returns what was put or removed last under `key`, if anything was.
    fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
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

    pub(crate) fn apply(self, tree: &mut Tree) {
        for edit in &self.list {
            let (first, second) = self.parts(*edit);
            match edit.kind {
                EditKind::Put => tree.insert(first, second).map(drop),
                EditKind::Remove => tree.remove(first).map(drop),
                EditKind::RemoveRange => tree.remove_range(first, second).map(drop),
            }
            .expect("decide has read every page that its decision changes");
        }
    }
}

/// One op's change of a branch, being decided.
pub(crate) struct Change<'a> {
    pub(crate) branch: &'a Branch,
    pub(crate) edits: Edits,
    pub(crate) totals: Totals,
    attrs: Vec<(Ino, Attr)>,
    outcome: Outcome,
}

/// An entry of a directory as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) cookie: u64,
    pub(crate) ino: Ino,
    pub(crate) d_type: u8,
}

impl<'a> Change<'a> {
    pub(crate) fn new(branch: &'a Branch) -> Self {
        Change {
            branch,
            edits: Edits::default(),
            totals: branch.totals,
            attrs: Vec::with_capacity(4),
            outcome: Outcome::default(),
        }
    }

    pub(crate) fn decision(mut self) -> Decision {
        for (ino, attr) in std::mem::take(&mut self.attrs) {
            self.edits.put_value(&Key::attr(ino), &attr);
        }
        Decision { edits: self.edits, totals: self.totals, outcome: self.outcome }
    }

    /// Reads a record as this change has left it.
    pub(crate) fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Undecided> {
        // The tree is read even when the change has the answer: the page must be there when it is applied.
        match self.edits.get(key) {
            Some(value) => {
                self.branch.tree.get(key, |_| ())?;
                Ok(value.map(read))
            }
            None => Ok(self.branch.tree.get(key, read)?),
        }
    }

    pub(crate) fn attr(&self, ino: Ino) -> Result<Attr, Undecided> {
        if let Some((_, attr)) = self.attrs.iter().find(|(of, _)| *of == ino) {
            return Ok(*attr);
        }
        self.branch.attr(ino)?.ok_or(Refusal::NotFound.into())
    }

    pub(crate) fn directory(&self, ino: Ino) -> Result<Attr, Undecided> {
        let attr = self.attr(ino)?;
        if !attr.is_directory() {
            return Err(Refusal::NotDirectory.into());
        }
        // A removed directory that somebody still stands in takes no new entries.
        if attr.nlink == 0 { Err(Refusal::NotFound.into()) } else { Ok(attr) }
    }

    pub(crate) fn put_attr(&mut self, ino: Ino, attr: Attr) {
        match self.attrs.iter_mut().find(|(of, _)| *of == ino) {
            Some((_, old)) => *old = attr,
            None => self.attrs.push((ino, attr)),
        }
    }

    /// Names the inode that the caller is told about, and puts its attributes.
    pub(crate) fn answer(&mut self, ino: Ino, attr: Attr) {
        self.put_attr(ino, attr);
        self.outcome.inode = Some((ino, attr));
    }

    /// Begins an inode whose number nobody has used.
    pub(crate) fn begin(&mut self, ino: Ino, attr: Attr) -> Result<(), Undecided> {
        if ino <= Ino::ROOT || self.branch.attr(ino)?.is_some() {
            return Err(Refusal::InvalidArgument.into());
        }
        self.totals.inodes += 1;
        self.answer(ino, attr);
        Ok(())
    }

    /// Finds an entry of a directory.
    pub(crate) fn find(&self, parent: Ino, name: &Name) -> Result<Option<Found>, Undecided> {
        let base = self.branch.cookie(name);
        for cookie in base..base + limits::HASH_COLLISIONS_MAX {
            let found = self.get(&Key::entry(parent, cookie), |value| entry_named(value, name))?;
            match found {
                Some(Some((ino, d_type))) => return Ok(Some(Found { cookie, ino, d_type })),
                Some(None) => {}
                // Without any edit of this change in the way, one scan tells that the rest is empty too.
                None if self.no_entry_from(parent, cookie, base)? => return Ok(None),
                None => {}
            }
        }
        Ok(None)
    }

    fn no_entry_from(&self, parent: Ino, cookie: u64, base: u64) -> Result<bool, Undecided> {
        use std::ops::{Bound, ControlFlow};
        if !self.edits.list.is_empty() {
            return Ok(false);
        }
        let end = Key::entry(parent, base + limits::HASH_COLLISIONS_MAX);
        let mut empty = true;
        self.branch.tree.scan(
            Bound::Excluded(&*Key::entry(parent, cookie)),
            Bound::Excluded(&*end),
            |_, _| {
                empty = false;
                ControlFlow::Break(())
            },
        )?;
        Ok(empty)
    }

    /// Puts an entry that is not there yet.
    pub(crate) fn add_entry(&mut self, parent: Ino, name: &Name, ino: Ino, d_type: u8) -> Result<(), Undecided> {
        let base = self.branch.cookie(name);
        for cookie in base..base + limits::HASH_COLLISIONS_MAX {
            let key = Key::entry(parent, cookie);
            if self.get(&key, |_| ())?.is_none() {
                self.edits.push(EditKind::Put, &key, |bytes| put_entry(bytes, ino, d_type, name));
                return Ok(());
            }
        }
        Err(Refusal::NoSpace.into())
    }

    /// Lets an entry that is there name another inode.
    pub(crate) fn move_entry(&mut self, parent: Ino, name: &Name, cookie: u64, ino: Ino, d_type: u8) {
        self.edits.push(EditKind::Put, &Key::entry(parent, cookie), |bytes| put_entry(bytes, ino, d_type, name));
    }

    pub(crate) fn remove_entry(&mut self, parent: Ino, cookie: u64) {
        self.edits.remove(&Key::entry(parent, cookie));
    }

    /// Takes one entry from an inode's count; without any left it becomes an orphan.
    pub(crate) fn unlink(&mut self, ino: Ino, time: Timestamp) -> Result<(), Undecided> {
        let mut attr = self.attr(ino)?;
        attr.nlink = if attr.is_directory() { 0 } else { attr.nlink - 1 };
        attr.ctime = time;
        if attr.nlink == 0 {
            self.orphan(ino)?;
        }
        self.answer(ino, attr);
        Ok(())
    }

    /// Notes an inode that has no entry.
    pub(crate) fn orphan(&mut self, ino: Ino) -> Result<(), Undecided> {
        let key = Key::orphan(ino);
        self.get(&key, |_| ())?;
        self.edits.put(&key, &[]);
        self.outcome.orphan = Some(ino);
        Ok(())
    }

    /// Counts what a directory gained or lost, and when.
    pub(crate) fn touch_directory(
        &mut self,
        ino: Ino,
        entries: i64,
        directories: i32,
        time: Timestamp,
    ) -> Result<(), Undecided> {
        let mut attr = self.attr(ino)?;
        attr.size = attr.size.checked_add_signed(entries).expect("a directory counts its entries");
        attr.nlink = attr.nlink.checked_add_signed(directories).expect("a directory counts its directories");
        attr.mtime = time;
        attr.ctime = time;
        self.put_attr(ino, attr);
        Ok(())
    }
}

/// Appends an entry's value: inode, kind, name.
fn put_entry(bytes: &mut Vec<u8>, ino: Ino, d_type: u8, name: &Name) {
    bytes.extend_from_slice(&ino.0.to_be_bytes());
    bytes.push(d_type);
    bytes.extend_from_slice(name.as_bytes());
}

/// Takes an entry's value apart: inode, kind, name.
pub(crate) fn entry_parts(value: &[u8]) -> Result<(Ino, u8, &[u8]), Malformed> {
    let parts = value.split_first_chunk::<8>().and_then(|(ino, rest)| {
        let (d_type, name) = rest.split_first()?;
        Some((Ino(u64::from_be_bytes(*ino)), *d_type, name))
    });
    parts.ok_or(tenure_model::codec::malformed("entry"))
}

fn entry_named(value: &[u8], name: &Name) -> Option<(Ino, u8)> {
    let (ino, d_type, found) = entry_parts(value).expect("only valid entries are put");
    (found == name.as_bytes()).then_some((ino, d_type))
}
