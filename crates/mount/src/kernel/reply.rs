//! The answer to one request.
//!
//! A [`Reply`] can be kept and answered later, from any thread. Invariant: each request is answered exactly once; a reply
//! that is dropped answers EIO. That the kernel no longer waits (its caller was killed, the mount is gone) is no error.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::abi;
use super::channel::Channel;
use super::directory::DirectoryBuffer;
use super::flags::OpenFlags;
use super::interrupt::Arming;
use super::request::{Lock, LockKind, Time};
use super::ring::Ticket;

/// How long the kernel may answer from its cache where the daemon says when that is over.
pub const FOREVER: Duration = Duration::from_secs(1 << 31);

/// The right, and the duty, to answer one request.
#[derive(Debug)]
pub struct Reply {
    unique: u64,
    armed: bool,
    /// `None` once answered.
    line: Option<Line>,
}

/// The way back to the kernel.
#[derive(Debug)]
pub(super) enum Line {
    Device(Arc<Channel>),
    Ring(Ticket),
}

/// The attributes of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are stat(2)'s")]
pub struct Attr {
    pub ino: u64,
    pub size: u64,
    /// In units of 512 bytes.
    pub blocks: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    /// With the type's bits.
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub blksize: u32,
}

/// A name's inode, and how long the kernel may know it. A `nodeid` of 0 says that there is no such name, for `entry_ttl`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The number that later requests name the inode by; each such answer counts as one lookup until FORGET.
    pub nodeid: u64,
    /// Tells two inodes apart that have had the same `nodeid`.
    pub generation: u64,
    /// How long the name is valid.
    pub entry_ttl: Duration,
    /// How long the attributes are valid.
    pub attr_ttl: Duration,
    /// The attributes.
    pub attr: Attr,
}

/// An open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The number that requests on this open file name it by.
    pub fh: u64,
    /// What the kernel may do with it.
    pub flags: OpenFlags,
}

/// The numbers of a file system (statfs(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are statvfs(3)'s")]
pub struct Statfs {
    pub blocks: u64,
    pub bfree: u64,
    pub bavail: u64,
    pub files: u64,
    pub ffree: u64,
    pub bsize: u32,
    pub namelen: u32,
    pub frsize: u32,
}

/// The extended attributes of stat (statx(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statx {
    /// The attributes that stat has too.
    pub attr: Attr,
    /// When the inode was made, where it is known.
    pub btime: Option<Time>,
    /// `STATX_ATTR_*` bits.
    pub attributes: u64,
    /// Which of `attributes` are supported.
    pub attributes_mask: u64,
}

impl Entry {
    /// Returns the entry that says that a name does not exist.
    pub fn negative(ttl: Duration) -> Entry {
        Entry {
            entry_ttl: ttl,
            ..Entry::default()
        }
    }

    pub(super) fn to_abi(self) -> abi::EntryOut {
        abi::EntryOut {
            nodeid: self.nodeid,
            generation: self.generation,
            entry_valid: self.entry_ttl.as_secs(),
            attr_valid: self.attr_ttl.as_secs(),
            entry_valid_nsec: self.entry_ttl.subsec_nanos(),
            attr_valid_nsec: self.attr_ttl.subsec_nanos(),
            attr: self.attr.to_abi(),
        }
    }
}

impl Attr {
    fn to_abi(self) -> abi::Attr {
        abi::Attr {
            ino: self.ino,
            size: self.size,
            blocks: self.blocks,
            atime: self.atime.seconds.cast_unsigned(),
            mtime: self.mtime.seconds.cast_unsigned(),
            ctime: self.ctime.seconds.cast_unsigned(),
            atimensec: self.atime.nanoseconds,
            mtimensec: self.mtime.nanoseconds,
            ctimensec: self.ctime.nanoseconds,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            blksize: self.blksize,
            flags: 0,
        }
    }
}

impl Opened {
    fn to_abi(self) -> abi::OpenOut {
        abi::OpenOut {
            fh: self.fh,
            open_flags: self.flags.word(),
            backing_id: 0,
        }
    }
}

