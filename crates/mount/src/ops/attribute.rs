//! Attributes of inodes, and the numbers of the whole.

use super::pending::Pending;
use super::{Served, answer};
use crate::kernel::{self, Errno, SetTime, Setattr, Statfs, Statx, Time};
use tenure_model::{Attr, AttrChange, Ino, Kind, Timestamp};

/// What programs should read and write at once, in bytes.
const IO_SIZE: u32 = 4096;
/// `st_blocks` and `statvfs` count in these many bytes.
const BLOCK: u64 = 512;
/// Bytes that an entry of a directory is said to take.
const ENTRY_LEN: u64 = 32;
/// Inode numbers that remain, as `statvfs` tells: as many as the numbers can name, by far.
const FILES_FREE: u64 = 1 << 40;

/// Returns attributes as `stat` shows them.
pub(super) fn stat(ino: Ino, attr: &Attr) -> kernel::Attr {
    let size = if attr.is_directory() {
        attr.size * ENTRY_LEN
    } else {
        attr.size
    };
    kernel::Attr {
        ino: ino.0,
        size,
        blocks: attr.allocated.div_ceil(BLOCK),
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        mode: attr.st_mode(),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: IO_SIZE,
    }
}

pub(super) fn time(at: Timestamp) -> Time {
    Time {
        seconds: at.secs,
        nanoseconds: at.nanos,
    }
}

impl Served {
    pub(super) fn getattr(&self, ino: Ino, pending: &mut Pending) {
        answer(pending, self.branch.attr(ino), |reply, attr| {
            reply.attr(&stat(ino, &attr), self.settings.ttl)
        });
    }

    pub(super) fn statx(&self, ino: Ino, pending: &mut Pending) {
        answer(pending, self.branch.attr(ino), |reply, attr| {
            let statx = Statx {
                attr: stat(ino, &attr),
                btime: Some(time(attr.btime)),
                ..Statx::default()
            };
            reply.statx(&statx, self.settings.ttl);
        });
    }

    pub(super) fn setattr(&self, ino: Ino, setattr: &Setattr, pending: &mut Pending) {
        let set = |time: SetTime| match time {
            SetTime::Now => self.clock.now(),
            SetTime::At(at) => Timestamp {
                secs: at.seconds,
                nanos: at.nanoseconds,
            },
        };
        let change = AttrChange {
            mode: setattr.mode,
            uid: setattr.uid,
            gid: setattr.gid,
            size: setattr.size,
            atime: setattr.atime.map(set),
            mtime: setattr.mtime.map(set),
        };
        let changed = self.branch.set_attr(ino, &change).and_then(|attr| {
            if setattr.kill_suidgid {
                self.drop_set_ids(ino, attr)
            } else {
                Ok(attr)
            }
        });
        answer(pending, changed, |reply, attr| {
            reply.attr(&stat(ino, &attr), self.settings.ttl)
        });
    }

    /// Answers access(2) where the caller is root: only execution can be denied.
    pub(super) fn access(&self, ino: Ino, mask: u32, pending: &mut Pending) {
        const EXECUTE: u32 = 1;
        answer(pending, self.branch.attr(ino), |reply, attr| {
            if mask & EXECUTE != 0 && attr.kind == Kind::File && attr.mode & 0o111 == 0 {
                reply.error(Errno::ACCESS);
            } else {
                reply.ok();
            }
        });
    }

    pub(super) fn statfs(&self, pending: &mut Pending) {
        let numbers = self.branch.room().and_then(|room| {
            let totals = self.branch.totals()?;
            Ok((room, totals.inodes))
        });
        answer(pending, numbers, |reply, (room, inodes)| {
            let block = u64::from(IO_SIZE);
            reply.statfs(&Statfs {
                blocks: room.total / block,
                bfree: room.free / block,
                bavail: room.free / block,
                files: inodes + FILES_FREE,
                ffree: FILES_FREE,
                bsize: IO_SIZE,
                namelen: tenure_model::limits::NAME_LEN_MAX as u32,
                frsize: IO_SIZE,
            });
        });
    }
}
