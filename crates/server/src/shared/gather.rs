//! Gathering: what sessions that shared a branch with the owner before bring, put in order again before anything else.
//!
//! An act that was answered names the one that it followed, so the acts of all sessions are one chain behind the last that was
//! recovered. Those that nobody was answered come last. Invariant (decision 0007, rules 16 and 17): nothing about the branch is
//! answered before each recorded session has come, or was waited for long enough; and whose act followed one that is lost is over.

use super::{Inner, Member};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;
use tenure_model::{ActId, Batch, BranchId, Failure, Refusal, SessionId};
use tenure_wire::shared::{Brought, Claim, Kept, Sharer};
use tenure_wire::{Error, Hold};

/// The part of `session_ttl` by which sessions are waited for longer: a thousand times what the clocks of two machines differ by.
const MARGIN: u32 = 20;

/// What is known of those who come back to a branch.
pub(super) struct Gathering {
    awaited: BTreeSet<SessionId>,
    until: Duration,
    /// Whether it lasts until then, also when all have come.
    lasts: bool,
    acts: BTreeMap<ActId, Kept>,
    /// What was lent to them.
    claims: BTreeMap<SessionId, Vec<Claim>>,
    /// What they have done there.
    batches: BTreeMap<SessionId, Vec<Batch>>,
    /// Whether somebody puts the acts in order.
    is_ending: bool,
}

impl fmt::Display for Gathering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of the sessions that share the branch have not come back to its new owner yet; ask again",
            self.awaited.len()
        )
    }
}

impl Gathering {
    /// Tells whether it waits for a session.
    pub(super) fn awaits(&self, session: SessionId) -> bool {
        self.awaited.contains(&session)
    }

    /// Waits for a session no longer.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.awaited.remove(&session);
        self.acts.retain(|id, _| id.session != session);
        self.claims.remove(&session);
        self.batches.remove(&session);
    }

    /// Waits for a session no longer that is over. If it has not come, nobody knows what was lent to it: then nobody is answered before
    /// it relies on nothing of that.
    pub(super) fn lose(&mut self, session: SessionId, now: Duration) {
        self.lasts |= self.awaits(session) && now < self.until;
        self.forget(session);
    }

    /// Returns what sessions say was lent to them.
    pub(super) fn claims(&self) -> &BTreeMap<SessionId, Vec<Claim>> {
        &self.claims
    }

    /// Returns the next act of the chain behind `last`, or one before it that nobody was answered.
    fn next(&self, last: Option<ActId>) -> Option<(ActId, Kept)> {
        let follows = |kept: &Kept| kept.place.is_some_and(|place| place.behind == last);
        let found = self
            .acts
            .iter()
            .find(|(_, kept)| follows(kept))
            .map(|(id, _)| *id);
        let id = found.or_else(|| self.unanswered_before_another())?;
        self.acts.get(&id).map(|kept| (id, kept.clone()))
    }

    /// Returns an act that nobody was answered, and that another one followed.
    fn unanswered_before_another(&self) -> Option<ActId> {
        let behind = self.acts.values().filter_map(|kept| kept.place?.behind);
        let mut unanswered = behind.filter(|id| self.acts.get(id).is_some_and(|kept| kept.place.is_none()));
        unanswered.next()
    }
}

impl Inner {
    /// Begins to wait for the sessions that share branches, when the drive was taken over.
    pub(crate) fn begin_gathering(&self) -> Result<(), Error> {
        let ttl = self.options.session_ttl;
        self.with(|live| {
            let sealed = live.journal()?.sealed_since();
            let until = sealed.unwrap_or_else(|| self.options.clock.elapsed()) + ttl + ttl / MARGIN;
            let shared: Vec<_> = live
                .state
                .shared()
                .map(|(branch, sharing)| (branch, sharing.sessions().collect()))
                .collect();
            for (branch, awaited) in shared {
                let share = live.shares.0.entry(branch).or_default();
                share.relied_on = until;
                share.gathering = Some(Gathering {
                    awaited,
                    until,
                    lasts: false,
                    acts: BTreeMap::new(),
                    claims: BTreeMap::new(),
                    batches: BTreeMap::new(),
                    is_ending: false,
                });
            }
            Ok(())
        })
    }

