//! Contents: what is read and written, and what is done to ranges.

use crate::branch::{Branch, Inner, LOADS_MAX, State, too_many_loads};
use bytes::Bytes;
use tenure_core::{Seek, Undecided};
use tenure_model::{AttrChange, Extent, Failure, Ino, Op, Piece, Refusal, limits};
use tenure_wire::Error;

/// What a read found: the file's pieces, and what is staged above them.
struct Layers {
    len: usize,
    pieces: Vec<Piece>,
    staged: Vec<(u64, Bytes)>,
    /// Whether what is staged is all that is to be seen.
    is_staged: bool,
}

impl Branch {
    /// Appends to `out` what the file holds from `offset` on: up to `len` bytes, fewer only at its end.
    pub fn read(&self, ino: Ino, offset: u64, len: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        let size = self.attr(ino)?.size.saturating_sub(offset);
        out.resize(start + len.min(usize::try_from(size).unwrap_or(usize::MAX)), 0);
        let read = self.inner.read_at(ino, offset, &mut out[start..])?;
        out.truncate(start + read);
        Ok(())
    }

    /// Fills `into` with what the file holds from `offset` on, and returns how many bytes that are: fewer only at its end.
    pub fn read_into(&self, ino: Ino, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        self.inner.noted.note(ino, offset, into.len());
        self.inner.read_at(ino, offset, into)
    }

    /// Stages bytes for a file. They are visible at once, and durable after a sync or the lag.
    pub fn write(&self, ino: Ino, offset: u64, bytes: Bytes) -> Result<(), Error> {
        self.inner.stage(ino, |_| Ok(offset), bytes).map(drop)
    }

    /// Writes behind the end of the file, whatever that is by now, and returns where.
    pub fn append(&self, ino: Ino, bytes: Bytes) -> Result<u64, Error> {
        self.inner.stage(ino, |state| Ok(state.attr(ino)?.size), bytes)
    }

    /// Lets a file have at least `size` bytes; what it gains is a hole.
    pub fn grow(&self, ino: Ino, size: u64) -> Result<(), Error> {
        if self.attr(ino)?.size < size {
            self.set_attr(
                ino,
                &AttrChange {
                    size: Some(size),
                    ..AttrChange::default()
                },
            )?;
        }
        Ok(())
    }

    /// Makes a hole.
    pub fn punch(&self, ino: Ino, offset: u64, len: u64) -> Result<(), Error> {
        self.settled_change(
            &[ino],
            &Op::Punch {
                ino,
                offset,
                len,
                time: self.inner.now(),
            },
        )
    }

    /// Takes a range out and moves what is behind it down.
    pub fn collapse(&self, ino: Ino, offset: u64, len: u64) -> Result<(), Error> {
        self.settled_change(
            &[ino],
            &Op::Collapse {
                ino,
                offset,
                len,
                time: self.inner.now(),
            },
        )
    }

    /// Moves what is behind `offset` up and leaves a hole.
    pub fn insert(&self, ino: Ino, offset: u64, len: u64) -> Result<(), Error> {
        self.settled_change(
            &[ino],
            &Op::Insert {
                ino,
                offset,
                len,
                time: self.inner.now(),
            },
        )
    }

    /// Copies a range by sharing its chunks and returns how many bytes there were to copy.
    pub fn copy(
        &self,
        (from, from_offset): (Ino, u64),
        (to, to_offset): (Ino, u64),
        len: u64,
    ) -> Result<u64, Error> {
        let size = self.attr(from)?.size;
        let len = len.min(size.saturating_sub(from_offset));
        if len > 0 {
            let time = self.inner.now();
            self.settled_change(
                &[from, to],
                &Op::Copy {
                    from,
                    from_offset,
                    to,
                    to_offset,
                    len,
                    time,
                },
            )?;
        }
        Ok(len)
    }

    /// Returns the next offset of data or of a hole.
    pub fn seek(&self, ino: Ino, offset: u64, to: Seek) -> Result<u64, Error> {
        self.inner.settle(ino)?;
        self.inner.read(|state| state.branch.seek(ino, offset, to))
    }

