//! Room for records: segments are made and filled with zeros before they are needed, so that a record's
//! write changes nothing but its own blocks, and a full disk shows before a record is accepted.

use super::segment::FRAME_HEAD_LEN;
use crate::spare;
use std::collections::VecDeque;
use std::sync::Arc;
use tenure_model::{DriveName, Epoch, Failure};
use tenure_store::disk::BLOCK_LEN;
use tenure_store::key::number_text;
use tenure_store::{Aligned, Disk, DiskFile, Key};

/// Bytes that are written at once when a segment is filled: waiting records are not held up for long.
const ZEROS_LEN: usize = 256 << 10;

/// Bytes of the shortest segment that is made where there is little room: less takes in hardly anybody who would free some.
const SHORT_LEN_MIN: u64 = 128 << 10;

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
    /// Whether the room that is set aside may be there still, for the first segment.
    has_spare: bool,
}

impl Preparer {
    pub(crate) fn new(disk: Arc<dyn Disk>, drive: DriveName, epoch: Epoch, sizes: Sizes) -> Self {
        Self {
            disk,
            drive,
            epoch,
            sizes,
            made: 0,
            has_spare: true,
        }
    }

    /// Makes a segment in which a record that is planned with `len` bytes fits.
    pub(crate) fn prepare(&mut self, planned_len: u64) -> Result<Prepared, Failure> {
        let usual = if self.made == 0 {
            self.sizes.first
        } else {
            // Most of what little room there is belongs to contents and pages, above all to those by which a reclaim gives back more.
            let quarter = self.disk.space()?.free / 4;
            self.sizes.next.min(quarter.max(self.sizes.first))
        };
        let len = usual
            .max(BLOCK_LEN as u64 + planned_len)
            .next_multiple_of(BLOCK_LEN as u64);
        // Many ask while a disk is full, and a file that is made in vain writes to it each time.
        let disk = Arc::clone(&self.disk);
        let lacks = |len: u64| disk.space().is_ok_and(|space| space.free < len);
        let mut is_short = self.made == 0 && lacks(len);
        if is_short && std::mem::take(&mut self.has_spare) {
            spare::give_up_on(&*self.disk);
            is_short = lacks(len);
        }
        let len = if is_short {
            self.short_len(len, planned_len)?
        } else {
            len
        };
        if lacks(len) {
            return Err(self.no_space(len));
        }
        let prepared = self.make(len)?;
        if self.made == 1 && lacks(spare::wanted(self.sizes.first)) {
            // What is left is for pages, and for who opens the drive next.
            spare::keep_on(&*self.disk, self.sizes.first);
        }
        Ok(prepared)
    }

    /// Returns how long the first segment may be where there is no room for the usual one: who deletes something needs little of it,
    /// and the pages that are folded then need some room as well.
    fn short_len(&self, usual: u64, planned_len: u64) -> Result<u64, Failure> {
        let blocks = self.disk.space()?.free / 2 / BLOCK_LEN as u64;
        let half = blocks * BLOCK_LEN as u64;
        if half < SHORT_LEN_MIN.max(BLOCK_LEN as u64 + planned_len) {
            return Err(self.no_space(usual));
        }
        Ok(half.min(usual))
    }

    fn no_space(&self, len: u64) -> Failure {
        Failure::NoSpace(format!(
            "the journal of {} needs {len} more bytes on the bucket's disk",
            self.drive
        ))
    }

