//! What is asked and told about the room that a drive takes and does not need.

use crate::line::Usage;
use tenure_model::{Epoch, Reclaimed};

/// How much of what nothing needs is to be given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimAsk {
    /// Whether it is only told what would be.
    pub is_dry: bool,
    /// Whether packs of which little is not needed are written again as well.
    pub is_full: bool,
}

/// What was given up, and what was not. All numbers are bytes, but for those of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReclaimTold {
    /// Objects of the bucket that were deleted, or would be.
    pub objects: u64,
    /// What they held, less what was written again.
    pub freed: u64,
    /// What was given up and is still there: a recovery may read it, or the bucket has failed.
    pub waiting: u64,
    /// What nothing needs, in packs that hold something else.
    pub scattered: u64,
    /// What is in packs that may be given up by nobody now: sessions may name it, or it is being filled.
    pub held: u64,
    /// What is needed.
    pub needed: u64,
    /// Who holds packs, in words.
    pub holders: Vec<String>,
    /// By whom it is needed.
    pub usage: Usage,
    /// How much was given up since the drive was made.
    pub ever: Option<Reclaimed>,
}

/// How often a session was given places by an owner: by that both know which of them are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placings {
    /// The owner's epoch.
    pub epoch: Epoch,
    /// How often.
    pub count: u64,
}
