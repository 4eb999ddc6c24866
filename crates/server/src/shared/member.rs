//! Sessions that share a branch: how they come, what they have open, and how they leave.

use super::{Member, Undone, tell};
use crate::drive::Inner;
use std::collections::BTreeSet;
use tenure_core::Branch;
use tenure_model::{Attr, BranchId, Ino, InoRange, Record, Refusal, SessionId, limits};
use tenure_wire::shared::Sharer;
use tenure_wire::{Error, Lent, Shared};

impl Inner {
    /// Lets a session share a branch. One that asks again is lent more numbers.
    pub(crate) fn join(&self, session: SessionId, branch: BranchId) -> Result<Lent<Branch>, Error> {
        let shares = self.with(|live| Ok(live.state.shares(session, branch).is_ok()))?;
        let inos = if shares {
            self.lend_inos(session)?
        } else {
            self.begin_sharing(session, branch)?
        };
        let (hash_key, is_first) = self.with(|live| {
            let is_first = live.state.shares(session, branch)?.sessions().count() == 1;
            let share = live.shares.0.entry(branch).or_default();
            share.members.entry(session).or_default();
            let head = live.state.head();
            Ok((head.expect("a drive that is served has begun").hash_key, is_first))
        })?;
        if is_first {
            self.set_orphans_adrift(branch)?;
            self.drop_adrift(branch)?;
        }
        Ok(Lent {
            branch: Some(branch),
            hash_key,
            inos,
            state: Shared::Kept,
        })
    }

    fn begin_sharing(&self, session: SessionId, branch: BranchId) -> Result<InoRange, Error> {
        self.accept(|live| {
            let record = Record::Joined {
                session,
                branch,
                inos: limits::INO_RANGE_LEN,
            };
            Ok((record, live.next_inos()))
        })
    }

    /// Lets a session share a branch no longer: what it alone had open goes, and its locks are free.
    pub(crate) fn leave(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        if self.with(|live| Ok(live.state.shares(session, branch).is_ok()))? {
            self.accept(|live| {
                live.state.shares(session, branch)?;
                Ok((Record::Left { session, branch }, ()))
            })?;
        } else {
            // A try before has put it in order, and was not told that it is durable.
            self.settle_all()?;
        }
        let told = self.with(|live| {
            let Some(share) = live.shares.0.get_mut(&branch) else {
                return Ok(Vec::new());
            };
            if let Some(member) = share.members.remove(&session) {
                share.adrift.extend(member.open);
            }
            share.locks.end_session(session);
            if let Some(gathering) = &mut share.gathering {
                gathering.forget(session);
            }
            Ok(share.grant_locks())
        })?;
        tell(told);
        self.drop_adrift(branch)
    }

    pub(crate) fn hold(&self, who: Sharer, ino: Ino) -> Result<Attr, Error> {
        self.admitted(who)?;
        self.in_order(|live| {
            live.share(who)?;
            let open = live.state.opened(who.branch).ok_or(Refusal::Stale)?;
            let attr = open.branch.attr(ino).map_err(Undone::Missing)?;
            let attr = attr.ok_or(Refusal::NotFound)?;
            if let Some(member) = live.share(who)?.members.get_mut(&who.session) {
                member.open.insert(ino);
            }
            Ok(attr)
        })
    }

    pub(crate) fn let_go(&self, who: Sharer, inos: &[Ino]) -> Result<(), Error> {
        self.admitted(who)?;
        self.with(|live| {
            let share = live.share(who)?;
            let Some(member) = share.members.get_mut(&who.session) else {
                return Ok(());
            };
            let gone: BTreeSet<Ino> = inos
                .iter()
                .copied()
                .filter(|ino| member.open.remove(ino))
                .collect();
            share.adrift.extend(gone);
            Ok(())
        })?;
        self.drop_adrift(who.branch)
    }

    pub(crate) fn sync(&self, who: Sharer) -> Result<(), Error> {
        self.admitted(who)?;
        self.settle_all()
    }

    /// Ends sessions that share a branch and have said nothing for as long as a lease lasts, when another wants what they have.
    pub(crate) fn end_silent_sharers(&self, branch: BranchId) -> Result<(), Error> {
        self.silent_among(|live| live.sharers(branch).into_iter().collect())?
            .into_iter()
            .try_for_each(|session| self.end_session(session))
    }
}

impl Member {
    /// Returns a session as it was at the owner before.
    pub(super) fn with_open(open: &[Ino]) -> Self {
        Member {
            open: open.iter().copied().collect(),
            ..Member::default()
        }
    }
}
