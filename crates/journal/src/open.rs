//! Taking a drive over: what is known of it, the claim, what earlier owners have left, and their end.
//!
//! Where a lock keeps others away, what was left is read first: a drive that cannot be opened is not claimed. Elsewhere only the
//! claim stops the owner before, so that it comes first, and each try that fails behind it has used up an epoch: another
//! claimant may have read that claim, and stand on it.
//!
//! Invariant: the journal begins behind the last record of every epoch before it, and all those are sealed.

use crate::claimant::Claimant;
use crate::epoch::{self, Claim};
use crate::evidence::{Past, Survey};
use crate::journal::{Beginning, Journal};
use crate::manifest::{self, Manifest, Tier};
use crate::seal::{self, Seal};
use crate::tier::bucket::read::{Names, Start};
use crate::tier::folder::read;
use crate::tier::folder::room::Sizes;
use crate::tier::folder::spent::Spent;
use crate::tier::{Apply, Begun, Ground};
use crate::{Position, evidence, spare};
use std::sync::Arc;
use tenure_model::{DriveName, Epoch, Failure, Seq};
use tenure_store::{Bucket, OpenError};

/// A drive that is being taken over.
pub struct Opening {
    bucket: Arc<dyn Bucket>,
    drive: DriveName,
    ground: Ground,
    claimant: Claimant,
    epoch: Epoch,
    /// None while the drive is read first.
    claim: Option<Claim>,
    survey: Survey,
    /// What is missing or damaged and stops nothing.
    notices: Vec<Failure>,
    sizes: Sizes,
}

/// What was replayed: where the journal goes on, and what is to be put first.
pub struct Replayed {
    at: Position,
    by_itself: bool,
    seals: Vec<Seal>,
}

impl Replayed {
    /// Tells whether the last owner had ended by itself: then nobody was killed while he wrote.
    pub fn has_ended_by_itself(&self) -> bool {
        self.by_itself
    }
}

/// Where an epoch was read up to.
struct Drained {
    end: Position,
    /// Whether its own owner has sealed it, and so had ended before.
    by_itself: bool,
    /// What is to be put to end it, where that waits for the claim.
    seal: Option<Seal>,
}

impl Opening {
    /// Finds the newest manifest, makes sure that nothing is missing, and claims the next epoch, or leaves that to `go_on`. On
    /// the folder tier the drive's lock comes first, and who is second is refused with the first one's words.
    ///
    /// On the bucket tier whoever claims deposes the owner before: read the newest claim first, and ask who that is.
    pub fn begin(
        bucket: Arc<dyn Bucket>,
        drive: &DriveName,
        mut claimant: Claimant,
    ) -> Result<Self, OpenError> {
        let ground = Ground::take(&*bucket, drive, &claimant.who)?;
        let mut survey = Survey::make(&*bucket, drive, ground.tier())?;
        let (epoch, claim) = if ground.is_locked() && survey.is_read_by_name() {
            // Should the lock be removed, and another have claimed by then, what was read is not all.
            let newest = *claimant.after.get_or_insert(survey.newest);
            (newest.next(), None)
        } else {
            survey.refuse_newer(&*bucket, drive)?;
            let claim = epoch::claim(&*bucket, drive, &claimant)?;
            // The owner before goes on, and folds, until it finds its epoch ended.
            survey = Survey::make(&*bucket, drive, ground.tier())?;
            (claim.epoch, Some(claim))
        };
        survey.past.retain(|past| past.epoch < epoch);
        let manifest = survey.latest.manifest.as_ref();
        if manifest.is_some_and(|manifest| manifest.epoch >= epoch) {
            return Err(Failure::Fenced(format!("epoch {epoch} was taken over before it began")).into());
        }
        Ok(Self {
            notices: evidence::notices(drive, &survey),
            bucket,
            drive: drive.clone(),
            ground,
            claimant,
            epoch,
            claim,
            survey,
            sizes: Sizes::default(),
        })
    }

    /// Gives segments other sizes than usual.
    pub fn with_sizes(mut self, sizes: Sizes) -> Self {
        self.sizes = sizes;
        self
    }

