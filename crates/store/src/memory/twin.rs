//! What the twins have that copying a machine makes, for tests: a bucket that was copied too until they meet in one, and what both
//! draw.

use super::MemoryBucket;
use crate::bucket::{Bucket, Put, Requests};
use crate::disk::Disk;
use crate::key::Key;
use parking_lot::Mutex;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_model::Failure;

/// A bucket that is another one from some moment on: what a twin goes on with.
pub struct Switched(Mutex<MemoryBucket>);

impl Switched {
    /// Returns a bucket that is this one at first.
    pub fn new(memory: MemoryBucket) -> Self {
        Self(Mutex::new(memory))
    }

    /// Is that one from now on.
    pub fn switch(&self, to: MemoryBucket) {
        *self.0.lock() = to;
    }

    fn now(&self) -> MemoryBucket {
        self.0.lock().clone()
    }
}

impl Bucket for Switched {
    fn put_if_absent(&self, key: &Key, bytes: &[u8]) -> Result<Put, Failure> {
        self.now().put_if_absent(key, bytes)
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        self.now().get(key)
    }

    fn get_parts(&self, key: &Key, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        self.now().get_parts(key, offset, parts)
    }

    fn size(&self, key: &Key) -> Result<Option<u64>, Failure> {
        self.now().size(key)
    }

    fn list(&self, under: &str) -> Result<Vec<Key>, Failure> {
        self.now().list(under)
    }

    fn children(&self, under: &str) -> Result<Vec<String>, Failure> {
        self.now().children(under)
    }

    fn delete(&self, key: &Key) -> Result<(), Failure> {
        self.now().delete(key)
    }

    fn requests(&self) -> &Requests {
        unreachable!("nobody asks a twin what it has cost")
    }

    fn disk(&self) -> Option<Arc<dyn Disk>> {
        None
    }

    fn tier(&self) -> &'static str {
        "bucket"
    }

    fn describe(&self) -> String {
        "a bucket of a twin".to_owned()
    }
}

/// Draws the same as its twin for the first `count` times, and then what nobody else draws.
pub fn draw(count: u64) -> Arc<dyn Fn() -> [u8; 16] + Send + Sync> {
    static DRAWN: AtomicU64 = AtomicU64::new(1 << 32);
    let drawn = AtomicU64::new(0);
    Arc::new(move || match drawn.fetch_add(1, Ordering::SeqCst) {
        number if number < count => [number as u8 + 1; 16],
        _ => u128::from(DRAWN.fetch_add(1, Ordering::SeqCst)).to_le_bytes(),
    })
}