    fn make(&mut self, len: u64) -> Result<Prepared, Failure> {
        self.made += 1;
        let name = format!("next-{}", self.made);
        let key = Key::in_drive(&self.drive, &["journal", &number_text(self.epoch.0), &name]);
        let file = self.disk.create(&key)?;
        match fill(&*file, len) {
            Ok(()) => Ok(Prepared { key, file, len }),
            Err(failure) => {
                // One that cannot be removed now keeps its name, and is removed by the next owner.
                if self.disk.remove(&key).is_ok() {
                    self.made -= 1;
                }
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

/// Returns what is planned for a record: its frame, and a part of the padding of groups. There are at most two groups
/// for each `GROUP_LEN_MAX` bytes that wait, and one more, for which a segment's whole blocks have room.
pub(crate) fn planned_len(record_len: usize) -> u64 {
    let frame = (FRAME_HEAD_LEN + record_len) as u64;
    frame + frame / 256
}

/// Where the records will lie that wait to be written.
///
/// Invariant: what `take` accepted fits the segments that there are.
#[derive(Default)]
pub(crate) struct Room {
    /// Segments that wait for their first record, in order.
    ready: VecDeque<Prepared>,
    /// The lengths of the records that wait, in order.
    waiting: VecDeque<usize>,
    reached: Reached,
}

/// How far the waiting records reach.
#[derive(Clone, Copy, Default)]
struct Reached {
    /// Into how many of the segments that are ready.
    ahead: usize,
    /// Bytes that are left in the last of those, or in the one in use; of how many.
    free: u64,
    whole: u64,
}

impl Room {
    /// Adds a segment that waits for its first record.
    pub(crate) fn add(&mut self, segment: Prepared) {
        self.ready.push_back(segment);
    }

    /// Takes room for a record that waits from now on; false when there is not enough to leave `reserve` besides.
    pub(crate) fn take(&mut self, record_len: usize, reserve: u64) -> bool {
        let place = self.place(planned_len(record_len), reserve);
        if let Some(place) = place {
            self.reached = place;
            self.waiting.push_back(record_len);
        }
        place.is_some()
    }

    /// Tells whether one more record fits, and leaves `reserve` besides.
    pub(crate) fn fits(&self, record_len: usize, reserve: u64) -> bool {
        self.place(planned_len(record_len), reserve).is_some()
    }

    fn place(&self, planned_len: u64, reserve: u64) -> Option<Reached> {
        let mut reached = self.reached;
        while reached.free < planned_len {
            let whole = usable(self.ready.get(reached.ahead)?);
            reached = Reached {
                ahead: reached.ahead + 1,
                free: whole,
                whole,
            };
        }
        reached.free -= planned_len;
        (self.left_behind(reached) >= reserve).then_some(reached)
    }

    /// Notes that the first records wait no more.
    pub(crate) fn leave(&mut self, count: usize) {
        self.waiting.drain(..count);
    }

    fn left_behind(&self, reached: Reached) -> u64 {
        reached.free + self.ready.iter().skip(reached.ahead).map(usable).sum::<u64>()
    }

    /// Tells whether it is time to make another segment.
    pub(crate) fn is_low(&self) -> bool {
        let Reached { ahead, free, whole } = self.reached;
        self.ready.len() == ahead && free <= whole / 4 * 3
    }

    /// Returns how many bytes are left in all.
    pub(crate) fn left(&self) -> u64 {
        self.left_behind(self.reached)
    }

    /// Takes the next segment into use.
    pub(crate) fn advance(&mut self) -> Option<Prepared> {
        self.reached.ahead = self.reached.ahead.saturating_sub(1);
        self.ready.pop_front()
    }

    /// Puts back a segment that could not be taken into use; plan anew then.
    pub(crate) fn restore(&mut self, segment: Prepared) {
        self.ready.push_front(segment);
    }

    /// Plans anew: so much is left in the segment in use, of how much, behind the first `placed` records.
    pub(crate) fn plan(&mut self, placed: usize, (free, whole): (u64, u64)) {
        let ahead = 0;
        self.reached = Reached { ahead, free, whole };
        for number in placed..self.waiting.len() {
            if let Some(place) = self.place(planned_len(self.waiting[number]), 0) {
                self.reached = place;
            }
        }
    }
}

/// Returns how many bytes of groups a segment has room for.
fn usable(segment: &Prepared) -> u64 {
    segment.len - BLOCK_LEN as u64
}
