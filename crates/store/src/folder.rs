//! A bucket that is a folder of this machine.

use crate::bucket::{Bucket, OpenError, Put, Requests};
use crate::disk::Disk;
use crate::key::Key;
use std::io::IoSliceMut;
use std::path::Path;
use std::sync::Arc;
use tenure_model::Failure;

/// A bucket that is a folder of this machine. Clones share it.
#[derive(Clone)]
pub struct FolderBucket {
    requests: Arc<Requests>,
}

impl FolderBucket {
    /// Makes a bucket of a folder that is empty or not there yet.
    pub fn create(_path: &Path) -> Result<Self, OpenError> {
        todo!()
    }

    /// Opens a folder that is a bucket; refuses any other, and one in a newer format.
    pub fn open(_path: &Path) -> Result<Self, OpenError> {
        todo!()
    }
}

impl Bucket for FolderBucket {
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
        todo!()
    }
}
