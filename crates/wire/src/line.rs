//! What is asked and told about the lines of a drive: its branches and its checkpoints.

use crate::owner::Who;
use crate::review::Marked;
use std::time::Duration;
use tenure_model::record::Source;
use tenure_model::{BranchId, BranchName, CheckpointName, RequestKey, Timestamp};

/// Which branch is to be made, and what if it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkAsk {
    /// What it begins as.
    pub from: Source,
    /// Its name.
    pub name: BranchName,
    /// What to do where there is a branch of that name.
    pub if_there: IfThere,
    /// The word by which the request is known: asked once more it makes nothing, and returns what it has made.
    pub key: Option<RequestKey>,
    /// After how long it goes by itself, once nobody holds it; never where nothing is said.
    pub length: Option<Duration>,
    /// Who lets it wait for a review from its beginning, after which it is accepted into what it was made from, or into what that is
    /// a checkpoint of; nobody where it waits for none.
    pub staged: Option<Who>,
}

impl ForkAsk {
    /// Asks for a branch that is not there yet and stays.
    pub fn new(from: Source, name: BranchName) -> Self {
        Self {
            from,
            name,
            if_there: IfThere::Refuse,
            key: None,
            length: None,
            staged: None,
        }
    }

    /// Tells whether what is asked for may be asked twice and is made once.
    pub fn is_repeatable(&self) -> bool {
        self.key.is_some() || self.if_there == IfThere::Take
    }
}

/// What to do about a branch that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfThere {
    /// It is in the way.
    Refuse,
    /// It is what was asked for, whatever it was made from.
    Take,
}

/// Which state is to have which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointAsk {
    /// Whose state.
    pub branch: BranchName,
    /// The name.
    pub name: CheckpointName,
    /// What it is for, in words.
    pub message: String,
    /// After how long it goes by itself; never where nothing is said.
    pub length: Option<Duration>,
}

impl CheckpointAsk {
    /// Asks for a checkpoint that stays, with no words to it.
    pub fn new(branch: BranchName, name: CheckpointName) -> Self {
        Self {
            branch,
            name,
            message: String::new(),
            length: None,
        }
    }
}

/// A branch or checkpoint that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The branch that was made, or whose state was named.
    pub branch: BranchId,
    /// The name of a branch that was there already and is what was asked for.
    pub found: Option<String>,
}

/// What is told about a branch or a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchInfo {
    /// The branch; none for a checkpoint.
    pub branch: Option<BranchId>,
    /// Its name.
    pub name: String,
    /// What it was made from, in words; empty for the first branch.
    pub from: String,
    /// When it was made.
    pub made: Timestamp,
    /// Number of inodes.
    pub inodes: u64,
    /// Bytes of files that are not holes.
    pub bytes: u64,
    /// Whether it is a stray: what a session had not shipped when its branch was taken from it.
    pub is_stray: bool,
    /// Who holds it, in words.
    pub holder: Option<String>,
    /// What a checkpoint is for, in the words of who made it; empty where nothing was said.
    pub message: String,
    /// Its number among branches and checkpoints; none where the owner is of an earlier version.
    pub line: Option<BranchId>,
    /// The number of what it was made from, which may be gone; none of the first branch, and where that is not known.
    pub base: Option<BranchId>,
    /// From when on it goes by itself, once nobody holds it.
    pub until: Option<Timestamp>,
    /// Whether it is a checkpoint that the owner has made by itself.
    pub is_automatic: bool,
    /// Of a checkpoint, who held or shared its branch when it was made, in words.
    pub by: Option<String>,
    /// Whether it waits for a review, or is protected.
    pub mark: Option<Marked>,
}

/// What the branches and checkpoints of a drive need of the bucket, in bytes; each byte is counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What each needs alone.
    pub lines: Vec<LineUsage>,
    /// What several need, of which one is a branch.
    pub shared: u64,
    /// What several checkpoints need, and no branch.
    pub by_checkpoints: u64,
    /// What no branch and no checkpoint needs, but states to which merges go back.
    pub by_history: u64,
    /// What is needed by who reads a state that is no branch's and no checkpoint's any more.
    pub by_readers: u64,
}

/// What a branch or checkpoint needs that nothing else does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineUsage {
    /// Its number.
    pub line: BranchId,
    /// Its name.
    pub name: String,
    /// Whether it is a branch; else a checkpoint.
    pub is_branch: bool,
    /// The bytes.
    pub own: u64,
}
