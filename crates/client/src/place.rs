//! Placing: staged bytes of a file are cut into chunks, which get their places in a pack.
//!
//! Invariant: what stays staged came after all that does not, and begins where a write began.

use crate::branch::Inner;
use crate::cut;
use crate::stage::{Ahead, Kept, Pieces, Taken};
use bytes::Bytes;
use std::cell::Cell;
use std::ops::Range;
use tenure_model::{ChunkPlace, Digest, Extent, Failure, Piece, Refusal, limits};
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

/// What sees to it that chunks outlive an owner that has them in memory alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Safety {
    /// They are few: their bytes are kept here, and ride in the journal with the batch that names them.
    Kept,
    /// The owner makes them durable before anything names them: then no batch waits for them, and nobody who syncs something else.
    Secured,
}

/// A part of a file that has its place.
pub(crate) struct Part {
    pub(crate) piece: Piece,
    /// Where its chunk lies, if it is one.
    pub(crate) place: Option<ChunkPlace>,
}

/// Bytes that wait for their places.
struct Unplaced<'a> {
    /// Which of the files it is.
    file: usize,
    offset: u64,
    bytes: InOne<'a>,
    ends: Vec<usize>,
}

/// Files on their way to their places.
struct Underway<'a> {
    safety: Safety,
    waiting: Vec<Unplaced<'a>>,
    /// What has its place, of each file.
    placed: Vec<Vec<Part>>,
}

impl Inner {
    /// Gives the staged bytes of some files their places.
    pub(crate) fn place(&self, files: Vec<(Taken, Last)>) -> Result<Vec<Settled>, Error> {
        let runs: Vec<_> = files.iter().map(|(taken, _)| runs(&taken.pieces)).collect();
        let len: usize = runs.iter().flatten().map(Run::len).sum();
        let safety = self.safety(len);
        let mut joined = JOINED.take();
        let placed = self.place_runs(&runs, files, safety, &mut joined);
        joined.clear();
        JOINED.set(joined);
        let settled = placed?;
        let places: Vec<_> = settled.iter().flat_map(|one| &one.places).cloned().collect();
        self.secure(safety, &places)?;
        Ok(settled)
    }

    /// Returns what sees to it that so many bytes of chunks are safe.
    pub(crate) fn safety(&self, len: usize) -> Safety {
        match &self.retained {
            Some(retained) if retained.len() + len as u64 > limits::RIDING_LEN_MAX => Safety::Secured,
            Some(_) | None => Safety::Kept,
        }
    }

    /// Has chunks made durable that are to be secured.
    pub(crate) fn secure(&self, safety: Safety, places: &[ChunkPlace]) -> Result<(), Error> {
        if safety == Safety::Kept || places.is_empty() {
            return Ok(());
        }
        match self.asked()?.secure(self.opened.session, places) {
            // They get other places at the next one.
            Err(Error::Refused(Refusal::NoChunk { .. })) => {
                Err(Failure::DidNotHappen("what had its place was lost with its owner".into()).into())
            }
            secured => secured,
        }
    }

    fn place_runs(
        &self,
        runs: &[Vec<Run>],
        files: Vec<(Taken, Last)>,
        safety: Safety,
        joined: &mut Vec<u8>,
    ) -> Result<Vec<Settled>, Error> {
        let mut underway = Underway {
            safety,
            waiting: Vec::new(),
            placed: runs.iter().map(|_| Vec::new()).collect(),
        };
        let mut keeps = Vec::with_capacity(files.len());
        for (file, (taken, last)) in files.iter().enumerate() {
            keeps.push(self.cut_runs((file, &runs[file]), (taken, *last), joined, &mut underway)?);
        }
        self.place_waiting(joined, &mut underway)?;
        let files = files.into_iter().zip(runs).zip(keeps).zip(underway.placed);
        let settled = files.map(|((((taken, _), runs), keep), parts)| settled(parts, taken, runs, keep));
        Ok(settled.collect())
    }

    /// Cuts the runs of a file, and gives them their places as they become many; returns the run of which something stays, and
    /// the begin of that.
    fn cut_runs<'a>(
        &self,
        (file, runs): (usize, &'a [Run]),
        (taken, last): (&Taken, Last),
        joined: &mut Vec<u8>,
        underway: &mut Underway<'a>,
    ) -> Result<Option<(&'a Run, usize)>, Error> {
        let mut keep = None;
        let may_keep = last == Last::Kept && taken.is_in_order;
        for (number, run) in runs.iter().enumerate() {
            let known = taken.ahead.as_ref().filter(|ahead| ahead.from() == run.offset);
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
                let offset = run.offset + at as u64;
                underway.waiting.push(Unplaced {
                    file,
                    offset,
                    bytes,
                    ends,
                });
                at = next;
                if joined.len() >= cut::WINDOW {
                    self.place_waiting(joined, underway)?;
                }
            }
        }
        Ok(keep)
    }

    /// Gives what waits its places, and has room for more to be joined.
    fn place_waiting(&self, joined: &mut Vec<u8>, underway: &mut Underway<'_>) -> Result<(), Error> {
        let (mut of, mut parts) = (Vec::new(), Vec::new());
        for one in &underway.waiting {
            let cut = cut::parts(one.offset, one.bytes.of(joined), &one.ends);
            of.extend(cut.iter().map(|_| one.file));
            parts.extend(cut);
        }
        let placed = self.place_parts(&parts, underway.safety)?;
        for (file, part) in of.into_iter().zip(placed) {
            underway.placed[file].push(part);
        }
        underway.waiting.clear();
        joined.clear();
        Ok(())
    }

    /// Gives parts of files their places: as chunks, or within the extents themselves where they are few bytes.
    pub(crate) fn place_parts(&self, parts: &[(u64, &[u8])], safety: Safety) -> Result<Vec<Part>, Error> {
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
        if let Some(retained) = self.retained.as_ref().filter(|_| safety == Safety::Kept) {
            let placed = places.iter().zip(&chunks);
            placed.for_each(|(place, chunk)| retained.keep(place.at, chunk.bytes));
        }
        let mut placed = places.into_iter();
        let parts = parts.iter().map(|(offset, bytes)| {
            let place = is_chunk(bytes).then(|| placed.next().expect("every chunk gets a place"));
            let extent = match &place {
                Some(place) => Extent::Chunk {
                    at: place.at,
                    start: 0,
                    len: bytes.len() as u32,
                },
                None => Extent::Inline((*bytes).into()),
            };
            Part {
                piece: Piece {
                    offset: *offset,
                    extent,
                },
                place,
            }
        });
        Ok(parts.collect())
    }
}

/// Puts together what became of a file: parts that have their places now, what had its place before, and what stays staged.
fn settled(parts: Vec<Part>, taken: Taken, runs: &[Run], keep: Option<(&Run, usize)>) -> Settled {
    let (mut pieces, mut places) = unzipped(parts);
    let is_whole = |ahead: &Ahead| runs.iter().any(|run| run.offset == ahead.from());
    if let Some(ahead) = taken.ahead.filter(is_whole) {
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
    settled
}

/// Returns the pieces of parts, and the places of those that are chunks.
pub(crate) fn unzipped(parts: Vec<Part>) -> (Vec<Piece>, Vec<ChunkPlace>) {
    let (pieces, places): (Vec<_>, Vec<_>) = parts.into_iter().map(|part| (part.piece, part.place)).unzip();
    (pieces, places.into_iter().flatten().collect())
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