    pub(crate) fn rejoin(&self, who: Sharer, brought: &Brought) -> Result<(), Error> {
        self.with(|live| {
            live.known(who.session)?;
            live.state.shares(who.session, who.branch)?;
            let share = live.shares.0.entry(who.branch).or_default();
            if share.members.contains_key(&who.session) {
                return Ok(());
            }
            let Some(gathering) = &mut share.gathering else {
                // It was waited for, and what it brings may come no more.
                return Err(Refusal::Stale.into());
            };
            gathering.awaited.remove(&who.session);
            let act = |kept: &Kept| {
                let id = ActId {
                    session: who.session,
                    number: kept.number,
                };
                (id, kept.clone())
            };
            gathering.acts.extend(brought.acts.iter().map(act));
            gathering.claims.insert(who.session, brought.claims.clone());
            gathering.batches.insert(who.session, brought.batches.clone());
            let member = Member::with_open(&brought.open);
            share.members.insert(who.session, member);
            for lock in &brought.locks {
                let mut lock = *lock;
                lock.owner.session = who.session;
                // They stood beside each other before, so none stands in another's way.
                share.locks.put(lock);
            }
            Ok(())
        })?;
        // Whoever asks next looks whether all have come; this call need not wait for them.
        match self.gathered(who.branch) {
            Err(Error::Failed(Failure::DidNotHappen(_))) | Ok(()) => Ok(()),
            failed => failed,
        }
    }

    /// Fails for who has not told this owner what he brings, and while others are waited for.
    pub(super) fn admitted(&self, who: Sharer) -> Result<(), Error> {
        let is_whole = self.with(|live| {
            live.known(who.session)?;
            live.state.shares(who.session, who.branch)?;
            let share = live.shares.0.get(&who.branch);
            match share.filter(|share| share.members.contains_key(&who.session)) {
                Some(share) => Ok(share.gathering.is_none()),
                None => Err(Refusal::Unjoined.into()),
            }
        })?;
        if is_whole {
            return Ok(());
        }
        self.gathered(who.branch)?;
        // Whose acts followed what was lost is over now.
        self.with(|live| live.share(who).map(drop))
    }

    /// Fails while sessions are waited for; puts what they have brought in order once they are not.
    pub(crate) fn gathered(&self, branch: BranchId) -> Result<(), Error> {
        let now = self.options.clock.elapsed();
        let ending = self.with(|live| {
            let Some(gathering) = live
                .shares
                .0
                .get_mut(&branch)
                .and_then(|share| share.gathering.as_mut())
            else {
                return Ok(None);
            };
            let have_come = gathering.awaited.is_empty() && !gathering.lasts;
            let is_over = have_come || now >= gathering.until;
            if !is_over || gathering.is_ending {
                return Err(Failure::DidNotHappen(gathering.to_string()).into());
            }
            gathering.is_ending = true;
            Ok(Some(gathering.awaited.clone()))
        })?;
        let Some(absent) = ending else { return Ok(()) };
        let ended = self.end_gathering(branch, absent);
        if ended.is_err() {
            self.with(|live| {
                let share = live.shares.0.get_mut(&branch);
                if let Some(gathering) = share.and_then(|share| share.gathering.as_mut()) {
                    gathering.is_ending = false;
                }
                Ok(())
            })?;
        }
        ended
    }

