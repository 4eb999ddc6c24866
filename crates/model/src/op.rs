//! What may be asked of a branch. An op carries everything that is not in the tree: time, inode numbers, contents' addresses.

mod bytes;

use crate::attr::{AttrChange, Kind};
use crate::extent::Piece;
use crate::id::Ino;
use crate::name::{Name, XattrName};
use crate::time::Timestamp;

/// A change of one branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Makes an inode and an entry for it.
    Create {
        /// The directory that gets the entry.
        parent: Ino,
        /// The entry's name.
        name: Name,
        /// The number of the new inode.
        ino: Ino,
        /// What it is.
        node: NewNode,
        /// When.
        time: Timestamp,
    },
    /// Makes a regular file without an entry, as if in `parent` (`O_TMPFILE`).
    CreateUnnamed {
        /// The directory whose set-group-id and default ACL apply.
        parent: Ino,
        /// The number of the new inode.
        ino: Ino,
        /// What it is.
        node: NewNode,
        /// When.
        time: Timestamp,
    },
    /// Makes another entry for an inode that is no directory.
    Link {
        /// The inode.
        ino: Ino,
        /// The directory that gets the entry.
        parent: Ino,
        /// The entry's name.
        name: Name,
        /// When.
        time: Timestamp,
    },
    /// Removes an entry that names no directory. An inode without entries stays until it is dropped.
    Unlink {
        /// The directory.
        parent: Ino,
        /// The entry's name.
        name: Name,
        /// When.
        time: Timestamp,
    },
    /// Removes an empty directory.
    Rmdir {
        /// The directory that holds it.
        parent: Ino,
        /// The entry's name.
        name: Name,
        /// When.
        time: Timestamp,
    },
    /// Moves an entry, atomically.
    Rename {
        /// The directory that holds it.
        from: Ino,
        /// Its name there.
        name: Name,
        /// The directory that gets it.
        to: Ino,
        /// Its name there.
        new_name: Name,
        /// What happens to an entry that is there already.
        mode: RenameMode,
        /// When.
        time: Timestamp,
    },
    /// Changes attributes.
    SetAttr {
        /// The inode.
        ino: Ino,
        /// What changes.
        change: AttrChange,
        /// When: the new change time, and the modification time of a cut.
        time: Timestamp,
    },
    /// Puts contents into a file.
    Write {
        /// The file.
        ino: Ino,
        /// Where what goes, in rising order and without overlap.
        pieces: Vec<Piece>,
        /// The size that the file has at least from then on.
        size: u64,
        /// When; none where a later `SetAttr` has said it already.
        time: Option<Timestamp>,
    },
    /// Makes a hole (`FALLOC_FL_PUNCH_HOLE`); the size stays.
    Punch {
        /// The file.
        ino: Ino,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// When.
        time: Timestamp,
    },
    /// Takes a range out and moves what is behind it down (`FALLOC_FL_COLLAPSE_RANGE`).
    Collapse {
        /// The file.
        ino: Ino,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// When.
        time: Timestamp,
    },
    /// Moves what is behind `offset` up and leaves a hole (`FALLOC_FL_INSERT_RANGE`).
    Insert {
        /// The file.
        ino: Ino,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// When.
        time: Timestamp,
    },
    /// Copies a range by sharing its chunks (`copy_file_range`).
    Copy {
        /// The file that is read.
        from: Ino,
        /// First byte there.
        from_offset: u64,
        /// The file that is written.
        to: Ino,
        /// First byte there.
        to_offset: u64,
        /// Number of bytes.
        len: u64,
        /// When.
        time: Timestamp,
    },
    /// Sets an extended attribute.
    SetXattr {
        /// The inode.
        ino: Ino,
        /// The attribute's full name.
        name: XattrName,
        /// Its value.
        value: Box<[u8]>,
        /// Whether it may, must or must not be there.
        mode: XattrMode,
        /// When.
        time: Timestamp,
    },
    /// Removes an extended attribute.
    RemoveXattr {
        /// The inode.
        ino: Ino,
        /// The attribute's full name.
        name: XattrName,
        /// When.
        time: Timestamp,
    },
    /// Forgets an inode that has no entry and that nobody has open any more.
    Drop {
        /// The inode.
        ino: Ino,
    },
}

/// What a new inode is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// Its kind.
    pub kind: Kind,
    /// Permission, set-id and sticky bits as asked.
    pub mode: u32,
    /// Bits of `mode` that are taken away unless the directory has a default ACL (umask(2)).
    pub umask: u32,
    /// Owner.
    pub uid: u32,
    /// Group, unless the directory's set-group-id bit says otherwise.
    pub gid: u32,
    /// Device number of a device.
    pub rdev: u32,
    /// Target of a symlink, else empty.
    pub target: Box<[u8]>,
}

impl NewNode {
    /// Returns a plain file of root's that everybody may read.
    pub fn file() -> Self {
        Self {
            kind: Kind::File,
            mode: 0o644,
            umask: 0,
            uid: 0,
            gid: 0,
            rdev: 0,
            target: Box::default(),
        }
    }
}

/// What a rename does with what is at its goal (rename(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// An entry that is there is replaced.
    Replace,
    /// An entry that is there is a refusal.
    NoReplace,
    /// The two entries change places.
    Exchange,
    /// As `Replace`, and a whiteout (character device 0:0) with this number takes the old place.
    Whiteout(Ino),
}

/// Whether an extended attribute may be there before it is set (setxattr(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Either way.
    Set,
    /// It must not be there.
    Create,
    /// It must be there.
    Replace,
}
