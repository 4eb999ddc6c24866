//! Loans: directories of a shared branch are lent to the session that works there, until another needs them (decision 0012).
//!
//! Invariant: a directory is lent to one session, and to nobody while another needs it or has just worked there; all that shows in what
//! is lent is durable before it is.

use super::Share;
use super::changes::Changes;
use super::demand::{number_of, numbered};
use crate::drive::Inner;
use crate::order::Live;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::time::Duration;
use tenure_core::{Branch, Lent};
use tenure_model::limits::{LENT_DIRECTORIES_MAX, LENT_ENTRIES_MAX};
use tenure_model::{BranchId, Ino, Kind, Refusal, SessionId};
use tenure_wire::shared::{Borrow, Borrowed, Claim, Loan, Part, Sharer, Yield};
use tenure_wire::{Error, Shared};

/// Times that a directory is looked through again because it was changed meanwhile: whoever changes it so often works there.
const TRIES_MAX: usize = 3;
/// Entries of directories that are lent without having been asked for: a moment's work.
const BELOW_ENTRIES_MAX: u64 = 1000;

/// What is lent, before the pages of a copy are written.
enum Granted {
    No,
    Behind,
    Lent(Loan<Branch>),
    /// Something was changed while it was looked through.
    Changed,
}

impl Inner {
    pub(crate) fn borrow(&self, who: Sharer, ask: &Borrow) -> Result<Borrowed<Branch>, Error> {
        self.admitted(who)?;
        for _ in 0..TRIES_MAX {
            let now = self.options.clock.elapsed();
            let (branch, seen) = self.with(|live| {
                let share = live.share(who)?;
                let may = share.may_lend(ask.directory, who.session, now);
                let seen = share.changes.version();
                let open = live.state.opened(who.branch).ok_or(Refusal::Stale)?;
                Ok((may.then_some(open.branch), seen))
            })?;
            let Some(branch) = branch else {
                return Ok(Borrowed::No);
            };
            let parts = self.parts(&branch, ask.directory)?;
            if parts.is_empty() {
                return Ok(Borrowed::No);
            }
            match self.with(|live| self.grant_parts(live, (who, ask), seen, parts))? {
                Granted::No => return Ok(Borrowed::No),
                Granted::Behind => return Ok(Borrowed::Behind),
                Granted::Lent(loan) => return self.stored_loan(who, loan),
                Granted::Changed => {}
            }
        }
        Ok(Borrowed::No)
    }

    fn grant_parts(
        &self,
        live: &mut Live,
        (who, ask): (Sharer, &Borrow),
        seen: u64,
        parts: Vec<Part>,
    ) -> Result<Granted, Error> {
        let (now, session) = (self.options.clock.elapsed(), who.session);
        let grant = live.state.shares(session, who.branch)?.grant(session);
        let Some(grant) = grant else {
            return Ok(Granted::No);
        };
        if ask.copy.is_none() && grant.number > 0 {
            // Another client goes on with this session: a copy of the one that is here.
            return Err(Refusal::Stale.into());
        }
        let share = live.share(who)?;
        let first = ask.directory;
        if parts[0].is_changed(&share.changes, seen) {
            return Ok(Granted::Changed);
        }
        let is_free = |part: &Part| {
            let is_first = part.directory == first;
            let is_idle = |ino| !share.changes.is_worked_on(session, ino, now);
            (is_first || share.cover.over(part.directory).is_none())
                && share.may_lend(part.directory, session, now)
                && !part.is_changed(&share.changes, seen)
                && part.all().all(is_idle)
        };
        let parts: Vec<Part> = parts.into_iter().filter(is_free).collect();
        if parts.first().is_none_or(|part| part.directory != first) {
            return Ok(Granted::No);
        }
        let has = ask.copy.and_then(|copy| number_of(self.epoch, copy));
        let lacks = |ino| has.is_none_or(|has| share.changes.lacks(session, ino, has));
        let is_behind = parts.iter().flat_map(Part::all).any(lacks);
        if is_behind && !ask.is_shipped {
            return Ok(Granted::Behind);
        }
        share.loans += 1;
        let number = share.loans;
        for part in &parts {
            let lent = Lent {
                directory: part.directory,
                by: session,
            };
            let inodes = part.inodes.iter().copied();
            share.cover.lend(lent, numbered(self.epoch, number), inodes);
        }
        let copy = (share.changes.version(), has);
        let version = numbered(self.epoch, copy.0);
        let open = live.state.opened(who.branch).ok_or(Refusal::Stale)?;
        if is_behind {
            self.holds.read_copy(session, copy, &open.branch);
        }
        Ok(Granted::Lent(Loan {
            number: numbered(self.epoch, number),
            parts,
            copy: is_behind.then_some((version, Shared::Here(open.branch))),
            behind: (grant.number, grant.digest),
        }))
    }

