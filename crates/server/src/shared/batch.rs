//! Batches of sessions that share a branch: what they have decided on what is lent to them, decided again on the branch as it is.
//!
//! Others change other parts of the branch all the time. Invariant: a batch is accepted only if each of its ops touches nothing but what
//! is lent to its session; one that is refused for good ends the session, and is a stray's.

use super::Undone;
use super::changes::How;
use crate::drive::Inner;
use crate::order::Live;
use crate::state::permit::because;
use std::collections::BTreeSet;
use tenure_core::{Branch, Fate, Plan, Touched};
use tenure_model::codec::{Codec, Reader};
use tenure_model::{Batch, Failure, Ino, Op, Refusal};
use tenure_wire::Error;
use tenure_wire::shared::Sharer;

/// What a batch has become on a state of its branch.
pub(crate) struct Decided {
    /// The state.
    pub(crate) version: u64,
    /// The branch with it.
    pub(crate) after: Branch,
    /// What each of its ops touches.
    pub(crate) touched: Vec<Touched>,
}

/// What an accepted batch makes of what is lent.
pub(crate) struct Lasting {
    plan: Plan,
    touched: Vec<Touched>,
}

impl Inner {
    /// Tells whether a batch is that of a session that shares its branch; fails while the branch is not whole.
    pub(crate) fn is_of_sharer(&self, batch: &Batch) -> Result<bool, Error> {
        let who = sharer(batch);
        let shares = self.with(|live| Ok(live.state.shares(who.session, who.branch).is_ok()))?;
        if shares {
            self.admitted(who)?;
        }
        Ok(shares)
    }

    /// Returns the branch with a batch that was decided before, and what that makes of what is lent; decides it again where others have
    /// changed the branch since.
    pub(crate) fn settle_decided(
        &self,
        live: &mut Live,
        batch: &Batch,
        decided: &Decided,
    ) -> Result<(Branch, Lasting), Undone> {
        let open = live.state.opened(batch.branch).ok_or(Refusal::Stale)?;
        let (after, touched) = if open.version == decided.version {
            (decided.after.clone(), decided.touched.clone())
        } else {
            again(open.branch, batch)?
        };
        let (session, branch) = (batch.session, batch.branch);
        live.state.shares(session, branch)?;
        let share = live.shares.0.get_mut(&branch);
        let share = share.filter(|share| share.members.contains_key(&session));
        let share = share.ok_or(Refusal::Unjoined)?;
        let mut plan = Plan::default();
        let mut is_lent = |touched| share.cover.plan(session, touched, &mut plan);
        if !touched.iter().all(&mut is_lent) {
            return Err(because("the batch touches what is not lent to its session").into());
        }
        Ok((after, Lasting { plan, touched }))
    }

    /// Notes what an accepted batch has made of what is lent.
    pub(crate) fn note_shipped(&self, live: &mut Live, batch: &Batch, lasting: Lasting) {
        let Some(share) = live.shares.0.get_mut(&batch.branch) else {
            return;
        };
        let Lasting { plan, touched } = lasting;
        let inodes = touched.iter().flat_map(|touched| touched.inodes());
        let homes = inodes.filter_map(|inode| share.cover.home(inode.ino));
        let changed: BTreeSet<Ino> = touched
            .iter()
            .flat_map(Touched::directories)
            .chain(homes)
            .collect();
        let made = touched.iter().filter_map(|touched| touched.made);
        let changed = changed
            .into_iter()
            .chain(made.filter(|made| made.is_directory).map(|made| made.ino));
        let now = self.options.clock.elapsed();
        share.changes.note(changed, (batch.session, How::Batch), now);
        share.cover.make(batch.session, plan);
        let Some(member) = share.members.get_mut(&batch.session) else {
            return;
        };
        for touched in &touched {
            let ended = touched.inodes().filter(|inode| inode.fate == Fate::Ends);
            for inode in ended {
                // Directories are opened by nobody.
                if inode.is_directory {
                    share.adrift.insert(inode.ino);
                } else {
                    member.orphans.insert(inode.ino);
                }
            }
            let unnamed = touched.made.filter(|made| made.is_unnamed);
            member.orphans.extend(unnamed.map(|made| made.ino));
        }
    }

    /// Sees to it that a batch which is refused for good ends its session.
    pub(crate) fn end_refused(&self, batch: &Batch, error: Error) -> Error {
        let comes_again = matches!(
            &error,
            Error::Failed(_)
                | Error::Refused(
                    Refusal::Stale | Refusal::NoChunk { .. } | Refusal::Unjoined | Refusal::NoSpace
                )
        );
        if comes_again {
            return error;
        }
        tracing::warn!(session = batch.session.0, %error, "a session is over: what it ships cannot be had");
        match self.oust(batch.session, batch.branch) {
            // Another of its batches may have been refused just before.
            Ok(()) | Err(Error::Refused(_)) => Refusal::Stale.into(),
            Err(failed) => failed,
        }
    }
}

/// Decides a batch under the state's lock: a page that is missing is loaded first.
fn again(mut branch: Branch, batch: &Batch) -> Result<(Branch, Vec<Touched>), Undone> {
    let mut ops = Reader::new(&batch.ops);
    let mut all = Vec::new();
    while !ops.is_empty() {
        let op = Op::read(&mut ops).map_err(|error| Failure::Corrupt(error.to_string()))?;
        all.push(branch.touched(&op).map_err(Undone::Missing)?);
        branch.change(&op).map_err(Undone::of)?;
    }
    Ok((branch, all))
}

fn sharer(batch: &Batch) -> Sharer {
    Sharer {
        session: batch.session,
        branch: batch.branch,
    }
}
