//! Branches that several sessions share: each asks for what is not lent to it, and what they do is put in one order here.
//!
//! What outlives an owner (who shares what, the acts and the batches) is in the state and the journal; here is what does not: what
//! sessions have open, their locks, what is lent to them, and, at a new owner, who is waited for. Invariant: an act is decided on
//! the state that it changes, and is in the journal's queue before anybody sees it. An inode without an entry stays while any
//! session has it open, or may have because it is lent to it.

mod act;
mod batch;
mod changes;
mod demand;
mod gather;
mod loan;
mod lock;
mod look;
mod member;
mod quiet;

use crate::drive::Inner;
use crate::order::Live;
pub(crate) use batch::Decided;
use changes::Changes;
use demand::Asked;
use gather::Gathering;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure_core::{Cover, Locks, Missing, Undecided};
use tenure_model::{BranchId, Failure, Ino, Refusal, Seq, SessionId};
use tenure_wire::shared::{Heard, Sharer};
use tenure_wire::{Done, Error};

/// Pages that one change may have to load: as many as any question.
const LOADS_MAX: usize = 1_000_000;

/// What an owner knows of the branches that are shared here.
#[derive(Default)]
pub(crate) struct Shares(BTreeMap<BranchId, Share>);

impl Shares {
    /// Returns how many directories of a branch are lent to a session.
    pub(crate) fn borrowed(&self, branch: BranchId, session: SessionId) -> u64 {
        let share = self.0.get(&branch);
        share.map_or(0, |share| share.cover.of(session).count() as u64)
    }
}

/// A branch that is shared here.
#[derive(Default)]
struct Share {
    members: BTreeMap<SessionId, Member>,
    locks: Locks,
    /// Inodes that may have neither an entry nor anybody who has them open.
    adrift: BTreeSet<Ino>,
    gathering: Option<Gathering>,
    /// What is lent.
    cover: Cover,
    /// The number of the last loan.
    loans: u64,
    changes: Changes,
    /// What holders were asked so far.
    asked: Asked,
    /// Until when sessions may rely on what owners before this one have lent to them.
    relied_on: Duration,
    /// Sessions that are over and may not have heard so, and until when each may rely on what is lent to it.
    leaving: BTreeMap<SessionId, Duration>,
    /// How many want it quiet.
    quiet: u32,
}

/// A session that shares a branch, as this owner has heard of it.
#[derive(Default)]
struct Member {
    open: BTreeSet<Ino>,
    /// Inodes without an entry that are lent to it, and that it may have open.
    orphans: BTreeSet<Ino>,
    /// What it was not told of.
    news: Heard,
    /// Who is told of the next.
    listener: Option<Done<Heard>>,
    /// Until when it may rely on what is lent to it, by what this owner has told it.
    relies: Duration,
    /// Up to where it has seen what others did on what is lent to them.
    saw: Option<Seq>,
}

impl Share {
    /// Returns until when a session may rely on what is lent to it, told or not that it is over.
    fn relies_until(&self, session: SessionId) -> Duration {
        let member = self.members.get(&session);
        let told = member.map_or(Duration::ZERO, |member| member.relies);
        told.max(self.relied_on)
    }

    /// Tells whether anybody has an inode open, or may have because it is lent to him.
    fn is_open(&self, ino: Ino) -> bool {
        let has = |member: &Member| member.open.contains(&ino) || member.orphans.contains(&ino);
        self.members.values().any(has)
    }

    /// Lets those have their locks whom nothing stands in the way of any more; returns who is to be told what.
    fn news(&mut self) -> Vec<(Done<Heard>, Heard)> {
        for (session, ticket) in self.locks.grant() {
            if let Some(member) = self.members.get_mut(&session) {
                member.news.tickets.push(ticket);
            }
        }
        let has_news = |member: &&mut Member| member.news != Heard::default() && member.listener.is_some();
        let members = self.members.values_mut().filter(has_news);
        let told = members.filter_map(|member| {
            let listener = member.listener.take()?;
            Some((listener, std::mem::take(&mut member.news)))
        });
        told.collect()
    }
}

/// Tells listeners their news; no lock is held.
fn tell(told: Vec<(Done<Heard>, Heard)>) {
    for (listener, news) in told {
        listener(Ok(news));
    }
}

/// Why something could not be done under the state's lock.
pub(crate) enum Undone {
    /// It fails.
    Failed(Error),
    /// A page must be loaded first.
    Missing(Missing),
}

impl<E: Into<Error>> From<E> for Undone {
    fn from(error: E) -> Self {
        Undone::Failed(error.into())
    }
}

impl Undone {
    fn of(undecided: Undecided) -> Self {
        match undecided {
            Undecided::Refused(refusal) => Undone::Failed(refusal.into()),
            Undecided::Missing(missing) => Undone::Missing(missing),
        }
    }
}

impl Live {
    /// Refuses a session for which others wait because this owner has not heard what it brings.
    pub(crate) fn is_not_awaited(&self, session: SessionId) -> Result<(), Error> {
        let mut gatherings = self
            .shares
            .0
            .values()
            .filter_map(|share| share.gathering.as_ref());
        if gatherings.any(|gathering| gathering.awaits(session)) {
            return Err(Refusal::Unjoined.into());
        }
        Ok(())
    }

    /// Returns who shares a branch, also who has left it in a record that is not known to be durable: what he has is his until then.
    pub(crate) fn sharers(&self, branch: BranchId) -> BTreeSet<SessionId> {
        let sharing = self.state.sharing(branch).into_iter();
        let members = self.shares.0.get(&branch).into_iter();
        let members = members.flat_map(|share| share.members.keys().copied());
        sharing
            .flat_map(|sharing| sharing.sessions())
            .chain(members)
            .collect()
    }

    /// Returns the branches of which a session is one of the sharers.
    pub(crate) fn shared_by(&self, session: SessionId) -> Vec<BranchId> {
        let sharing = self.state.shared().map(|(branch, _)| branch);
        let branches: BTreeSet<_> = sharing.chain(self.shares.0.keys().copied()).collect();
        let shares = |branch: &BranchId| self.sharers(*branch).contains(&session);
        branches.into_iter().filter(shares).collect()
    }

    /// Returns what is known of a branch that a session shares, if this owner has heard of it and waits for nobody.
    fn share(&mut self, who: Sharer) -> Result<&mut Share, Error> {
        self.known(who.session)?;
        self.state.shares(who.session, who.branch)?;
        let share = self.shares.0.entry(who.branch).or_default();
        if !share.members.contains_key(&who.session) {
            return Err(Refusal::Unjoined.into());
        }
        match &share.gathering {
            None => Ok(share),
            Some(gathering) => Err(Failure::DidNotHappen(gathering.to_string()).into()),
        }
    }
}

impl Inner {
    /// Does something under the state's lock, again after each page that it misses was loaded.
    pub(crate) fn in_order<R>(
        &self,
        mut act: impl FnMut(&mut Live) -> Result<R, Undone>,
    ) -> Result<R, Error> {
        for _ in 0..LOADS_MAX {
            let done = self.with(|live| match act(live) {
                Ok(done) => Ok(Ok(done)),
                Err(Undone::Missing(missing)) => Ok(Err(missing)),
                Err(Undone::Failed(error)) => Err(error),
            })?;
            match done {
                Ok(done) => return Ok(done),
                Err(missing) => self.loader.load(&missing)?,
            }
        }
        Err(Failure::DidNotHappen("the memory for pages is too small for this".into()).into())
    }
}