    /// Makes durable what shows in what is lent, and puts a copy where the session can read it.
    fn stored_loan(&self, who: Sharer, mut loan: Loan<Branch>) -> Result<Borrowed<Branch>, Error> {
        self.settle_all()?;
        let hosted = self.with(|live| Ok(live.known(who.session)?.hosted))?;
        loan.copy = match loan.copy {
            Some((version, Shared::Here(branch))) if !hosted => Some((version, self.stored(&branch)?)),
            copy => copy,
        };
        Ok(Borrowed::Lent(loan))
    }

    pub(crate) fn take_back_parts(&self, who: Sharer, given: &Yield) -> Result<(), Error> {
        self.admitted(who)?;
        self.with(|live| {
            let share = live.share(who)?;
            let by = who.session;
            share.asked.note_answered(by, self.epoch, given.answered);
            if let Some(member) = share.members.get_mut(&by) {
                member.open.extend(given.open.iter().copied());
            }
            for directory in given.directories.iter().copied() {
                if share.cover.is_lent(Lent { directory, by }, given.loan) {
                    share.take_back(directory, by);
                }
            }
            Ok(())
        })?;
        self.drop_adrift(who.branch)
    }

    pub(crate) fn prolong(&self, who: Sharer) -> Result<(), Error> {
        let until = self.options.clock.elapsed() + self.lease();
        self.with(|live| {
            live.known(who.session)?;
            live.state.shares(who.session, who.branch)?;
            let share = live.shares.0.get_mut(&who.branch);
            let member = share.and_then(|share| share.members.get_mut(&who.session));
            member.ok_or(Refusal::Unjoined)?.relies = until;
            Ok(())
        })
    }

    /// Lends again what owners before have lent, as those say to whom it was: nobody else was answered anything about it since. Of two
    /// who say the same, neither is believed.
    pub(super) fn take_up_claims(&self, branch: BranchId) -> Result<(), Error> {
        let (claims, open) = self.with(|live| {
            let share = live.shares.0.get(&branch);
            let gathering = share.and_then(|share| share.gathering.as_ref());
            let claims = gathering.map(|gathering| gathering.claims().clone());
            Ok((claims.unwrap_or_default(), live.state.opened(branch)))
        })?;
        let Some(open) = open else { return Ok(()) };
        let twice = claimed_twice(&claims);
        for (by, claims) in claims {
            for claim in claims {
                self.take_up(branch, &open.branch, by, &claim)?;
            }
        }
        if !twice.is_empty() {
            // What one of them has stands for both, until neither relies on it.
            let now = self.options.clock.elapsed();
            self.with(|live| {
                let share = live.shares.0.entry(branch).or_default();
                share.relied_on = share.relied_on.max(now + self.lease());
                Ok(())
            })?;
        }
        for session in twice {
            tracing::warn!(
                session = session.0,
                "a session is over: what is lent to it another has as well"
            );
            self.end_gone(session, branch)?;
        }
        Ok(())
    }

    fn take_up(&self, branch: BranchId, now: &Branch, by: SessionId, claim: &Claim) -> Result<(), Error> {
        let directory = claim.directory;
        if self.entries_in(now, directory)?.is_none() {
            // It will come with what its session ships, or has gone.
            return Ok(());
        }
        let (part, _) = self.part(now, directory)?;
        let mut orphans = Vec::new();
        for ino in claim.orphans.iter().copied() {
            let attr = self.loader.ask(|| now.attr(ino))?;
            orphans.extend(attr.filter(|attr| attr.nlink == 0).map(|_| ino));
        }
        self.with(|live| {
            let share = live.shares.0.entry(branch).or_default();
            let inodes = part.inodes.iter().chain(&orphans).copied();
            share.cover.lend(Lent { directory, by }, 0, inodes);
            if let Some(member) = share.members.get_mut(&by) {
                member.orphans.extend(orphans);
            }
            Ok(())
        })
    }

