//! Shipping: a holder's batch is looked at, ordered, and made durable, its chunks first.
//!
//! Invariant: a batch is accepted whole or not at all, only from the holder, only right behind the last one, and only
//! when its chunks are durable or ride in the journal with it.

use crate::decide;
use crate::drive::Inner;
use crate::session::epoch_of;
use crate::state::{After, State, batch_digest};
use tenure_core::Branch;
use tenure_model::codec::Codec;
use tenure_model::op::RenameMode;
use tenure_model::{
    Batch, ChunkPlace, Digest, Extent, Ino, InoRange, Op, Record, Refusal, SessionId, limits,
};
use tenure_wire::{Chunk, Done, Error, Placed, Shipped};

/// Bytes of chunks that ride in the journal when a batch comes before they are durable: above it, waiting for the pack
/// costs less than writing them twice.
const INLINE_CHUNKS_MAX: u64 = 64 << 10;
/// Bytes that a batch's record has beside its ops and chunks, with a margin.
const RECORD_LEN_MORE: u64 = 4096;

impl Inner {
    pub(crate) fn place(&self, session: SessionId, chunks: &[Chunk<'_>]) -> Result<Vec<Placed>, Error> {
        let hosted = self.with(|live| Ok(live.known(session)?.hosted))?;
        let mut any_filled = false;
        let mut places = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            if chunk.bytes.is_empty() || chunk.bytes.len() > limits::CHUNK_LEN_MAX {
                return Err(Refusal::InvalidArgument.into());
            }
            if !hosted && Digest::of(chunk.bytes) != chunk.digest {
                return Err(Refusal::Because("a chunk's digest is not that of its bytes".into()).into());
            }
            let (place, filled) = self.filling.place(chunk.digest, chunk.bytes)?;
            any_filled |= filled;
            places.push(place);
        }
        if any_filled {
            self.work_on_full_packs()?;
        }
        Ok(places)
    }

