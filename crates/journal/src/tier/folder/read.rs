//! Reading the journal back: every record since a place, in order, from the segments of one epoch after another.
//!
//! Invariant: what is handed over is the contiguous prefix of what was written. Where a segment ends early and
//! something behind proves that more had been acknowledged, that is corruption, and never a shorter prefix.

use super::segment::{BadHeader, Frame, Header, group_len};
use crate::chain::Position;
use crate::seal::{SEALED, Seal};
use crate::tier::Apply;
use tenure_model::{DriveName, Epoch, Failure, Seq};
use tenure_store::disk::BLOCK_LEN;
use tenure_store::key::{number_text, parse_number};
use tenure_store::{Bucket, Key, bucket};

/// A segment by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) key: Key,
    pub(crate) first: Seq,
    pub(crate) epoch: Epoch,
}

/// What an epoch has in the journal.
#[derive(Debug, Default)]
pub(crate) struct OfEpoch {
    /// Its segments, in order.
    pub(crate) segments: Vec<Segment>,
    /// Files that waited to become one.
    pub(crate) unused: Vec<Key>,
}

/// Lists what an epoch has in the journal.
pub(crate) fn list(bucket: &dyn Bucket, drive: &DriveName, epoch: Epoch) -> Result<OfEpoch, Failure> {
    let folder = number_text(epoch.0);
    let mut found = OfEpoch::default();
    // Names come in byte order, which is number order.
    for name in bucket.children(&format!("drives/{drive}/journal/{folder}/"))? {
        let key = Key::in_drive(drive, &["journal", &folder, &name]);
        match parse_number(&name) {
            Some(first) => found.segments.push(Segment {
                key,
                first: Seq(first),
                epoch,
            }),
            None if name == SEALED => {}
            None => found.unused.push(key),
        }
    }
    Ok(found)
}

/// Reads one epoch's records behind `from`, and returns where they end; a sealed epoch must reach its seal's end.
pub(crate) fn read_epoch(
    bucket: &dyn Bucket,
    epoch: Epoch,
    segments: &[Segment],
    from: Position,
    seal: Option<&Seal>,
    apply: Apply<'_>,
) -> Result<Position, Failure> {
    let mut reading = Reading {
        epoch,
        from,
        end: seal.map(|seal| seal.end.seq),
        at: from,
        apply,
    };
    let next = from.seq.next();
    // The last segment that begins at or before the wanted record holds it, if any does.
    let first = segments
        .iter()
        .rposition(|segment| segment.first <= next)
        .unwrap_or(0);
    for (number, segment) in segments[first..].iter().enumerate() {
        let last = first + number + 1 == segments.len();
        if reading.is_done() {
            break;
        }
        reading.read(bucket, segment, number == 0, last)?;
    }
    let at = reading.at;
    match seal {
        Some(seal) if seal.end.seq >= from.seq && seal.end != at => Err(Failure::Corrupt(format!(
            "the journal of epoch {epoch} was sealed behind record {}, and can be read up to record {}",
            seal.end.seq, at.seq
        ))),
        _ => Ok(at),
    }
}

struct Reading<'a> {
    epoch: Epoch,
    /// Records up to here were applied before.
    from: Position,
    /// The epoch's last record, where that is known.
    end: Option<Seq>,
    /// The last record that was read, or `from` while it was not reached.
    at: Position,
    apply: Apply<'a>,
}

