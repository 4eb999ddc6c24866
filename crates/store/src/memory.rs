//! A bucket in memory, for tests and the simulator: the same promises as a folder, and a disk that can lose power.
//!
//! Invariant: an object is durable when its put returns; a file keeps what was synced through every power loss.

mod disk;
mod file;
pub mod twin;

use crate::bucket::{Bucket, Put, RequestKind, Requests, children_of, missing_or_short};
use crate::disk::Disk;
use crate::key::Key;
use crate::marker;
use disk::MemoryDisk;
use file::MemoryFile;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::IoSliceMut;
use std::sync::Arc;
use tenure_model::Failure;

/// A bucket in memory. Clones share it.
#[derive(Clone)]
pub struct MemoryBucket {
    inner: Arc<Inner>,
    has_disk: bool,
}

struct Inner {
    requests: Arc<Requests>,
    disk: Arc<MemoryDisk>,
}

/// What the bucket and its disk share: objects and files stand under the same keys.
#[derive(Default)]
struct Contents {
    files: BTreeMap<Key, Arc<MemoryFile>>,
    locks: BTreeMap<Key, String>,
}

impl Default for MemoryBucket {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryBucket {
    /// Returns a bucket that holds its marker and nothing else.
    pub fn new() -> Self {
        let marker = MemoryFile::durable(marker::text().into_bytes());
        Self::holding(Contents {
            files: BTreeMap::from([(marker::key(), Arc::new(marker))]),
            locks: BTreeMap::new(),
        })
    }

    /// Returns the same bucket as one that a service keeps: it gives no disk.
    pub fn without_disk(&self) -> Self {
        Self {
            has_disk: false,
            ..self.clone()
        }
    }

    /// Returns a bucket that holds what a disk holds after the power failed now: of each file what was synced,
    /// and a part, chosen by `seed`, of what was not.
    pub fn after_power_loss(&self, seed: u64) -> Self {
        let contents = self.inner.disk.contents.lock();
        let files = contents.files.iter().zip(0..).map(|((key, file), number)| {
            let seed = seed.wrapping_add(number);
            (key.clone(), Arc::new(file.after_power_loss(seed)))
        });
        self.beside(files.collect())
    }

    /// Returns a bucket that holds what this one does now: what another process finds after this one was killed.
    pub fn copy(&self) -> Self {
        let contents = self.inner.disk.contents.lock();
        let files = contents.files.iter();
        self.beside(
            files
                .map(|(key, file)| (key.clone(), Arc::new(file.copy())))
                .collect(),
        )
    }

    /// Overwrites an object's or a file's bytes, as a failing disk would. Returns whether there is one.
    pub fn damage(&self, key: &Key, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let file = self.file(key);
        if let Some(file) = &file {
            file.damage(change);
        }
        file.is_some()
    }

    /// Makes the disk hold no more than `bytes` in all; `None` lifts the bound.
    pub fn limit_space(&self, bytes: Option<u64>) {
        *self.inner.disk.limit.lock() = bytes;
    }

    /// Returns another bucket of the same kind.
    fn beside(&self, files: BTreeMap<Key, Arc<MemoryFile>>) -> Self {
        Self {
            has_disk: self.has_disk,
            ..Self::holding(Contents {
                files,
                locks: BTreeMap::new(),
            })
        }
    }

    fn holding(contents: Contents) -> Self {
        let requests = Arc::new(Requests::default());
        let disk = Arc::new(MemoryDisk::new(contents, requests.clone()));
        Self {
            inner: Arc::new(Inner { requests, disk }),
            has_disk: true,
        }
    }

    fn file(&self, key: &Key) -> Option<Arc<MemoryFile>> {
        self.inner.disk.contents.lock().files.get(key).cloned()
    }

    fn count(&self, kind: RequestKind) {
        self.inner.requests.count(kind);
    }
}

impl Bucket for MemoryBucket {
    fn put_if_absent(&self, key: &Key, bytes: &[u8]) -> Result<Put, Failure> {
        self.inner.requests.count_bytes(RequestKind::Put, bytes.len());
        self.inner.disk.check_room(bytes.len() as u64)?;
        Ok(match self.inner.disk.contents.lock().files.entry(key.clone()) {
            Entry::Occupied(_) => Put::Exists,
            Entry::Vacant(free) => {
                free.insert(Arc::new(MemoryFile::durable(bytes.to_vec())));
                Put::Created
            }
        })
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        self.count(RequestKind::Get);
        Ok(self.file(key).map(|file| file.bytes()))
    }

    fn get_parts(&self, key: &Key, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        self.count(RequestKind::Get);
        let file = self.file(key).ok_or_else(|| missing_or_short(key))?;
        file.read_parts(offset, parts)
            .ok_or_else(|| missing_or_short(key))
    }

    fn size(&self, key: &Key) -> Result<Option<u64>, Failure> {
        self.count(RequestKind::Get);
        Ok(self.file(key).map(|file| file.len()))
    }

    fn list(&self, under: &str) -> Result<Vec<Key>, Failure> {
        self.count(RequestKind::List);
        let contents = self.inner.disk.contents.lock();
        let keys = contents.files.keys();
        Ok(keys
            .filter(|key| key.as_str().starts_with(under))
            .cloned()
            .collect())
    }

    fn children(&self, under: &str) -> Result<Vec<String>, Failure> {
        Ok(children_of(under, &self.list(under)?))
    }

    fn delete(&self, key: &Key) -> Result<(), Failure> {
        self.count(RequestKind::Delete);
        self.inner.disk.contents.lock().files.remove(key);
        Ok(())
    }

    fn requests(&self) -> &Requests {
        &self.inner.requests
    }

    fn disk(&self) -> Option<Arc<dyn Disk>> {
        self.has_disk.then(|| self.inner.disk.clone() as Arc<dyn Disk>)
    }

    fn tier(&self) -> &'static str {
        if self.has_disk { "memory" } else { "bucket" }
    }

    fn describe(&self) -> String {
        "the bucket in memory".to_owned()
    }
}
