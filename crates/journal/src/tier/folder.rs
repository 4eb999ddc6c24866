//! The `folder` tier: segments are files of a folder of this machine, under the drive's lock.
//!
//! A group is written with one wait for the disk, into a segment that was filled with zeros before. Invariant: a group is
//! written only when the one before it is durable, so that a whole group behind a broken one proves damage.

pub(crate) mod mark;
pub(crate) mod read;
pub(crate) mod room;
pub(crate) mod segment;
pub(crate) mod spent;

mod write;

use super::{Keeping, Lack, Reserve};
use crate::chain::Position;
use crate::epoch::Claim;
use crate::journal::{Waiting, closed};
use crate::manifest::Tier;
use crate::seal::{self, Seal};
use crate::spare;
use parking_lot::Mutex;
use read::Segment;
use room::{Preparer, Room, Sizes, planned_len};
use segment::{Frame, group_len};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tenure_model::{Failure, Seq};
use tenure_store::{Bucket, Disk, Lock, Signal};
use write::Writer;

/// The records of an owner's epoch, in files.
pub(crate) struct Folder {
    claim: Claim,
    bucket: Arc<dyn Bucket>,
    disk: Arc<dyn Disk>,
    /// The drive's lock, which the journal holds.
    lock: Weak<Lock>,
    sizes: Sizes,
    /// Bytes that ordinary records leave to those that free space.
    reserve: AtomicU64,
    /// Where this epoch began.
    began: Position,
    room: Mutex<Room>,
    /// None once the epoch is sealed.
    preparer: Mutex<Option<Preparer>>,
    writer: Mutex<Writer>,
    /// Every segment but the one in use and those after it, in order.
    kept: Mutex<Vec<Segment>>,
    ahead_signal: Signal,
}

impl Folder {
    /// Begins at `began`; `segments` are those of earlier epochs that are still there, in order.
    pub(crate) fn new(
        (bucket, disk, lock): (Arc<dyn Bucket>, Arc<dyn Disk>, Weak<Lock>),
        claim: Claim,
        sizes: Sizes,
        (began, segments): (Position, Vec<Segment>),
    ) -> Self {
        let preparer = Preparer::new(disk.clone(), claim.drive.clone(), claim.epoch, sizes);
        Self {
            room: Mutex::default(),
            preparer: Mutex::new(Some(preparer)),
            writer: Mutex::new(Writer::new(began)),
            kept: Mutex::new(segments),
            ahead_signal: Signal::default(),
            claim,
            bucket,
            disk,
            lock,
            reserve: AtomicU64::new(sizes.reserve),
            sizes,
            began,
        }
    }

    /// Makes another segment, unless somebody else did so since `left` bytes were left.
    fn prepare_more(&self, planned: u64, left: u64) -> Result<(), Failure> {
        let mut preparer = self.preparer.lock();
        let preparer = preparer.as_mut().ok_or_else(closed)?;
        if self.room.lock().left() > left {
            return Ok(());
        }
        let prepared = preparer.prepare(planned)?;
        // Of a short one there is room for either kind of records.
        let reserve = self.sizes.reserve.min(prepared.len / 2);
        if prepared.len < self.sizes.first {
            self.reserve.store(reserve, Ordering::Relaxed);
        }
        self.room.lock().add(prepared);
        Ok(())
    }

    /// Fails when nothing keeps another owner away any more. Whoever takes the drive over has found the lock gone before it
    /// reads what is written; so what was durable while the lock was there is found.
    fn check_lock(&self) -> Result<(), Failure> {
        if self.lock.upgrade().is_some_and(|lock| lock.is_held()) {
            return Ok(());
        }
        Err(Failure::Fenced(format!(
            "the lock of {} was removed from the bucket, or moved; whoever opens the drive next has it",
            self.claim.drive
        )))
    }

    /// Deletes marks before their segments.
    fn delete_each(&self, old: &mut Vec<Segment>) -> Result<(), Failure> {
        while let Some(segment) = old.first() {
            spent::remove(&*self.disk, &self.claim.drive, segment)?;
            old.remove(0);
        }
        Ok(())
    }

    /// Takes out of what is kept the segments without a record from `reached` on.
    fn take_old(&self, reached: Seq) -> Vec<Segment> {
        let in_use = self.writer.lock().segment_in_use();
        let end = in_use.unwrap_or(self.began.seq.next());
        let mut kept = self.kept.lock();
        // The next segment tells where one ends.
        let firsts = kept.iter().skip(1).map(|segment| segment.first).chain([end]);
        let old = firsts.take_while(|next| *next <= reached).count();
        let old = old.min(kept.len());
        kept.drain(..old).collect()
    }
}

