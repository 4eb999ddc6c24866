//! The disk of a faulty bucket.

use super::{Faults, Turn, bend_parts, reply_lost};
use crate::bucket::OpenError;
use crate::disk::{Disk, DiskFile, Lock, Space};
use crate::faulty::{CallKind, Fault};
use crate::key::Key;
use std::io::IoSliceMut;
use std::sync::Arc;
use tenure_model::Failure;

pub(super) struct FaultyDisk {
    inner: Arc<dyn Disk>,
    faults: Arc<Faults>,
}

struct FaultyFile {
    key: Key,
    inner: Arc<dyn DiskFile>,
    faults: Arc<Faults>,
}

impl FaultyDisk {
    pub(super) fn new(inner: Arc<dyn Disk>, faults: Arc<Faults>) -> Self {
        Self { inner, faults }
    }

    fn wrapped(&self, key: &Key, inner: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(FaultyFile {
            key: key.clone(),
            inner,
            faults: self.faults.clone(),
        })
    }
}

impl Disk for FaultyDisk {
    fn create(&self, key: &Key) -> Result<Arc<dyn DiskFile>, Failure> {
        let file = self
            .faults
            .call(CallKind::Create, key, || self.inner.create(key))?;
        Ok(self.wrapped(key, file))
    }

    fn open(&self, key: &Key) -> Result<Option<Arc<dyn DiskFile>>, Failure> {
        let file = self.faults.call(CallKind::Open, key, || self.inner.open(key))?;
        Ok(file.map(|file| self.wrapped(key, file)))
    }

    fn rename(&self, from: &Key, to: &Key) -> Result<(), Failure> {
        self.faults
            .call(CallKind::Rename, from, || self.inner.rename(from, to))
    }

    fn remove(&self, key: &Key) -> Result<(), Failure> {
        self.faults.call(CallKind::Delete, key, || self.inner.remove(key))
    }

    fn lock(&self, key: &Key, holder: &str) -> Result<Lock, OpenError> {
        self.faults.call(CallKind::Lock, key, || Ok(()))?;
        self.inner.lock(key, holder)
    }

    fn space(&self) -> Result<Space, Failure> {
        self.inner.space()
    }
}

impl FaultyFile {
    /// Makes a write, all or a part of it.
    fn write(&self, bytes: &[u8], write: impl Fn(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        match self.faults.turn(CallKind::Write, &self.key) {
            Turn::Go => write(bytes),
            Turn::Stop(failure) => Err(failure),
            Turn::Bend(Fault::ShortRead) => {
                write(&bytes[..bytes.len() / 2])?;
                Err(Failure::Unknown(format!(
                    "Write of {}: it ended half way",
                    self.key
                )))
            }
            Turn::Bend(_) => {
                write(bytes)?;
                Err(reply_lost(CallKind::Write, &self.key))
            }
        }
    }
}

impl DiskFile for FaultyFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.write(bytes, |bytes| self.inner.write_at(offset, bytes))
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.write(bytes, |bytes| self.inner.write_durably(offset, bytes))
    }

    fn read_parts(&self, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        match self.faults.turn(CallKind::Read, &self.key) {
            Turn::Go => self.inner.read_parts(offset, parts),
            Turn::Stop(failure) => Err(failure),
            Turn::Bend(fault) => {
                self.inner.read_parts(offset, parts)?;
                bend_parts(&self.key, fault, parts)
            }
        }
    }

    fn sync(&self) -> Result<(), Failure> {
        self.faults.call(CallKind::Sync, &self.key, || self.inner.sync())
    }

    fn settle(&self) -> Result<(), Failure> {
        self.faults
            .call(CallKind::Sync, &self.key, || self.inner.settle())
    }

    fn reserve(&self, len: u64) -> Result<(), Failure> {
        self.faults
            .call(CallKind::Resize, &self.key, || self.inner.reserve(len))
    }

    fn truncate(&self, len: u64) -> Result<(), Failure> {
        self.faults
            .call(CallKind::Resize, &self.key, || self.inner.truncate(len))
    }

    fn len(&self) -> Result<u64, Failure> {
        self.inner.len()
    }
}
