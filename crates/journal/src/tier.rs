//! Where the records of an epoch are kept until they are folded: what the tiers do differently, and nothing else.
//!
//! The order of records, their chain, claims, manifests and callbacks are the same in all of them. Invariant: what `send`
//! has returned for is found by every later owner, once that holds for all that was formed before it.

pub(crate) mod bucket;
pub(crate) mod folder;

use crate::chain::Position;
use crate::claimant::Means;
use crate::epoch::Claim;
use crate::evidence::Past;
use crate::journal::Waiting;
use crate::manifest::Tier;
use bucket::Objects;
use folder::Folder;
use folder::room::Sizes;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{DriveName, Failure, Seq};
use tenure_store::{Bucket, Disk, Key, Lock, OpenError, Signal};

/// Is handed every record, in order.
pub(crate) type Apply<'a> = &'a mut dyn FnMut(Seq, &[u8]) -> Result<(), Failure>;

/// Keeps the records of an owner's epoch. Shared by the threads that commit.
pub(crate) trait Keeping: Send + Sync {
    /// Returns which tier it is.
    fn kind(&self) -> Tier;

    /// Returns how many groups may be formed and not durable yet.
    fn sends_max(&self) -> usize;

    /// Takes room for a record that is put in order now.
    fn take_room(&self, record_len: usize, reserve: Reserve) -> Result<(), Lack>;

    /// Tells whether one more record has room.
    fn has_room(&self, record_len: usize) -> Result<(), Lack>;

    /// Makes more room, unless somebody else did so since the lack was found.
    fn make_room(&self, record_len: usize, lack: Lack) -> Result<(), Failure>;

    /// Makes sure that a record can be sent next, and returns how many bytes the records of its group may take in all, each
    /// with [`FRAME_LEN`]. One thread at a time does this and `form`.
    fn make_ready(&self, record_len: usize) -> Result<usize, Failure>;

    /// Fixes the bytes of the next group, and returns its number and the places of its records.
    fn form(&self, records: &[Waiting]) -> (u64, Vec<Position>);

    /// Makes a group durable; sent again, it is the same to the byte.
    fn send(&self, number: u64) -> Result<(), Failure>;

    /// Ends the epoch behind its last record, all of them being durable: nothing comes behind it.
    fn seal(&self, end: Position) -> Result<(), Failure>;

    /// Returns the number of the segment with which reading behind `seq` begins, where segments are numbered; else 0.
    fn segment_of(&self, seq: Seq) -> u64;

    /// Returns how many segments were begun, where a later owner has to read each by itself; else 0.
    fn segments(&self) -> u64;

    /// Deletes what holds no record from `reached` on; what cannot be deleted now is deleted by a later call.
    fn forget(&self, reached: Seq) -> Result<(), Failure>;

    /// Returns what is raised when `work_ahead` has something to do, where it ever has.
    fn ahead_signal(&self) -> Option<&Signal>;

    /// Does what would otherwise hold up a later record.
    fn work_ahead(&self);

    /// Returns how long the journal's thread waits before it tries again what failed, at first and at most; none where only
    /// callers try again.
    fn pauses(&self) -> Option<(Duration, Duration)>;

    /// Finds out whether the epoch still goes on: `Failure::Fenced` when it does not.
    fn look(&self) -> Result<(), Failure>;

    /// Returns how long ago it was certain that the epoch went on.
    fn proof_age(&self) -> Duration;
}

/// Bytes that a record takes in a group beside its own, at most.
pub(crate) const FRAME_LEN: usize = 64;

/// Who may use the last of the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserve {
    /// Whoever needs space.
    Leave,
    /// Whoever frees it.
    Use,
}

/// There was not enough room: so many bytes were left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lack {
    pub(crate) left: u64,
}

/// What a claimant has of a tier before it claims.
pub(crate) enum Ground {
    /// The folder's disk, and the drive's lock on it.
    Folder(Arc<dyn Disk>, Lock),
    Bucket,
}

/// What keeps an owner's records, and the lock under which it does where there is one.
pub(crate) type Kept = (Box<dyn Keeping>, Option<Arc<Lock>>);

/// What an owner begins with.
pub(crate) struct Begun {
    pub(crate) bucket: Arc<dyn Bucket>,
    pub(crate) claim: Claim,
    pub(crate) means: Means,
    pub(crate) sizes: Sizes,
    /// The last record of the epochs before.
    pub(crate) at: Position,
    pub(crate) past: Vec<Past>,
}

impl Ground {
    /// Takes what the bucket's tier has to offer; refuses a drive whose lock is taken with its holder's words.
    pub(crate) fn take(bucket: &dyn Bucket, drive: &DriveName, who: &str) -> Result<Self, OpenError> {
        let Some(disk) = bucket.disk() else {
            return Ok(Self::Bucket);
        };
        let lock = disk.lock(&Key::in_drive(drive, &["lock"]), who)?;
        Ok(Self::Folder(disk, lock))
    }

    pub(crate) fn tier(&self) -> Tier {
        match self {
            Self::Folder(..) => Tier::Folder,
            Self::Bucket => Tier::Bucket,
        }
    }

    /// Tells whether a lock keeps every other owner away.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self, Self::Folder(..))
    }

    /// Begins the epoch that was claimed.
    pub(crate) fn begin(self, begun: Begun) -> Result<Kept, Failure> {
        let Begun {
            bucket,
            claim,
            means,
            sizes,
            at,
            past,
        } = begun;
        Ok(match self {
            Self::Folder(disk, lock) => {
                let mut kept = Vec::new();
                for past in past {
                    for key in past.found.unused {
                        disk.remove(&key)?;
                    }
                    kept.extend(past.found.segments);
                }
                let lock = Arc::new(lock);
                let on = (bucket, disk, Arc::downgrade(&lock));
                let folder = Folder::new(on, claim, sizes, (at, kept));
                (Box::new(folder), Some(lock))
            }
            Self::Bucket => (Box::new(Objects::open(bucket, (claim, means), at)?), None),
        })
    }
}
