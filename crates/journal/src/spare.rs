//! Room that is set aside on a bucket's disk: a file that is given up when a drive is to be opened and there is no other room.
//!
//! So who has filled the disk with a drive can open that, and delete what fills it. Invariant: the file holds nothing, and whoever
//! needs its room removes it first.

use tenure_model::Failure;
use tenure_store::{Bucket, Disk, Key};

/// How many of the first segments of a journal there is room for: one, and a claim, seals, pages and a manifest beside it.
const SEGMENTS: u64 = 2;

fn key() -> Key {
    Key::parse("spare").expect("a literal key")
}

/// Sets room aside, for segments of so many bytes, unless that was done before or there is little. What cannot be set aside now is
/// at the end of the next owner.
pub fn keep(bucket: &dyn Bucket, segment_len: u64) {
    let Some(disk) = bucket.disk() else { return };
    if let Err(failure) = try_keep(bucket, &*disk, segment_len * SEGMENTS) {
        tracing::debug!(%failure, "no room is set aside");
    }
}

fn try_keep(bucket: &dyn Bucket, disk: &dyn Disk, wanted: u64) -> Result<(), Failure> {
    // Less than a segment with something beside it would open nothing.
    let least = wanted / SEGMENTS / 4 * 5;
    // The file system itself takes some of what is free.
    let len = wanted.min(disk.space()?.free / 8 * 7);
    if len < least || bucket.size(&key())?.is_some() {
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

/// Gives up what was set aside; tells whether there was something.
pub(crate) fn give_up_on(disk: &dyn Disk) -> bool {
    matches!(disk.open(&key()), Ok(Some(_))) && disk.remove(&key()).is_ok()
}

/// As `give_up_on`, on the disk of a bucket.
pub fn give_up(bucket: &dyn Bucket) -> bool {
    bucket.disk().is_some_and(|disk| give_up_on(&*disk))
}
