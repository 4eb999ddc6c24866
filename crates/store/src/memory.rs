//! A bucket in memory, for tests and the simulator: the same promises, and a disk that can lose power.

use crate::bucket::{Bucket, Put, Requests};
use crate::disk::Disk;
use crate::key::Key;
use std::io::IoSliceMut;
use std::sync::Arc;
use tenure_model::Failure;

/// A bucket in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryBucket {
    requests: Arc<Requests>,
}

impl MemoryBucket {
    /// Returns an empty bucket that carries the marker of one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a bucket that holds what a disk holds after the power failed now: of each file, what was synced
    /// and a part, chosen by `seed`, of what was not.
    pub fn after_power_loss(&self, _seed: u64) -> Self {
        todo!()
    }

    /// Returns a bucket that holds what this one does now: what another process sees after this one was killed.
    pub fn copy(&self) -> Self {
        todo!()
    }
}

impl Bucket for MemoryBucket {
    fn put_if_absent(&self, _key: &Key, _bytes: &[u8]) -> Result<Put, Failure> {
        todo!()
    }

    fn get(&self, _key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        todo!()
    }

    fn get_parts(&self, _key: &Key, _offset: u64, _parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        todo!()
    }

    fn size(&self, _key: &Key) -> Result<Option<u64>, Failure> {
        todo!()
    }

    fn list(&self, _under: &str) -> Result<Vec<Key>, Failure> {
        todo!()
    }

    fn children(&self, _under: &str) -> Result<Vec<String>, Failure> {
        todo!()
    }

    fn delete(&self, _key: &Key) -> Result<(), Failure> {
        todo!()
    }

    fn requests(&self) -> &Requests {
        &self.requests
    }

    fn disk(&self) -> Option<Arc<dyn Disk>> {
        todo!()
    }

    fn describe(&self) -> String {
        "a bucket in memory".to_owned()
    }
}
