//! POSIX access control lists as Linux stores them in `system.posix_acl_*` (acl(5); `linux/posix_acl_xattr.h`, version 2).

use crate::codec::{Malformed, malformed};

/// Name of the attribute that holds the access ACL.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the attribute that holds a directory's default ACL.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const ENTRY_LEN: usize = 8;

/// Tells whether an attribute's value is a list without lines, which says that there is no list.
pub fn has_no_lines(value: &[u8]) -> bool {
    value == VERSION.to_le_bytes()
}

/// Whom an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum Tag {
    /// The file's owner.
    UserObj = 0x01,
    /// A named user.
    User = 0x02,
    /// The file's group.
    GroupObj = 0x04,
    /// A named group.
    Group = 0x08,
    /// The most that named users and all groups may get.
    Mask = 0x10,
    /// Everybody else.
    Other = 0x20,
}

impl Tag {
    fn of(value: u16) -> Option<Self> {
        [
            Tag::UserObj,
            Tag::User,
            Tag::GroupObj,
            Tag::Group,
            Tag::Mask,
            Tag::Other,
        ]
        .into_iter()
        .find(|tag| *tag as u16 == value)
    }
}

/// One line of an ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whom it is about.
    pub tag: Tag,
    /// Read, write and execute as 4, 2 and 1.
    pub perm: u16,
    /// User or group number of a named entry, else `u32::MAX`.
    pub id: u32,
}

/// A valid access control list: sorted by tag, with owner, group and other, and a mask where a name needs one
/// (`posix_acl_valid` in the kernel's `fs/posix_acl.c`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<Entry>,
}

impl Acl {
    /// Returns the list that the attribute's value holds.
    pub fn parse(value: &[u8]) -> Result<Self, Malformed> {
        let (version, rest) = value.split_first_chunk::<4>().ok_or(malformed("ACL"))?;
        if u32::from_le_bytes(*version) != VERSION || rest.len() % ENTRY_LEN != 0 {
            return Err(malformed("ACL"));
        }
        let entries = rest
            .chunks_exact(ENTRY_LEN)
            .map(entry)
            .collect::<Result<Vec<_>, _>>()?;
        let acl = Self { entries };
        if acl.is_valid() {
            Ok(acl)
        } else {
            Err(malformed("ACL"))
        }
    }

    /// Returns the attribute's value.
    pub fn to_value(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            value.extend_from_slice(&(entry.tag as u16).to_le_bytes());
            value.extend_from_slice(&entry.perm.to_le_bytes());
            value.extend_from_slice(&entry.id.to_le_bytes());
        }
        value
    }

    /// Returns the lines, sorted by tag.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the nine permission bits of `st_mode` that say the same, as far as they can.
    pub fn mode(&self) -> u32 {
        let group = if self.find(Tag::Mask).is_some() {
            Tag::Mask
        } else {
            Tag::GroupObj
        };
        self.perm(Tag::UserObj) << 6 | self.perm(group) << 3 | self.perm(Tag::Other)
    }

    /// Tells whether the nine bits say all that the list says, so that no list is needed.
    pub fn is_mode_alone(&self) -> bool {
        self.entries.len() == 3
    }

    /// Sets what `chmod` sets: owner, mask (or group without a mask) and other.
    pub fn set_mode(&mut self, mode: u32) {
        let group = if self.find(Tag::Mask).is_some() {
            Tag::Mask
        } else {
            Tag::GroupObj
        };
        self.set(Tag::UserObj, mode >> 6);
        self.set(group, mode >> 3);
        self.set(Tag::Other, mode);
    }

    /// Narrows to `mode` as a new inode's creation does, and returns the bits that remain.
    pub fn narrow(&mut self, mode: u32) -> u32 {
        let narrowed = self.mode() & mode & 0o777;
        self.set_mode(narrowed);
        narrowed
    }

    fn is_valid(&self) -> bool {
        let count = |tag| self.entries.iter().filter(|entry| entry.tag == tag).count();
        let sorted = self.entries.is_sorted_by_key(|entry| entry.tag);
        let named = count(Tag::User) + count(Tag::Group) > 0;
        sorted
            && count(Tag::UserObj) == 1
            && count(Tag::GroupObj) == 1
            && count(Tag::Other) == 1
            && count(Tag::Mask) <= 1
            && (!named || count(Tag::Mask) == 1)
    }

    fn find(&self, tag: Tag) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.tag == tag)
    }

    fn perm(&self, tag: Tag) -> u32 {
        self.find(tag).map_or(0, |entry| u32::from(entry.perm))
    }

    fn set(&mut self, tag: Tag, perm: u32) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.tag == tag) {
            entry.perm = (perm & 7) as u16;
        }
    }
}

fn entry(bytes: &[u8]) -> Result<Entry, Malformed> {
    let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let tag = Tag::of(half(0)).ok_or(malformed("ACL tag"))?;
    let perm = half(2);
    if perm > 7 {
        return Err(malformed("ACL permission"));
    }
    let named = matches!(tag, Tag::User | Tag::Group);
    let id = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    Ok(Entry {
        tag,
        perm,
        id: if named { id } else { u32::MAX },
    })
}
