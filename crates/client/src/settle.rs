//! Settling: staged bytes become chunks in a pack, and a `Write` in the log.
//!
//! Invariant: a file is settled by one thread at a time, so its writes enter the log in their order.

use crate::branch::{Inner, Threads};
use crate::stage::Pieces;
use bytes::Bytes;
use std::cell::Cell;
use std::time::Duration;
use tenure_model::{ChunkPlace, Digest, Extent, Failure, Ino, Op, Piece, Refusal, limits};
use tenure_wire::{Error, owner::Chunk};

/// The longest that a writer waits for room on the stage, or anybody for a file that is being settled.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How long the settler rests after the bucket has failed.
const REST: Duration = Duration::from_millis(200);

/// A run of staged bytes that becomes one extent.
struct Run {
    offset: u64,
    parts: Vec<Bytes>,
}

impl Run {
    fn len(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }
}

thread_local! {
    /// Where the parts of runs are joined, so that settling needs no new memory each time.
    static JOINED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Memory for joining that a thread keeps.
const JOINED_MAX: usize = 8 << 20;

impl Inner {
    /// Settles all that is staged of a file; what comes meanwhile may stay.
    pub(crate) fn settle(&self, ino: Ino) -> Result<(), Error> {
        let Some(pieces) = self.begin_settling(ino)? else {
            return Ok(());
        };
        let settled = self
            .place(&pieces)
            .and_then(|(pieces, places)| self.log_write(ino, pieces, places));
        if settled.is_err() {
            self.state.write().stage.unsettle(ino);
        }
        let _guard = self.settling.lock();
        self.settled.notify_all();
        settled
    }

    /// Settles everything that is staged now.
    pub(crate) fn settle_all(&self) -> Result<(), Error> {
        let files = self.state.read().stage.files();
        files.into_iter().try_for_each(|ino| self.settle(ino))
    }

    /// Forgets what is staged of a file.
    pub(crate) fn discard(&self, ino: Ino) -> Result<(), Error> {
        if self.state.read().stage.file(ino).is_none() {
            return Ok(());
        }
        self.when_not_settling(ino, |inner| inner.state.write().stage.discard(ino))
    }

    fn begin_settling(&self, ino: Ino) -> Result<Option<Pieces>, Error> {
        if self.state.read().stage.file(ino).is_none() {
            return Ok(None);
        }
        self.when_not_settling(ino, |inner| inner.state.write().stage.settle(ino))
    }

    /// Runs `then` while no thread settles the file, and none can begin to.
    fn when_not_settling<R>(&self, ino: Ino, then: impl FnOnce(&Inner) -> R) -> Result<R, Error> {
        let mut guard = self.settling.lock();
        while self
            .state
            .read()
            .stage
            .file(ino)
            .is_some_and(|file| file.is_settling())
        {
            if self.settled.wait_for(&mut guard, WAIT_MAX).timed_out() {
                return Err(Failure::DidNotHappen(
                    "written bytes could not be put into a pack in time".into(),
                )
                .into());
            }
        }
        Ok(then(self))
    }

    /// Gives the bytes their places: as chunks, or within the extents themselves where they are few.
    fn place(&self, pieces: &Pieces) -> Result<(Vec<Piece>, Vec<ChunkPlace>), Error> {
        let mut joined = JOINED.take();
        let placed = self.place_runs(&runs(pieces), &mut joined);
        if joined.capacity() <= JOINED_MAX {
            JOINED.set(joined);
        }
        placed
    }

    fn place_runs(&self, runs: &[Run], joined: &mut Vec<u8>) -> Result<(Vec<Piece>, Vec<ChunkPlace>), Error> {
        let bytes = contiguous(runs, joined);
        let is_chunk = |bytes: &&[u8]| bytes.len() > limits::INLINE_LEN_MAX;
        let chunks = bytes.iter().copied().filter(is_chunk);
        let chunks: Vec<_> = chunks
            .map(|bytes| Chunk {
                digest: Digest::of(bytes),
                bytes,
            })
            .collect();
        let places = if chunks.is_empty() {
            Vec::new()
        } else {
            self.owner.place(self.opened.session, &chunks)?
        };
        let mut placed = places.iter();
        let pieces = runs.iter().zip(&bytes).map(|(run, bytes)| {
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
                offset: run.offset,
                extent,
            }
        });
        Ok((pieces.collect(), places))
    }

    fn log_write(&self, ino: Ino, pieces: Vec<Piece>, places: Vec<ChunkPlace>) -> Result<(), Error> {
        let op = |time| Op::Write {
            ino,
            pieces: pieces.clone(),
            size: 0,
            time,
        };
        let logged = self.change_with(
            |state| Ok(op(state.stage.file(ino).and_then(|file| file.time))),
            |state, _| {
                state.log.chunks.extend(places.iter().cloned());
                state.stage.settled(ino, self.clock.elapsed());
            },
        );
        match logged {
            // The file is gone, and its bytes with it.
            Err(Error::Refused(Refusal::NotFound)) => {
                self.state.write().stage.settled(ino, self.clock.elapsed());
                Ok(())
            }
            logged => logged,
        }
    }

    /// Waits until the stage has room for a write; the owner's trouble ends the wait.
    pub(crate) fn wait_for_stage(&self) -> Result<(), Error> {
        if self.state.read().stage.bytes() < self.options.stage_max {
            return Ok(());
        }
        if self.options.threads == Threads::None {
            return self.settle_all();
        }
        let mut guard = self.settling.lock();
        while self.state.read().stage.bytes() >= self.options.stage_max {
            if let Some(trouble) = self.waiting.trouble() {
                return Err(trouble);
            }
            self.waiting.settle();
            if self.settled.wait_for(&mut guard, WAIT_MAX).timed_out() {
                return Err(Failure::DidNotHappen("the bucket takes no more bytes in time".into()).into());
            }
        }
        Ok(())
    }

    /// The settler's loop: keeps the stage below its limit, so that bulk is on its way before anybody syncs.
    pub(crate) fn run_settler(&self) {
        while self.waiting.until_settle() {
            while self.state.read().stage.bytes() >= self.options.stage_settle {
                match self.settle_all() {
                    Ok(()) => self.waiting.set_trouble(None),
                    Err(error) => {
                        tracing::warn!(%error, "written bytes wait for the bucket");
                        self.waiting.set_trouble(Some(error));
                        let _guard = self.settling.lock();
                        self.settled.notify_all();
                        break;
                    }
                }
            }
            if self.waiting.trouble().is_some() && !self.waiting.rest(REST) {
                return;
            }
        }
    }
}