    /// Returns a directory with what comes with it, and some of those below; nothing where it has too many entries, or is none.
    fn parts(&self, branch: &Branch, directory: Ino) -> Result<Vec<Part>, Error> {
        let mut parts = Vec::new();
        let mut next = VecDeque::from([directory]);
        let mut room = LENT_ENTRIES_MAX;
        while let Some(directory) = next.pop_front() {
            let entries = self.entries_in(branch, directory)?;
            if let Some(entries) = entries.filter(|entries| *entries <= room) {
                let (part, below) = self.part(branch, directory)?;
                room = match parts.is_empty() {
                    true => BELOW_ENTRIES_MAX,
                    false => room - entries,
                };
                parts.push(part);
                next.extend(below.into_iter().take(LENT_DIRECTORIES_MAX));
            }
            if parts.is_empty() || parts.len() == LENT_DIRECTORIES_MAX {
                break;
            }
        }
        Ok(parts)
    }

    /// Returns how many entries a directory has; none of what is no directory, or is removed.
    fn entries_in(&self, branch: &Branch, directory: Ino) -> Result<Option<u64>, Error> {
        let attr = self.loader.ask(|| branch.attr(directory))?;
        let is_there = attr.filter(|attr| attr.is_directory() && attr.nlink > 0);
        Ok(is_there.map(|attr| attr.size))
    }

    /// Returns a directory with the inodes that have all their entries in it, and the directories below.
    fn part(&self, branch: &Branch, directory: Ino) -> Result<(Part, Vec<Ino>), Error> {
        let (mut counts, mut below) = (BTreeMap::<Ino, u32>::new(), Vec::new());
        self.loader.ask(|| {
            counts.clear();
            below.clear();
            branch.list(directory, 0, |entry| {
                match entry.kind {
                    Kind::Directory => below.push(entry.ino),
                    Kind::File
                    | Kind::Fifo
                    | Kind::CharDevice
                    | Kind::BlockDevice
                    | Kind::Symlink
                    | Kind::Socket => *counts.entry(entry.ino).or_default() += 1,
                }
                ControlFlow::Continue(())
            })
        })?;
        let mut inodes = Vec::with_capacity(counts.len());
        for (ino, count) in counts {
            let attr = self.loader.ask(|| branch.attr(ino))?;
            inodes.extend(attr.filter(|attr| attr.nlink == count).map(|_| ino));
        }
        Ok((Part { directory, inodes }, below))
    }
}

impl Share {
    /// Tells whether nobody but a session has a directory, or needs it, or works there. Who has it and asks was not told so, and would
    /// never give it back: he is told, whoever needs it.
    fn may_lend(&self, directory: Ino, session: SessionId, now: Duration) -> bool {
        match self.cover.over(directory) {
            Some(lent) => lent.by == session,
            None => {
                self.quiet == 0
                    && !self.asked.is_wanted(directory, session, now)
                    && !self.changes.is_worked_on(session, directory, now)
            }
        }
    }
}

/// What is lent, inode by inode.
trait Inodes {
    fn all(&self) -> impl Iterator<Item = Ino>;

    fn is_changed(&self, changes: &Changes, since: u64) -> bool {
        self.all().any(|ino| changes.is_changed(ino, since))
    }
}

impl Inodes for Part {
    fn all(&self) -> impl Iterator<Item = Ino> {
        std::iter::once(self.directory).chain(self.inodes.iter().copied())
    }
}

fn claimed_twice(claims: &BTreeMap<SessionId, Vec<Claim>>) -> BTreeSet<SessionId> {
    let mut by = BTreeMap::new();
    let mut twice = BTreeSet::new();
    for (session, claims) in claims {
        for claim in claims {
            if let Some(other) = by
                .insert(claim.directory, *session)
                .filter(|other| other != session)
            {
                twice.extend([other, *session]);
            }
        }
    }
    twice
}
