//! The pack that is being filled.

use super::EntryKind;
use tenure_model::{ChunkPlace, Digest, Failure, PackNumber};

/// A pack that is being filled, on a disk. Shared by threads.
pub struct PackWriter {
    number: PackNumber,
}

impl PackWriter {
    /// Returns the pack's number.
    pub fn number(&self) -> PackNumber {
        self.number
    }

    /// Adds a chunk or page and returns where it lies, or none when the pack takes no more: start another.
    ///
    /// Bytes that the pack holds already are not added again. Copies the bytes once and does not wait for the
    /// disk, unless all buffers are on their way to it.
    pub fn append(
        &self,
        _kind: EntryKind,
        _digest: Digest,
        _bytes: &[u8],
    ) -> Result<Option<ChunkPlace>, Failure> {
        todo!()
    }

    /// Makes sure that so many more bytes have room on the disk; `Failure::NoSpace` when they have not.
    pub fn reserve(&self, _bytes: u64) -> Result<(), Failure> {
        todo!()
    }

    /// Writes the full buffers to disk; tells whether there were any.
    pub fn write_out(&self) -> Result<bool, Failure> {
        todo!()
    }

    /// Returns when everything before `upto` is durable. Concurrent callers share one wait for the disk.
    pub fn flush(&self, _upto: u64) -> Result<(), Failure> {
        todo!()
    }

    /// Returns how many bytes were appended.
    pub fn len(&self) -> u64 {
        todo!()
    }

    /// Tells whether nothing was appended yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells whether the pack takes no more.
    pub fn is_full(&self) -> bool {
        todo!()
    }

    /// Returns up to where the bytes are durable.
    pub fn durable(&self) -> u64 {
        todo!()
    }
}
