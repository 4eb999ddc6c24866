//! Committing: what waits is written as one group, made durable with one wait for the disk, and told.
//!
//! Invariant: a group whose write failed is written again as it was, at its place, before anything behind it. So whatever
//! the failed write has left there, it is part of the order, and becomes durable or is found by the next owner.

use super::order::{Order, Queue, Waiting};
use crate::chain::Position;
use crate::mark::Mark;
use crate::replay::Segment;
use crate::room::Prepared;
use crate::segment::{Frame, Header, group_len};
use parking_lot::MutexGuard;
use std::sync::Arc;
use tenure_model::{Failure, Seq};
use tenure_store::disk::BLOCK_LEN;
use tenure_store::{Aligned, DiskFile, Key};

/// Bytes of records in one group: bounds what the first of them waits for.
const GROUP_LEN_MAX: usize = 4 << 20;
/// Bytes of memory for building groups at first; it grows with them.
const MEMORY_LEN: usize = 64 << 10;
/// Bytes of memory that is kept for the next group; one large record gets its own.
const MEMORY_KEPT_LEN: usize = 2 * GROUP_LEN_MAX;

/// The segment in use, and how far it is written.
pub(super) struct Writer {
    /// The last record that was written.
    at: Position,
    segment: Option<Current>,
    memory: Option<Aligned>,
    /// Records of the group whose write failed: the next one is the same.
    failed_group: Option<usize>,
    /// Whether the segment that is to be used next may have got its name already.
    may_have_name: bool,
}

struct Current {
    header: Header,
    file: Arc<dyn DiskFile>,
    segment: Segment,
    len: u64,
    /// Where the next group goes.
    next: u64,
}

/// Makes sure that a committer that panics leaves a journal that has stopped, not one that hangs.
struct Committing<'a>(&'a Order);

impl Order {
    /// Returns when every record up to `seq` is durable. The caller's own thread commits when nobody does,
    /// and then runs the callbacks of what it committed: hold no lock that they take.
    ///
    /// A failure leaves them waiting in their order, unless the journal has stopped: ask again to have it tried again.
    pub fn commit_through(&self, seq: Seq) -> Result<(), Failure> {
        let mut queue = self.queue.lock();
        let seq = seq.min(queue.last);
        let failures = queue.failures;
        loop {
            if queue.durable.seq >= seq {
                return Ok(());
            }
            if let (Some(failure), false) = (&queue.stopped, queue.committing) {
                return Err(failure.clone());
            }
            if let Some(failure) = queue.failed.as_ref().filter(|_| queue.failures > failures) {
                return Err(failure.clone());
            }
            if queue.committing || queue.waiting.is_empty() {
                self.progress.wait(&mut queue);
                continue;
            }
            queue.committing = true;
            drop(queue);
            self.commit_until(Some(seq));
            queue = self.queue.lock();
        }
    }

    /// Commits everything that waits, unless somebody does so already.
    pub fn commit_waiting(&self) {
        let mut queue = self.queue.lock();
        if !queue.committing && !queue.waiting.is_empty() {
            queue.committing = true;
            drop(queue);
            self.commit_until(None);
        }
    }

    /// Commits group after group, until `seq` is durable, nothing waits, or a write fails. The caller has set
    /// `committing`.
    fn commit_until(&self, seq: Option<Seq>) {
        let committing = Committing(self);
        loop {
            self.commit_group();
            let mut queue = self.queue.lock();
            let reached = seq.is_some_and(|seq| queue.durable.seq >= seq);
            let has_failed = queue.failed.is_some() && queue.stopped.is_none();
            if reached || has_failed || queue.waiting.is_empty() {
                queue.committing = false;
                let waits = !queue.waiting.is_empty() && !has_failed;
                drop(queue);
                std::mem::forget(committing);
                self.progress.notify_all();
                if waits {
                    self.commit_signal.raise();
                }
                return;
            }
        }
    }

    fn commit_group(&self) {
        let mut writer = self.writer.lock();
        let mut queue = self.queue.lock();
        if let Some(failure) = queue.stopped.clone() {
            let refused = std::mem::take(&mut queue.waiting);
            drop(queue);
            drop(writer);
            for waiting in refused {
                (waiting.done)(Err(failure.clone()));
            }
            return;
        }
        let before = queue.durable;
        match self.write_group(&mut writer, &mut queue) {
            Ok((group, places)) => {
                queue.failed = None;
                drop(queue);
                drop(writer);
                let last = places.last().copied().unwrap_or(before);
                for (waiting, place) in group.into_iter().zip(places) {
                    (waiting.done)(Ok(place));
                }
                self.queue.lock().durable = last;
                self.progress.notify_all();
            }
            Err(failure) => {
                queue.failures += 1;
                queue.failed = Some(failure);
            }
        }
    }

    /// Takes the records that go together and makes them durable. The queue is free while the disk works. Those that
    /// cannot be written go on waiting.
    fn write_group(
        &self,
        writer: &mut Writer,
        queue: &mut MutexGuard<'_, Queue>,
    ) -> Result<(Vec<Waiting>, Vec<Position>), Failure> {
        self.make_room(writer, queue)?;
        let count = writer.fitting(queue);
        let group: Vec<Waiting> = queue.waiting.drain(..count).collect();
        let (free, whole) = writer.room();
        let taken = group_len(group.iter().map(|waiting| Frame::len_of(&waiting.record)).sum()) as u64;
        queue.plan(free - taken, whole);
        match MutexGuard::unlocked(queue, || writer.write(&group)) {
            Ok(places) => Ok((group, places)),
            Err(failure) => {
                for waiting in group.into_iter().rev() {
                    queue.waiting.push_front(waiting);
                }
                queue.plan(free, whole);
                Err(failure)
            }
        }
    }

