//! What the kernel asks: one closed list of operations, borrowed from the buffer that they were read into.
//!
//! Says what was asked and by whom; `decode` makes these of bytes, `reply` answers them. Names are bytes as the
//! kernel sent them. Invariant: a [`Request`] exists only for a message whose parts all have the sizes that the protocol
//! gives them.

mod body;
mod decode;

pub(super) use body::{Body, head};
pub(super) use decode::{Init, Malformed, Message, decode};

use super::payload::Payload;

/// One request of the kernel that a file system answers.
#[derive(Debug)]
pub struct Request<'a> {
    /// The number that the answer carries; never used twice in a mount.
    pub unique: u64,
    /// The inode that the request is about (the directory, for a request with a name).
    pub nodeid: u64,
    /// The caller's user for permission checks.
    pub uid: u32,
    /// The caller's group for permission checks.
    pub gid: u32,
    /// The calling thread; 0 where the kernel asks for itself or the caller lives in another pid namespace.
    pub pid: u32,
    /// The directory's group when the caller is in it as a supplementary group (`FUSE_CREATE_SUPP_GROUP` only).
    pub supplementary_group: Option<u32>,
    /// Whether the caller has been the only one for a while: it alone waits for the thread that handles this, which may
    /// therefore wait for a disk. Others who call meanwhile are answered by other threads, after a moment.
    pub is_lone: bool,
    /// What is asked.
    pub operation: Operation<'a>,
}

