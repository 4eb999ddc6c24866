//! The machine below the bucket: it may lose its power at any call, half way through a write or right behind a sync.
//!
//! Invariant: once it is off nothing changes any more, and every call fails.

use super::Plant;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
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

/// When the power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// After so many calls.
    Calls(u64),
    /// After so many writes of the journal, at the next one.
    JournalWrites(u64),
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
    loss: Mutex<Option<(After, Loss)>>,
    /// The write that was on its way when the power failed.
    late: Mutex<Option<Late>>,
    /// The names that files have got since they were opened.
    names: Mutex<BTreeMap<Key, Key>>,
    /// Whether syncs are said to be done and are not.
    lies: bool,
    feigns: Option<Feigned>,
    /// The pack that was sealed last, and that before the newest manifest, where it goes with what is given up.
    rows: Option<Mutex<Rows>>,
}

/// The pack that was sealed last, and the one that was when a manifest was put last.
#[derive(Default)]
struct Rows {
    sealed: Option<Key>,
    of_manifest: Option<Key>,
}

/// A write that has left its process and arrives when that has ended.
pub(crate) struct Late {
    key: Key,
    offset: u64,
    bytes: Vec<u8>,
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "write of {} bytes at {} of {}",
            self.bytes.len(),
            self.offset,
            self.key
        )
    }
}

impl Late {
    /// Lets it arrive, where its file still is.
    pub(crate) fn arrive(&self, disk: &dyn Disk) -> Result<bool, Failure> {
        let Some(file) = disk.open(&self.key)? else {
            return Ok(false);
        };
        file.write_durably(self.offset, &self.bytes)?;
        Ok(true)
    }
}

/// Objects that this machine says to have and has not.
struct Feigned {
    part: &'static str,
    objects: Mutex<BTreeMap<Key, Vec<u8>>>,
}

impl Feigned {
    fn is_meant(&self, key: &Key) -> bool {
        key.as_str().contains(self.part)
    }
}

impl Machine {
    pub(crate) fn new(inner: Arc<dyn Bucket>, plant: Option<Plant>) -> Self {
        Self {
            inner,
            power: Arc::new(Power {
                calls: AtomicU64::new(0),
                off: AtomicBool::new(false),
                loss: Mutex::new(None),
                late: Mutex::default(),
                names: Mutex::default(),
                feigns: plant.and_then(Plant::feigned).map(|part| Feigned {
                    part,
                    objects: Mutex::default(),
                }),
                lies: plant == Some(Plant::SkipsSyncs),
                rows: (plant == Some(Plant::DeletesRows)).then(Mutex::default),
            }),
        }
    }

    /// Lets the power fail.
    pub(crate) fn lose_power(&self, after: After, loss: Loss) {
        *self.power.loss.lock() = Some((after, loss));
    }

    /// Lets the power stay, whatever was planned.
    pub(crate) fn keep_power(&self) {
        *self.power.loss.lock() = None;
    }

    /// Lets the power be lost now.
    pub(crate) fn turn_off(&self) {
        self.power.off.store(true, Ordering::Relaxed);
    }

    /// Returns the write that was on its way when the power failed, if one was.
    pub(crate) fn late(&self) -> Option<Late> {
        self.power.late.lock().take()
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
    fn count(&self, is_journal_write: bool) -> Result<Option<Loss>, Failure> {
        if self.off.load(Ordering::Relaxed) {
            return Err(ended());
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut planned = self.loss.lock();
        let Some((after, loss)) = &mut *planned else {
            return Ok(None);
        };
        let left = match after {
            After::Calls(left) => left,
            After::JournalWrites(left) if is_journal_write => left,
            After::JournalWrites(_) => return Ok(None),
        };
        if *left > 0 {
            *left -= 1;
            return Ok(None);
        }
        self.off.store(true, Ordering::Relaxed);
        Ok(Some(*loss))
    }

    /// Keeps a write of the journal that was on its way: other files are written by nobody whose lock is gone.
    fn leave_late(&self, key: &Key, offset: u64, bytes: &[u8]) {
        if is_of_journal(key) {
            let key = self.names.lock().get(key).unwrap_or(key).clone();
            let bytes = bytes.to_vec();
            *self.late.lock() = Some(Late { key, offset, bytes });
        }
    }

    fn call<T, E: From<Failure>>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        match self.count(false)? {
            None => make(),
            Some(Loss::Before | Loss::Midway) => Err(ended().into()),
            Some(Loss::Behind) => {
                drop(make());
                Err(ended().into())
            }
        }
    }
}

fn is_of_journal(key: &Key) -> bool {
    key.as_str().contains("/journal/")
}

fn is_of_packs(key: &Key) -> bool {
    key.as_str().contains("/packs/")
}

fn ended() -> Failure {
    Failure::Unknown("the process has ended".to_owned())
}

impl Bucket for Machine {
    fn put_if_absent(&self, key: &Key, bytes: &[u8]) -> Result<Put, Failure> {
        if let Some(feigned) = self.power.feigns.as_ref().filter(|feigned| feigned.is_meant(key)) {
            feigned.objects.lock().insert(key.clone(), bytes.to_vec());
            return Ok(Put::Created);
        }
        if let Some(rows) = self
            .power
            .rows
            .as_ref()
            .filter(|_| key.as_str().contains("/manifests/"))
        {
            let mut rows = rows.lock();
            rows.of_manifest = rows.sealed.clone();
        }
        self.power.call(|| self.inner.put_if_absent(key, bytes))
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        let feigned = self.power.feigns.as_ref();
        if let Some(bytes) = feigned.and_then(|feigned| feigned.objects.lock().get(key).cloned()) {
            return Ok(Some(bytes));
        }
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
        if let Some(rows) = self.power.rows.as_ref().filter(|_| is_of_packs(key))
            && let Some(with_it) = rows.lock().of_manifest.take()
        {
            self.inner.delete(&with_it)?;
        }
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

    fn tier(&self) -> &'static str {
        self.inner.tier()
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
    fn wrapped(&self, key: &Key, inner: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let (key, power) = (key.clone(), self.power.clone());
        Arc::new(MachineFile { key, inner, power })
    }
}

impl Disk for MachineDisk {
    fn create(&self, key: &Key) -> Result<Arc<dyn DiskFile>, Failure> {
        Ok(self.wrapped(key, self.power.call(|| self.inner.create(key))?))
    }

    fn open(&self, key: &Key) -> Result<Option<Arc<dyn DiskFile>>, Failure> {
        let file = self.power.call(|| self.inner.open(key))?;
        Ok(file.map(|file| self.wrapped(key, file)))
    }

    fn rename(&self, from: &Key, to: &Key) -> Result<(), Failure> {
        self.power.call(|| self.inner.rename(from, to))?;
        self.power.names.lock().insert(from.clone(), to.clone());
        if let Some(rows) = self.power.rows.as_ref().filter(|_| is_of_packs(to)) {
            rows.lock().sealed = Some(to.clone());
        }
        Ok(())
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
    /// The key under which it was opened: it may have another now.
    key: Key,
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
        let is_journal_write = is_of_journal(&self.key);
        match self.power.count(is_journal_write)? {
            None if self.power.lies => self.inner.write_at(offset, bytes),
            None => write(),
            Some(Loss::Before) => {
                self.power.leave_late(&self.key, offset, bytes);
                Err(ended())
            }
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