    fn settled_change(&self, files: &[Ino], op: &Op) -> Result<(), Error> {
        for ino in files {
            self.inner.settle(*ino)?;
        }
        self.inner.change(op, |_, _| ())
    }
}

impl Inner {
    /// Stages bytes for a file, where `at` says in the same step, and returns where.
    fn stage(
        &self,
        ino: Ino,
        at: impl Fn(&State) -> Result<u64, Undecided>,
        bytes: Bytes,
    ) -> Result<u64, Error> {
        self.wait_for_stage(ino)?;
        let (time, now) = (self.now(), self.clock.elapsed());
        for _ in 0..LOADS_MAX {
            let mut state = self.changing()?;
            let offset = match at(&state) {
                Ok(offset) => offset,
                Err(Undecided::Refused(refusal)) => return Err(refusal.into()),
                Err(Undecided::Missing(missing)) => {
                    drop(state);
                    self.load(&missing)?;
                    continue;
                }
            };
            let end = offset.checked_add(bytes.len() as u64);
            end.filter(|end| *end <= limits::FILE_LEN_MAX)
                .ok_or(Refusal::TooLarge)?;
            if bytes.is_empty() {
                return Ok(offset);
            }
            if let Some(lent) = &mut state.lent {
                lent.write(ino, now)?;
            }
            let first = state.stage.bytes() == 0;
            state.stage.put(ino, offset, bytes, time, now);
            self.witness.staged(state.stage.bytes());
            let full = state.stage.is_due(self.options.stage_settle);
            drop(state);
            if first {
                self.waiting.changed();
            }
            if full {
                self.waiting.settle();
            }
            return Ok(offset);
        }
        Err(too_many_loads())
    }

    /// As `Branch::read_into`, and notes nothing.
    pub(crate) fn read_at(&self, ino: Ino, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        let mut layers = self.layers(ino, offset, into.len())?;
        loop {
            let Err(error) = self.fill_all(&layers, offset, &mut into[..layers.len]) else {
                return Ok(layers.len);
            };
            let now = self.layers(ino, offset, into.len())?;
            // Of what is in the file no more the bytes may have been given back meanwhile.
            if !matches!(error, Error::Failed(Failure::Corrupt(_))) || now.pieces == layers.pieces {
                self.note_damage(&error, Some(ino));
                return Err(error);
            }
            layers = now;
        }
    }

    fn fill_all(&self, layers: &Layers, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        if !layers.is_staged {
            let read = |piece: &Piece, into: &mut [u8]| self.fill(piece, into);
            tenure_core::fill(&layers.pieces, offset, out, read)?;
        }
        for (at, bytes) in &layers.staged {
            let from = (at - offset) as usize;
            out[from..from + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn layers(&self, ino: Ino, offset: u64, len: usize) -> Result<Layers, Error> {
        self.read(|state| {
            let size = state.attr(ino)?.size;
            let end = size.min(offset.saturating_add(len as u64)).max(offset);
            let mut staged = Vec::new();
            if let Some(file) = state.stage.file(ino) {
                file.visit(offset, end, |at, bytes| staged.push((at, bytes)));
            }
            let is_staged =
                matches!(&staged[..], [(at, bytes)] if *at == offset && bytes.len() as u64 == end - offset);
            let pieces = if is_staged {
                Vec::new()
            } else {
                state.branch.pieces(ino, offset, end)?
            };
            Ok(Layers {
                len: (end - offset) as usize,
                pieces,
                staged,
                is_staged,
            })
        })
    }

    /// Fills `into`, which is as long as the piece, with its bytes.
    pub(crate) fn fill(&self, piece: &Piece, into: &mut [u8]) -> Result<(), Error> {
        match &piece.extent {
            Extent::Inline(bytes) => into.copy_from_slice(bytes),
            Extent::Chunk { at, start, .. } => {
                let retained = self.retained.as_ref();
                let is_read = retained.is_some_and(|retained| retained.read(*at, *start, into))
                    || match self.near.get() {
                        Some(near) => near.read(*at, *start, into)?,
                        None => false,
                    };
                if !is_read {
                    self.asked()?.read(*at, *start, into)?;
                }
            }
        }
        Ok(())
    }
}
