//! A bucket over another one that is only read: what is written stays in memory, and goes with it.
//!
//! A drive whose folder is full, or cannot be written, is opened in one as any other is, to be looked at. Invariant: nothing is asked
//! of the bucket below that would change it.

mod disk;
mod file;

use crate::bucket::{Bucket, Put, RequestKind, Requests, children_of, missing_or_short, whole_len};
use crate::disk::Disk;
use crate::key::Key;
use disk::OverlayDisk;
use file::OverlayFile;
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSliceMut;
use std::sync::Arc;
use tenure_model::Failure;

/// A bucket over another one. Clones share what was written.
#[derive(Clone)]
pub struct OverlayBucket {
    inner: Arc<Inner>,
}

struct Inner {
    lower: Arc<dyn Bucket>,
    upper: RwLock<Upper>,
    requests: Requests,
}

/// What was changed.
#[derive(Default)]
struct Upper {
    files: BTreeMap<Key, Arc<OverlayFile>>,
    /// The keys below that are there no more.
    whiteouts: BTreeSet<Key>,
}

/// Where what a key names is.
enum Found {
    Upper(Arc<OverlayFile>),
    Lower { len: u64 },
    Nowhere,
}

impl OverlayBucket {
    /// Lies over a bucket.
    pub fn over(lower: Arc<dyn Bucket>) -> Self {
        Self {
            inner: Arc::new(Inner {
                lower,
                upper: RwLock::default(),
                requests: Requests::default(),
            }),
        }
    }

    fn count(&self, kind: RequestKind) {
        self.inner.requests.count(kind);
    }
}

impl Inner {
    fn find(&self, upper: &Upper, key: &Key) -> Result<Found, Failure> {
        if let Some(file) = upper.files.get(key) {
            return Ok(Found::Upper(file.clone()));
        }
        if upper.whiteouts.contains(key) {
            return Ok(Found::Nowhere);
        }
        let len = self.lower.size(key)?;
        Ok(len.map_or(Found::Nowhere, |len| Found::Lower { len }))
    }

    /// Adds a file to what was changed, unless its key is taken. Returns whether it was free.
    fn add(&self, key: &Key, file: Arc<OverlayFile>) -> Result<bool, Failure> {
        let mut upper = self.upper.write();
        let is_free = matches!(self.find(&upper, key)?, Found::Nowhere);
        if is_free {
            upper.files.insert(key.clone(), file);
        }
        Ok(is_free)
    }

    /// Returns a file that can be written; one of the bucket below is there twice from then on.
    fn copied_up(&self, upper: &mut Upper, key: &Key) -> Result<Option<Arc<OverlayFile>>, Failure> {
        match self.find(upper, key)? {
            Found::Upper(file) => Ok(Some(file)),
            Found::Nowhere => Ok(None),
            Found::Lower { len } => {
                let file = Arc::new(OverlayFile::over(self.lower.clone(), key.clone(), len));
                upper.files.insert(key.clone(), file.clone());
                Ok(Some(file))
            }
        }
    }

    fn remove(&self, key: &Key) {
        let mut upper = self.upper.write();
        upper.files.remove(key);
        upper.whiteouts.insert(key.clone());
    }
}

impl Bucket for OverlayBucket {
    fn put_if_absent(&self, key: &Key, bytes: &[u8]) -> Result<Put, Failure> {
        self.inner.requests.count_bytes(RequestKind::Put, bytes.len());
        let file = OverlayFile::default();
        file.write(0, bytes)?;
        Ok(if self.inner.add(key, Arc::new(file))? {
            Put::Created
        } else {
            Put::Exists
        })
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        self.count(RequestKind::Get);
        let found = self.inner.find(&self.inner.upper.read(), key)?;
        match found {
            Found::Upper(file) => {
                let mut bytes = vec![0; whole_len(key, file.len())?];
                file.read(key, 0, &mut bytes)?;
                Ok(Some(bytes))
            }
            Found::Lower { .. } => self.inner.lower.get(key),
            Found::Nowhere => Ok(None),
        }
    }

    fn get_parts(&self, key: &Key, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        self.count(RequestKind::Get);
        let is_hidden = {
            let upper = self.inner.upper.read();
            if let Some(file) = upper.files.get(key) {
                return file.read_parts(key, offset, parts);
            }
            upper.whiteouts.contains(key)
        };
        if is_hidden {
            return Err(missing_or_short(key));
        }
        self.inner.lower.get_parts(key, offset, parts)
    }

    fn size(&self, key: &Key) -> Result<Option<u64>, Failure> {
        self.count(RequestKind::Get);
        Ok(match self.inner.find(&self.inner.upper.read(), key)? {
            Found::Upper(file) => Some(file.len()),
            Found::Lower { len } => Some(len),
            Found::Nowhere => None,
        })
    }

    fn list(&self, under: &str) -> Result<Vec<Key>, Failure> {
        self.count(RequestKind::List);
        let below = self.inner.lower.list(under)?;
        let upper = self.inner.upper.read();
        let mut keys: BTreeSet<Key> = below
            .into_iter()
            .filter(|key| !upper.whiteouts.contains(key))
            .collect();
        let above = upper.files.keys().filter(|key| key.as_str().starts_with(under));
        keys.extend(above.cloned());
        Ok(keys.into_iter().collect())
    }

    fn children(&self, under: &str) -> Result<Vec<String>, Failure> {
        Ok(children_of(under, &self.list(under)?))
    }

    fn delete(&self, key: &Key) -> Result<(), Failure> {
        self.count(RequestKind::Delete);
        self.inner.remove(key);
        Ok(())
    }

    fn requests(&self) -> &Requests {
        &self.inner.requests
    }

    fn disk(&self) -> Option<Arc<dyn Disk>> {
        let lower = self.inner.lower.disk()?;
        Some(Arc::new(OverlayDisk::new(lower, self.inner.clone())))
    }

    fn tier(&self) -> &'static str {
        self.inner.lower.tier()
    }

    fn describe(&self) -> String {
        self.inner.lower.describe()
    }
}
