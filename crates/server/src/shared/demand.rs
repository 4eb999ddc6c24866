//! Demands: what others need that is lent, told its holders, and what they have answered.
//!
//! Nobody's call waits here: who needs something is refused with a number, and asks again. Invariant: whoever has answered a number has
//! shipped all that it had done before that number was given out.

use super::Share;
use super::changes::WORK_MAX;
use crate::drive::Inner;
use std::collections::BTreeMap;
use std::time::Duration;
use tenure_core::Lent;
use tenure_model::{BranchId, Epoch, Ino, SessionId};
use tenure_wire::Error;
use tenure_wire::shared::{Demand, Need};

/// How long an answer may take before what was demanded is said again: what was said may have been lost.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// Times that a directory is lent in vain by which it is kept at the owner for longer, twice as long each time.
const TIMES_MAX: u32 = 5;
/// How long nobody needs what another has before it counts as never needed.
const FORGOTTEN_MAX: Duration = Duration::from_secs(120);
/// Directories whose needs are remembered before old ones are forgotten.
const WANTED_MAX: usize = 1000;

/// What holders were asked.
#[derive(Default)]
pub(super) struct Asked {
    /// The last number.
    last: u64,
    /// Up to which number each has answered.
    answered: BTreeMap<SessionId, u64>,
    /// What was said last of each directory, and when.
    said: BTreeMap<Ino, (Demand, Duration)>,
    /// Who needs a directory that was lent to another.
    wanted: BTreeMap<Ino, Wanted>,
}

/// Who needs a directory that was lent to another.
#[derive(Clone, Copy)]
struct Wanted {
    by: SessionId,
    /// When he has asked last.
    at: Duration,
    /// How often it was needed, lent again and needed soon again before that.
    times: u32,
}

impl Wanted {
    /// Tells whether somebody asks again because of the same need.
    fn is_same(&self, now: Duration) -> bool {
        now.saturating_sub(self.at) < 2 * ANSWER_MAX
    }

    /// Tells whether the directory is kept from a session: at first from others alone than who needs it.
    fn keeps_from(&self, session: SessionId, now: Duration) -> bool {
        let rest = WORK_MAX * (1 << self.times);
        (self.by != session || self.times > 0) && now.saturating_sub(self.at) < rest
    }
}

/// Bits below the epoch: enough for all that an owner ever does.
const NUMBER_BITS: u32 = 40;

/// Returns a number that no other owner gives out.
pub(super) fn numbered(epoch: Epoch, number: u64) -> u64 {
    epoch.0 << NUMBER_BITS | number
}

/// Returns which number of an owner's it is, if it is one of its.
pub(super) fn number_of(epoch: Epoch, numbered: u64) -> Option<u64> {
    (numbered >> NUMBER_BITS == epoch.0).then_some(numbered & ((1 << NUMBER_BITS) - 1))
}

impl Asked {
    /// Returns the number by which somebody has asked before, or a new one.
    fn number(&mut self, epoch: Epoch, before: u64) -> u64 {
        let before = number_of(epoch, before).filter(|number| (1..=self.last).contains(number));
        before.unwrap_or_else(|| {
            self.last += 1;
            self.last
        })
    }

    /// Notes up to which number a session has answered.
    pub(super) fn note_answered(&mut self, session: SessionId, epoch: Epoch, answered: u64) {
        let answered = number_of(epoch, answered).filter(|number| *number <= self.last);
        let before = self.answered.entry(session).or_default();
        *before = (*before).max(answered.unwrap_or_default());
    }

    /// Tells whether a directory is kept from a session, because another needs it, or several do in turn.
    pub(super) fn is_wanted(&self, directory: Ino, session: SessionId, now: Duration) -> bool {
        let wanted = self.wanted.get(&directory);
        wanted.is_some_and(|wanted| wanted.keeps_from(session, now))
    }