    /// Returns the epoch that begins.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the newest manifest that is whole; none in a drive that never folded.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.survey.latest.manifest.as_ref()
    }

    /// Goes on with the manifest before, because what the newest one names is damaged.
    pub fn pass_over(&mut self, why: Failure) -> Result<(), Failure> {
        self.survey.latest.pass_over(&*self.bucket, &self.drive, why)?;
        self.survey.look_at_seals(&*self.bucket, &self.drive)
    }

    /// Makes a try with the manifest before. Where that cannot be read, or the try fails, the newest one stands as before.
    pub fn try_before<T, E: From<Failure>>(
        &mut self,
        why: Failure,
        attempt: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Option<T> {
        let latest = self.survey.latest.clone();
        let passed = self.pass_over(why).map_err(E::from);
        let tried = passed.and_then(|()| attempt(self));
        if tried.is_err() {
            self.survey.latest = latest;
        }
        tried.ok()
    }

    /// Returns the newer manifests that are damaged, each named. If the journal does not reach back behind
    /// them, `replay` fails.
    pub fn damaged_manifests(&self) -> &[Failure] {
        &self.survey.latest.damaged
    }

    /// Returns what else is missing or damaged and stops nothing, each named.
    pub fn notices(&self) -> &[Failure] {
        &self.notices
    }

    /// Hands over every record since the manifest in order. What was handed over counts for nothing when this fails; it can be
    /// done again, such as with another manifest.
    pub fn replay(&self, apply: Apply<'_>) -> Result<Replayed, Failure> {
        let mut from = self.from();
        let mut by_itself = true;
        let mut seals = Vec::new();
        for past in &self.survey.past {
            if past.epoch >= self.survey.first_epoch() {
                let drained = self.drain(past, from, apply);
                let drained = drained.map_err(|failure| self.explained(failure))?;
                from = Start {
                    at: drained.end,
                    number: 0,
                };
                by_itself = drained.by_itself;
                seals.extend(drained.seal);
            }
        }
        self.check_damaged(from.at.seq)?;
        Ok(Replayed {
            at: from.at,
            by_itself,
            seals,
        })
    }

    /// Claims what is not claimed yet, seals the epochs before, and gives the journal that goes on behind what was replayed.
    pub fn go_on(mut self, replayed: Replayed) -> Result<Arc<Journal>, Failure> {
        let Replayed { at, by_itself, seals } = replayed;
        if let Err(failure) = self.make_room(at.seq) {
            // What is lacking is told by whoever asks for it.
            tracing::debug!(%failure, "not all that nobody needs was given back");
        }
        let claim = match self.claim.take() {
            Some(claim) => claim,
            None => self.claim_now()?,
        };
        for seal in seals {
            seal::put(&*self.bucket, &seal)?;
        }
        let outwaited = by_itself || self.ground.is_locked();
        let sealed_since = (!outwaited).then(|| self.claimant.means.clock.elapsed());
        let begun = Begun {
            bucket: self.bucket.clone(),
            claim: claim.clone(),
            means: self.claimant.means,
            sizes: self.sizes,
            at,
            past: std::mem::take(&mut self.survey.past),
        };
        let (tier, lock) = self.ground.begin(begun)?;
        let beginning = Beginning {
            claim,
            at,
            manifests: self.survey.latest.whole_seqs(),
            sealed_since,
        };
        Ok(Arc::new(Journal::new(self.bucket, tier, beginning, lock)))
    }

    /// Where the disk has hardly any room, gives back what epochs that are over hold in vain, and as the very last the means to go on
    /// from another manifest than the newest.
    fn make_room(&self, last: Seq) -> Result<(), Failure> {
        let Ground::Folder(disk, _) = &self.ground else {
            return Ok(());
        };
        let free = || disk.space().map(|space| space.free);
        if free()? >= spare::wanted(self.sizes.first) {
            return Ok(());
        }
        let spent = Spent {
            disk: &**disk,
            drive: &self.drive,
            past: &self.survey.past,
            end: last.next(),
        };
        spent.give_back_unused()?;
        if let [.., before, newest] = self.survey.latest.whole_seqs()[..] {
            spent.give_back_before(before.next())?;
            if free()? < spare::LEN_MIN && !spare::is_kept(&**disk) {
                spent.give_back_before(newest.next())?;
            }
        }
        Ok(())
    }

    /// Claims what was read under the lock.
    fn claim_now(&self) -> Result<Claim, Failure> {
        let claimed = epoch::claim(&*self.bucket, &self.drive, &self.claimant);
        claimed.map_err(|error| match error {
            OpenError::Failed(failure) => failure,
            OpenError::Refused(refusal) => Failure::Fenced(format!(
                "the lock of {} was removed from the bucket meanwhile: {refusal}",
                self.drive
            )),
        })
    }

    /// Returns the place from which records are replayed.
    fn from(&self) -> Start {
        match self.manifest() {
            Some(manifest) => Start {
                at: manifest.at,
                number: manifest.segment,
            },
            None => Start {
                at: Position::beginning(&self.drive),
                number: 0,
            },
        }
    }

    /// Reads what is left of an epoch, and seals it.
    fn drain(&self, past: &Past, from: Start, apply: Apply<'_>) -> Result<Drained, Failure> {
        match past.tier {
            Tier::Folder => self.drain_files(past, from.at, apply),
            Tier::Bucket => {
                let names = Names {
                    bucket: &*self.bucket,
                    drive: &self.drive,
                    epoch: past.epoch,
                };
                let how = (self.epoch, self.claimant.means.reads_at_once);
                let seal = names.drain(from, how, apply)?;
                Ok(Drained {
                    end: seal.end,
                    by_itself: seal.by == past.epoch,
                    seal: None,
                })
            }
        }
    }

    fn drain_files(&self, past: &Past, from: Position, apply: Apply<'_>) -> Result<Drained, Failure> {
        let (segments, sealed) = (&past.found.segments, past.seal.as_ref());
        let end = read::read_epoch(&*self.bucket, past.epoch, segments, from, sealed, apply)?;
        let is_wanted = sealed.is_none() && past.damaged_seal.is_none();
        let seal = is_wanted.then(|| Seal {
            drive: self.drive.clone(),
            epoch: past.epoch,
            end,
            by: self.epoch,
        });
        Ok(Drained {
            end,
            by_itself: sealed.is_some_and(|seal| seal.by == past.epoch),
            seal,
        })
    }

    /// A damaged manifest is made up for only by records that reach as far as it did.
    fn check_damaged(&self, end: Seq) -> Result<(), Failure> {
        let newest = self.survey.latest.seqs.last().copied();
        match self.survey.latest.damaged.first() {
            Some(Failure::Corrupt(why)) if newest.is_some_and(|newest| newest > end) => {
                Err(Failure::Corrupt(format!(
                    "{why}; no record of the journal is newer than {end}: restore that object from a copy of the bucket, or remove it if it \
                     is none of the drive's"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Says what to do about what keeps the journal from being read.
    fn explained(&self, failure: Failure) -> Failure {
        let Failure::Corrupt(why) = self.survey.latest.blamed(failure.clone()) else {
            return failure;
        };
        let read = self.survey.latest.seqs.last();
        let was_folded = || {
            let latest = manifest::latest(&*self.bucket, &self.drive);
            latest.is_ok_and(|latest| latest.seqs.last() > read)
        };
        // What was folded meanwhile may also have been deleted.
        if !self.ground.is_locked() && was_folded() {
            return Failure::DidNotHappen(format!(
                "{why}; the owner before has folded the drive meanwhile: open it again"
            ));
        }
        Failure::Corrupt(match read {
            Some(_) => format!(
                "{why}; the drive cannot be opened without what was accepted there: restore that object from a copy of the bucket"
            ),
            None => format!(
                "{why}; all of the journal is needed, because drives/{}/manifests/ holds no manifest: restore what was there from a copy \
                 of the bucket (or, if there was none yet, what is missing of the journal)",
                self.drive
            ),
        })
    }
}
