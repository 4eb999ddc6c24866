//! Contents of files: read, written, made durable, and what is done to ranges.

use super::hidden::is_hidden;
use super::pending::Pending;
use super::privilege::keeps_set_ids;
use super::waiting::Waiting;
use super::{Answered, Served, answer, invalid};
use crate::kernel::{Notice, Payload, Reply, Request, SHARE_MIN, Shared, WriteFlags};
use bytes::Bytes;
use std::cell::RefCell;
use tenure_client::{Error, Seek};
use tenure_model::{Ino, Refusal};

const O_APPEND: u32 = libc::O_APPEND.cast_unsigned();
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;
const COLLAPSE_RANGE: u32 = 0x08;
const ZERO_RANGE: u32 = 0x10;
const INSERT_RANGE: u32 = 0x20;
const UNSHARE_RANGE: u32 = 0x40;

/// What can be done to a range.
const MODES: [u32; 8] = [
    0,
    UNSHARE_RANGE,
    KEEP_SIZE,
    PUNCH_HOLE | KEEP_SIZE,
    ZERO_RANGE | KEEP_SIZE,
    ZERO_RANGE,
    COLLAPSE_RANGE,
    INSERT_RANGE,
];

pub(super) const SEEK_DATA: u32 = 3;
pub(super) const SEEK_HOLE: u32 = 4;

/// The most that a COPY_FILE_RANGE with a narrow answer may say it has copied.
const NARROW_COPY_MAX: u64 = 1 << 30;

thread_local! {
    /// Bytes that a reader's thread answers READ with, so that each answer needs no new memory.
    static ANSWER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct Kept(Shared);

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the bytes of a request to keep: in the buffer that the kernel wrote them to, where that is worth it.
fn keep(data: Payload<'_>) -> Bytes {
    if data.bytes().len() >= SHARE_MIN {
        Bytes::from_owner(Kept(data.share()))
    } else {
        Bytes::copy_from_slice(data.bytes())
    }
}

/// Where something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Offset(u64),
    /// Behind the end, which the kernel believes to be there.
    End {
        believed: u64,
    },
}

impl At {
    /// Returns where the kernel asks for it. What comes out of its cache has its place, whatever handle that was written through.
    fn asked(offset: u64, flags: u32, write_flags: WriteFlags) -> Self {
        if flags & O_APPEND != 0 && !write_flags.cache {
            return At::End { believed: offset };
        }
        At::Offset(offset)
    }
}

impl Served {
    pub(super) fn read(&self, ino: Ino, offset: u64, size: u32, pending: &mut Pending) {
        ANSWER.with_borrow_mut(|bytes| {
            let size = size as usize;
            if bytes.len() < size {
                bytes.resize(size, 0);
            }
            let read = self.branch.read_into(ino, offset, &mut bytes[..size]);
            answer(pending, read, |reply, len| reply.data(&bytes[..len]));
        });
    }

    pub(super) fn write(
        &self,
        ino: Ino,
        (offset, flags, write_flags): (u64, u32, WriteFlags),
        data: Payload<'_>,
        pending: &mut Pending,
    ) {
        let at = At::asked(offset, flags, write_flags);
        let size = data.bytes().len() as u32;
        let write = || match at {
            At::Offset(offset) => self.branch.write(ino, offset, keep(data)),
            At::End { believed } => self.append(ino, believed, keep(data)),
        };
        let then = move |reply: Reply, ()| reply.written(size);
        if write_flags.kill_suidgid {
            self.change_without_set_ids(ino, pending, write, then);
        } else {
            answer(pending, write(), then);
        }
    }