    fn want(&mut self, directory: Ino, by: SessionId, now: Duration) {
        let is_known = |wanted: &Wanted| now.saturating_sub(wanted.at) < FORGOTTEN_MAX;
        if self.wanted.len() >= WANTED_MAX {
            self.wanted.retain(|_, wanted| is_known(wanted));
        }
        if self.wanted.len() >= WANTED_MAX {
            self.wanted.clear();
        }
        let before = self.wanted.get(&directory).filter(|wanted| is_known(wanted));
        let times = before.map_or(0, |wanted| match wanted.is_same(now) {
            true => wanted.times,
            false => (wanted.times + 1).min(TIMES_MAX),
        });
        self.wanted.insert(directory, Wanted { by, at: now, times });
    }
}

impl Share {
    /// Has those ship who hold what somebody looks at; returns by what number he asks again, if any has not answered.
    pub(super) fn have_shipped(
        &mut self,
        who: SessionId,
        inos: &[Ino],
        (epoch, before): (Epoch, u64),
        now: Duration,
    ) -> Option<u64> {
        let lent = inos.iter().filter_map(|ino| self.cover.over(*ino));
        let others: Vec<Lent> = lent.filter(|lent| lent.by != who).collect();
        others.first()?;
        let number = self.asked.number(epoch, before);
        let answered = &self.asked.answered;
        let is_late = |lent: &Lent| answered.get(&lent.by).is_none_or(|last| *last < number);
        let late: Vec<Lent> = others.into_iter().filter(is_late).collect();
        late.first()?;
        for lent in late {
            self.demand(lent, (Need::Ship, numbered(epoch, number)), now);
        }
        Some(numbered(epoch, number))
    }

    /// Has given back what somebody needs that is lent; returns by what number he asks again, if anything is.
    pub(super) fn have_back(
        &mut self,
        who: SessionId,
        inos: impl Iterator<Item = Ino>,
        epoch: Epoch,
        now: Duration,
    ) -> Option<u64> {
        let lent: Vec<Lent> = inos.filter_map(|ino| self.cover.over(ino)).collect();
        lent.first()?;
        let number = numbered(epoch, self.asked.number(epoch, 0));
        for lent in lent {
            if lent.by != who {
                self.asked.want(lent.directory, who, now);
            }
            self.demand(lent, (Need::Return, number), now);
        }
        Some(number)
    }

    fn demand(&mut self, lent: Lent, (need, number): (Need, u64), now: Duration) {
        let Lent { directory, by } = lent;
        let mut demand = Demand {
            number,
            directory,
            loan: self.cover.loan(directory),
            need,
        };
        if let Some((said, at)) = self.asked.said.get(&directory) {
            let is_enough = said.need >= need && (need == Need::Return || said.number >= number);
            if is_enough && now.saturating_sub(*at) < ANSWER_MAX {
                return;
            }
            demand.need = need.max(said.need);
            demand.number = number.max(said.number);
        }
        if self.asked.said.len() >= WANTED_MAX {
            self.asked
                .said
                .retain(|_, (_, at)| now.saturating_sub(*at) < ANSWER_MAX);
        }
        self.asked.said.insert(directory, (demand, now));
        if let Some(member) = self.members.get_mut(&by) {
            let demands = &mut member.news.demands;
            demands.retain(|other| other.directory != directory);
            demands.push(demand);
        }
    }

    /// Takes a directory back, and forgets what was said of it; inodes without an entry that came with it are adrift.
    pub(super) fn take_back(&mut self, directory: Ino, by: SessionId) {
        let inodes = self.cover.take_back(directory);
        self.asked.said.remove(&directory);
        if let Some(member) = self.members.get_mut(&by) {
            let orphans = inodes.into_iter().filter(|ino| member.orphans.remove(ino));
            self.adrift.extend(orphans);
        }
    }
}

impl Inner {
    /// Tells holders what others need of them. Of whom nothing was heard for as long as a lease lasts loses it.
    pub(crate) fn tell_holders(&self, branch: BranchId) -> Result<(), Error> {
        let told = self.with(|live| {
            let share = live.shares.0.get_mut(&branch);
            Ok(share.map(Share::news).unwrap_or_default())
        })?;
        super::tell(told);
        self.end_silent_sharers(branch)
    }
}
