//! Room for records: segments are made and filled with zeros before they are needed, so that a record's
//! write changes nothing but its own blocks, and a full disk shows before a record is accepted.

use crate::segment::{FRAME_HEAD_LEN, group_len};
use std::collections::VecDeque;
use std::sync::Arc;
use tenure_model::{DriveName, Epoch, Failure};
use tenure_store::disk::BLOCK_LEN;
use tenure_store::key::number_text;
use tenure_store::{Aligned, Disk, DiskFile, Key};

/// Bytes that are written at once when a segment is filled: waiting records are not held up for long.
const ZEROS_LEN: usize = 256 << 10;

/// How long segments are, and how much of the last one is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of an owner's first segment: small, so that a mount is quick.
    pub first: u64,
    /// Bytes of the others.
    pub next: u64,
    /// Bytes that ordinary records leave to those that free space, once no more room can be had.
    pub reserve: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            first: 2 << 20,
            next: 16 << 20,
            reserve: 1 << 20,
        }
    }
}

/// A file that is written with zeros and waits for its first record.
pub(crate) struct Prepared {
    pub(crate) key: Key,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) len: u64,
}

/// Makes segments.
pub(crate) struct Preparer {
    disk: Arc<dyn Disk>,
    drive: DriveName,
    epoch: Epoch,
    sizes: Sizes,
    made: u64,
}

impl Preparer {
    pub(crate) fn new(disk: Arc<dyn Disk>, drive: DriveName, epoch: Epoch, sizes: Sizes) -> Self {
        Self {
            disk,
            drive,
            epoch,
            sizes,
            made: 0,
        }
    }

    /// Makes a segment in which a record of so many blocks fits.
    pub(crate) fn prepare(&mut self, record_blocks: u64) -> Result<Prepared, Failure> {
        let usual = if self.made == 0 {
            self.sizes.first
        } else {
            self.sizes.next
        };
        let len = usual.max(BLOCK_LEN as u64 + record_blocks);
        self.made += 1;
        let name = format!("next-{}", self.made);
        let key = Key::in_drive(&self.drive, &["journal", &number_text(self.epoch.0), &name]);
        let file = self.disk.create(&key)?;
        match fill(&*file, len) {
            Ok(()) => Ok(Prepared { key, file, len }),
            Err(failure) => {
                // What cannot be removed now is removed by the next owner.
                let _ = self.disk.remove(&key);
                Err(failure)
            }
        }
    }
}

fn fill(file: &dyn DiskFile, len: u64) -> Result<(), Failure> {
    file.reserve(len)?;
    let zeros = Aligned::new(ZEROS_LEN);
    let mut at = 0;
    while at < len {
        let part = (len - at).min(ZEROS_LEN as u64);
        file.write_at(at, &zeros[..part as usize])?;
        at += part;
    }
    file.sync()
}

/// Returns the most that a record can take on disk: a group of its own.
pub(crate) fn blocks_of(record_len: usize) -> u64 {
    group_len(FRAME_HEAD_LEN + record_len) as u64
}

/// Where records will lie that were accepted and not written yet, if each has a group of its own. Written
/// together they take no more.
///
/// Invariant: what `take` accepted fits the segments that there are.
#[derive(Default)]
pub(crate) struct Room {
    /// Segments that wait for their first record, in order.
    pub(crate) ready: VecDeque<Prepared>,
    /// How many of them the accepted records reach into.
    ahead: usize,
    /// Bytes that are left in the segment they reach, of how many.
    free: u64,
    whole: u64,
}

impl Room {
    /// Takes room for a record; false when there is not enough to leave `reserve` besides.
    pub(crate) fn take(&mut self, blocks: u64, reserve: u64) -> bool {
        let (mut ahead, mut free, mut whole) = (self.ahead, self.free, self.whole);
        while free < blocks {
            let Some(next) = self.ready.get(ahead) else {
                return false;
            };
            ahead += 1;
            whole = next.len - BLOCK_LEN as u64;
            free = whole;
        }
        let left = free - blocks + self.ready.iter().skip(ahead).map(|next| next.len).sum::<u64>();
        if left < reserve {
            return false;
        }
        (self.ahead, self.free, self.whole) = (ahead, free - blocks, whole);
        true
    }

    /// Tells whether it is time to make another segment.
    pub(crate) fn is_low(&self) -> bool {
        self.ready.len() == self.ahead && self.free <= self.whole / 4 * 3
    }

    /// Returns how many bytes are left in all.
    pub(crate) fn left(&self) -> u64 {
        self.free
            + self
                .ready
                .iter()
                .skip(self.ahead)
                .map(|next| next.len)
                .sum::<u64>()
    }

    /// Takes the next segment into use.
    pub(crate) fn advance(&mut self) -> Option<Prepared> {
        self.ahead = self.ahead.saturating_sub(1);
        self.ready.pop_front()
    }

    /// Corrects the plan once everything accepted is written: so much is left in the segment in use, of how much.
    pub(crate) fn settle(&mut self, free: u64, whole: u64) {
        (self.ahead, self.free, self.whole) = (0, free, whole);
    }
}
