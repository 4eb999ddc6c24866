//! The latest batches under each grant: by them a batch that comes again is recognised, also when others followed it.
//!
//! A holder may have several batches underway, and hear of none that they are durable before the owner ends. Invariant:
//! what is remembered is the end of the grant's chain, so an owner that takes over remembers what its records say, and
//! what the newest manifest remembers of the ones before.

use super::{State, row};
use std::collections::{BTreeMap, VecDeque};
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_varint};
use tenure_model::{Batch, BranchId, Digest};

/// Batches that are remembered of each grant: as many as calls can be underway on one connection.
pub(crate) const RECENT_MAX: usize = 64;

/// The latest batches of a branch's grant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recent {
    /// The number of the last of them.
    last: u64,
    /// Their digests, in order.
    digests: VecDeque<Digest>,
}

impl Recent {
    /// Returns what is remembered before the first batch: what that names as the one before it.
    pub(super) fn begun(start: Digest) -> Self {
        let mut recent = Self::default();
        recent.add(0, start);
        recent
    }

    /// Returns the number and the digest of the last; none where nothing is remembered.
    pub(super) fn last(&self) -> Option<(u64, Digest)> {
        Some((self.last, *self.digests.back()?))
    }

    #[cfg(test)]
    pub(super) fn of(last: u64, digests: impl IntoIterator<Item = Digest>) -> Self {
        let digests = digests.into_iter().collect();
        Self { last, digests }
    }

    pub(super) fn add(&mut self, number: u64, digest: Digest) {
        self.last = number;
        self.digests.push_back(digest);
        if self.digests.len() > RECENT_MAX {
            self.digests.pop_front();
        }
    }

    pub(super) fn has(&self, number: u64, digest: Digest) -> bool {
        let back = self
            .last
            .checked_sub(number)
            .and_then(|back| usize::try_from(back).ok());
        let at = back.and_then(|back| self.digests.len().checked_sub(back + 1));
        at.is_some_and(|at| self.digests[at] == digest)
    }
}

impl Codec for Recent {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.last);
        put_varint(out, self.digests.len() as u64);
        self.digests
            .iter()
            .for_each(|digest| out.extend_from_slice(&digest.0));
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (last, count) = (input.varint()?, input.number::<usize>()?);
        if count > RECENT_MAX {
            return Err(malformed("recent batches: there are too many"));
        }
        let digests = (0..count).map(|_| input.digest()).collect::<Result<_, _>>()?;
        Ok(Self { last, digests })
    }
}

/// The latest batches of every grant.
pub(super) type OfBranches = BTreeMap<BranchId, Recent>;

impl State {
    /// Tells whether a batch is one of the latest that its session has shipped under its grant, or that it has shipped since it shares
    /// the branch.
    pub(crate) fn was_accepted(&self, batch: &Batch, digest: Digest) -> bool {
        let of_sharer = self
            .shared
            .get(&batch.branch)
            .and_then(|sharing| sharing.chain(batch.session));
        let of_line = || {
            let (line, _) = self.granted(batch)?;
            self.recent.get(&line)
        };
        of_sharer
            .or_else(of_line)
            .is_some_and(|recent| recent.has(batch.number, digest))
    }

    /// Remembers a batch that was accepted.
    pub(super) fn remember(&mut self, branch: BranchId, number: u64, digest: Digest) {
        self.recent.entry(branch).or_default().add(number, digest);
    }

    /// Writes into the rows which batches and acts are remembered.
    pub(crate) fn put_recent(&mut self) {
        let known = self.all::<Recent, _>(row::RECENTS, |key| BranchId(row::number_of(key)));
        for (branch, _) in known {
            self.remove(&row::recent_key(branch));
        }
        for (branch, recent) in self.recent.clone() {
            self.put(&row::recent_key(branch), &recent);
        }
        self.put_shared();
    }

    /// Takes from the rows which batches are remembered.
    pub(super) fn take_recent(&mut self) {
        let rows = self.all::<Recent, _>(row::RECENTS, |key| BranchId(row::number_of(key)));
        self.recent = rows.into_iter().collect();
    }
}
