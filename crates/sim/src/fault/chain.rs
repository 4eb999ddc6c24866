//! The chains of batches at an owner, kept by somebody in between who changes what passes.
//!
//! Invariant: the owner sees whole chains, and the client the digests of what it has shipped itself.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use tenure_model::batch::chain_start;
use tenure_model::codec::Codec;
use tenure_model::{Batch, BranchId, Digest, Epoch, Ino, SessionId};

/// Bits of a session's number below those of its epoch.
const NUMBER_BITS: u32 = 24;

/// Where the chain of a branch is.
#[derive(Clone, Copy)]
struct End {
    session: SessionId,
    number: u64,
    digest: Digest,
    /// The digest of the last batch that passed, as its holder has shipped it.
    shipped: Option<Digest>,
}

/// The chains of all branches.
#[derive(Default)]
pub(super) struct Chains(Mutex<BTreeMap<BranchId, End>>);

/// Whether a batch may pass under the name of who holds the branch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// Its own name stays.
    Kept,
    /// The holder's name is put there.
    Forged,
}

impl Chains {
    /// Begins a chain with a grant.
    pub(super) fn begin(&self, session: SessionId, branch: BranchId, first_lent: Ino) {
        let end = End {
            session,
            number: 0,
            digest: chain_start(session, branch, first_lent),
            shipped: None,
        };
        self.0.lock().insert(branch, end);
    }

    /// Puts a batch behind the last one that passed.
    pub(super) fn put_behind(&self, mut batch: Batch, holder: Holder) -> Batch {
        let end = self.0.lock().get(&batch.branch).copied();
        let Some(end) = end.filter(|end| holder == Holder::Forged || end.session == batch.session) else {
            return batch;
        };
        if end.session != batch.session {
            batch.session = end.session;
            batch.epoch = Epoch(end.session.0 >> NUMBER_BITS);
        }
        batch.number = end.number + 1;
        batch.previous = end.digest;
        batch
    }

    /// Tells whether a batch comes again that has passed.
    pub(super) fn has_passed(&self, branch: BranchId, shipped: Digest) -> bool {
        let ends = self.0.lock();
        ends.get(&branch).is_some_and(|end| end.shipped == Some(shipped))
    }

    /// Notes that a batch has passed, which its holder has shipped with a digest.
    pub(super) fn pass(&self, batch: &Batch, shipped: Digest) {
        let end = End {
            session: batch.session,
            number: batch.number,
            digest: Digest::of(&batch.written()),
            shipped: Some(shipped),
        };
        self.0.lock().insert(batch.branch, end);
    }
}
