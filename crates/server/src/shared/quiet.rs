//! A branch that is kept quiet, because it becomes another state as a whole: what is lent of it comes back, nothing more is lent, who holds
//! it whole stands still, and who changes something waits.
//!
//! Invariant: while it is quiet only what was asked before and the end of inodes that nobody has open change the branch.

use super::{Share, demand};
use crate::drive::{Inner, Threads};
use crate::order::Live;
use crate::still::tell_to_stand;
use std::collections::BTreeSet;
use std::time::Duration;
use tenure_model::{BranchId, Failure, Ino, SessionId};
use tenure_wire::Error;

/// How often it is looked whether all has come back.
const REST: Duration = Duration::from_millis(5);
/// For how long one waits for it beyond a lease: who holds something and is silent has lost it by then.
const WAIT: Duration = Duration::from_secs(2);
/// Stands for who shares nothing and needs all of it back.
const NOBODY: SessionId = SessionId(0);

/// Keeps a branch quiet while it lives.
pub(crate) struct Quiet<'a> {
    inner: &'a Inner,
    branch: BranchId,
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // Of a drive that has stopped nobody asks anything more.
        let _ = self.inner.with(|live| {
            if let Some(share) = live.shares.0.get_mut(&self.branch) {
                share.quiet = share.quiet.saturating_sub(1);
            }
            Ok(())
        });
    }
}

impl Inner {
    /// Keeps a branch quiet.
    pub(crate) fn keep_quiet(&self, branch: BranchId) -> Result<Quiet<'_>, Error> {
        self.with(|live| {
            live.shares.0.entry(branch).or_default().quiet += 1;
            Ok(())
        })?;
        Ok(Quiet { inner: self, branch })
    }

    /// Has all given back that is lent of a branch, and who holds it whole stand still.
    pub(crate) fn have_all_back(&self, branch: BranchId) -> Result<(), Error> {
        let until = self.options.clock.elapsed() + self.lease() + WAIT;
        loop {
            let now = self.options.clock.elapsed();
            let (is_lent, moves, told) = self.with(|live| {
                let share = live.shares.0.get_mut(&branch);
                let is_lent = share.is_some_and(|share| share.want_all_back(self.epoch, now));
                let (moves, told) = live.ask_to_stand(branch);
                Ok((is_lent, moves, told))
            })?;
            let is_told = told.is_some();
            tell_to_stand(told);
            if !is_lent && !moves {
                return Ok(());
            }
            self.tell_holders(branch)?;
            self.end_silent_holder(branch, None)?;
            // Where no thread is, who was told has done what he was told.
            let is_over = self.options.threads == Threads::None && !is_told;
            if now >= until || is_over {
                self.with(|live| Ok(live.stands_still(branch)?))?;
                let why = "parts of the branch are lent to sessions that share it, which were asked for them; try again";
                return Err(Failure::DidNotHappen(why.into()).into());
            }
            std::thread::sleep(REST);
        }
    }
}

impl Share {
    /// Asks for all that is lent; tells whether anything is.
    fn want_all_back(&mut self, epoch: tenure_model::Epoch, now: Duration) -> bool {
        let sessions = self.cover.sessions();
        let lent: Vec<Ino> = sessions
            .into_iter()
            .flat_map(|session| self.cover.of(session).collect::<Vec<_>>())
            .collect();
        self.have_back(NOBODY, lent.into_iter(), epoch, now).is_some()
    }

    /// Returns the number by which who changes something is asked to come again, if the branch is kept quiet.
    pub(super) fn is_quiet(&self, epoch: tenure_model::Epoch) -> Option<u64> {
        (self.quiet > 0).then(|| demand::numbered(epoch, 0))
    }
}

impl Live {
    /// Tells whether nothing of a branch is lent to those who share it, and nobody is waited for.
    pub(crate) fn is_given_back(&self, branch: BranchId) -> bool {
        let share = self.shares.0.get(&branch);
        share.is_none_or(|share| share.cover.is_empty() && share.gathering.is_none())
    }

    /// Returns what those who share a branch, or hold it and stand still, may have open.
    pub(crate) fn open_elsewhere(&self, branch: BranchId) -> BTreeSet<Ino> {
        let members = self.shares.0.get(&branch).into_iter();
        let members = members.flat_map(|share| share.members.values());
        let shared = members.flat_map(|member| member.open.iter().copied());
        shared.chain(self.holders.open(branch)).collect()
    }

    /// Tells whether a branch is kept quiet.
    pub(crate) fn is_quiet(&self, branch: BranchId) -> bool {
        let share = self.shares.0.get(&branch);
        share.is_some_and(|share| share.quiet > 0)
    }

    /// Takes every copy of a branch that those have who share it for too old.
    pub(crate) fn forget_copies(&mut self, branch: BranchId) {
        if let Some(share) = self.shares.0.get_mut(&branch) {
            share.changes.forget();
        }
    }
}
