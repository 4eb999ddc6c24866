//! Placing: staged bytes of a file are cut into chunks, which get their places in a pack.
//!
//! Invariant: what stays staged came after all that does not, and begins where a write began.

use crate::branch::Inner;
use crate::cut;
use crate::stage::{Ahead, Kept, Pieces, Taken};
use bytes::Bytes;
use std::cell::Cell;
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
    /// Where the parts of runs are joined, so that settling needs no new memory each time.
    static JOINED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Memory for joining that a thread keeps.
const JOINED_MAX: usize = 8 << 20;

impl Inner {
    /// Gives staged bytes their places.
    pub(crate) fn place(&self, taken: Taken, last: Last) -> Result<Settled, Error> {
        let mut joined = JOINED.take();
        let placed = self.place_runs(&runs(&taken.pieces), taken, last, &mut joined);
        if joined.capacity() <= JOINED_MAX {
            JOINED.set(joined);
        }
        placed
    }

    fn place_runs(
        &self,
        runs: &[Run],
        taken: Taken,
        last: Last,
        joined: &mut Vec<u8>,
    ) -> Result<Settled, Error> {
        let mut parts = Vec::with_capacity(runs.len());
        let mut ahead = taken.ahead;
        let mut keep = None;
        let may_keep = last == Last::Kept && taken.is_in_order;
        for (number, (run, bytes)) in runs.iter().zip(contiguous(runs, joined)).enumerate() {
            let known = ahead.as_ref().filter(|ahead| ahead.from() == run.offset);
            let skip = known.map_or(0, |ahead| (ahead.end() - ahead.from()) as usize);
            let (offset, bytes) = (run.offset + skip as u64, &bytes[skip..]);
            let mut ends = cut::ends(bytes);
            if may_keep && number + 1 == runs.len() && ends.len() > 1 {
                let begin = run.write_of(skip + ends[ends.len() - 2]);
                if begin > 0 {
                    ends.pop();
                    keep = Some((run, begin));
                }
            }
            parts.append(&mut cut::parts(offset, bytes, &ends));
        }
        let is_begin = |ahead: &mut Ahead| !runs.iter().any(|run| run.offset == ahead.from());
        ahead.take_if(is_begin);
        let (mut pieces, mut places) = self.place_parts(&parts)?;
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

/// Returns the bytes of each run in one piece; those that have several parts are copied to `joined`.
fn contiguous<'a>(runs: &'a [Run], joined: &'a mut Vec<u8>) -> Vec<&'a [u8]> {
    joined.clear();
    for run in runs.iter().filter(|run| run.parts.len() > 1) {
        run.parts.iter().for_each(|part| joined.extend_from_slice(part));
    }
    let mut rest = &joined[..];
    let one = |run: &'a Run| match &run.parts[..] {
        [part] => &part[..],
        _ => {
            let (own, behind) = rest.split_at(run.len());
            rest = behind;
            own
        }
    };
    runs.iter().map(one).collect()
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
