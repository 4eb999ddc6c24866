//! The disk of a bucket in memory: its files, its locks, and how much it may hold.

use super::Contents;
use super::file::MemoryFile;
use crate::bucket::{OpenError, RequestKind, Requests, missing_or_short};
use crate::disk::{self, Disk, DiskFile, Lock, Space};
use crate::key::Key;
use parking_lot::Mutex;
use std::io::IoSliceMut;
use std::sync::Arc;
use tenure_model::{Failure, Refusal};

/// Bytes of a disk that has no bound of its own.
const UNBOUNDED: u64 = 1 << 40;

pub(super) struct MemoryDisk {
    pub(super) contents: Arc<Mutex<Contents>>,
    pub(super) limit: Arc<Mutex<Option<u64>>>,
    requests: Arc<Requests>,
}

impl MemoryDisk {
    pub(super) fn new(contents: Contents, requests: Arc<Requests>) -> Self {
        Self {
            contents: Arc::new(Mutex::new(contents)),
            limit: Arc::default(),
            requests,
        }
    }

    /// Fails when `more` bytes would not fit.
    pub(super) fn check_room(&self, more: u64) -> Result<(), Failure> {
        let limit = self.limit.lock().unwrap_or(u64::MAX);
        if more == 0 || self.used() + more <= limit {
            Ok(())
        } else {
            Err(Failure::NoSpace("the bucket in memory is full".to_owned()))
        }
    }

    fn used(&self) -> u64 {
        self.contents.lock().files.values().map(|file| file.len()).sum()
    }

    fn opened(&self, key: &Key, file: Arc<MemoryFile>) -> Arc<dyn DiskFile> {
        Arc::new(Opened {
            key: key.clone(),
            file,
            disk: Self {
                contents: self.contents.clone(),
                limit: self.limit.clone(),
                requests: self.requests.clone(),
            },
        })
    }
}

impl Disk for MemoryDisk {
    fn create(&self, key: &Key) -> Result<Arc<dyn DiskFile>, Failure> {
        let mut contents = self.contents.lock();
        if contents.files.contains_key(key) {
            return Err(Failure::DidNotHappen(format!(
                "cannot create {key}: it exists already"
            )));
        }
        let file = Arc::new(MemoryFile::durable(Vec::new()));
        contents.files.insert(key.clone(), file.clone());
        Ok(self.opened(key, file))
    }

    fn open(&self, key: &Key) -> Result<Option<Arc<dyn DiskFile>>, Failure> {
        let file = self.contents.lock().files.get(key).cloned();
        Ok(file.map(|file| self.opened(key, file)))
    }

    fn rename(&self, from: &Key, to: &Key) -> Result<(), Failure> {
        let mut contents = self.contents.lock();
        let refused = |why| Failure::DidNotHappen(format!("cannot rename {from} to {to}: {why}"));
        if contents.files.contains_key(to) {
            return Err(refused("the target exists already"));
        }
        let file = contents
            .files
            .remove(from)
            .ok_or_else(|| refused("it is missing"))?;
        contents.files.insert(to.clone(), file);
        Ok(())
    }

    fn remove(&self, key: &Key) -> Result<(), Failure> {
        self.contents.lock().files.remove(key);
        Ok(())
    }

    fn lock(&self, key: &Key, holder: &str) -> Result<Lock, OpenError> {
        let mut contents = self.contents.lock();
        if let Some(by) = contents.locks.get(key) {
            return Err(Refusal::Held { by: by.clone() }.into());
        }
        contents.locks.insert(key.clone(), holder.to_owned());
        Ok(Lock::new(Held {
            key: key.clone(),
            contents: self.contents.clone(),
        }))
    }

    fn space(&self) -> Result<Space, Failure> {
        let total = self.limit.lock().unwrap_or(UNBOUNDED);
        Ok(Space {
            total,
            free: total.saturating_sub(self.used()),
        })
    }
}

struct Held {
    key: Key,
    contents: Arc<Mutex<Contents>>,
}

impl disk::Held for Held {
    fn is_held(&self) -> bool {
        self.contents.lock().locks.contains_key(&self.key)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.contents.lock().locks.remove(&self.key);
    }
}

struct Opened {
    key: Key,
    file: Arc<MemoryFile>,
    disk: MemoryDisk,
}

impl Opened {
    fn check_end(&self, end: u64) -> Result<(), Failure> {
        self.disk.check_room(end.saturating_sub(self.file.len()))
    }
}

impl DiskFile for Opened {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.disk.requests.count_bytes(RequestKind::Write, bytes.len());
        self.check_end(offset + bytes.len() as u64)?;
        self.file.write_at(offset, bytes);
        Ok(())
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.write_at(offset, bytes)?;
        self.disk.requests.count(RequestKind::Sync);
        self.file.sync_range(offset, bytes.len());
        Ok(())
    }

    fn read_parts(&self, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        let read = self.file.read_parts(offset, parts);
        read.ok_or_else(|| missing_or_short(&self.key))
    }

    fn sync(&self) -> Result<(), Failure> {
        self.disk.requests.count(RequestKind::Sync);
        self.file.sync();
        Ok(())
    }

    fn settle(&self) -> Result<(), Failure> {
        self.sync()
    }

    fn reserve(&self, len: u64) -> Result<(), Failure> {
        self.check_end(len)?;
        if self.file.len() < len {
            self.file.set_len(len);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<(), Failure> {
        self.file.set_len(len.min(self.file.len()));
        Ok(())
    }

    fn len(&self) -> Result<u64, Failure> {
        Ok(self.file.len())
    }
}
