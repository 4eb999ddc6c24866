//! Contents of files: read, written, made durable, and what is done to ranges.

use super::waiting::Waiting;
use super::{Answered, Served, answer, errno, invalid};
use crate::kernel::{Payload, Reply, SHARE_MIN, Shared};
use bytes::Bytes;
use std::cell::RefCell;
use tenure_client::{Error, Seek};
use tenure_model::{Ino, Refusal};

const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;
const COLLAPSE_RANGE: u32 = 0x08;
const ZERO_RANGE: u32 = 0x10;
const INSERT_RANGE: u32 = 0x20;
const UNSHARE_RANGE: u32 = 0x40;

const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

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

impl Served {
    pub(super) fn read(&self, ino: Ino, offset: u64, size: u32, reply: Reply) {
        ANSWER.with_borrow_mut(|bytes| {
            bytes.clear();
            let read = self.branch.read(ino, offset, size as usize, bytes);
            answer(reply, read, |reply, ()| reply.data(bytes));
        });
    }

    pub(super) fn write(&self, ino: Ino, offset: u64, data: Payload<'_>, kill_suidgid: bool, reply: Reply) {
        let size = data.bytes().len() as u32;
        let bytes = keep(data);
        if !self.branch.is_stage_full() {
            let written = self.write_bytes(ino, offset, bytes, kill_suidgid);
            return answer(reply, written, |reply, ()| reply.written(size));
        }
        // The bucket is slower than the writer, who waits elsewhere, and not for ever.
        let (waiting, myself) = (Waiting::new(reply), self.myself.clone());
        self.pool.run(move || {
            if let Some(served) = myself.upgrade() {
                let written = served.write_bytes(ino, offset, bytes, kill_suidgid);
                waiting.end_with(written, |reply, ()| reply.written(size));
            }
        });
    }

    fn write_bytes(&self, ino: Ino, offset: u64, bytes: Bytes, kill_suidgid: bool) -> Answered {
        self.branch.write(ino, offset, bytes)?;
        if kill_suidgid {
            self.drop_set_ids(ino, self.branch.attr(ino)?).map(drop)
        } else {
            Ok(())
        }
    }

    /// Makes a file durable with all names; an fsync of the root makes everything durable, which `sync` cannot ask for.
    pub(super) fn fsync(&self, ino: Ino, reply: Reply) {
        if ino == Ino::ROOT {
            return self.syncfs(reply);
        }
        let waiting = Waiting::new(reply);
        self.branch.sync(ino, Box::new(move |synced| waiting.end(synced)));
    }

    pub(super) fn syncfs(&self, reply: Reply) {
        let waiting = Waiting::new(reply);
        self.branch
            .sync_all_then(Box::new(move |synced| waiting.end(synced)));
    }

    pub(super) fn fallocate(&self, ino: Ino, (offset, len): (u64, u64), mode: u32, reply: Reply) {
        match self.change_range(ino, (offset, len), mode) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
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
                branch.punch(ino, offset, len)?;
                branch.grow(ino, end)
            }
            COLLAPSE_RANGE => branch.collapse(ino, offset, len),
            INSERT_RANGE => branch.insert(ino, offset, len),
            _ => Err(Error::Refused(Refusal::NotSupported)),
        }
    }

    pub(super) fn lseek(&self, ino: Ino, offset: u64, whence: u32, reply: Reply) {
        let to = match whence {
            SEEK_DATA => Ok(Seek::Data),
            SEEK_HOLE => Ok(Seek::Hole),
            _ => Err(invalid()),
        };
        let found = to.and_then(|to| self.branch.seek(ino, offset, to));
        answer(reply, found, |reply, offset| reply.lseek(offset));
    }

    pub(super) fn copy(&self, from: (Ino, u64), to: (Ino, u64), len: u64, wide: bool, reply: Reply) {
        if !wide {
            let copied = self.branch.copy(from, to, len.min(NARROW_COPY_MAX));
            return answer(reply, copied, |reply, len| reply.written(len as u32));
        }
        answer(reply, self.branch.copy(from, to, len), |reply, len| {
            reply.copied(len)
        });
    }
}
