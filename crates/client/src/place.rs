//! Placing: staged bytes of a file are cut into chunks, which get their places in a pack.
//!
//! Invariant: what stays staged came after all that does not, and begins where a write began.

use crate::branch::Inner;
use crate::cut;
use crate::stage::{Ahead, Kept, Pieces, Taken};
use bytes::Bytes;
use std::cell::Cell;
use std::ops::Range;
use tenure_model::{ChunkPlace, Digest, Extent, Piece, limits};
use tenure_wire::{Error, owner::Chunk};

/// Neighbouring staged bytes.
struct Run {
    offset: u64,
    parts: Vec<Bytes>,
}

impl Run {
    fn len(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    /// Returns a range of its bytes in one piece, which is appended to `joined` where it is in several parts.
    fn bytes(&self, range: Range<usize>, joined: &mut Vec<u8>) -> InOne<'_> {
        let begin = joined.len();
        let mut at = 0;
        for part in &self.parts {
            let within = range.start.max(at)..range.end.min(at + part.len());
            if within == range {
                return InOne::Part(&part[within.start - at..within.end - at]);
            }
            if !within.is_empty() {
                joined.extend_from_slice(&part[within.start - at..within.end - at]);
            }
            at += part.len();
        }
        InOne::Joined(begin..joined.len())
    }

    /// Returns where the write begins that brought the `at`th byte.
    fn write_of(&self, at: usize) -> usize {
        let mut begin = 0;
        for part in &self.parts {
            if at < begin + part.len() {
                break;
            }
            begin += part.len();
        }
        begin
    }

    /// Returns the bytes from the begin of a write on.
    fn from(&self, begin: usize) -> Pieces {
        let mut at = 0;
        let mut pieces = Pieces::new();
        for part in &self.parts {
            if at >= begin {
                pieces.insert(self.offset + at as u64, part.clone());
            }
            at += part.len();
        }
        pieces
    }
}

/// Bytes in one piece: as they were written, or a range of what was joined.
enum InOne<'a> {
    Part(&'a [u8]),
    Joined(Range<usize>),
}

impl<'a> InOne<'a> {
    fn of<'b>(&self, joined: &'b [u8]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            InOne::Part(bytes) => bytes,
            InOne::Joined(range) => &joined[range.clone()],
        }
    }
}

/// What becomes of the last bytes of a long file that is written in order: where they are cut depends on what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// They are settled as they are.
    Settled,
    /// They stay staged, and the write that they begin in with them, because a crash leaves of a write all or nothing.
    Kept,
}

/// Staged bytes that have their places.
pub(crate) struct Settled {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) places: Vec<ChunkPlace>,
    pub(crate) kept: Kept,
}

impl Settled {
    /// Leaves staged what a run holds from the begin of a write on.
    fn keep(&mut self, run: &Run, begin: usize) {
        let pieces = split_off(&mut self.pieces, run.offset + begin as u64);
        let is_named = |place: &&ChunkPlace| {
            let names = |piece: &Piece| matches!(&piece.extent, Extent::Chunk { at, .. } if *at == place.at);
            pieces.iter().any(names)
        };
        let places = self.places.iter().filter(is_named).cloned().collect();
        let ahead = Ahead { pieces, places };
        self.kept = Kept {
            pieces: run.from(begin),
            ahead: (!ahead.pieces.is_empty()).then_some(ahead),
        };
    }
}

