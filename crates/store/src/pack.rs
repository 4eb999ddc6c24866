//! Packs: objects that carry many chunks and pages, some MiB each.
//!
//! A pack is filled by a [`PackWriter`], sealed once, and never changed. [`Packs`] finds the packs of a drive by
//! number and reads from them, also from those that are being filled. Which bytes a pack has stands in
//! `docs/FORMAT.md`. Invariant: bytes that are returned were verified, by block checksum or by digest.
//!
//! On a bucket without a disk a pack is filled in memory and put as one object, when it is sealed or when somebody needs
//! its bytes durable.
//!
//! A manifest must name only sealed packs: recovery knows an open pack's chunks from the journal alone.

pub(crate) mod blocks;
mod buffer;
mod home;
pub(crate) mod index;
mod lost;
mod packs;
mod recover;
mod rewrite;
mod seal;
mod sealed;
mod thread;
mod writer;

pub use lost::{Lacking, LostName};
pub use packs::{Listing, Packs, Sizes};
pub use recover::{Missing, Recovered};
pub use writer::PackWriter;

use crate::key::{Key, number_text, parse_number};
use index::Index;
use std::sync::Arc;
use tenure_model::{Digest, DriveName, PackNumber};

/// A pack takes no more once it is this long: a cold reader gets neighbours with one range read, and
/// compaction rewrites little.
pub const PACK_LEN_TARGET: u64 = 64 << 20;

/// What a part of a pack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A piece of content.
    Chunk,
    /// A piece of a tree.
    Page,
}

/// One chunk or page of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The digest of its bytes.
    pub digest: Digest,
    /// First byte in the pack.
    pub offset: u64,
    /// Number of bytes.
    pub len: u32,
    /// What it is.
    pub kind: EntryKind,
}

/// A sealed pack's name in its drive: the number, and the beginning of its index's digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackName {
    /// The number, never used again.
    pub number: PackNumber,
    /// The first eight bytes of the index's digest.
    pub tag: [u8; 8],
}

/// What a pack became when it was sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Its name.
    pub name: PackName,
    /// Its object.
    pub key: Key,
    /// The object's length.
    pub len: u64,
    /// What it holds, by digest.
    pub entries: Vec<Entry>,
    /// Its index, so that nobody reads what was just written.
    index: Arc<Index>,
}

impl PackName {
    /// Returns the key of the pack's object.
    pub fn key(&self, drive: &DriveName) -> Key {
        Key::in_drive(drive, &["packs", &self.file_name()])
    }

    /// Returns the last component of that key.
    pub(crate) fn file_name(&self) -> String {
        let tag = u64::from_be_bytes(self.tag);
        format!("{}.{tag:016x}", number_text(self.number.0))
    }

    /// Returns the name that the last component of a key is, if it is one.
    pub fn parse(file_name: &str) -> Option<Self> {
        let (number, tag) = file_name.split_once('.')?;
        let name = Self {
            number: PackNumber(parse_number(number)?),
            tag: u64::from_str_radix(tag, 16).ok()?.to_be_bytes(),
        };
        // Only one way to write a name is a name.
        (tag.len() == 16 && !tag.contains(|digit: char| digit.is_ascii_uppercase() || digit == '+'))
            .then_some(name)
    }
}

/// Returns the key of a pack that is being filled.
pub fn open_key(drive: &DriveName, number: PackNumber) -> Key {
    Key::in_drive(drive, &["packs", &format!("{}.{OPEN}", number_text(number.0))])
}

/// What stands behind the number of a pack that is being filled.
const OPEN: &str = "open";
