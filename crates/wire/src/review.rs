//! What is asked and told about branches that wait for a review, and about those that take changes only by one.

use tenure_model::{BranchName, Timestamp};

/// What is to be said of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkAsk {
    /// That it is protected no longer.
    Unprotected,
    /// That it waits for a review no longer.
    Unstaged,
    /// That it waits for a review, and into which branch it goes then.
    Staged(BranchName),
    /// That it changes only by what is accepted into it.
    Protected,
}

/// What is said of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The branch.
    pub branch: String,
    /// The branch into which it is accepted, where it waits for a review; none where it is protected.
    pub into: Option<String>,
    /// Who has said so, in words.
    pub by: String,
    /// When.
    pub time: Timestamp,
}

/// What is accepted of a branch that waits for a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptAsk {
    /// The branch.
    pub branch: BranchName,
    /// What is at and below these paths; everything where there are none.
    pub paths: Vec<Box<[u8]>>,
}
