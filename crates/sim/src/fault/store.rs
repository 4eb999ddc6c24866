//! A store that several servers share, and what each of them sees of it when a fault of ours is put in.
//!
//! Invariant: without a flaw it changes nothing.

use super::Flaw;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::sync::Arc;
use tenure_model::Failure;
use tenure_store::{Bucket, Disk, Key, Put, Requests};

/// The store as one server sees it.
pub(crate) struct Store {
    inner: Arc<dyn Bucket>,
    flaw: Option<Flaw>,
    /// What this server believes to have put.
    feigned: Mutex<BTreeMap<Key, Vec<u8>>>,
    /// Whether it owns a drive, and so sees only what it has put itself.
    is_blind: Mutex<bool>,
    own: Mutex<BTreeMap<Key, ()>>,
}

impl Store {
    pub(crate) fn new(inner: Arc<dyn Bucket>, flaw: Option<Flaw>) -> Self {
        Self {
            inner,
            flaw,
            feigned: Mutex::default(),
            is_blind: Mutex::default(),
            own: Mutex::default(),
        }
    }

    /// From now on the server owns a drive, or no more.
    pub(crate) fn own(&self, owns: bool) {
        *self.is_blind.lock() = owns;
    }

    fn is_feigned(&self, key: &Key, bytes: &[u8]) -> bool {
        let is_of_journal = key.as_str().contains("/journal/");
        let begins_with = |magic: &[u8]| is_of_journal && bytes.starts_with(magic);
        self.flaw == Some(Flaw::KeepsNoSegments) && begins_with(b"TNSEGOBJ")
            || self.flaw == Some(Flaw::SealsNothing) && begins_with(b"TNSEAL_1")
    }

    fn is_hidden(&self, key: &Key) -> bool {
        let is_order = key.as_str().contains("/journal/") || key.as_str().contains("/epochs/");
        self.flaw == Some(Flaw::SeesNoOther)
            && is_order
            && *self.is_blind.lock()
            && !self.own.lock().contains_key(key)
    }
}

impl Bucket for Store {
    fn put_if_absent(&self, key: &Key, bytes: &[u8]) -> Result<Put, Failure> {
        if self.is_feigned(key, bytes) {
            self.feigned.lock().insert(key.clone(), bytes.to_vec());
            return Ok(Put::Created);
        }
        if self.flaw == Some(Flaw::Overwrites) {
            self.inner.delete(key)?;
        }
        let put = self.inner.put_if_absent(key, bytes)?;
        if put == Put::Created {
            self.own.lock().insert(key.clone(), ());
        }
        Ok(put)
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        if self.is_hidden(key) {
            return Ok(None);
        }
        match self.inner.get(key)? {
            None => Ok(self.feigned.lock().get(key).cloned()),
            found => Ok(found),
        }
    }

    fn get_parts(&self, key: &Key, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        self.inner.get_parts(key, offset, parts)
    }

    fn size(&self, key: &Key) -> Result<Option<u64>, Failure> {
        Ok(self.get(key)?.map(|bytes| bytes.len() as u64))
    }

    fn list(&self, under: &str) -> Result<Vec<Key>, Failure> {
        self.inner.list(under)
    }

    fn children(&self, under: &str) -> Result<Vec<String>, Failure> {
        self.inner.children(under)
    }

    fn delete(&self, key: &Key) -> Result<(), Failure> {
        self.inner.delete(key)
    }

    fn requests(&self) -> &Requests {
        self.inner.requests()
    }

    fn disk(&self) -> Option<Arc<dyn Disk>> {
        None
    }

    fn tier(&self) -> &'static str {
        "bucket"
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
