//! Merging: where a file was written in small pieces, the same bytes are put there again as few long chunks.
//!
//! To the branch it is a write like any other, so a batch carries it, a crash leaves it whole or undone, and nobody who
//! reads sees it. Invariant: it is put only where the file still holds what was copied, under the state's lock: whoever
//! writes there meanwhile wins.

use crate::branch::{Inner, LOADS_MAX, too_many_loads};
use crate::cut;
use crate::frays::Fray;
use crate::place::unzipped;
use tenure_core::{Frayed, Undecided};
use tenure_model::{ChunkPlace, Ino, Op};
use tenure_wire::Error;

/// Bytes that are copied at once: the next sync may have to wait until they are on disk.
pub(crate) const RUN_LEN_MAX: u64 = 2 << 20;
/// What is written in small pieces before it is merged, in sizes of a stage that is settled: a file that is written
/// again and again is merged once for all of that.
const STAGES: u64 = 4;

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merged {
    /// There was none.
    Nothing,
    /// Its bytes are in few chunks now.
    Done,
    /// Somebody wrote there meanwhile.
    Missed,
}

impl Inner {
    /// Returns how much is written in small pieces before it is merged while writing goes on.
    pub(crate) fn merge_after(&self) -> u64 {
        self.options.stage_settle.saturating_mul(STAGES)
    }

    /// Merges what is due, as long as the stage has room; tells whether it changed anything.
    pub(crate) fn merge(&self) -> bool {
        let mut has_changed = false;
        while !self.is_stage_due() && !self.waiting.is_stopped() {
            let Some((ino, fray)) = self.state.write().frays.next() else {
                break;
            };
            match self.merge_next(ino, fray) {
                Ok((rest, Merged::Missed)) => self.state.write().frays.try_later(ino, rest),
                Ok((rest, merged)) => {
                    has_changed |= merged == Merged::Done;
                    self.state.write().frays.go_on(ino, rest);
                }
                // Later writes to it try again.
                Err(error) => tracing::debug!(%error, ino = ino.0, "a file stays in small pieces"),
            }
        }
        has_changed
    }

    /// Merges everything that is worth it, before the branch is given back.
    pub(crate) fn merge_all(&self) -> bool {
        self.state.write().frays.fall_due(0) && self.merge()
    }

    /// Merges the first frayed run; returns what is left to do.
    fn merge_next(&self, ino: Ino, fray: Fray) -> Result<(Fray, Merged), Error> {
        let len_max = fray.credit.min(RUN_LEN_MAX);
        let search = self.read(|state| Ok(state.branch.frayed(ino, (fray.from, fray.end), len_max)?))?;
        let mut rest = Fray {
            from: search.next,
            ..fray
        };
        let Some(run) = search.found else {
            return Ok((rest, Merged::Nothing));
        };
        let (end, merged) = self.merge_run(ino, &run)?;
        rest.from = if merged == Merged::Missed { fray.from } else { end };
        rest.credit -= end - run.offset();
        Ok((rest, merged))
    }

    /// Puts a run's bytes into chunks; returns where in the file they end.
    fn merge_run(&self, ino: Ino, run: &Frayed) -> Result<(u64, Merged), Error> {
        let offset = run.offset();
        let mut bytes = vec![0; (run.end() - offset) as usize];
        for piece in &run.pieces {
            let (from, to) = (piece.offset - offset, piece.end() - offset);
            self.fill(piece, &mut bytes[from as usize..to as usize])?;
        }
        let mut ends = cut::ends(&bytes, false);
        if run.goes_on && ends.len() > 1 {
            // Where the last one ends depends on what follows.
            ends.pop();
        }
        let parts = cut::parts(offset, &bytes, &ends);
        let end = offset + *ends.last().expect("there is one end at least") as u64;
        let safety = self.safety(parts.iter().map(|(_, bytes)| bytes.len()).sum());
        let _placing = self.forgoing.place();
        let (pieces, places) = unzipped(self.place_parts(&parts, safety)?);
        self.secure(safety, &places)?;
        let op = Op::Write {
            ino,
            pieces,
            size: 0,
            time: None,
        };
        Ok((end, self.put_merged(ino, run, &op, &places)?))
    }

    /// Puts a run's bytes where they were, unless something else is there by now.
    fn put_merged(&self, ino: Ino, run: &Frayed, op: &Op, places: &[ChunkPlace]) -> Result<Merged, Error> {
        for _ in 0..LOADS_MAX {
            let state = self.state.write();
            if let Some(error) = &state.broken {
                return Err(error.clone());
            }
            if state.is_still {
                return Ok(Merged::Missed);
            }
            let entered = match state.branch.pieces(ino, run.offset(), run.end()) {
                Ok(pieces) if pieces != run.pieces => return Ok(Merged::Missed),
                Ok(_) => self.enter(state, op, |state, _| state.log.chunks.extend_from_slice(places)),
                Err(missing) => {
                    drop(state);
                    Err(missing.into())
                }
            };
            match entered {
                Ok(()) => return Ok(Merged::Done),
                Err(Undecided::Refused(refusal)) => return Err(refusal.into()),
                Err(Undecided::Missing(missing)) => self.load(&missing)?,
            }
        }
        Err(too_many_loads())
    }
}
