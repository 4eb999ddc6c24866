//! All packs of one drive: which there are, and reading from them by address.

use super::{Entry, Missing, PackName, PackWriter, Sealed};
use crate::bucket::Bucket;
use std::sync::Arc;
use tenure_model::{Address, ChunkPlace, DriveName, Failure, PackNumber};

/// The packs of one drive. Shared by threads.
pub struct Packs {}

/// The packs that a drive's folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Sealed ones.
    pub sealed: Vec<PackName>,
    /// Those that were being filled when their writer ended: recover or discard them.
    pub open: Vec<PackNumber>,
}

/// What recovery made of a pack that was being filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The pack, sealed, with every chunk that could be verified; none when there was nothing to keep.
    pub sealed: Option<Sealed>,
    /// Chunks that the journal names and that cannot be had. One that was acknowledged is a loss.
    pub missing: Vec<Missing>,
}

impl Packs {
    /// Knows the packs that `table` names.
    pub fn new(
        _bucket: Arc<dyn Bucket>,
        _drive: DriveName,
        _table: impl IntoIterator<Item = PackName>,
    ) -> Arc<Self> {
        todo!()
    }

    /// Lists the packs of a drive.
    pub fn list(_bucket: &dyn Bucket, _drive: &DriveName) -> Result<Listing, Failure> {
        todo!()
    }

    /// Starts a pack of a number that was never used, on the bucket's disk.
    pub fn start(&self, _number: PackNumber) -> Result<Arc<PackWriter>, Failure> {
        todo!()
    }

    /// Seals a pack that was started: its bytes and its index are durable, and it takes no more.
    pub fn seal(&self, _number: PackNumber) -> Result<Sealed, Failure> {
        todo!()
    }

    /// Seals what a crash left open, given the chunks that the journal places there.
    pub fn recover_open(&self, _number: PackNumber, _places: &[ChunkPlace]) -> Result<Recovered, Failure> {
        todo!()
    }

    /// Removes a pack that a crash left open and of which the journal names nothing.
    pub fn discard_open(&self, _number: PackNumber) -> Result<(), Failure> {
        todo!()
    }

    /// Makes a sealed pack known, such as one that another process sealed.
    pub fn add(&self, _name: PackName) {
        todo!()
    }

    /// Deletes a sealed pack that nothing names any more.
    pub fn delete(&self, _number: PackNumber) -> Result<(), Failure> {
        todo!()
    }

    /// Returns all sealed packs, by number.
    pub fn table(&self) -> Vec<PackName> {
        todo!()
    }

    /// Returns the whole chunk or page, verified by its digest.
    pub fn read(&self, _at: Address) -> Result<Vec<u8>, Failure> {
        todo!()
    }

    /// Fills `into` with the chunk's bytes from `start` on, verified by the pack's block checksums.
    pub fn read_into(&self, _at: Address, _start: u32, _into: &mut [u8]) -> Result<(), Failure> {
        todo!()
    }

    /// Returns what a pack holds, by digest.
    pub fn entries(&self, _number: PackNumber) -> Result<Vec<Entry>, Failure> {
        todo!()
    }

    /// Reads all of a sealed pack and verifies every block and every digest; returns its length.
    pub fn verify(&self, _number: PackNumber) -> Result<u64, Failure> {
        todo!()
    }

    /// Starts the thread that writes full buffers to disk; it ends when the packs are dropped.
    pub fn start_thread(self: &Arc<Self>) {
        todo!()
    }
}