impl Statx {
    fn to_abi(self, ttl: Duration) -> abi::StatxOut {
        let time = |time: Time| abi::StatxTime {
            seconds: time.seconds,
            nanoseconds: time.nanoseconds,
            reserved: 0,
        };
        let known = if self.btime.is_some() {
            libc::STATX_BTIME
        } else {
            0
        };
        let attr = self.attr;
        abi::StatxOut {
            attr_valid: ttl.as_secs(),
            attr_valid_nsec: ttl.subsec_nanos(),
            mask: libc::STATX_BASIC_STATS | known,
            blksize: attr.blksize,
            attributes: self.attributes,
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            mode: attr.mode as u16,
            ino: attr.ino,
            size: attr.size,
            blocks: attr.blocks,
            attributes_mask: self.attributes_mask,
            atime: time(attr.atime),
            btime: time(self.btime.unwrap_or_default()),
            ctime: time(attr.ctime),
            mtime: time(attr.mtime),
            rdev_major: libc::major(attr.rdev.into()),
            rdev_minor: libc::minor(attr.rdev.into()),
            ..abi::StatxOut::default()
        }
    }
}

impl Reply {
    pub(super) fn new(unique: u64, line: Line) -> Reply {
        Reply {
            unique,
            armed: false,
            line: Some(line),
        }
    }

    /// Returns the number of the request.
    pub fn unique(&self) -> u64 {
        self.unique
    }

    /// Has `call` called, on a thread of this room and with no lock of it held, when the caller is interrupted before the
    /// answer; it is dropped uncalled with the answer. The request still has to be answered, with EINTR by custom.
    pub fn on_interrupt(&mut self, call: impl FnOnce() + Send + 'static) -> Arming {
        let line = self
            .line
            .as_ref()
            .expect("a reply that can be named is not answered yet");
        let arming = line.interrupts().arm(self.unique, Box::new(call));
        self.armed = arming == Arming::Armed;
        arming
    }

    /// Answers that the operation failed.
    pub fn error(self, errno: Errno) {
        self.send(Some(errno), &[]);
    }

    /// Answers success to an operation that returns nothing.
    pub fn ok(self) {
        self.send(None, &[]);
    }

    /// Answers LOOKUP, MKNOD, MKDIR, SYMLINK, LINK.
    pub fn entry(self, entry: &Entry) {
        self.send(None, &[entry.to_abi().as_bytes()]);
    }

    /// Answers GETATTR, SETATTR; the kernel may answer so itself for `ttl`.
    pub fn attr(self, attr: &Attr, ttl: Duration) {
        let attr = abi::AttrOut {
            attr_valid: ttl.as_secs(),
            attr_valid_nsec: ttl.subsec_nanos(),
            dummy: 0,
            attr: attr.to_abi(),
        };
        self.send(None, &[attr.as_bytes()]);
    }

    /// Answers READ, READLINK, GETXATTR, LISTXATTR with bytes, at most as many as were asked for.
    pub fn data(self, bytes: &[u8]) {
        self.send(None, &[bytes]);
    }

    /// Answers like [`Reply::data`] with bytes that stand in several places.
    pub fn data_vectored(self, parts: &[&[u8]]) {
        self.send(None, parts);
    }

    /// Answers READDIR, READDIRPLUS.
    pub fn directory(self, listing: &DirectoryBuffer) {
        self.send(None, &[listing.bytes()]);
    }

    /// Answers OPEN, OPENDIR.
    pub fn open(self, opened: Opened) {
        self.send(None, &[opened.to_abi().as_bytes()]);
    }

    /// Answers CREATE, TMPFILE.
    pub fn create(self, entry: &Entry, opened: Opened) {
        let create = abi::CreateOut {
            entry: entry.to_abi(),
            open: opened.to_abi(),
        };
        self.send(None, &[create.as_bytes()]);
    }

    /// Answers WRITE, and a COPY_FILE_RANGE that is not wide, with the number of bytes.
    pub fn written(self, size: u32) {
        self.send(None, &[abi::SizeOut { size, padding: 0 }.as_bytes()]);
    }

    /// Answers a wide COPY_FILE_RANGE with the number of bytes.
    pub fn copied(self, size: u64) {
        self.send(None, &[abi::WideOut { value: size }.as_bytes()]);
    }