    /// Writes behind a file's end. That is not where the kernel believes when the branch has become another state meanwhile, or others
    /// write to the file; where the kernel caches files, it then has the bytes where they are not.
    fn append(&self, ino: Ino, believed: u64, bytes: Bytes) -> Answered {
        let Some(end) = self.branch.append(ino, bytes)?.filter(|end| *end != believed) else {
            return Ok(());
        };
        let Some(notifier) = self.notifier.lock().clone() else {
            return Ok(());
        };
        let wrong = Notice::InvalInode {
            ino: ino.0,
            offset: end.min(believed).cast_signed(),
            length: 0,
        };
        if let Err(error) = notifier.send(wrong) {
            tracing::warn!(%ino, %error, "the kernel may show for a while what was appended at another place");
        }
        Ok(())
    }

    /// Makes a file durable with all names, and everything that is in the tree where `.tenure` is synced.
    pub(super) fn fsync(&self, ino: Ino, is_lone: bool, pending: &mut Pending) {
        if is_hidden(ino.0) {
            return self.syncfs(pending);
        }
        let Some(waiting) = pending.take().map(Waiting::new) else {
            return;
        };
        let done = Box::new(move |synced| waiting.end(synced));
        if is_lone {
            self.branch.sync_here(ino, done);
        } else {
            self.branch.sync(ino, done);
        }
    }

    pub(super) fn syncfs(&self, pending: &mut Pending) {
        let Some(waiting) = pending.take().map(Waiting::new) else {
            return;
        };
        self.branch
            .sync_all_then(Box::new(move |synced| waiting.end(synced)));
    }

    pub(super) fn fallocate(
        &self,
        request: &Request<'_>,
        (offset, len): (u64, u64),
        mode: u32,
        pending: &mut Pending,
    ) {
        let ino = Ino(request.nodeid);
        let change = || self.change_range(ino, (offset, len), mode);
        if keeps_set_ids(request) || !MODES.contains(&mode) {
            answer(pending, change(), |reply, ()| reply.ok());
        } else {
            self.change_without_set_ids(ino, pending, change, |reply, ()| reply.ok());
        }
    }

    fn change_range(&self, ino: Ino, (offset, len): (u64, u64), mode: u32) -> Answered {
        let end = offset.checked_add(len).ok_or(Error::Refused(Refusal::TooLarge))?;
        let branch = &self.branch;
        match mode {
            0 | UNSHARE_RANGE => branch.grow(ino, end),
            // Space beyond the end cannot be set aside for one file: the bucket is shared by all.
            KEEP_SIZE => branch.attr(ino).map(drop),
            mode if mode == PUNCH_HOLE | KEEP_SIZE => branch.punch(ino, offset, len),
            mode if mode == ZERO_RANGE | KEEP_SIZE => branch.punch(ino, offset, len),
            ZERO_RANGE => {
                // In this order both may be done again, where the second has to wait.
                branch.grow(ino, end)?;
                branch.punch(ino, offset, len)
            }
            COLLAPSE_RANGE => branch.collapse(ino, offset, len),
            INSERT_RANGE => branch.insert(ino, offset, len),
            _ => Err(Error::Refused(Refusal::NotSupported)),
        }
    }

    pub(super) fn lseek(&self, ino: Ino, offset: u64, whence: u32, pending: &mut Pending) {
        let to = match whence {
            SEEK_DATA => Ok(Seek::Data),
            SEEK_HOLE => Ok(Seek::Hole),
            _ => Err(invalid()),
        };
        let found = to.and_then(|to| self.branch.seek(ino, offset, to));
        answer(pending, found, |reply, offset| reply.lseek(offset));
    }

    pub(super) fn copy(
        &self,
        request: &Request<'_>,
        offset: u64,
        to: (Ino, u64),
        (len, wide): (u64, bool),
        pending: &mut Pending,
    ) {
        let len = if wide { len } else { len.min(NARROW_COPY_MAX) };
        let copy = || self.branch.copy((Ino(request.nodeid), offset), to, len);
        let then = move |reply: Reply, len: u64| {
            if wide {
                reply.copied(len);
            } else {
                reply.written(len as u32);
            }
        };
        if keeps_set_ids(request) {
            answer(pending, copy(), then);
        } else {
            self.change_without_set_ids(to.0, pending, copy, then);
        }
    }
}