/// What a request asks for.
#[derive(Debug)]
#[expect(
    missing_docs,
    reason = "the fields are the arguments of the system call that each variant names"
)]
pub enum Operation<'a> {
    /// Finds a name in a directory.
    Lookup { name: &'a [u8] },
    /// Returns the attributes of an inode.
    Getattr { fh: Option<u64> },
    /// Changes attributes: chmod, chown, truncate, utimensat.
    Setattr(Setattr),
    /// Returns a symbolic link's target.
    Readlink,
    /// Makes a symbolic link.
    Symlink { name: &'a [u8], target: &'a [u8] },
    /// Makes a file, device, fifo or socket; `mode` carries the type, and is not masked where `DONT_MASK` was agreed on.
    Mknod {
        name: &'a [u8],
        mode: u32,
        rdev: u32,
        umask: u32,
    },
    /// Makes a directory.
    Mkdir { name: &'a [u8], mode: u32, umask: u32 },
    /// Makes and opens a file without a name.
    Tmpfile { flags: u32, mode: u32, umask: u32 },
    /// Removes a name that is not a directory's.
    Unlink { name: &'a [u8] },
    /// Removes an empty directory.
    Rmdir { name: &'a [u8] },
    /// Moves a name; `flags` are renameat2's.
    Rename {
        name: &'a [u8],
        new_parent: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    /// Gives the inode `ino` another name in the directory that the request is about.
    Link { ino: u64, name: &'a [u8] },
    /// Opens a file; `kill_suidgid` is set for an O_TRUNC that must clear suid and sgid.
    Open { flags: u32, kill_suidgid: bool },
    /// Makes a file and opens it.
    Create {
        name: &'a [u8],
        flags: u32,
        mode: u32,
        umask: u32,
        kill_suidgid: bool,
    },
    /// Reads bytes; answered with at most `size` of them.
    Read {
        fh: u64,
        offset: u64,
        size: u32,
        flags: u32,
        lock_owner: Option<u64>,
    },
    /// Writes bytes.
    Write {
        fh: u64,
        offset: u64,
        data: Payload<'a>,
        write_flags: WriteFlags,
        flags: u32,
        lock_owner: Option<u64>,
    },
    /// Returns the numbers of the file system.
    Statfs,
    /// Says that a descriptor was closed (once for each close).
    Flush { fh: u64, lock_owner: u64 },
    /// Says that an open file is gone (once for each open).
    Release {
        fh: u64,
        flags: u32,
        flush: bool,
        flock_unlock: bool,
        lock_owner: u64,
    },
    /// Makes a file durable.
    Fsync { fh: u64, datasync: bool },
    /// Opens a directory.
    Opendir { flags: u32 },
    /// Lists a directory from `offset` on, into at most `size` bytes.
    Readdir { fh: u64, offset: u64, size: u32 },
    /// Lists a directory with a lookup of every entry.
    Readdirplus { fh: u64, offset: u64, size: u32 },
    /// Says that an open directory is gone.
    Releasedir { fh: u64, flags: u32 },
    /// Makes a directory durable.
    Fsyncdir { fh: u64, datasync: bool },
    /// Sets an extended attribute; `acl_kill_sgid` is set where setting an ACL must clear sgid.
    Setxattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
        acl_kill_sgid: bool,
    },
    /// Returns an extended attribute, or its size where `size` is 0.
    Getxattr { name: &'a [u8], size: u32 },
    /// Returns the names of the extended attributes, each ended by a NUL, or their size where `size` is 0.
    Listxattr { size: u32 },
    /// Removes an extended attribute.
    Removexattr { name: &'a [u8] },
    /// Checks access(2); not asked with `default_permissions`.
    Access { mask: u32 },
    /// Returns a lock that stands in the way of `lock`.
    Getlk { fh: u64, lock: Lock },
    /// Takes or gives back a lock; with `wait` the answer comes when it is had, or EINTR.
    Setlk { fh: u64, lock: Lock, wait: bool },
    /// Allocates, punches, zeroes or collapses a range; `mode` is fallocate(2)'s.
    Fallocate {
        fh: u64,
        offset: u64,
        length: u64,
        mode: u32,
    },
    /// Finds data or a hole.
    Lseek { fh: u64, offset: u64, whence: u32 },
    /// Copies a range from this inode; the answer's count is 32 bits wide unless `wide`.
    CopyFileRange {
        fh: u64,
        offset: u64,
        to: u64,
        to_fh: u64,
        to_offset: u64,
        length: u64,
        flags: u64,
        wide: bool,
    },
    /// Returns extended attributes of stat.
    Statx { fh: Option<u64>, flags: u32, mask: u32 },
    /// Makes the whole file system durable.
    Syncfs,
    /// Runs an ioctl; answered with at most `out_size` bytes.
    Ioctl {
        fh: u64,
        flags: u32,
        command: u32,
        argument: u64,
        data: &'a [u8],
        out_size: u32,
    },
    /// Asks which events are ready; `wakeup` is what a poll notification names.
    Poll {
        fh: u64,
        wakeup: u64,
        flags: u32,
        events: u32,
    },
    /// Maps a file's block to a device's (`fuseblk` only).
    Bmap { block: u64, blocksize: u32 },
    /// The file system is being unmounted and the kernel waits for the answer (`fuseblk` only).
    Destroy,
    /// A request that this code does not know; answer ENOSYS.
    Unknown { opcode: u32 },
}

/// What SETATTR changes; `None` is left as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setattr {
    /// The new mode (permission bits, with the type's bits as they are).
    pub mode: Option<u32>,
    /// The new owner.
    pub uid: Option<u32>,
    /// The new group.
    pub gid: Option<u32>,
    /// The new size.
    pub size: Option<u64>,
    /// The new access time.
    pub atime: Option<SetTime>,
    /// The new modification time.
    pub mtime: Option<SetTime>,
    /// The new change time, sent only by a write-back cache.
    pub ctime: Option<Time>,
    /// The handle of the open file that ftruncate or futimens was called on.
    pub fh: Option<u64>,
    /// The owner of POSIX locks, where the kernel names one.
    pub lock_owner: Option<u64>,
    /// Whether suid and sgid must be cleared with the change (`HANDLE_KILLPRIV_V2`).
    pub kill_suidgid: bool,
}

/// The time that SETATTR sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time of the file system's clock.
    Now,
    /// This time.
    At(Time),
}

/// A time since 1970 (negative before it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// Nanoseconds from there on, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// How a WRITE came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteFlags {
    /// Dirty pages of the kernel's cache: who wrote them is not known, and the handle is a guess.
    pub cache: bool,
    /// suid and sgid must be cleared with the write (`HANDLE_KILLPRIV_V2`).
    pub kill_suidgid: bool,
}

/// A POSIX (fcntl) or BSD (flock) lock of a byte range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Who holds it: an opaque number of the kernel, the same for all requests of one holder.
    pub owner: u64,
    /// The first byte.
    pub start: u64,
    /// The last byte; `i64::MAX` for "to the end of the file".
    pub end: u64,
    /// Which lock.
    pub kind: LockKind,
    /// The process, for F_GETLK.
    pub pid: u32,
    /// Whether it is flock's and not fcntl's; the two do not see each other.
    pub flock: bool,
}

/// What a lock allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
    /// None: gives the range back; in an answer, says that nothing stands in the way.
    Unlock,
}
