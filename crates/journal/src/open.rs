//! Taking a drive over: lock, manifest, evidence, claim, replay, seal.
//!
//! Invariant: the journal begins behind the last record of every epoch before it, and all those are sealed.

use crate::chain::Position;
use crate::epoch::{self, Claim};
use crate::evidence::{Claimed, Past};
use crate::journal::Journal;
use crate::manifest::{self, Latest, Manifest};
use crate::replay::{self, Apply, Segment};
use crate::room::Sizes;
use crate::seal::{self, Seal};
use std::sync::Arc;
use tenure_model::{DriveName, Epoch, Failure, Seq};
use tenure_store::{Bucket, Disk, Key, Lock, OpenError};

/// A drive that is being taken over: locked and claimed, not yet replayed.
pub struct Opening {
    pub(crate) bucket: Arc<dyn Bucket>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) lock: Lock,
    pub(crate) claim: Claim,
    pub(crate) latest: Latest,
    past: Vec<Past>,
    /// What is wrong and stops nothing.
    notices: Vec<Failure>,
    pub(crate) sizes: Sizes,
}

/// Where a journal begins, and what it found.
pub(crate) struct Beginning {
    pub(crate) at: Position,
    /// Segments of earlier epochs that are still there, in order.
    pub(crate) segments: Vec<Segment>,
}

impl Opening {
    /// Takes the drive's lock, finds the newest manifest, makes sure that nothing is missing, and claims the next epoch.
    ///
    /// `who` names the claimant in words; a second one is refused with the first one's words. `nonce` is drawn now.
    pub fn begin(
        bucket: Arc<dyn Bucket>,
        drive: &DriveName,
        who: &str,
        nonce: [u8; 16],
    ) -> Result<Self, OpenError> {
        let disk = bucket.disk().ok_or_else(|| {
            Failure::DidNotHappen(format!("{} has no disk to keep a journal on", bucket.describe()))
        })?;
        let lock = disk.lock(&Key::in_drive(drive, &["lock"]), who)?;
        let latest = manifest::latest(&*bucket, drive)?;
        let claimed = Claimed::list(&*bucket, drive)?;
        claimed.check(&*bucket, drive, &latest)?;
        let past = claimed
            .past(&*bucket, drive, &latest)
            .map_err(|failure| latest.blamed(failure))?;
        let missing = |epoch| Failure::Corrupt(format!("{}: it is missing", epoch::key(drive, epoch)));
        let mut notices: Vec<Failure> = claimed.gaps().into_iter().map(missing).collect();
        notices.extend(past.iter().filter_map(|one| one.damaged_seal.clone()));
        let claim = epoch::claim(&*bucket, drive, who, nonce)?;
        Ok(Self {
            bucket,
            disk,
            lock,
            claim,
            latest,
            past,
            notices,
            sizes: Sizes::default(),
        })
    }

    /// Gives segments other sizes than usual.
    pub fn with_sizes(mut self, sizes: Sizes) -> Self {
        self.sizes = sizes;
        self
    }

    /// Returns the claim.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Returns the newest manifest that is whole; none in a drive that never folded.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.latest.manifest.as_ref()
    }

    /// Returns the newer manifests that are damaged, each named. If the journal does not reach back behind
    /// them, `replay` fails.
    pub fn damaged_manifests(&self) -> &[Failure] {
        &self.latest.damaged
    }

    /// Returns what else is missing or damaged and stops nothing, each named.
    pub fn notices(&self) -> &[Failure] {
        &self.notices
    }

    /// Hands over every record since the manifest in order, seals the epochs before, and gives the journal.
    pub fn replay(mut self, apply: Apply<'_>) -> Result<Arc<Journal>, Failure> {
        let first = self.manifest().map_or(Epoch(1), |manifest| manifest.epoch);
        let mut at = self.from();
        let mut kept = Vec::new();
        for past in self.past.iter().filter(|past| past.epoch >= first) {
            let drained = self.drain(past, at, apply);
            at = drained.map_err(|failure| hinted(self.latest.blamed(failure)))?;
        }
        self.check_damaged(at.seq)?;
        for past in std::mem::take(&mut self.past) {
            for key in past.found.unused {
                self.disk.remove(&key)?;
            }
            kept.extend(past.found.segments);
        }
        Ok(Arc::new(Journal::new(self, Beginning { at, segments: kept })))
    }

    /// Returns the place from which records are replayed.
    fn from(&self) -> Position {
        let beginning = || Position::beginning(&self.claim.drive);
        self.manifest().map_or_else(beginning, |manifest| manifest.at)
    }

    /// Reads what is left of an epoch, and seals it.
    fn drain(&self, past: &Past, from: Position, apply: Apply<'_>) -> Result<Position, Failure> {
        let segments = &past.found.segments;
        let end = replay::read_epoch(&*self.disk, past.epoch, segments, from, past.seal.as_ref(), apply)?;
        if past.seal.is_none() && past.damaged_seal.is_none() {
            let seal = Seal {
                drive: self.claim.drive.clone(),
                epoch: past.epoch,
                end,
                by: self.claim.epoch,
            };
            seal::put(&*self.bucket, &seal)?;
        }
        Ok(end)
    }

    /// A damaged manifest is made up for only by records that reach as far as it did.
    fn check_damaged(&self, end: Seq) -> Result<(), Failure> {
        let newest = self.latest.seqs.last().copied();
        match self.latest.damaged.first() {
            Some(damaged) if newest.is_some_and(|newest| newest > end) => Err(damaged.clone()),
            _ => Ok(()),
        }
    }
}

/// Says what to do about damage that keeps the journal from being read.
fn hinted(failure: Failure) -> Failure {
    let Failure::Corrupt(why) = failure else {
        return failure;
    };
    Failure::Corrupt(format!(
        "{why}; the drive cannot be opened without what was accepted there: restore that object from a copy of the bucket"
    ))
}
