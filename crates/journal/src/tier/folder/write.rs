//! Writing segments: a group is made of the records that wait, and written with one wait for the disk.
//!
//! Invariant: a group whose write failed is written again as it was, at its place, before anything behind it. So whatever
//! the failed write has left there, it is part of the order, and becomes durable or is found by the next owner.

use super::Folder;
use super::mark::Mark;
use super::read::Segment;
use super::room::Prepared;
use super::segment::{Frame, Header, group_len};
use super::spent;
use crate::chain::Position;
use crate::journal::{GROUP_LEN_MAX, Waiting};
use std::sync::Arc;
use tenure_model::{Failure, Seq};
use tenure_store::disk::BLOCK_LEN;
use tenure_store::{Aligned, DiskFile, Key};

/// Bytes of memory for building groups at first; it grows with them.
const MEMORY_LEN: usize = 64 << 10;
/// Bytes of memory that is kept for the next group; one large record gets its own.
const MEMORY_KEPT_LEN: usize = 2 * GROUP_LEN_MAX;

/// The segment in use, and how far it is written.
pub(super) struct Writer {
    /// The last record that was put into a group.
    at: Position,
    segment: Option<Current>,
    memory: Option<Aligned>,
    /// Records and bytes of the group that lies in the memory.
    formed: (usize, usize),
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

impl Folder {
    /// Takes a prepared segment into use: its header is durable, then its name is, then its mark. A failure leaves it as it was, or with
    /// a name of which nobody knows; the next call finds out.
    pub(super) fn change_segment(
        &self,
        writer: &mut Writer,
        next: &Prepared,
        wanted: u64,
    ) -> Result<(), Failure> {
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
            self.kept.lock().push(full.segment);
        }
        Ok(())
    }

    /// Gives a segment the name back that it had, where it has got its new one and nobody heard so: only then is it known
    /// that the new one, given again, is durable.
    fn take_name_back(&self, key: &Key, prepared: &Key) -> Result<(), Failure> {
        match self.disk.open(prepared)? {
            Some(_) => Ok(()),
            None => self.disk.rename(key, prepared),
        }
    }
}

impl Writer {
    pub(super) fn new(at: Position) -> Self {
        Self {
            at,
            segment: None,
            memory: None,
            formed: (0, 0),
            may_have_name: false,
        }
    }

    /// Returns the first record of the segment in use.
    pub(super) fn segment_in_use(&self) -> Option<Seq> {
        self.segment.as_ref().map(|current| current.segment.first)
    }

    /// Returns how many bytes are left in the segment in use, and of how many.
    pub(super) fn room(&self) -> (u64, u64) {
        let current = self.segment.as_ref();
        current.map_or((0, 0), |current| {
            (current.len - current.next, current.len - BLOCK_LEN as u64)
        })
    }

    /// Cuts off what is left of the segment in use: nothing more is written into it.
    pub(super) fn cut(&mut self) -> Result<(), Failure> {
        match self.segment.take() {
            Some(current) => spent::cut(&*current.file, current.next),
            None => Ok(()),
        }
    }

    /// Returns how many records the group has that was made last, and how many bytes.
    pub(super) fn formed(&self) -> (usize, u64) {
        (self.formed.0, self.formed.1 as u64)
    }

    /// Makes a group of records, whose frames take `len` bytes, and returns their places.
    pub(super) fn form(&mut self, records: &[Waiting], len: usize) -> Vec<Position> {
        let current = self.segment.as_ref().expect("room was made in a segment");
        let blocks = group_len(len);
        let memory = self.memory.take().filter(|memory| memory.len() >= blocks);
        let mut memory = memory.unwrap_or_else(|| Aligned::new(blocks.next_power_of_two().max(MEMORY_LEN)));
        memory[len..blocks].fill(0);
        let mut places = Vec::with_capacity(records.len());
        let (mut rest, mut left) = (&mut memory[..len], records.len());
        for (place, waiting) in (0..).zip(records) {
            left -= 1;
            self.at = self.at.after(current.header.epoch, &waiting.record);
            let frame = Frame {
                place,
                left: u32::try_from(left).expect("a group's length bounds its frames"),
                epoch: current.header.epoch,
                at: self.at,
                record: &waiting.record,
            };
            rest = frame.write(current.header.salt, rest);
            places.push(self.at);
        }
        self.memory = Some(memory);
        self.formed = (records.len(), blocks);
        places
    }

    /// Writes the group that was made last; it is durable when this returns.
    pub(super) fn write(&mut self) -> Result<(), Failure> {
        let current = self.segment.as_mut().expect("a group was made for a segment");
        let memory = self.memory.take().expect("a group was made in the memory");
        let written = current.file.write_durably(current.next, &memory[..self.formed.1]);
        let is_kept = written.is_err() || memory.len() <= MEMORY_KEPT_LEN;
        self.memory = Some(memory).filter(|_| is_kept);
        written?;
        current.next += self.formed.1 as u64;
        Ok(())
    }
}
