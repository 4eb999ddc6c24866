//! Sessions that share a branch: how they come, what they have open, and how they leave.

use super::{Member, Share, Undone, tell};
use crate::drive::Inner;
use crate::order::Live;
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
        self.forget_sharer(session, branch)
    }

    /// Forgets what a session that shares a branch no longer had open, locked and borrowed.
    fn forget_sharer(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        let told = self.with(|live| {
            let Some(share) = live.shares.0.get_mut(&branch) else {
                return Ok(Vec::new());
            };
            if let Some(member) = share.members.remove(&session) {
                share.adrift.extend(member.open);
                share.adrift.extend(member.orphans);
            }
            let lent: Vec<Ino> = share.cover.of(session).collect();
            for directory in lent {
                share.take_back(directory, session);
            }
            share.locks.end_session(session);
            share.leaving.remove(&session);
            if let Some(gathering) = &mut share.gathering {
                gathering.forget(session);
            }
            Ok(share.news())
        })?;
        tell(told);
        self.drop_adrift(branch)
    }

    /// Ends a session that shares a branch. Where parts of it may be lent to the session, what that had not shipped goes into a stray.
    pub(crate) fn end_sharer(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        let (was_ousted, may_hold) = self.with(|live| {
            let row = live.state.session(session);
            let is_over = row.is_some_and(|row| row.is_over);
            let share = live.shares.0.get(&branch);
            // Of who has not come to this owner nobody knows what was lent to him.
            let holds = |share: &Share| {
                !share.members.contains_key(&session) || share.cover.of(session).next().is_some()
            };
            let sharing = live.state.sharing(branch);
            let ships = sharing.is_some_and(|sharing| sharing.grant(session).is_some());
            let was_ousted = is_over && live.state.shares(session, branch).is_err();
            Ok((was_ousted, ships && share.is_none_or(holds)))
        })?;
        if was_ousted {
            // By a try before, which was not told that it is durable.
            self.settle_all()?;
            self.forget_ousted(session, branch)
        } else if may_hold {
            self.oust(session, branch)
        } else {
            self.end_session(session)
        }
    }

    /// Ends a session that shares a branch and may have something that it has not shipped: that goes into a stray.
    pub(super) fn oust(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        let time = self.options.clock.now();
        self.accept(|live| {
            let stray = live.stray_name(branch, session)?;
            let record = Record::Ousted {
                session,
                branch,
                stray,
                time,
            };
            Ok((record, ()))
        })?;
        self.forget_ousted(session, branch)
    }

    /// Forgets a session that is over as soon as it relies on nothing any more: until then it may answer from what is lent to it, and
    /// not have heard that it is over. So what it had stays its own, and nobody else gets it.
    fn forget_ousted(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        let now = self.options.clock.elapsed();
        let relies = self.with(|live| {
            let Some(share) = live.shares.0.get_mut(&branch) else {
                return Ok(false);
            };
            let until = share.relies_until(session);
            if until <= now {
                return Ok(false);
            }
            share.leaving.insert(session, until);
            if let Some(gathering) = &mut share.gathering {
                gathering.lose(session, now);
            }
            Ok(true)
        })?;
        match relies {
            true => Ok(()),
            false => self.forget_sharer(session, branch),
        }
    }

    /// Forgets those who are over and by now must know it.
    fn forget_those_over(&self, branch: BranchId) -> Result<(), Error> {
        let now = self.options.clock.elapsed();
        let over = self.with(|live| {
            let leaving = live.shares.0.get(&branch).map(|share| &share.leaving);
            let over = leaving.into_iter().flatten().filter(|(_, until)| **until <= now);
            Ok(over.map(|(session, _)| *session).collect::<Vec<_>>())
        })?;
        over.into_iter()
            .try_for_each(|session| self.forget_sharer(session, branch))
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
            for ino in inos {
                let was_lent = member.orphans.remove(ino);
                if was_lent {
                    share.cover.uncover(*ino);
                }
                if member.open.remove(ino) || was_lent {
                    share.adrift.insert(*ino);
                }
            }
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
        self.forget_those_over(branch)?;
        let silent = self.silent_among(|live| live.sharers(branch).into_iter().collect())?;
        silent
            .into_iter()
            .try_for_each(|session| self.end_gone(session, branch))
    }

    /// As [`Inner::end_sharer`], of a session that another caller may have ended just now.
    pub(crate) fn end_gone(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        match self.end_sharer(session, branch) {
            Err(Error::Refused(Refusal::Stale)) => Ok(()),
            ended => ended,
        }
    }

    /// Tells whether parts of shared branches are lent to a session.
    pub(crate) fn borrows(live: &Live, session: SessionId) -> bool {
        let mut shares = live.shares.0.values();
        shares.any(|share| share.cover.of(session).next().is_some())
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
