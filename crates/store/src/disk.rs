//! Files that grow in place inside a folder bucket: the journal's segments and the pack that is being filled.
//! What a disk does, not how one does it. Only the `folder` tier uses it.
//!
//! Invariant: creating, renaming and removing a file are durable when they return; its bytes are durable
//! only once `sync` or `write_durably` returned.

use crate::bucket::OpenError;
use crate::key::Key;
use std::io::IoSliceMut;
use std::sync::Arc;
use tenure_model::Failure;

/// Bytes in a block: writes that begin and end on one, from memory that does, go past the kernel's cache.
pub const BLOCK_LEN: usize = 4096;

/// The files of a folder.
pub trait Disk: Send + Sync {
    /// Creates an empty file; one that is there already is a failure.
    fn create(&self, key: &Key) -> Result<Arc<dyn DiskFile>, Failure>;

    /// Opens a file for reading and writing, or returns none when there is no such file.
    fn open(&self, key: &Key) -> Result<Option<Arc<dyn DiskFile>>, Failure>;

    /// Renames a file; a target that is there already is a failure.
    fn rename(&self, from: &Key, to: &Key) -> Result<(), Failure>;

    /// Removes a file; one that is not there is no failure.
    fn remove(&self, key: &Key) -> Result<(), Failure>;

    /// Takes the exclusive lock that `key` names and notes who has it; refuses with the holder's words when it is taken.
    fn lock(&self, key: &Key, holder: &str) -> Result<Lock, OpenError>;

    /// As `lock`, for who only reads: others may do so too where they can share a lock, and in a folder nothing is written for it,
    /// not even who has it.
    fn lock_to_read(&self, key: &Key, holder: &str) -> Result<Lock, OpenError> {
        self.lock(key, holder)
    }

    /// Returns how much room the file system has.
    fn space(&self) -> Result<Space, Failure>;
}

/// One file. After a failed write or sync it must not be trusted any more.
pub trait DiskFile: Send + Sync {
    /// Writes bytes at an offset. They are durable after the next `sync`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure>;

    /// Writes bytes at an offset; they are durable when this returns (nothing is said of other writes).
    fn write_durably(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure>;

    /// Fills `parts`, one behind the other, from an offset; a file that is too short is corrupt.
    fn read_parts(&self, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure>;

    /// Makes all that was written durable.
    fn sync(&self) -> Result<(), Failure>;

    /// Makes what is there durable and forgets cached copies, so that reads return what the disk holds.
    fn settle(&self) -> Result<(), Failure>;

    /// Makes sure that the first `len` bytes have room, and the file is at least as long; new bytes read as zeros.
    fn reserve(&self, len: u64) -> Result<(), Failure>;

    /// Cuts the file to `len` bytes.
    fn truncate(&self, len: u64) -> Result<(), Failure>;

    /// Returns the file's length.
    fn len(&self) -> Result<u64, Failure>;

    /// Fills `into` from an offset; a file that is too short is corrupt.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        self.read_parts(offset, &mut [IoSliceMut::new(into)])
    }

    /// Tells whether the file has no bytes.
    fn is_empty(&self) -> Result<bool, Failure> {
        Ok(self.len()? == 0)
    }
}

/// An exclusive lock; dropping it gives it back, and so does the end of the process.
pub struct Lock {
    held: Box<dyn Held>,
}

/// What a disk keeps of a lock; dropping it gives the lock back.
pub trait Held: Send + Sync {
    /// Tells whether the lock still keeps others out.
    fn is_held(&self) -> bool;
}

impl Lock {
    /// Wraps what a disk keeps.
    pub fn new(held: impl Held + 'static) -> Self {
        Self { held: Box::new(held) }
    }

    /// Tells whether it still keeps others out: a file that somebody has removed or moved keeps nobody out, whoever has locked it.
    pub fn is_held(&self) -> bool {
        self.held.is_held()
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lock")
    }
}

/// How much room a file system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All bytes.
    pub total: u64,
    /// Bytes that can still be written.
    pub free: u64,
}
