//! A file of a folder bucket that is written in place.
//!
//! Whole blocks from aligned memory go to the disk directly, where the file system can do that: they are
//! copied by no one, and evict nothing. Everything else goes through the kernel's cache.

use super::names::Name;
use super::tree::Tree;
use crate::bucket::{RequestKind, Requests};
use crate::disk::{BLOCK_LEN, DiskFile};
use crate::key::Key;
use rustix::fs::{Advice, FallocateFlags};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tenure_model::Failure;

pub(super) struct FolderFile {
    /// The key that it was opened by.
    key: Key,
    /// The one that it has now.
    name: Name,
    plain: OwnedFd,
    direct: Option<OwnedFd>,
    /// Set once the file system refused a direct write of whole blocks.
    direct_refused: AtomicBool,
    /// How many names the file had when it was opened.
    links: u64,
    tree: Arc<Tree>,
    requests: Arc<Requests>,
}

impl FolderFile {
    pub(super) fn new(
        (key, name): (Key, Name),
        (plain, direct): (OwnedFd, Option<OwnedFd>),
        links: u64,
        tree: Arc<Tree>,
        requests: Arc<Requests>,
    ) -> Self {
        Self {
            key,
            name,
            plain,
            direct,
            direct_refused: AtomicBool::new(false),
            links,
            tree,
            requests,
        }
    }

    fn failed(&self, doing: &str, errno: Errno) -> Failure {
        self.tree.failed(doing, &self.key, errno)
    }

    /// After a failed write or sync nobody knows what the disk holds.
    fn uncertain(&self, doing: &str, errno: Errno) -> Failure {
        let failure = self.failed(doing, errno);
        if matches!(failure, Failure::NoSpace(_)) {
            return failure;
        }
        Failure::Unknown(failure.to_string())
    }

    /// Refuses to change a file that has a name elsewhere too.
    fn check_links(&self) -> Result<(), Failure> {
        if self.links > 1 {
            return Err(self.tree.linked(&self.key));
        }
        Ok(())
    }

    /// Fails where somebody has removed or moved the file: what it holds is in the bucket no more, however durable it is.
    fn check_name(&self) -> Result<(), Failure> {
        let key = self.name.read();
        if self.tree.leads_to(&key, &self.plain) {
            return Ok(());
        }
        Err(Failure::Corrupt(format!(
            "{key}: it was removed from the bucket, or moved, while it was written: what was synced into it may be lost"
        )))
    }

    /// Returns the direct file where these bytes may go to it.
    fn direct_for(&self, offset: u64, bytes: &[u8]) -> Option<&OwnedFd> {
        let block = BLOCK_LEN as u64;
        let whole = offset.is_multiple_of(block)
            && bytes.len().is_multiple_of(BLOCK_LEN)
            && bytes.as_ptr().addr().is_multiple_of(BLOCK_LEN);
        let direct = self.direct.as_ref()?;
        (whole && !self.direct_refused.load(Ordering::Relaxed)).then_some(direct)
    }

    fn write(&self, offset: u64, bytes: &[u8], flags: ReadWriteFlags) -> Result<(), Errno> {
        if let Some(direct) = self.direct_for(offset, bytes) {
            match write_all(direct, offset, bytes, flags) {
                Err(Errno::INVAL) => self.direct_refused.store(true, Ordering::Relaxed),
                done => return done,
            }
        }
        write_all(&self.plain, offset, bytes, flags)
    }

    fn sync_data(&self) -> Result<(), Errno> {
        retry_on_intr(|| rustix::fs::fdatasync(&self.plain))
    }
}

impl DiskFile for FolderFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.check_links()?;
        self.requests.count_bytes(RequestKind::Write, bytes.len());
        let written = self.write(offset, bytes, ReadWriteFlags::empty());
        written.map_err(|errno| self.uncertain("write", errno))
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.check_links()?;
        self.requests.count_bytes(RequestKind::Write, bytes.len());
        self.requests.count(RequestKind::Sync);
        let written = match self.write(offset, bytes, ReadWriteFlags::DSYNC) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self
                .write(offset, bytes, ReadWriteFlags::empty())
                .and_then(|()| self.sync_data()),
            done => done,
        };
        written.map_err(|errno| self.uncertain("write", errno))?;
        self.check_name()
    }

    fn read_parts(&self, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        self.tree.read_parts(&self.plain, &self.key, offset, parts)
    }

    fn sync(&self) -> Result<(), Failure> {
        self.requests.count(RequestKind::Sync);
        self.sync_data().map_err(|errno| self.uncertain("sync", errno))?;
        self.check_name()
    }

    fn settle(&self) -> Result<(), Failure> {
        self.sync()?;
        // Where the advice is not taken, reads still return what was synced.
        let _ = rustix::fs::fadvise(&self.plain, 0, None, Advice::DontNeed);
        Ok(())
    }

    fn reserve(&self, len: u64) -> Result<(), Failure> {
        self.check_links()?;
        let reserved = retry_on_intr(|| rustix::fs::fallocate(&self.plain, FallocateFlags::empty(), 0, len));
        match reserved {
            // A file system that cannot reserve room finds out at the write.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                if self.len()? < len {
                    rustix::fs::ftruncate(&self.plain, len).map_err(|errno| self.failed("extend", errno))?;
                }
                Ok(())
            }
            done => done.map_err(|errno| self.failed("reserve room for", errno)),
        }
    }

    fn truncate(&self, len: u64) -> Result<(), Failure> {
        if self.len()? > len {
            self.check_links()?;
            rustix::fs::ftruncate(&self.plain, len).map_err(|errno| self.failed("cut", errno))?;
        }
        Ok(())
    }

    fn len(&self) -> Result<u64, Failure> {
        let stat = rustix::fs::fstat(&self.plain).map_err(|errno| self.failed("read", errno))?;
        Ok(u64::try_from(stat.st_size).expect("a file's size is not negative"))
    }
}

fn write_all(file: &OwnedFd, offset: u64, bytes: &[u8], flags: ReadWriteFlags) -> Result<(), Errno> {
    let (mut at, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        let written = retry_on_intr(|| rustix::io::pwritev2(file, &[IoSlice::new(rest)], at, flags))?;
        rest = &rest[written..];
        at += written as u64;
    }
    Ok(())
}
