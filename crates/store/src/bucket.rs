//! What every bucket does: objects that are written once, read, listed and deleted. Not how one does it.
//!
//! Invariant: an object never changes after `put_if_absent` made it, and is durable when that returns.

use crate::disk::Disk;
use crate::key::Key;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_model::limits::OBJECT_LEN_MAX;
use tenure_model::{Failure, Refusal};
use thiserror::Error;

/// What a conditional put found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object was not there; now it is, durably.
    Created,
    /// An object of that key is there, durably: another's, or ours when a reply was lost, of an earlier call or of a try within
    /// this one. Read it and compare it whole to know.
    Exists,
}

/// A store of objects that are written once. Shared by threads; every call blocks.
pub trait Bucket: Send + Sync {
    /// Creates an object unless its key is taken.
    ///
    /// `Failure::Unknown` means that it may have been created, or may yet be, by a request that is still on its way: read
    /// it, or put the same again. Any other failure means that this call has not created it and will not.
    fn put_if_absent(&self, key: &Key, bytes: &[u8]) -> Result<Put, Failure>;

    /// Returns an object's bytes, or none when there is no such object. One of more than `OBJECT_LEN_MAX` bytes is corrupt.
    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure>;

    /// Fills `parts`, one behind the other, from `offset` on; an object that is missing or too short is corrupt.
    fn get_parts(&self, key: &Key, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure>;

    /// Returns an object's length, or none when there is no such object.
    fn size(&self, key: &Key) -> Result<Option<u64>, Failure>;

    /// Returns every key that begins with `under`, in byte order; `under` is empty or ends with `/`.
    fn list(&self, under: &str) -> Result<Vec<Key>, Failure>;

    /// Returns what stands directly below `under`, in byte order: names of objects, and of groups without their `/`.
    ///
    /// Some services name a group for a while after its last object was deleted.
    fn children(&self, under: &str) -> Result<Vec<String>, Failure>;

    /// Deletes an object, durably; one that is not there is no failure. `Failure::Unknown` means that it may be gone.
    fn delete(&self, key: &Key) -> Result<(), Failure>;

    /// Returns the counters of everything that was asked of this bucket.
    fn requests(&self) -> &Requests;

    /// Returns the bucket's disk, where it is a folder of this machine: what the `folder` tier needs.
    fn disk(&self) -> Option<Arc<dyn Disk>>;

    /// Returns the name of the tier that a drive in it has: it says where a sync must be before it is acknowledged.
    fn tier(&self) -> &'static str;

    /// Says which bucket this is, in words for people, such as `the folder /data/bucket`.
    fn describe(&self) -> String;

    /// Returns an object's last `len` bytes, or all where it has no more, and its length; none when there is no such object.
    /// Only of an object that is not empty: services differ on the end of one that is.
    fn get_end(&self, key: &Key, len: usize) -> Result<Option<(Vec<u8>, u64)>, Failure> {
        end_by_length(self, key, len)
    }

    /// Fills `into` from `offset` on; an object that is missing or too short is corrupt.
    fn get_range(&self, key: &Key, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        self.get_parts(key, offset, &mut [IoSliceMut::new(into)])
    }
}

/// Why something cannot be opened or made: a rule says no, or the world failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// A rule says no: what, where, and what to do.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The world failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// What has been asked of a bucket and its disk so far. An idle drive adds nothing.
#[derive(Debug, Default)]
pub struct Requests {
    puts: AtomicU64,
    gets: AtomicU64,
    lists: AtomicU64,
    deletes: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
    bytes_written: AtomicU64,
}

/// The counters of [`Requests`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Objects put, or tried to.
    pub puts: u64,
    /// Objects, ranges and sizes asked for.
    pub gets: u64,
    /// Listings.
    pub lists: u64,
    /// Deletions.
    pub deletes: u64,
    /// Writes to files of the disk.
    pub writes: u64,
    /// Waits for the disk: `fdatasync`, or a write that is durable when it returns.
    pub syncs: u64,
    /// Bytes of objects that were put, and of writes to files.
    pub bytes_written: u64,
}

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// An object is put.
    Put,
    /// An object, a range or a size is asked for.
    Get,
    /// Keys are listed.
    List,
    /// An object is deleted.
    Delete,
    /// A file of the disk is written.
    Write,
    /// The disk is waited for.
    Sync,
}

impl Requests {
    /// Counts one request.
    pub fn count(&self, kind: RequestKind) {
        let counter = match kind {
            RequestKind::Put => &self.puts,
            RequestKind::Get => &self.gets,
            RequestKind::List => &self.lists,
            RequestKind::Delete => &self.deletes,
            RequestKind::Write => &self.writes,
            RequestKind::Sync => &self.syncs,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a put or a write of so many bytes.
    pub fn count_bytes(&self, kind: RequestKind, bytes: usize) {
        self.count(kind);
        self.bytes_written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the counters as they are now.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            puts: read(&self.puts),
            gets: read(&self.gets),
            lists: read(&self.lists),
            deletes: read(&self.deletes),
            writes: read(&self.writes),
            syncs: read(&self.syncs),
            bytes_written: read(&self.bytes_written),
        }
    }
}

impl Counts {
    /// Returns how many requests there were of all kinds.
    pub fn total(&self) -> u64 {
        self.puts + self.gets + self.lists + self.deletes + self.writes + self.syncs
    }
}

/// Returns an object's end, and its length, where it must be known first.
pub(crate) fn end_by_length<B: Bucket + ?Sized>(
    bucket: &B,
    key: &Key,
    len: usize,
) -> Result<Option<(Vec<u8>, u64)>, Failure> {
    let Some(size) = bucket.size(key)? else {
        return Ok(None);
    };
    let start = size.saturating_sub(len as u64);
    let mut bytes = vec![0; usize::try_from(size - start).expect("no more than `len`")];
    bucket.get_range(key, start, &mut bytes)?;
    Ok(Some((bytes, size)))
}

/// Returns how much memory takes an object, or part of one, that is read whole; refuses what is longer than any that was written.
pub fn whole_len(key: &Key, len: u64) -> Result<usize, Failure> {
    let whole = usize::try_from(len).ok().filter(|_| len <= OBJECT_LEN_MAX);
    whole.ok_or_else(|| {
        Failure::Corrupt(format!(
            "{key}: it is too long: {len} bytes, where {OBJECT_LEN_MAX} are the most that was ever written"
        ))
    })
}

/// Says that an object is missing or too short.
pub(crate) fn missing_or_short(key: &Key) -> Failure {
    Failure::Corrupt(format!("{key}: it is missing or too short"))
}

/// Returns what stands directly below `under` in keys that begin with it, in byte order.
pub(crate) fn children_of(under: &str, keys: &[Key]) -> Vec<String> {
    let rest = keys.iter().map(|key| &key.as_str()[under.len()..]);
    let first = rest.map(|rest| rest.split('/').next().expect("a split has a first part"));
    let mut names: Vec<String> = first.map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}
