//! The journal of an owner: records are put in order at once, and are durable later.

use crate::Position;
use crate::manifest::Manifest;
use std::sync::Arc;
use tenure_model::{Epoch, Failure, Seq};

/// Is told once a record is durable (with its position), or why it is not. Runs on the thread that committed,
/// in the order of the records; it must not block on that order.
pub type Done = Box<dyn FnOnce(Result<Position, Failure>) + Send>;

/// The journal of a drive's owner. Shared by threads.
pub struct Journal {}

impl Journal {
    /// Returns the owner's epoch.
    pub fn epoch(&self) -> Epoch {
        todo!()
    }

    /// Puts a record in order without waking a committer: `commit_through` or the next `append` commits it.
    pub fn enqueue(&self, _record: Vec<u8>, _done: Done) -> Result<Seq, Failure> {
        todo!()
    }

    /// Puts a record in order and has the journal's thread commit it. A failure means that nothing was queued.
    pub fn append(&self, _record: Vec<u8>, _done: Done) -> Result<Seq, Failure> {
        todo!()
    }

    /// As `append`, for records that free space: may use the last of the room, kept for them.
    pub fn append_from_reserve(&self, _record: Vec<u8>, _done: Done) -> Result<Seq, Failure> {
        todo!()
    }

    /// Returns when every record up to `seq` is durable. The caller's own thread commits when nobody does,
    /// and then runs the callbacks of what it committed: hold no lock that they take.
    pub fn commit_through(&self, _seq: Seq) -> Result<(), Failure> {
        todo!()
    }

    /// Puts a record in order and returns when it is durable, without a hand-over to another thread.
    pub fn append_now(&self, _record: Vec<u8>) -> Result<Position, Failure> {
        todo!()
    }

    /// Makes sure that so many more bytes of records have room; `Failure::NoSpace` when they have not.
    pub fn reserve(&self, _bytes: u64) -> Result<(), Failure> {
        todo!()
    }

    /// Returns the last record that is durable.
    pub fn durable(&self) -> Position {
        todo!()
    }

    /// Returns the last record that was put in order.
    pub fn last(&self) -> Seq {
        todo!()
    }

    /// Returns how many bytes of records there are since the newest manifest: the server folds when they are many.
    pub fn unfolded_bytes(&self) -> u64 {
        todo!()
    }

    /// Makes a manifest durable, then deletes the segments and manifests that no recovery needs any more.
    pub fn publish(&self, _manifest: &Manifest) -> Result<(), Failure> {
        todo!()
    }

    /// Starts the threads that commit and that prepare segments; they end when the journal is dropped.
    pub fn start_threads(self: &Arc<Self>) {
        todo!()
    }
}