impl Keeping for Folder {
    fn kind(&self) -> Tier {
        Tier::Folder
    }

    fn sends_max(&self) -> usize {
        1
    }

    fn take_room(&self, record_len: usize, reserve: Reserve) -> Result<(), Lack> {
        let reserve = match reserve {
            Reserve::Leave => self.reserve.load(Ordering::Relaxed),
            Reserve::Use => 0,
        };
        let mut room = self.room.lock();
        if !room.take(record_len, reserve) {
            return Err(Lack { left: room.left() });
        }
        if room.is_low() {
            self.ahead_signal.raise();
        }
        Ok(())
    }

    fn has_room(&self, record_len: usize) -> Result<(), Lack> {
        let room = self.room.lock();
        if room.fits(record_len, self.reserve.load(Ordering::Relaxed)) {
            return Ok(());
        }
        Err(Lack { left: room.left() })
    }

    fn make_room(&self, record_len: usize, lack: Lack) -> Result<(), Failure> {
        self.prepare_more(planned_len(record_len), lack.left)
    }

    fn make_ready(&self, record_len: usize) -> Result<usize, Failure> {
        let wanted = group_len(segment::FRAME_HEAD_LEN + record_len) as u64;
        let mut writer = self.writer.lock();
        while writer.room().0 < wanted {
            let next = self.room.lock().advance();
            let next = next.expect("every accepted record has room in a segment that there is");
            if let Err(failure) = self.change_segment(&mut writer, &next, wanted) {
                let mut room = self.room.lock();
                room.restore(next);
                room.plan(0, writer.room());
                return Err(failure);
            }
        }
        Ok(usize::try_from(writer.room().0).unwrap_or(usize::MAX))
    }

    fn form(&self, records: &[Waiting]) -> (u64, Vec<Position>) {
        let mut writer = self.writer.lock();
        let len: usize = records.iter().map(|waiting| Frame::len_of(&waiting.record)).sum();
        (0, writer.form(records, len))
    }

    fn send(&self, _number: u64) -> Result<(), Failure> {
        let mut writer = self.writer.lock();
        let (free, whole) = writer.room();
        let (count, len) = writer.formed();
        self.room.lock().plan(count, (free - len, whole));
        let written = writer.write();
        let mut room = self.room.lock();
        match &written {
            Ok(()) => room.leave(count),
            Err(_) => room.plan(0, (free, whole)),
        }
        written.and_then(|()| self.check_lock())
    }

    fn seal(&self, end: Position) -> Result<(), Failure> {
        let seal = Seal {
            drive: self.claim.drive.clone(),
            epoch: self.claim.epoch,
            end,
            by: self.claim.epoch,
        };
        seal::put(&*self.bucket, &seal)?;
        let mut preparer = self.preparer.lock();
        *preparer = None;
        loop {
            let unused = self.room.lock().advance();
            match unused {
                Some(unused) => self.disk.remove(&unused.key)?,
                None => break,
            }
        }
        let wanted = spare::wanted(self.sizes.first);
        if self.disk.space().is_ok_and(|space| space.free < wanted) {
            // Who opens the drive next is to have that room. Where it cannot be had now, he takes it by himself.
            let _ = self.writer.lock().cut();
        }
        Ok(())
    }

    /// Segments of files are found by their names.
    fn segment_of(&self, _seq: Seq) -> u64 {
        0
    }

    fn segments(&self) -> u64 {
        0
    }

    fn forget(&self, reached: Seq) -> Result<(), Failure> {
        let mut old = self.take_old(reached);
        let deleted = self.delete_each(&mut old);
        self.kept.lock().splice(..0, old);
        deleted
    }

    fn ahead_signal(&self) -> Option<&Signal> {
        Some(&self.ahead_signal)
    }

    /// Makes a segment before it is needed.
    fn work_ahead(&self) {
        let (is_low, left) = {
            let room = self.room.lock();
            (room.is_low(), room.left())
        };
        if is_low {
            // A full disk is what the next append hears of that finds no room.
            let _ = self.prepare_more(0, left);
        }
    }

    fn pauses(&self) -> Option<(Duration, Duration)> {
        None
    }

    /// The drive's lock keeps every other owner away.
    fn look(&self) -> Result<(), Failure> {
        self.check_lock()
    }

    fn proof_age(&self) -> Duration {
        Duration::ZERO
    }
}
