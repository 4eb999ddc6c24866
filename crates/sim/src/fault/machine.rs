//! The machine below the bucket: it may lose its power at any call, half way through a write or right behind a sync.
//!
//! Invariant: once it is off nothing changes any more, and every call fails.

use super::Plant;
use parking_lot::Mutex;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tenure_model::Failure;
use tenure_store::disk::Space;
use tenure_store::{Bucket, Disk, DiskFile, Key, Lock, OpenError, Put, Requests};

/// What the call at which the power fails has done before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Nothing.
    Before,
    /// A part of a write that is not synced; of anything else, nothing.
    Midway,
    /// All of it, and nobody heard.
    Behind,
}

/// The bucket and disk of one machine, from its start to its end.
#[derive(Clone)]
pub(crate) struct Machine {
    inner: Arc<dyn Bucket>,
    power: Arc<Power>,
}

struct Power {
    calls: AtomicU64,
    off: AtomicBool,
    loss: Mutex<Option<(u64, Loss)>>,
    lies: bool,
}

impl Machine {
    pub(crate) fn new(inner: Arc<dyn Bucket>, plant: Option<Plant>) -> Self {
        Self {
            inner,
            power: Arc::new(Power {
                calls: AtomicU64::new(0),
                off: AtomicBool::new(false),
                loss: Mutex::new(None),
                lies: plant == Some(Plant::SkipsSyncs),
            }),
        }
    }

    /// Lets the power fail at the call that comes after `calls` more.
    pub(crate) fn lose_power(&self, calls: u64, loss: Loss) {
        let at = self.power.calls.load(Ordering::Relaxed) + calls;
        *self.power.loss.lock() = Some((at, loss));
    }

    /// Lets the power stay, whatever was planned.
    pub(crate) fn keep_power(&self) {
        *self.power.loss.lock() = None;
    }

    /// Lets the power be lost now.
    pub(crate) fn turn_off(&self) {
        self.power.off.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.power.off.load(Ordering::Relaxed)
    }

    /// Returns how many calls there were.
    pub(crate) fn calls(&self) -> u64 {
        self.power.calls.load(Ordering::Relaxed)
    }
}

impl Power {
    /// Counts a call; tells how much of it happens before the power fails, if it does.
    fn count(&self) -> Result<Option<Loss>, Failure> {
        if self.off.load(Ordering::Relaxed) {
            return Err(ended());
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let loss = self
            .loss
            .lock()
            .filter(|(at, _)| *at <= number)
            .map(|(_, loss)| loss);
        self.off.store(loss.is_some(), Ordering::Relaxed);
        Ok(loss)
    }

    fn call<T, E: From<Failure>>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        match self.count()? {
            None => make(),
            Some(Loss::Before | Loss::Midway) => Err(ended().into()),
            Some(Loss::Behind) => {
                drop(make());
                Err(ended().into())
            }
        }
    }
}

fn ended() -> Failure {
    Failure::Unknown("the process has ended".to_owned())
}

impl Bucket for Machine {
    fn put_if_absent(&self, key: &Key, bytes: &[u8]) -> Result<Put, Failure> {
        self.power.call(|| self.inner.put_if_absent(key, bytes))
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        self.power.call(|| self.inner.get(key))
    }

    fn get_parts(&self, key: &Key, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        self.power.call(|| self.inner.get_parts(key, offset, parts))
    }

    fn size(&self, key: &Key) -> Result<Option<u64>, Failure> {
        self.power.call(|| self.inner.size(key))
    }

    fn list(&self, under: &str) -> Result<Vec<Key>, Failure> {
        self.power.call(|| self.inner.list(under))
    }

    fn children(&self, under: &str) -> Result<Vec<String>, Failure> {
        self.power.call(|| self.inner.children(under))
    }

    fn delete(&self, key: &Key) -> Result<(), Failure> {
        self.power.call(|| self.inner.delete(key))
    }

    fn requests(&self) -> &Requests {
        self.inner.requests()
    }

    fn disk(&self) -> Option<Arc<dyn Disk>> {
        let inner = self.inner.disk()?;
        let power = self.power.clone();
        Some(Arc::new(MachineDisk { inner, power }))
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

struct MachineDisk {
    inner: Arc<dyn Disk>,
    power: Arc<Power>,
}

impl MachineDisk {
    fn wrapped(&self, inner: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let power = self.power.clone();
        Arc::new(MachineFile { inner, power })
    }
}

impl Disk for MachineDisk {
    fn create(&self, key: &Key) -> Result<Arc<dyn DiskFile>, Failure> {
        Ok(self.wrapped(self.power.call(|| self.inner.create(key))?))
    }

    fn open(&self, key: &Key) -> Result<Option<Arc<dyn DiskFile>>, Failure> {
        let file = self.power.call(|| self.inner.open(key))?;
        Ok(file.map(|file| self.wrapped(file)))
    }

    fn rename(&self, from: &Key, to: &Key) -> Result<(), Failure> {
        self.power.call(|| self.inner.rename(from, to))
    }

    fn remove(&self, key: &Key) -> Result<(), Failure> {
        self.power.call(|| self.inner.remove(key))
    }

    fn lock(&self, key: &Key, holder: &str) -> Result<Lock, OpenError> {
        self.power.call(|| self.inner.lock(key, holder))
    }

    fn space(&self) -> Result<Space, Failure> {
        self.inner.space()
    }
}

struct MachineFile {
    inner: Arc<dyn DiskFile>,
    power: Arc<Power>,
}

impl MachineFile {
    fn write(
        &self,
        offset: u64,
        bytes: &[u8],
        write: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self.power.count()? {
            None if self.power.lies => self.inner.write_at(offset, bytes),
            None => write(),
            Some(Loss::Before) => Err(ended()),
            // What was on its way is not synced: the power loss takes any part of it.
            Some(Loss::Midway) => self.inner.write_at(offset, bytes).and(Err(ended())),
            Some(Loss::Behind) => write().and(Err(ended())),
        }
    }
}

impl DiskFile for MachineFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.write(offset, bytes, || self.inner.write_at(offset, bytes))
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.write(offset, bytes, || self.inner.write_durably(offset, bytes))
    }

    fn read_parts(&self, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        self.power.call(|| self.inner.read_parts(offset, parts))
    }

    fn sync(&self) -> Result<(), Failure> {
        self.power.call(|| {
            if self.power.lies {
                Ok(())
            } else {
                self.inner.sync()
            }
        })
    }

    fn settle(&self) -> Result<(), Failure> {
        self.power.call(|| {
            if self.power.lies {
                Ok(())
            } else {
                self.inner.settle()
            }
        })
    }

    fn reserve(&self, len: u64) -> Result<(), Failure> {
        self.power.call(|| self.inner.reserve(len))
    }

    fn truncate(&self, len: u64) -> Result<(), Failure> {
        self.power.call(|| self.inner.truncate(len))
    }

    fn len(&self) -> Result<u64, Failure> {
        self.inner.len()
    }
}
