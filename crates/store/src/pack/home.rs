//! Where packs are filled: on the bucket's disk, or in memory where it has none.
//!
//! On a disk a pack grows in place, is durable by and by, and gets its name when it is sealed. In memory it is nothing
//! to anybody until it is put as one object, under its name. Invariant: so many packs are held in memory, and no more.

use super::seal;
use crate::bucket::{Bucket, Put};
use crate::disk::{Disk, DiskFile};
use crate::key::Key;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::io::IoSliceMut;
use std::sync::Arc;
use tenure_model::Failure;

/// Packs that are held in memory at once: enough to put several while others are filled.
const HELD_MAX: usize = 8;

/// Where packs are filled.
#[derive(Clone)]
pub(super) enum Home {
    /// On the bucket's disk.
    Disk(Arc<dyn Disk>),
    /// In memory, and then in the bucket.
    Memory(Arc<Held>),
}

/// The packs that are held in memory, by the key that they would have on a disk.
pub(super) struct Held {
    bucket: Arc<dyn Bucket>,
    files: Mutex<HashMap<Key, Arc<HeldFile>>>,
}

impl Home {
    /// Returns where the packs of a bucket are filled.
    pub(super) fn of(bucket: &Arc<dyn Bucket>) -> Self {
        match bucket.disk() {
            Some(disk) => Self::Disk(disk),
            None => Self::Memory(Arc::new(Held {
                bucket: bucket.clone(),
                files: Mutex::default(),
            })),
        }
    }

    /// Tells whether bytes can become durable before their pack is sealed.
    pub(super) fn keeps_parts(&self) -> bool {
        matches!(self, Self::Disk(_))
    }

    /// Creates what a pack is filled in; what is there already is a failure.
    pub(super) fn create(&self, key: &Key) -> Result<Arc<dyn DiskFile>, Failure> {
        match self {
            Self::Disk(disk) => disk.create(key),
            Self::Memory(held) => held.create(key),
        }
    }

    /// Opens what was created and is not sealed, on a disk also by an earlier process.
    pub(super) fn open(&self, key: &Key) -> Result<Option<Arc<dyn DiskFile>>, Failure> {
        match self {
            Self::Disk(disk) => disk.open(key),
            Self::Memory(held) => Ok(held
                .files
                .lock()
                .get(key)
                .map(|file| file.clone() as Arc<dyn DiskFile>)),
        }
    }

    /// Removes a pack that is not sealed.
    pub(super) fn remove(&self, key: &Key) -> Result<(), Failure> {
        match self {
            Self::Disk(disk) => disk.remove(key),
            Self::Memory(held) => {
                held.files.lock().remove(key);
                Ok(())
            }
        }
    }

    /// Makes a pack that is whole the object of that key, durably. What did not happen can be tried again.
    pub(super) fn publish(&self, open: &Key, sealed: &Key) -> Result<(), Failure> {
        match self {
            Self::Disk(disk) => disk.rename(open, sealed),
            Self::Memory(held) => held.publish(open, sealed),
        }
    }
}

impl Held {
    fn create(&self, key: &Key) -> Result<Arc<dyn DiskFile>, Failure> {
        let mut files = self.files.lock();
        if files.contains_key(key) {
            return Err(Failure::DidNotHappen(format!("{key} is being filled already")));
        }
        if files.len() >= HELD_MAX {
            return Err(Failure::DidNotHappen(format!(
                "{HELD_MAX} packs are in memory and not in {} yet: one must be put before another is started",
                self.bucket.describe()
            )));
        }
        let file = Arc::<HeldFile>::default();
        files.insert(key.clone(), file.clone());
        Ok(file)
    }

    fn publish(&self, open: &Key, sealed: &Key) -> Result<(), Failure> {
        let file = self.files.lock().get(open).cloned();
        let file = file.ok_or_else(|| Failure::DidNotHappen(format!("{open} is not being filled")))?;
        // Its chunks are read meanwhile.
        let contents = file.contents.read();
        let put = self.bucket.put_if_absent(sealed, &contents.bytes);
        if put.map_err(seal::again)? == Put::Exists {
            self.compare(sealed, &contents.bytes)?;
        }
        self.files.lock().remove(open);
        Ok(())
    }

    /// Looks whether an object is this pack: put by a try before, whose reply was lost.
    fn compare(&self, key: &Key, bytes: &[u8]) -> Result<(), Failure> {
        match self.bucket.get(key)? {
            Some(found) if found == bytes => Ok(()),
            Some(_) => Err(Failure::Corrupt(format!("{key}: another pack has this name"))),
            None => Err(Failure::DidNotHappen(format!("{key} was there and is gone"))),
        }
    }
}

/// A pack's bytes in memory.
#[derive(Default)]
struct HeldFile {
    contents: RwLock<Contents>,
}

#[derive(Default)]
struct Contents {
    bytes: Vec<u8>,
    /// Its length with what is reserved behind its bytes, which reads as zeros.
    len: u64,
}

impl DiskFile for HeldFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let mut contents = self.contents.write();
        let start = index(offset)?;
        let end = start + bytes.len();
        if contents.bytes.len() < start {
            contents.bytes.resize(start, 0);
        }
        let there = bytes.len().min(contents.bytes.len() - start);
        let (over, behind) = bytes.split_at(there);
        contents.bytes[start..start + there].copy_from_slice(over);
        contents.bytes.extend_from_slice(behind);
        contents.len = contents.len.max(end as u64);
        Ok(())
    }

    fn write_durably(&self, _offset: u64, _bytes: &[u8]) -> Result<(), Failure> {
        Err(Failure::DidNotHappen("memory is not durable".into()))
    }

    fn read_parts(&self, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        let contents = self.contents.read();
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if offset.saturating_add(len as u64) > contents.len {
            return Err(too_short());
        }
        let mut at = index(offset)?;
        for part in parts {
            let here = contents.bytes.get(at..).unwrap_or_default();
            let there = here.len().min(part.len());
            let (front, behind) = part.split_at_mut(there);
            front.copy_from_slice(&here[..front.len()]);
            behind.fill(0);
            at += part.len();
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), Failure> {
        // It is durable when its pack is put, and nobody says so earlier.
        Ok(())
    }

    fn settle(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn reserve(&self, len: u64) -> Result<(), Failure> {
        let mut contents = self.contents.write();
        let more = index(len)?.saturating_sub(contents.bytes.len());
        let reserved = contents.bytes.try_reserve(more);
        reserved.map_err(|error| Failure::NoSpace(format!("a pack in memory: {error}")))?;
        contents.len = contents.len.max(len);
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<(), Failure> {
        let mut contents = self.contents.write();
        contents.bytes.truncate(index(len)?);
        contents.len = contents.len.min(len);
        Ok(())
    }

    fn len(&self) -> Result<u64, Failure> {
        Ok(self.contents.read().len)
    }
}

fn index(offset: u64) -> Result<usize, Failure> {
    usize::try_from(offset).map_err(|_| too_short())
}

fn too_short() -> Failure {
    Failure::Corrupt("a pack in memory is too short".to_owned())
}