    fn end_gathering(&self, branch: BranchId, absent: BTreeSet<SessionId>) -> Result<(), Error> {
        for session in absent {
            tracing::warn!(
                session = session.0,
                "a session that shares a branch has not come back and is over"
            );
            self.end_gone(session, branch)?;
        }
        // Also what a try before has put in order: the next owner waits for none of them again.
        self.settle_all()?;
        self.take_up_claims(branch)?;
        self.order_brought(branch)?;
        while let Some((id, kept)) = self.next_act(branch)? {
            self.do_again(branch, id, &kept)?;
            // Not before: what fails here is tried again with the next question.
            self.with(|live| {
                let share = live.shares.0.get_mut(&branch);
                if let Some(gathering) = share.and_then(|share| share.gathering.as_mut()) {
                    gathering.acts.remove(&id);
                }
                Ok(())
            })?;
        }
        let rest = self.with(|live| {
            let share = live.shares.0.get(&branch);
            let gathering = share.and_then(|share| share.gathering.as_ref());
            Ok(gathering.map(|gathering| gathering.acts.clone()))
        })?;
        let (lost, unanswered): (Vec<_>, Vec<_>) = rest
            .into_iter()
            .flatten()
            .partition(|(_, kept)| kept.place.is_some());
        // As often as it gets something through: one may need what another makes.
        let mut left = unanswered;
        loop {
            let before = left.len();
            let mut refused = Vec::new();
            for (id, kept) in left {
                if !self.try_again(branch, id, &kept)? {
                    refused.push((id, kept));
                }
            }
            left = refused;
            if left.is_empty() || left.len() == before {
                break;
            }
        }
        let over: BTreeSet<SessionId> = lost.into_iter().map(|(id, _)| id.session).collect();
        for session in over {
            self.end_follower(session, branch)?;
        }
        self.with(|live| {
            if let Some(share) = live.shares.0.get_mut(&branch) {
                share.gathering = None;
            }
            Ok(())
        })?;
        self.set_orphans_adrift(branch)?;
        self.drop_adrift(branch)
    }

    /// Puts in order what sessions have done on what is lent to them, each behind what was recovered of it. An act that is not durable
    /// touches none of that: so these may come first.
    fn order_brought(&self, branch: BranchId) -> Result<(), Error> {
        let brought = self.with(|live| {
            let share = live.shares.0.get(&branch);
            let gathering = share.and_then(|share| share.gathering.as_ref());
            Ok(gathering.map(|gathering| gathering.batches.clone()))
        })?;
        for (session, batches) in brought.into_iter().flatten() {
            // What follows on one that is refused is refused as well.
            let is_own = |batch: &&Batch| (batch.session, batch.branch) == (session, branch);
            let ordered = batches
                .iter()
                .filter(is_own)
                .try_for_each(|batch| self.order_part(batch).map(drop));
            match ordered {
                Ok(()) => {}
                Err(Error::Refused(refusal)) => {
                    tracing::warn!(session = session.0, %refusal, "a session is over: what it brings cannot be had");
                    self.end_gone(session, branch)?;
                }
                failed => return failed,
            }
        }
        Ok(())
    }

    fn next_act(&self, branch: BranchId) -> Result<Option<(ActId, Kept)>, Error> {
        self.with(|live| {
            let known = |id: ActId| {
                let sharing = live.state.sharing(branch);
                sharing.is_some_and(|sharing| sharing.has_act(id))
            };
            let last = live.state.sharing(branch).and_then(|sharing| sharing.last);
            let share = live.shares.0.get_mut(&branch);
            let Some(gathering) = share.and_then(|share| share.gathering.as_mut()) else {
                return Ok(None);
            };
            gathering.acts.retain(|id, _| !known(*id));
            Ok(gathering.next(last))
        })
    }

    /// Does an act that an owner before had ordered; who cannot have it so again is over.
    fn do_again(&self, branch: BranchId, id: ActId, kept: &Kept) -> Result<(), Error> {
        if self.try_again(branch, id, kept)? || kept.place.is_none() {
            return Ok(());
        }
        self.end_follower(id.session, branch)
    }

    /// Does an act as far as nothing refuses it; tells whether it is done.
    fn try_again(&self, branch: BranchId, id: ActId, kept: &Kept) -> Result<bool, Error> {
        let who = Sharer {
            session: id.session,
            branch,
        };
        let asked = self.asked(who, id.number, &kept.deed)?;
        match self.in_order(|live| self.order_act(live, &asked, Hold::No)) {
            Ok(_) => Ok(true),
            Err(Error::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn end_follower(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        tracing::warn!(
            session = session.0,
            "a session is over: what it did followed what was lost with another"
        );
        // It may have two acts of that kind.
        self.end_gone(session, branch)
    }

    /// Notes every inode without an entry: who had it open at the owner before may be gone.
    pub(crate) fn set_orphans_adrift(&self, branch: BranchId) -> Result<(), Error> {
        let open = self.with(|live| Ok(live.state.opened(branch)))?;
        let Some(open) = open else { return Ok(()) };
        let orphans = self.loader.ask(|| open.branch.orphans())?;
        self.with(|live| {
            live.shares.0.entry(branch).or_default().adrift.extend(orphans);
            Ok(())
        })
    }
}
