//! Room that is set aside on a bucket's disk: a file that is given up when a drive is to be opened, or what was deleted in it to be
//! given back, and there is no other room.
//!
//! So who has filled the disk with a drive can open that, delete what fills it, and have the room again. Invariant: the file holds
//! nothing, and whoever needs its room removes it first.

use tenure_model::Failure;
use tenure_store::{Bucket, Disk, Key};

/// How many of the first segments of a journal there is room for: one, and a claim, seals, pages and a manifest beside it.
const SEGMENTS: u64 = 2;
/// Less room than that opens nothing.
pub(crate) const LEN_MIN: u64 = 256 << 10;

fn key() -> Key {
    Key::parse("spare").expect("a literal key")
}

/// Returns how much room an owner needs whose first segment has so many bytes.
pub(crate) fn wanted(segment_len: u64) -> u64 {
    segment_len * SEGMENTS
}

/// Sets room aside, for segments of so many bytes, unless that was done before or there is little. What cannot be set aside now is
/// at the end of the next owner.
pub fn keep(bucket: &dyn Bucket, segment_len: u64) {
    if let Some(disk) = bucket.disk() {
        keep_on(&*disk, segment_len);
    }
}

/// As `keep`, on the disk of a bucket.
pub(crate) fn keep_on(disk: &dyn Disk, segment_len: u64) {
    if let Err(failure) = try_keep(disk, wanted(segment_len)) {
        tracing::debug!(%failure, "no room is set aside");
    }
}

fn try_keep(disk: &dyn Disk, wanted: u64) -> Result<(), Failure> {
    // The file system itself takes some of what is free.
    let len = wanted.min(disk.space()?.free / 16 * 15);
    if len < LEN_MIN.min(wanted) || is_kept(disk) {
        return Ok(());
    }
    let file = disk.create(&key())?;
    let reserved = file.reserve(len).and_then(|()| file.sync());
    if reserved.is_err() {
        // An empty one would be taken for room.
        disk.remove(&key())?;
    }
    reserved
}

/// Tells whether room is set aside.
pub(crate) fn is_kept(disk: &dyn Disk) -> bool {
    matches!(disk.open(&key()), Ok(Some(_)))
}

/// Gives up what was set aside; tells whether there was something.
pub(crate) fn give_up_on(disk: &dyn Disk) -> bool {
    is_kept(disk) && disk.remove(&key()).is_ok()
}

/// As `give_up_on`, on the disk of a bucket.
pub fn give_up(bucket: &dyn Bucket) -> bool {
    bucket.disk().is_some_and(|disk| give_up_on(&*disk))
}
