//! Taking a drive over: lock, claim, manifest, replay, seal.

use crate::epoch::Claim;
use crate::journal::Journal;
use crate::manifest::Manifest;
use std::sync::Arc;
use tenure_model::{DriveName, Failure, Seq};
use tenure_store::{Bucket, OpenError};

/// A drive that is being taken over: locked and claimed, not yet replayed.
pub struct Opening {}

impl Opening {
    /// Takes the drive's lock, claims the next epoch and finds the newest manifest.
    ///
    /// `who` names the claimant in words; a second one is refused with the first one's words. `nonce` is drawn now.
    pub fn begin(
        _bucket: Arc<dyn Bucket>,
        _drive: &DriveName,
        _who: &str,
        _nonce: [u8; 16],
    ) -> Result<Self, OpenError> {
        todo!()
    }

    /// Returns the claim.
    pub fn claim(&self) -> &Claim {
        todo!()
    }

    /// Returns the newest valid manifest; none in a drive that never folded.
    pub fn manifest(&self) -> Option<&Manifest> {
        todo!()
    }

    /// Hands over every record since the manifest in order, seals the epochs before, and gives the journal.
    pub fn replay(
        self,
        _apply: &mut dyn FnMut(Seq, &[u8]) -> Result<(), Failure>,
    ) -> Result<Arc<Journal>, Failure> {
        todo!()
    }
}
