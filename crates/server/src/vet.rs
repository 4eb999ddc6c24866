//! What a batch from another process must keep to, beyond the rules of the branch: the numbers that were lent, and
//! bytes that the drive has.
//!
//! Invariant: nothing that such a session says about places is believed before the packs say the same.

use crate::decide;
use crate::drive::Inner;
use crate::state::Session;
use std::collections::BTreeSet;
use tenure_core::Branch;
use tenure_model::op::RenameMode;
use tenure_model::{Address, Batch, ChunkPlace, Extent, Ino, Op, PackNumber, Refusal};
use tenure_wire::Error;

impl Inner {
    /// Decides each op of a batch again, and holds it against what its session may do; `and` hears of each, with the branch before it.
    /// Returns the branch after it, and the packs that its ops name.
    pub(crate) fn decide_batch(
        &self,
        branch: Branch,
        batch: &Batch,
        session: &Session,
        mut and: impl FnMut(&Branch, &Op) -> Result<(), Error>,
    ) -> Result<(Branch, BTreeSet<PackNumber>), Error> {
        self.vet_places(&batch.chunks)?;
        let mut named = BTreeSet::new();
        let listed: BTreeSet<Address> = batch.chunks.iter().map(|chunk| chunk.at).collect();
        let may = |branch: &Branch, op: &Op| {
            and(branch, op)?;
            if number_of(op).is_some_and(|ino| !is_lent(session, ino)) {
                return Err(because("an inode number that was not lent to this session"));
            }
            let pieces = if let Op::Write { pieces, .. } = op {
                &pieces[..]
            } else {
                &[]
            };
            pieces.iter().try_for_each(|piece| {
                if let Extent::Chunk { at, .. } = &piece.extent {
                    named.insert(at.pack);
                }
                self.vet_extent(&piece.extent, &listed)
            })
        };
        let after = self
            .health
            .guard(self.epoch, || decide::after_ops(branch, batch, &self.loader, may))?;
        Ok((after, named))
    }

    /// Refuses places that are not what the packs say.
    fn vet_places(&self, places: &[ChunkPlace]) -> Result<(), Error> {
        for place in places {
            let entry = self.packs.find(place.at)?;
            // What was put back lies elsewhere in its pack.
            let may_have_moved = self.is_of_earlier(place.at.pack);
            let is_there = entry.is_some_and(|entry| {
                entry.len == place.len && (may_have_moved || entry.offset == place.offset)
            });
            if !is_there {
                return Err(Refusal::NoChunk { at: place.at }.into());
            }
        }
        Ok(())
    }

    /// Refuses an extent whose bytes the drive does not have, or would not have after a crash.
    fn vet_extent(&self, extent: &Extent, listed: &BTreeSet<Address>) -> Result<(), Error> {
        let Extent::Chunk { at, start, len } = extent else {
            return Ok(());
        };
        let found = self.packs.find(*at)?;
        let entry = found.ok_or(Refusal::NoChunk { at: *at })?;
        if u64::from(*start) + u64::from(*len) > u64::from(entry.len) {
            return Err(because("an extent that is longer than its chunk"));
        }
        if listed.contains(at)
            || self
                .filling
                .is_durable(at.pack, entry.offset + u64::from(entry.len))
        {
            Ok(())
        } else {
            Err(because(
                "a chunk that is not durable and that the batch does not list",
            ))
        }
    }
}

/// Returns the inode number that an op brings.
pub(crate) fn number_of(op: &Op) -> Option<Ino> {
    if let Op::Create { ino, .. }
    | Op::CreateUnnamed { ino, .. }
    | Op::Rename {
        mode: RenameMode::Whiteout(ino),
        ..
    } = op
    {
        return Some(*ino);
    }
    None
}

pub(crate) fn is_lent(session: &Session, ino: Ino) -> bool {
    session.inos.iter().any(|lent| lent.0.contains(ino))
}

fn because(what: &str) -> Error {
    Refusal::Because(format!("the batch has {what}")).into()
}