thread_local! {
    /// Where the parts of a run are joined, so that settling needs no new memory each time.
    static JOINED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Inner {
    /// Gives staged bytes their places.
    pub(crate) fn place(&self, taken: Taken, last: Last) -> Result<Settled, Error> {
        let mut joined = JOINED.take();
        let placed = self.place_runs(&runs(&taken.pieces), taken, last, &mut joined);
        joined.clear();
        JOINED.set(joined);
        placed
    }

    fn place_runs(
        &self,
        runs: &[Run],
        taken: Taken,
        last: Last,
        joined: &mut Vec<u8>,
    ) -> Result<Settled, Error> {
        let mut placed = (Vec::new(), Vec::new());
        let mut waiting = Vec::new();
        let mut ahead = taken.ahead;
        let mut keep = None;
        let may_keep = last == Last::Kept && taken.is_in_order;
        for (number, run) in runs.iter().enumerate() {
            let known = ahead.as_ref().filter(|ahead| ahead.from() == run.offset);
            let begin = known.map_or(0, |ahead| (ahead.end() - ahead.from()) as usize);
            let (mut at, len) = (begin, run.len());
            while at < len {
                let end = len.min(at + cut::WINDOW);
                let bytes = run.bytes(at..end, joined);
                let mut ends = cut::ends(bytes.of(joined), end < len);
                let mut next = at + ends.last().copied().unwrap_or(0);
                let last_begin = at + ends.iter().rev().nth(1).copied().unwrap_or(0);
                let is_last = number + 1 == runs.len() && end == len;
                if may_keep && is_last && last_begin > begin {
                    let write = run.write_of(last_begin);
                    if write > 0 {
                        ends.pop();
                        keep = Some((run, write));
                        next = len;
                    }
                }
                waiting.push((run.offset + at as u64, bytes, ends));
                at = next;
                if joined.len() >= cut::WINDOW {
                    self.place_waiting(&mut waiting, joined, &mut placed)?;
                }
            }
        }
        self.place_waiting(&mut waiting, joined, &mut placed)?;
        let (mut pieces, mut places) = placed;
        let is_begin = |ahead: &mut Ahead| !runs.iter().any(|run| run.offset == ahead.from());
        ahead.take_if(is_begin);
        if let Some(ahead) = ahead {
            pieces.extend(ahead.pieces);
            pieces.sort_by_key(|piece| piece.offset);
            places.extend(ahead.places);
        }
        let mut settled = Settled {
            pieces,
            places,
            kept: Kept::default(),
        };
        if let Some((run, begin)) = keep {
            settled.keep(run, begin);
        }
        Ok(settled)
    }

    /// Gives what waits its places, and has room for more to be joined.
    fn place_waiting(
        &self,
        waiting: &mut Vec<(u64, InOne<'_>, Vec<usize>)>,
        joined: &mut Vec<u8>,
        placed: &mut (Vec<Piece>, Vec<ChunkPlace>),
    ) -> Result<(), Error> {
        let cut = waiting
            .iter()
            .flat_map(|(offset, bytes, ends)| cut::parts(*offset, bytes.of(joined), ends));
        let (pieces, places) = self.place_parts(&cut.collect::<Vec<_>>())?;
        placed.0.extend(pieces);
        placed.1.extend(places);
        waiting.clear();
        joined.clear();
        Ok(())
    }

    /// Gives parts of a file their places: as chunks, or within the extents themselves where they are few bytes.
    pub(crate) fn place_parts(&self, parts: &[(u64, &[u8])]) -> Result<(Vec<Piece>, Vec<ChunkPlace>), Error> {
        let is_chunk = |bytes: &[u8]| bytes.len() > limits::INLINE_LEN_MAX;
        let chunks = parts.iter().filter(|(_, bytes)| is_chunk(bytes));
        let chunks: Vec<_> = chunks
            .map(|(_, bytes)| Chunk {
                digest: Digest::of(bytes),
                bytes,
            })
            .collect();
        let places = if chunks.is_empty() {
            Vec::new()
        } else {
            self.asked()?.place(self.opened.session, &chunks)?
        };
        if let Some(retained) = &self.retained {
            let placed = places.iter().zip(&chunks);
            placed.for_each(|(place, chunk)| retained.keep(place.at, chunk.bytes));
        }
        let mut placed = places.iter();
        let pieces = parts.iter().map(|(offset, bytes)| {
            let extent = if is_chunk(bytes) {
                let place = placed.next().expect("every chunk gets a place");
                Extent::Chunk {
                    at: place.at,
                    start: 0,
                    len: bytes.len() as u32,
                }
            } else {
                Extent::Inline((*bytes).into())
            };
            Piece {
                offset: *offset,
                extent,
            }
        });
        Ok((pieces.collect(), places))
    }
}

/// Takes what lies at or behind `from` out of pieces, which are in rising order.
fn split_off(pieces: &mut Vec<Piece>, from: u64) -> Vec<Piece> {
    let mut behind = pieces.split_off(pieces.partition_point(|piece| piece.end() <= from));
    if let Some(first) = behind.first_mut()
        && first.offset < from
    {
        let (len, rest) = (from - first.offset, first.end() - from);
        pieces.push(Piece {
            offset: first.offset,
            extent: first.extent.part(0, len),
        });
        *first = Piece {
            offset: from,
            extent: first.extent.part(len, rest),
        };
    }
    behind
}

/// Joins neighbours into runs.
fn runs(pieces: &Pieces) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut end = None;
    for (offset, bytes) in pieces {
        if end != Some(*offset) {
            runs.push(Run {
                offset: *offset,
                parts: Vec::new(),
            });
        }
        end = Some(offset + bytes.len() as u64);
        runs.last_mut()
            .expect("a run was begun")
            .parts
            .push(bytes.clone());
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(len: usize) -> Bytes {
        Bytes::from(vec![7; len])
    }

    #[test]
    fn neighbours_are_joined_and_the_writes_in_them_are_found_again() {
        let pieces = Pieces::from([(10, piece(5)), (15, piece(6)), (30, piece(1)), (40, piece(9))]);
        let runs = runs(&pieces);
        let found: Vec<_> = runs.iter().map(|run| (run.offset, run.len())).collect();
        assert_eq!(found, [(10, 11), (30, 1), (40, 9)]);
        let run = &runs[0];
        let mut joined = vec![7];
        let bytes = [2..9, 5..11, 9..11].map(|range| run.bytes(range, &mut joined));
        assert_eq!(bytes.map(|bytes| bytes.of(&joined).len()), [7, 6, 2]);
        assert_eq!(joined.len(), 8, "what lies in one part is not copied");
        assert_eq!([0, 4, 5, 10].map(|at| run.write_of(at)), [0, 0, 5, 5]);
        assert_eq!(run.from(0), Pieces::from([(10, piece(5)), (15, piece(6))]));
        assert_eq!(run.from(5), Pieces::from([(15, piece(6))]));
    }

    #[test]
    fn pieces_are_split_at_any_byte() {
        let inline = |offset, len| Piece {
            offset,
            extent: Extent::Inline(vec![7; len].into()),
        };
        let split = |from| {
            let mut pieces = vec![inline(10, 5), inline(15, 5)];
            let behind = split_off(&mut pieces, from);
            (pieces, behind)
        };
        assert_eq!(split(15), (vec![inline(10, 5)], vec![inline(15, 5)]));
        assert_eq!(split(20), (vec![inline(10, 5), inline(15, 5)], vec![]));
        assert_eq!(
            split(17),
            (vec![inline(10, 5), inline(15, 2)], vec![inline(17, 3)])
        );
    }
}