impl Reading<'_> {
    fn is_done(&self) -> bool {
        self.end.is_some_and(|end| self.at.seq >= end)
    }

    /// Reads one segment; only the last one may end early.
    fn read(
        &mut self,
        bucket: &dyn Bucket,
        segment: &Segment,
        first: bool,
        last: bool,
    ) -> Result<(), Failure> {
        let key = &segment.key;
        let mut bytes =
            durable_bytes(bucket, key)?.ok_or_else(|| Failure::Corrupt(format!("{key}: it is missing")))?;
        let header = self.header(segment, &bytes, first)?;
        let whole = usize::try_from(header.len).unwrap_or(usize::MAX);
        bytes.truncate(whole);
        let end = self.frames(key, &header, &bytes)?;
        if last && !self.is_done() {
            self.refuse_damage(key, &header, &bytes, end)?;
            refuse_cut(key, whole, &bytes, end.at)?;
        }
        Ok(())
    }

    fn header(&self, segment: &Segment, bytes: &[u8], first: bool) -> Result<Header, Failure> {
        let key = &segment.key;
        let header = parsed_header(key, bytes)?;
        if header.epoch != self.epoch || header.before.seq.next() != segment.first {
            return Err(corrupt(key, 0, "it is another segment than its name says"));
        }
        let reaches_back = first && header.before.seq < self.from.seq;
        if !reaches_back && header.before != self.at {
            let wanted = self.at.seq.next();
            return Err(corrupt(
                key,
                0,
                &format!("it does not follow on what is before: record {wanted} is missing or damaged"),
            ));
        }
        Ok(header)
    }

    /// Hands over the records of whole frames, and returns where those end.
    fn frames(&mut self, key: &Key, header: &Header, bytes: &[u8]) -> Result<End, Failure> {
        let mut at = BLOCK_LEN;
        let mut before = header.before;
        let mut expected = None;
        while !self.is_done() {
            let Some(frame) = bytes.get(at..).and_then(|rest| Frame::parsed(header.salt, rest)) else {
                match self.behind_damage(header, bytes, at, before.seq) {
                    Some((next, position)) => {
                        (at, before, expected) = (next, position, None);
                        continue;
                    }
                    None => break,
                }
            };
            let in_order = frame.epoch == self.epoch && frame.at.seq == before.seq.next();
            let in_group = expected.unwrap_or((0, frame.left)) == (frame.place, frame.left);
            if !in_order || !in_group {
                return Err(corrupt(key, at, "a record is out of order"));
            }
            self.take(key, at, before, &frame)?;
            before = frame.at;
            at += Frame::len_of(frame.record);
            if frame.left == 0 {
                expected = None;
                at = group_len(at);
            } else {
                expected = Some((frame.place + 1, frame.left - 1));
            }
        }
        let last = before.seq;
        Ok(End { at, last })
    }

    /// Returns where to go on behind damaged records that nobody wants: the last group whose first record is one of those, or
    /// the first that is wanted. From there on the chain proves each wanted record.
    fn behind_damage(
        &self,
        header: &Header,
        bytes: &[u8],
        at: usize,
        last: Seq,
    ) -> Option<(usize, Position)> {
        if last >= self.from.seq {
            return None;
        }
        let groups = heads(header, bytes, at).filter(|(_, frame)| {
            let before = Seq(frame.at.seq.0.wrapping_sub(1));
            last < before && before <= self.from.seq
        });
        let (at, frame) = groups.last()?;
        let seq = Seq(frame.at.seq.0 - 1);
        // Where a record before the wanted ones is next, its chain is held against `from` when that is reached.
        Some((at, Position { seq, ..self.from }))
    }

    fn take(&mut self, key: &Key, offset: usize, before: Position, frame: &Frame<'_>) -> Result<(), Failure> {
        let altered = || corrupt(key, offset, "the chain of records is broken");
        if frame.at.seq > self.from.seq {
            if before.after(self.epoch, frame.record) != frame.at {
                return Err(altered());
            }
            (self.apply)(frame.at.seq, frame.record)?;
            self.at = frame.at;
        } else if frame.at.seq == self.from.seq && frame.at != self.from {
            return Err(altered());
        }
        Ok(())
    }

    /// A group is written only when the one before it is durable. So a whole group behind the end means that
    /// what is missing in between had been acknowledged.
    fn refuse_damage(&self, key: &Key, header: &Header, bytes: &[u8], end: End) -> Result<(), Failure> {
        match heads(header, bytes, end.at.next_multiple_of(BLOCK_LEN)).next() {
            Some((_, frame)) => {
                let (damaged, whole) = (end.last.next(), frame.at.seq);
                let why = format!("record {damaged} is damaged: record {whole} is whole behind it");
                Err(corrupt(key, end.at, &why))
            }
            None => Ok(()),
        }
    }
}

/// Returns what a segment begins with.
pub(crate) fn parsed_header(key: &Key, bytes: &[u8]) -> Result<Header, Failure> {
    Header::parsed(bytes).map_err(|bad| match bad {
        BadHeader::Malformed => corrupt(key, 0, "its header is damaged"),
        BadHeader::Newer(version) => {
            Failure::newer(format_args!("{key}: it is a segment of version {version}"))
        }
    })
}

/// Returns what a segment holds, durably: what a crashed process wrote must be so before anything is built on it. In a bucket
/// that has no disk, a copy of the folder, a segment is an object like any other.
fn durable_bytes(bucket: &dyn Bucket, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
    let Some(disk) = bucket.disk() else {
        return bucket.get(key);
    };
    let Some(file) = disk.open(key)? else {
        return Ok(None);
    };
    file.settle()?;
    let len = file.len()?;
    let mut bytes = vec![0; bucket::whole_len(key, len)?];
    file.read_at(0, &mut bytes)?;
    Ok(Some(bytes))
}

/// Where the whole frames of a segment end.
#[derive(Clone, Copy)]
struct End {
    at: usize,
    /// The last record before.
    last: Seq,
}

/// Returns the first frames of groups that are whole, in the blocks from `start` on.
fn heads<'a>(
    header: &Header,
    bytes: &'a [u8],
    start: usize,
) -> impl Iterator<Item = (usize, Frame<'a>)> + use<'a> {
    let (salt, epoch) = (header.salt, header.epoch);
    let blocks = (start.next_multiple_of(BLOCK_LEN)..bytes.len()).step_by(BLOCK_LEN);
    let written = blocks.filter(move |at| !bytes[*at..].starts_with(&[0; 8]));
    let frames = written.filter_map(move |at| Some((at, Frame::parsed(salt, &bytes[at..])?)));
    frames.filter(move |(_, frame)| frame.place == 0 && frame.epoch == epoch)
}

/// Refuses a segment that was cut off where records may have been. The next group would begin in the block at the end of
/// the whole ones: while that is as it was before it was written, nothing behind it was acknowledged.
fn refuse_cut(key: &Key, whole: usize, bytes: &[u8], end: usize) -> Result<(), Failure> {
    let block = bytes.get(end..end + BLOCK_LEN);
    let is_free = block.is_some_and(|block| block.iter().all(|byte| *byte == 0));
    if bytes.len() >= whole || is_free {
        return Ok(());
    }
    let why = format!("it ends here, and was made {whole} bytes long: records may be missing");
    Err(corrupt(key, bytes.len(), &why))
}

fn corrupt(key: &Key, at: usize, why: &str) -> Failure {
    Failure::Corrupt(format!("{key}: at byte {at}: {why}"))
}
