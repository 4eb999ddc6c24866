//! What an inode is: kind, mode, owner, size and times, as POSIX's `stat` has them.

use crate::acl;
use crate::codec::{Codec, Malformed, Reader, malformed, put_option, put_signed, put_varint};
use crate::id::Ino;
use crate::time::Timestamp;

/// Mask of the type bits in `st_mode` (`S_IFMT`, inode(7)).
pub const MODE_KIND: u32 = 0o170_000;
/// Mask of the permission, set-id and sticky bits in `st_mode`.
pub const MODE_BITS: u32 = 0o7777;
/// Set-user-id.
pub const SETUID: u32 = 0o4000;
/// Set-group-id; on a directory, new entries take its group.
pub const SETGID: u32 = 0o2000;
/// Sticky: only owners may remove entries.
pub const STICKY: u32 = 0o1000;

/// The kind of an inode; the value is its type bits in `st_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A named pipe.
    Fifo = 0o010_000,
    /// A character device.
    CharDevice = 0o020_000,
    /// A directory.
    Directory = 0o040_000,
    /// A block device.
    BlockDevice = 0o060_000,
    /// A regular file.
    File = 0o100_000,
    /// A symbolic link.
    Symlink = 0o120_000,
    /// A unix socket.
    Socket = 0o140_000,
}

impl Kind {
    /// Returns the kind that `mode`'s type bits name.
    pub fn of(mode: u32) -> Option<Self> {
        Some(match mode & MODE_KIND {
            0o010_000 => Kind::Fifo,
            0o020_000 => Kind::CharDevice,
            0o040_000 => Kind::Directory,
            0o060_000 => Kind::BlockDevice,
            0o100_000 => Kind::File,
            0o120_000 => Kind::Symlink,
            0o140_000 => Kind::Socket,
            _ => return None,
        })
    }

    /// Returns the kind as `d_type` writes it (readdir(3)).
    pub fn d_type(self) -> u8 {
        (self as u32 >> 12) as u8
    }

    /// Returns the kind that a `d_type` names.
    pub fn of_d_type(d_type: u8) -> Option<Self> {
        Self::of(u32::from(d_type) << 12)
    }
}

/// The attributes of one inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// The kind of the inode.
    pub kind: Kind,
    /// Permission, set-id and sticky bits (`MODE_BITS`).
    pub mode: u32,
    /// Number of entries that name it; for a directory 2 and one for each directory in it.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device.
    pub rdev: u32,
    /// Bytes in a file or symlink; entries in a directory.
    pub size: u64,
    /// Bytes of a file that are not holes.
    pub allocated: u64,
    /// The directory that holds a directory. Of anything else one of those that have an entry for it, or `Ino(0)` where that is
    /// not known: the entry that was made last is gone, or was made by an earlier version.
    pub parent: Ino,
    /// Which kinds of extended attributes there are.
    pub xattrs: Xattrs,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Birth.
    pub btime: Timestamp,
}

/// Which extended attributes an inode has, so that most questions need no look-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Xattrs(pub u8);

impl Xattrs {
    /// Any at all.
    pub const ANY: u8 = 1;
    /// `system.posix_acl_access`.
    pub const ACCESS_ACL: u8 = 2;
    /// `system.posix_acl_default`.
    pub const DEFAULT_ACL: u8 = 4;

    /// Every bit that means something.
    const ALL: u8 = Self::ANY | Self::ACCESS_ACL | Self::DEFAULT_ACL;

    /// Returns what an attribute of this name makes true.
    pub fn of(name: &[u8]) -> Self {
        Self(match name {
            acl::ACCESS => Self::ANY | Self::ACCESS_ACL,
            acl::DEFAULT => Self::ANY | Self::DEFAULT_ACL,
            _ => Self::ANY,
        })
    }

    /// Tells whether all of `bits` are set.
    pub fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }
}

impl Attr {
    /// Returns `st_mode`: type bits and permission bits.
    pub fn st_mode(&self) -> u32 {
        self.kind as u32 | self.mode
    }

    /// Tells whether this is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }
}

impl Codec for Timestamp {
    fn write(&self, out: &mut Vec<u8>) {
        put_signed(out, self.secs);
        put_varint(out, u64::from(self.nanos));
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let at = Self {
            secs: input.signed()?,
            nanos: input.number()?,
        };
        if at.nanos < 1_000_000_000 {
            Ok(at)
        } else {
            Err(malformed("timestamp"))
        }
    }
}

impl Codec for Attr {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.st_mode()));
        out.push(self.xattrs.0);
        for number in [self.nlink, self.uid, self.gid, self.rdev] {
            put_varint(out, u64::from(number));
        }
        put_varint(out, self.size);
        put_varint(out, self.allocated);
        put_varint(out, self.parent.0);
        for time in [self.atime, self.mtime, self.ctime, self.btime] {
            time.write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let st_mode: u32 = input.number()?;
        let kind = Kind::of(st_mode).ok_or(malformed("mode"))?;
        if st_mode & !(MODE_KIND | MODE_BITS) != 0 {
            return Err(malformed("mode"));
        }
        let xattrs = Xattrs(input.byte()?);
        if xattrs.0 & !Xattrs::ALL != 0 {
            return Err(malformed("kinds of extended attributes"));
        }
        Ok(Self {
            kind,
            mode: st_mode & MODE_BITS,
            xattrs,
            nlink: input.number()?,
            uid: input.number()?,
            gid: input.number()?,
            rdev: input.number()?,
            size: input.varint()?,
            allocated: input.varint()?,
            parent: Ino(input.varint()?),
            atime: Timestamp::read(input)?,
            mtime: Timestamp::read(input)?,
            ctime: Timestamp::read(input)?,
            btime: Timestamp::read(input)?,
        })
    }
}

/// What `setattr` changes; a missing field stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttrChange {
    /// New permission, set-id and sticky bits.
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size: the file is cut, or grows by a hole.
    pub size: Option<u64>,
    /// New access time.
    pub atime: Option<Timestamp>,
    /// New modification time.
    pub mtime: Option<Timestamp>,
}

impl Codec for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, *self);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        input.varint()
    }
}

impl Codec for u32 {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(*self));
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        input.number()
    }
}

impl Codec for AttrChange {
    fn write(&self, out: &mut Vec<u8>) {
        put_option(out, self.mode.as_ref());
        put_option(out, self.uid.as_ref());
        put_option(out, self.gid.as_ref());
        put_option(out, self.size.as_ref());
        put_option(out, self.atime.as_ref());
        put_option(out, self.mtime.as_ref());
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            mode: input.option()?,
            uid: input.option()?,
            gid: input.option()?,
            size: input.option()?,
            atime: input.option()?,
            mtime: input.option()?,
        })
    }
}
