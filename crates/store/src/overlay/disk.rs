//! The disk of such a bucket: its files are in memory as far as they were changed, and its locks are real.

use super::Inner;
use super::file::OverlayFile;
use crate::bucket::{OpenError, RequestKind};
use crate::disk::{Disk, DiskFile, Lock, Space};
use crate::key::Key;
use std::io::IoSliceMut;
use std::sync::Arc;
use tenure_model::Failure;

/// Bytes that there is room for where the disk below has none: a segment of the journal, and some.
const MEMORY_LEN: u64 = 64 << 20;

pub(super) struct OverlayDisk {
    lower: Arc<dyn Disk>,
    inner: Arc<Inner>,
}

impl OverlayDisk {
    pub(super) fn new(lower: Arc<dyn Disk>, inner: Arc<Inner>) -> Self {
        Self { lower, inner }
    }

    fn opened(&self, key: &Key, file: Arc<OverlayFile>) -> Arc<dyn DiskFile> {
        let (key, inner) = (key.clone(), self.inner.clone());
        Arc::new(Opened { key, file, inner })
    }
}

impl Disk for OverlayDisk {
    fn create(&self, key: &Key) -> Result<Arc<dyn DiskFile>, Failure> {
        let file = Arc::<OverlayFile>::default();
        if self.inner.add(key, file.clone())? {
            return Ok(self.opened(key, file));
        }
        Err(Failure::DidNotHappen(format!(
            "cannot create {key}: it exists already"
        )))
    }

    fn open(&self, key: &Key) -> Result<Option<Arc<dyn DiskFile>>, Failure> {
        let file = self.inner.copied_up(&mut self.inner.upper.write(), key)?;
        Ok(file.map(|file| self.opened(key, file)))
    }

    fn rename(&self, from: &Key, to: &Key) -> Result<(), Failure> {
        let refused = |why| Failure::DidNotHappen(format!("cannot rename {from} to {to}: {why}"));
        let file = self.inner.copied_up(&mut self.inner.upper.write(), from)?;
        let file = file.ok_or_else(|| refused("it is missing"))?;
        if !self.inner.add(to, file)? {
            return Err(refused("the target exists already"));
        }
        self.inner.remove(from);
        Ok(())
    }

    fn remove(&self, key: &Key) -> Result<(), Failure> {
        self.inner.remove(key);
        Ok(())
    }

    fn lock(&self, key: &Key, holder: &str) -> Result<Lock, OpenError> {
        self.lower.lock_to_read(key, holder)
    }

    fn space(&self) -> Result<Space, Failure> {
        let Space { total, free } = self.lower.space()?;
        let free = free.max(MEMORY_LEN);
        Ok(Space {
            total: total.max(free),
            free,
        })
    }
}

struct Opened {
    key: Key,
    file: Arc<OverlayFile>,
    inner: Arc<Inner>,
}

impl Opened {
    fn count(&self, kind: RequestKind) {
        self.inner.requests.count(kind);
    }
}

impl DiskFile for Opened {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.inner.requests.count_bytes(RequestKind::Write, bytes.len());
        self.file.write(offset, bytes)
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.count(RequestKind::Sync);
        self.write_at(offset, bytes)
    }

    fn read_parts(&self, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        self.file.read_parts(&self.key, offset, parts)
    }

    fn sync(&self) -> Result<(), Failure> {
        self.count(RequestKind::Sync);
        Ok(())
    }

    fn settle(&self) -> Result<(), Failure> {
        self.sync()
    }

    fn reserve(&self, len: u64) -> Result<(), Failure> {
        self.file.extend(len);
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<(), Failure> {
        self.file.truncate(len);
        Ok(())
    }

    fn len(&self) -> Result<u64, Failure> {
        Ok(self.file.len())
    }
}
