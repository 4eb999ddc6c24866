//! What a program does to branches as a whole: merges, goes back, settles conflicts, and has others look before something counts.
//!
//! No session is needed for it. Invariant: nothing is remembered here; each answer is the owner's of that moment.

use std::sync::Arc;
use tenure_model::{BranchName, Ino};
use tenure_wire::{
    AcceptAsk, Error, MarkAsk, Marked, MergeAsk, MergeTold, Owner, ResolveAsk, RestoreAsk, Standing, Turned,
    Unsettled, Who,
};

/// The branches of a drive, for somebody who is known to the owner by his words.
pub struct Reviews<B> {
    owner: Arc<dyn Owner<B>>,
    who: Who,
}

impl<B> Reviews<B> {
    /// Returns those of the drive that `owner` answers for.
    pub fn of(owner: Arc<dyn Owner<B>>, who: Who) -> Self {
        Self { owner, who }
    }

    /// Merges a branch or checkpoint into a branch, or only tells what would become of each file.
    pub fn merge(&self, ask: &MergeAsk) -> Result<MergeTold, Error> {
        self.owner.merge(&self.who, ask)
    }

    /// Lets a branch go on from what it, or another line, was.
    pub fn undo(&self, branch: &BranchName, to: &str) -> Result<Turned, Error> {
        self.owner.undo(&self.who, branch, to)
    }

    /// Returns every conflict that stands in a branch or checkpoint.
    pub fn conflicts(&self, name: &str) -> Result<Vec<Standing>, Error> {
        let (mut all, mut behind) = (Vec::new(), Some(Ino(0)));
        while let Some(number) = behind {
            let told = self.owner.conflicts(name, number)?;
            all.extend(told.found);
            behind = told.behind;
        }
        Ok(all)
    }

    /// Settles a conflict.
    pub fn resolve(&self, ask: &ResolveAsk) -> Result<Turned, Error> {
        self.owner.resolve(&self.who, ask)
    }

    /// Lets what is at a path of a branch be what a branch or checkpoint has there.
    pub fn restore(&self, ask: &RestoreAsk) -> Result<Turned, Error> {
        self.owner.restore(&self.who, ask)
    }

    /// Lets a branch wait for a review, after which it is accepted into another.
    pub fn stage(&self, branch: &BranchName, into: &BranchName) -> Result<(), Error> {
        self.owner.mark(&self.who, branch, &MarkAsk::Staged(into.clone()))
    }

    /// Lets a branch change only by what is accepted into it.
    pub fn protect(&self, branch: &BranchName) -> Result<(), Error> {
        self.owner.mark(&self.who, branch, &MarkAsk::Protected)
    }

    /// Lets everybody change a branch again.
    pub fn unprotect(&self, branch: &BranchName) -> Result<(), Error> {
        self.owner.mark(&self.who, branch, &MarkAsk::Unprotected)
    }

    /// Lets a branch wait for a review no longer.
    pub fn unstage(&self, branch: &BranchName) -> Result<(), Error> {
        self.owner.mark(&self.who, branch, &MarkAsk::Unstaged)
    }

    /// Returns the branches that wait for a review, and those that are protected.
    pub fn marks(&self) -> Result<Vec<Marked>, Error> {
        self.owner.marks()
    }

    /// Returns what accepting a branch would do to each file.
    pub fn preview(&self, branch: &BranchName, into: &BranchName) -> Result<MergeTold, Error> {
        self.merge(&MergeAsk {
            is_dry: true,
            unsettled: Unsettled::Taken,
            ..MergeAsk::new(branch.as_str(), into.clone())
        })
    }

    /// Accepts a branch that waits for a review, or what of it is at some paths; what is not accepted waits on.
    pub fn accept(&self, branch: &BranchName, paths: Vec<Box<[u8]>>) -> Result<MergeTold, Error> {
        let branch = branch.clone();
        self.owner.accept(&self.who, &AcceptAsk { branch, paths })
    }
}
