//! What epochs that are over hold of the disk and nobody needs: given back before the next one asks for room, where there is hardly any.
//!
//! Invariant: every record that a recovery may read stays, of an epoch without a seal its last segment as well, and of each segment
//! that is made shorter a block of zeros behind its records: by that the reader knows that nothing is missing.

use super::mark::Mark;
use super::read::Segment;
use super::segment::{Frame, Header, group_len};
use crate::evidence::Past;
use tenure_model::{DriveName, Failure, Seq};
use tenure_store::disk::BLOCK_LEN;
use tenure_store::{Disk, DiskFile, bucket};

/// What epochs that are over have left on a disk.
pub(crate) struct Spent<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) drive: &'a DriveName,
    pub(crate) past: &'a [Past],
    /// The record behind the last one.
    pub(crate) end: Seq,
}

impl Spent<'_> {
    /// Gives back files that waited for records, and the ends of segments that none came into.
    pub(crate) fn give_back_unused(&self) -> Result<(), Failure> {
        for past in self.past {
            for key in &past.found.unused {
                self.disk.remove(key)?;
            }
            if let Some(last) = past.found.segments.last() {
                shorten(self.disk, last)?;
            }
        }
        Ok(())
    }

    /// Gives back the segments without a record from `needed` on.
    pub(crate) fn give_back_before(&self, needed: Seq) -> Result<(), Failure> {
        let all: Vec<_> = self.past.iter().flat_map(in_order).collect();
        let ends = all.iter().skip(1).map(|(segment, _)| segment.first);
        for ((segment, is_last), end) in all.iter().zip(ends.chain([self.end])) {
            if end > needed {
                break;
            }
            if !is_last {
                remove(self.disk, self.drive, segment)?;
            }
        }
        Ok(())
    }
}

/// Returns the segments of an epoch, and whether it is the last of one without a seal.
fn in_order(past: &Past) -> impl Iterator<Item = (&Segment, bool)> {
    let segments = &past.found.segments;
    let last = segments.len().saturating_sub(1);
    let is_kept = past.seal.is_none();
    let numbered = segments.iter().enumerate();
    numbered.map(move |(number, segment)| (segment, is_kept && number == last))
}

/// Deletes the mark before the segment.
pub(super) fn remove(disk: &dyn Disk, drive: &DriveName, segment: &Segment) -> Result<(), Failure> {
    let mark = Mark {
        epoch: segment.epoch,
        first: segment.first,
    };
    mark.remove(disk, drive)?;
    disk.remove(&segment.key)
}

/// Cuts off what no record came into, but for a block.
fn shorten(disk: &dyn Disk, segment: &Segment) -> Result<(), Failure> {
    let Some(file) = disk.open(&segment.key)? else {
        return Ok(());
    };
    let len = file.len()?;
    let mut bytes = vec![0; bucket::whole_len(&segment.key, len)?];
    file.read_at(0, &mut bytes)?;
    match used_len(&bytes) {
        Some(used) => cut(&*file, used),
        // What is damaged stays as it is.
        None => Ok(()),
    }
}

/// Cuts a segment off behind its records, which end at `used`, and a block of zeros.
pub(super) fn cut(file: &dyn DiskFile, used: u64) -> Result<(), Failure> {
    let len = used + BLOCK_LEN as u64;
    if file.len()? <= len {
        return Ok(());
    }
    file.truncate(len)?;
    file.sync()
}

/// Returns where the records of a segment end, if everything behind is zeros.
fn used_len(bytes: &[u8]) -> Option<u64> {
    let header = Header::parsed(bytes).ok()?;
    let mut at = BLOCK_LEN;
    while let Some(frame) = bytes.get(at..).and_then(|rest| Frame::parsed(header.salt, rest)) {
        at += Frame::len_of(frame.record);
        if frame.left == 0 {
            at = group_len(at);
        }
    }
    let behind = bytes.get(at..)?;
    let is_free = at.is_multiple_of(BLOCK_LEN) && behind.iter().all(|byte| *byte == 0);
    is_free.then_some(at as u64)
}