    /// Makes sure that the first waiting record fits the segment in use.
    fn make_room(&self, writer: &mut Writer, queue: &mut MutexGuard<'_, Queue>) -> Result<(), Failure> {
        let first = queue
            .waiting
            .front()
            .expect("a committer has found something waiting");
        let wanted = group_len(Frame::len_of(&first.record)) as u64;
        while writer.room().0 < wanted {
            let next = queue
                .room
                .advance()
                .expect("every accepted record has room in a segment that there is");
            let changed = MutexGuard::unlocked(queue, || self.change_segment(writer, &next, wanted));
            if let Err(failure) = changed {
                queue.room.restore(next);
                let (free, whole) = writer.room();
                queue.plan(free, whole);
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Takes a prepared segment into use: its header is durable, then its name is, then its mark. A failure leaves it as it was, or with
    /// a name of which nobody knows; the next call finds out.
    fn change_segment(&self, writer: &mut Writer, next: &Prepared, wanted: u64) -> Result<(), Failure> {
        if next.len - (BLOCK_LEN as u64) < wanted {
            // What cannot be removed now is removed by the next owner.
            let _ = self.disk.remove(&next.key);
            return Ok(());
        }
        let header = Header::new(self.claim.nonce, self.claim.epoch, writer.at, next.len);
        let mut block = Aligned::new(BLOCK_LEN);
        header.write(&mut block);
        next.file.write_durably(0, &block)?;
        let first = writer.at.seq.next();
        let epoch = self.claim.epoch;
        let mark = Mark { epoch, first };
        let key = mark.segment(&self.claim.drive);
        if writer.may_have_name {
            mark.remove(&*self.disk, &self.claim.drive)?;
            self.take_name_back(&key, &next.key)?;
        }
        writer.may_have_name = true;
        self.disk.rename(&next.key, &key)?;
        mark.make(&*self.disk, &self.claim.drive)?;
        writer.may_have_name = false;
        let current = Current {
            header,
            file: next.file.clone(),
            segment: Segment { key, first, epoch },
            len: next.len,
            next: BLOCK_LEN as u64,
        };
        if let Some(full) = writer.segment.replace(current) {
            self.kept.lock().segments.push(full.segment);
        }
        Ok(())
    }
}

impl Order {
    /// Gives a segment the name back that it had, where it has got its new one and nobody heard so: only then is it known
    /// that the new one, given again, is durable.
    fn take_name_back(&self, key: &Key, prepared: &Key) -> Result<(), Failure> {
        match self.disk.open(prepared)? {
            Some(_) => Ok(()),
            None => self.disk.rename(key, prepared),
        }
    }
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.committing = false;
        queue
            .stopped
            .get_or_insert_with(|| Failure::Unknown("a commit of the journal panicked".to_owned()));
        drop(queue);
        self.0.progress.notify_all();
    }
}

impl Writer {
    pub(super) fn new(at: Position) -> Self {
        Self {
            at,
            segment: None,
            memory: None,
            failed_group: None,
            may_have_name: false,
        }
    }

    /// Returns the first record of the segment in use.
    pub(super) fn segment_in_use(&self) -> Option<Seq> {
        self.segment.as_ref().map(|current| current.segment.first)
    }

    /// Returns how many bytes are left in the segment in use, and of how many.
    fn room(&self) -> (u64, u64) {
        let current = self.segment.as_ref();
        current.map_or((0, 0), |current| {
            (current.len - current.next, current.len - BLOCK_LEN as u64)
        })
    }

    /// Returns how many of the waiting records, at least the first, go into one group.
    fn fitting(&self, queue: &Queue) -> usize {
        if let Some(count) = self.failed_group {
            return count;
        }
        let room = usize::try_from(self.room().0).unwrap_or(usize::MAX);
        let mut sum = 0;
        let mut count = 0;
        for waiting in &queue.waiting {
            sum += Frame::len_of(&waiting.record);
            if count > 0 && (sum > GROUP_LEN_MAX || group_len(sum) > room) {
                break;
            }
            count += 1;
        }
        count
    }

    /// Writes one group and returns the places of its records once they are durable.
    fn write(&mut self, group: &[Waiting]) -> Result<Vec<Position>, Failure> {
        let current = self.segment.as_mut().expect("room was made in a segment");
        let len: usize = group.iter().map(|waiting| Frame::len_of(&waiting.record)).sum();
        let blocks = group_len(len);
        let memory = self.memory.take().filter(|memory| memory.len() >= blocks);
        let mut memory = memory.unwrap_or_else(|| Aligned::new(blocks.next_power_of_two().max(MEMORY_LEN)));
        memory[len..blocks].fill(0);
        let mut places = Vec::with_capacity(group.len());
        let (mut at, mut rest, mut left) = (self.at, &mut memory[..len], group.len());
        for (place, waiting) in (0..).zip(group) {
            left -= 1;
            at = at.after(current.header.epoch, &waiting.record);
            let frame = Frame {
                place,
                left: u32::try_from(left).expect("a group's length bounds its frames"),
                epoch: current.header.epoch,
                at,
                record: &waiting.record,
            };
            rest = frame.write(current.header.salt, rest);
            places.push(at);
        }
        let written = current.file.write_durably(current.next, &memory[..blocks]);
        self.failed_group = written.is_err().then_some(group.len());
        written?;
        current.next += blocks as u64;
        self.at = at;
        self.memory = Some(memory).filter(|memory| memory.len() <= MEMORY_KEPT_LEN);
        Ok(places)
    }
}
