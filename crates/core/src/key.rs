//! The keys of a branch's tree: grouped by inode, big-endian, with extents, orphans and conflicts under prefixes of their own.
//!
//! Invariant: keys of one inode and kind are adjacent and sort by what follows (name, cookie, offset).

use tenure_model::{Ino, limits::NAME_LEN_MAX};

const META: u8 = 0;
const CONTENT: u8 = 1;
const ORPHANS: u8 = 2;
const CONFLICTS: u8 = 3;

const ATTR: u8 = 0;
const TARGET: u8 = 1;
const XATTR: u8 = 2;
const ENTRY: u8 = 3;
const LAST: u8 = 4;

/// Longest key: prefix, inode, kind and an attribute's name.
const LEN_MAX: usize = 10 + NAME_LEN_MAX;

/// A key, without an allocation.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    len: u16,
    bytes: [u8; LEN_MAX],
}

impl Key {
    fn new(prefix: u8, ino: Ino) -> Self {
        let mut key = Key {
            len: 0,
            bytes: [0; LEN_MAX],
        };
        key.push(&[prefix]);
        key.push(&ino.0.to_be_bytes());
        key
    }

    fn push(&mut self, bytes: &[u8]) {
        let start = usize::from(self.len);
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u16;
    }

    fn meta(ino: Ino, kind: u8, suffix: &[u8]) -> Self {
        let mut key = Key::new(META, ino);
        key.push(&[kind]);
        key.push(suffix);
        key
    }

    pub(crate) fn attr(ino: Ino) -> Self {
        Key::meta(ino, ATTR, &[])
    }

    pub(crate) fn target(ino: Ino) -> Self {
        Key::meta(ino, TARGET, &[])
    }

    pub(crate) fn xattr(ino: Ino, name: &[u8]) -> Self {
        Key::meta(ino, XATTR, name)
    }

    pub(crate) fn xattrs_end(ino: Ino) -> Self {
        Key::meta(ino, ENTRY, &[])
    }

    pub(crate) fn entry(ino: Ino, cookie: u64) -> Self {
        Key::meta(ino, ENTRY, &cookie.to_be_bytes())
    }

    pub(crate) fn entries_end(ino: Ino) -> Self {
        Key::meta(ino, LAST, &[])
    }

    pub(crate) fn extent(ino: Ino, offset: u64) -> Self {
        let mut key = Key::new(CONTENT, ino);
        key.push(&offset.to_be_bytes());
        key
    }

    pub(crate) fn extents_end(ino: Ino) -> Self {
        Key::extent(ino, u64::MAX)
    }

    pub(crate) fn orphan(ino: Ino) -> Self {
        Key::new(ORPHANS, ino)
    }

    pub(crate) fn conflict(number: Ino) -> Self {
        Key::new(CONFLICTS, number)
    }
}

impl std::ops::Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// What a key of a branch's tree names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named<'a> {
    Attr(Ino),
    Target(Ino),
    Xattr(Ino, &'a [u8]),
    Entry(Ino, u64),
    Extent(Ino, u64),
    Orphan(Ino),
    Conflict(Ino),
}

impl<'a> Named<'a> {
    /// Returns what `key` names, or none when no such key is ever written.
    pub(crate) fn parse(key: &'a [u8]) -> Option<Self> {
        let (prefix, rest) = key.split_first()?;
        let (ino, rest) = rest.split_first_chunk::<8>()?;
        let ino = Ino(u64::from_be_bytes(*ino));
        let number = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
        match (*prefix, rest) {
            (META, [ATTR]) => Some(Named::Attr(ino)),
            (META, [TARGET]) => Some(Named::Target(ino)),
            (META, [XATTR, name @ ..]) => Some(Named::Xattr(ino, name)),
            (META, [ENTRY, cookie @ ..]) => Some(Named::Entry(ino, number(cookie)?)),
            (CONTENT, offset) => Some(Named::Extent(ino, number(offset)?)),
            (ORPHANS, []) => Some(Named::Orphan(ino)),
            (CONFLICTS, []) => Some(Named::Conflict(ino)),
            _ => None,
        }
    }
}