    /// Answers STATFS.
    pub fn statfs(self, statfs: &Statfs) {
        let &Statfs {
            blocks,
            bfree,
            bavail,
            files,
            ffree,
            bsize,
            namelen,
            frsize,
        } = statfs;
        let spare = [0; 6];
        let out = abi::StatfsOut {
            blocks,
            bfree,
            bavail,
            files,
            ffree,
            bsize,
            namelen,
            frsize,
            padding: 0,
            spare,
        };
        self.send(None, &[out.as_bytes()]);
    }

    /// Answers a GETXATTR or LISTXATTR that asked for no bytes with how many there are.
    pub fn xattr_size(self, size: u32) {
        self.send(None, &[abi::SizeOut { size, padding: 0 }.as_bytes()]);
    }

    /// Answers GETLK; [`LockKind::Unlock`] says that nothing stands in the way.
    pub fn lk(self, lock: &Lock) {
        let kind = match lock.kind {
            LockKind::Read => libc::F_RDLCK,
            LockKind::Write => libc::F_WRLCK,
            LockKind::Unlock => libc::F_UNLCK,
        };
        let kind = kind.cast_unsigned();
        let out = abi::FileLock {
            start: lock.start,
            end: lock.end,
            kind,
            pid: lock.pid,
        };
        self.send(None, &[out.as_bytes()]);
    }

    /// Answers LSEEK with the offset.
    pub fn lseek(self, offset: u64) {
        self.send(None, &[abi::WideOut { value: offset }.as_bytes()]);
    }

    /// Answers STATX; the kernel may answer so itself for `ttl`.
    pub fn statx(self, statx: &Statx, ttl: Duration) {
        self.send(None, &[statx.to_abi(ttl).as_bytes()]);
    }

    /// Answers BMAP with the device's block.
    pub fn bmap(self, block: u64) {
        self.send(None, &[abi::WideOut { value: block }.as_bytes()]);
    }

    /// Answers IOCTL with its result and the bytes it gives out.
    pub fn ioctl(self, result: i32, data: &[u8]) {
        let out = abi::IoctlOut {
            result,
            flags: 0,
            in_iovs: 0,
            out_iovs: 0,
        };
        self.send(None, &[out.as_bytes(), data]);
    }

    /// Answers POLL with the events that are ready.
    pub fn poll(self, events: u32) {
        self.send(
            None,
            &[abi::PollOut {
                revents: events,
                padding: 0,
            }
            .as_bytes()],
        );
    }

    fn send(mut self, error: Option<Errno>, parts: &[&[u8]]) {
        self.answer(error, parts);
    }

    fn answer(&mut self, error: Option<Errno>, parts: &[&[u8]]) {
        let Some(line) = self.line.take() else { return };
        if self.armed {
            line.interrupts().disarm(self.unique);
        }
        line.send(self.unique, error.map(sendable), parts);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.answer(Some(Errno::IO), &[]);
    }
}

/// Returns an errno that the kernel lets through: those from 512 on are its own.
fn sendable(errno: Errno) -> Errno {
    if (1..512).contains(&errno.raw_os_error()) {
        errno
    } else {
        Errno::IO
    }
}

impl Line {
    fn interrupts(&self) -> &super::interrupt::Interrupts {
        match self {
            Line::Device(channel) => channel.interrupts(),
            Line::Ring(ticket) => ticket.interrupts(),
        }
    }

    pub(super) fn send(self, unique: u64, error: Option<Errno>, parts: &[&[u8]]) {
        let sent = match &self {
            Line::Device(channel) => channel.reply(unique, error, parts),
            Line::Ring(ticket) => ticket.send(error, parts),
        };
        self.interrupts().answered(unique);
        match sent {
            // The caller was killed, or the mount is gone: nobody waits for the answer.
            Ok(()) | Err(Errno::NOENT | Errno::NODEV | Errno::NOTCONN | Errno::CONNABORTED) => {}
            Err(errno) => tracing::warn!(unique, %errno, "the kernel refused an answer"),
        }
    }
}