    pub(crate) fn ship(&self, batch: Batch, after: Option<Branch>, done: Done<Shipped>) {
        let prepared = self.prepare(batch, after);
        let (prepared, after) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return done(Err(error)),
        };
        let digest = prepared.digest;
        let done: Done<()> = Box::new(move |durable| done(durable.map(|()| Shipped { digest })));
        self.order_batch(prepared, after, done);
    }

    /// Does all that needs no place in the order: looks at the batch, decides its ops, and sees to its chunks.
    fn prepare(&self, mut batch: Batch, after: Option<Branch>) -> Result<(Prepared, After), Error> {
        if batch.ops.len() > limits::BATCH_LEN_MAX {
            return Err(Refusal::TooLarge.into());
        }
        let seen = self.with(|live| {
            let session = live.known(batch.session)?;
            self.may_ship(&live.state, &batch)?;
            let branch = live.state.opened(batch.branch).ok_or(Refusal::Stale)?.branch;
            Ok((session, branch))
        })?;
        let (session, branch) = seen;
        let after = match after.filter(|_| session.hosted) {
            Some(after) => after,
            None => self.decide_batch(
                branch,
                &batch,
                &session.inos.iter().map(|lent| lent.0).collect::<Vec<_>>(),
            )?,
        };
        let digest = batch_digest(&batch);
        self.secure_chunks(&mut batch.chunks)?;
        Ok((Prepared::new(batch, digest), After::Branch(after)))
    }

    fn may_ship(&self, state: &State, batch: &Batch) -> Result<(), Error> {
        let epochs = epoch_of(batch.session)..=self.epoch;
        // A holder that outlived an owner ships again what it knows not to be durable, as it was then.
        if !epochs.contains(&batch.epoch) {
            return Err(Refusal::Stale.into());
        }
        Ok(state.permits_batch(batch)?)
    }

    /// Decides each op of a batch from another process.
    fn decide_batch(&self, branch: Branch, batch: &Batch, lent: &[InoRange]) -> Result<Branch, Error> {
        let is_lent = |ino: Ino| lent.iter().any(|range| range.contains(ino));
        let may = |op: &Op| match op {
            Op::Create { ino, .. } | Op::CreateUnnamed { ino, .. } if !is_lent(*ino) => {
                Err(Refusal::InvalidArgument.into())
            }
            Op::Rename {
                mode: RenameMode::Whiteout(ino),
                ..
            } if !is_lent(*ino) => Err(Refusal::InvalidArgument.into()),
            Op::Write { pieces, .. } => pieces.iter().try_for_each(|piece| self.may_name(&piece.extent)),
            Op::Create { .. }
            | Op::CreateUnnamed { .. }
            | Op::Link { .. }
            | Op::Unlink { .. }
            | Op::Rmdir { .. }
            | Op::Rename { .. }
            | Op::SetAttr { .. }
            | Op::Punch { .. }
            | Op::Collapse { .. }
            | Op::Insert { .. }
            | Op::Copy { .. }
            | Op::SetXattr { .. }
            | Op::RemoveXattr { .. }
            | Op::Drop { .. } => Ok(()),
        };
        self.health
            .guard(self.epoch, || decide::after_ops(branch, batch, &self.loader, may))
    }

    /// Refuses an extent whose bytes the drive does not have.
    fn may_name(&self, extent: &Extent) -> Result<(), Error> {
        let Extent::Chunk { at, start, len } = extent else {
            return Ok(());
        };
        let entries = self.packs.entries(at.pack)?;
        let entry = entries.iter().find(|entry| entry.digest == at.digest);
        if entry.is_some_and(|entry| u64::from(*start) + u64::from(*len) <= u64::from(entry.len)) {
            Ok(())
        } else {
            Err(Refusal::Because(format!(
                "the drive does not have chunk {}; send it again",
                at.digest
            ))
            .into())
        }
    }

    /// Sees to it that chunks are durable: few bytes ride in the journal, more are waited for.
    fn secure_chunks(&self, chunks: &mut [ChunkPlace]) -> Result<(), Error> {
        for chunk in chunks.iter_mut() {
            chunk.inline = None;
        }
        let mut undurable = self.filling.undurable(chunks);
        let len: u64 = undurable.iter().map(|chunk| u64::from(chunk.len)).sum();
        if len > INLINE_CHUNKS_MAX {
            return Ok(self.filling.flush(undurable.iter().map(|chunk| &**chunk))?);
        }
        for chunk in &mut undurable {
            let bytes = self.packs.read(chunk.at)?;
            if bytes.len() != chunk.len as usize {
                return Err(Refusal::Because("a chunk is not as long as it was placed".into()).into());
            }
            chunk.inline = Some(bytes.into());
        }
        Ok(())
    }

    fn order_batch(&self, prepared: Prepared, after: After, done: Done<()>) {
        let Prepared { batch, digest, bytes } = prepared;
        if let Err(error) = self.make_room(bytes.len() as u64 + RECORD_LEN_MORE) {
            return done(Err(error));
        }
        let mut done = Some(done);
        let ordered = self.with(|live| {
            self.may_ship(&live.state, &batch)?;
            let told = done.take().expect("it is asked once");
            let seq = self.enqueue(live, bytes, told).map_err(|(error, told)| {
                done = Some(told);
                error
            })?;
            live.state.adopt(&batch, digest, after);
            Ok((live.journal()?.clone(), seq))
        });
        match (ordered, done) {
            // Who waits is told by the journal, whatever becomes of it.
            (Ok((journal, seq)), _) => {
                let _ = self.commit_through(&journal, seq);
                self.work_after(&journal);
            }
            (Err(error), Some(done)) => done(Err(error)),
            (Err(_), None) => {}
        }
    }

    /// Makes sure that a record of so many bytes has room in the journal.
    fn make_room(&self, bytes: u64) -> Result<(), Error> {
        let journal = self.with(|live| live.journal().cloned())?;
        Ok(journal.reserve(bytes)?)
    }
}

/// A batch that may be ordered.
struct Prepared {
    batch: Batch,
    digest: Digest,
    bytes: Vec<u8>,
}

impl Prepared {
    fn new(batch: Batch, digest: Digest) -> Self {
        let record = Record::Batch(batch);
        let bytes = record.written();
        let Record::Batch(batch) = record else {
            unreachable!("it was made one just now")
        };
        Self { batch, digest, bytes }
    }
}