/// Joins neighbours into runs, cut where a chunk may end: at whole multiples of its greatest length.
fn runs(pieces: &Pieces) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut end = None;
    let chunk_max = limits::CHUNK_LEN_MAX as u64;
    for (offset, bytes) in pieces {
        let (mut offset, mut bytes) = (*offset, bytes.clone());
        while !bytes.is_empty() {
            if end != Some(offset) || offset % chunk_max == 0 {
                runs.push(Run {
                    offset,
                    parts: Vec::new(),
                });
            }
            let room = chunk_max - offset % chunk_max;
            let part = bytes.split_to(bytes.len().min(room as usize));
            offset += part.len() as u64;
            end = Some(offset);
            runs.last_mut().expect("a run was begun").parts.push(part);
        }
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

    #[test]
    fn neighbours_are_joined_and_cut_at_multiples_of_a_chunk() {
        let max = limits::CHUNK_LEN_MAX as u64;
        let piece = |len: u64| Bytes::from(vec![7; len as usize]);
        let pieces = Pieces::from([
            (10, piece(5)),
            (15, piece(5)),
            (30, piece(1)),
            (max - 2, piece(2 * max)),
        ]);
        let found: Vec<_> = runs(&pieces)
            .iter()
            .map(|run| (run.offset, run.len() as u64))
            .collect();
        assert_eq!(
            found,
            [(10, 10), (30, 1), (max - 2, 2), (max, max), (2 * max, max - 2)]
        );
    }
}
