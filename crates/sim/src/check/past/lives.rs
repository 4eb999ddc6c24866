//! Sessions that share a branch: when each was told what, and what of theirs may be missing.
//!
//! A session brings each owner what it knows not to be durable. So what it has done may be missing only at an owner after the last one
//! that answered it, and only if nobody has synced by then who may have seen it; what it has done on what is lent to it, once it is
//! lost, and only if it has not synced. Invariant: one that is over is told nothing else any more, and it is over
//! for a reason.

use crate::check::{Broken, Verdict, broken};
use std::collections::BTreeMap;
use std::fmt;
use tenure_model::{Epoch, Refusal};
use tenure_wire::Error;

/// A place in the order of all that was asked and told.
pub(super) type Moment = u64;

/// A session, by a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Party(pub(crate) u64);

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {}", self.0)
    }
}

/// A call, from the moment at which it was asked to that at which its outcome was told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(super) by: Party,
    pub(super) asked: Moment,
    /// None where nobody was told what came of it.
    pub(super) told: Option<Moment>,
    /// Of the owner that has answered.
    pub(super) epoch: Epoch,
    /// Whether an owner before that may have been asked: what was refused in the end may have been done there, and been lost.
    pub(super) is_carried: bool,
    /// Whether it was done on what is lent, and no owner was asked: a change goes with its session then until that ships it.
    pub(super) is_here: bool,
}

impl Span {
    /// Returns this call as one of which nobody knows whether it was done, if that may be so though it was refused.
    pub(crate) fn perhaps(self) -> Option<Span> {
        self.is_carried.then_some(Span { told: None, ..self })
    }

    /// Tells whether it was over before another began.
    pub(super) fn is_before(&self, other: &Span) -> bool {
        self.told.is_some_and(|told| told < other.asked)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}..", self.by, self.asked)?;
        match self.told {
            Some(told) => write!(f, "{told} of epoch {}", self.epoch),
            None => write!(f, "unheard"),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// The epoch of the last owner that has answered it.
    carried: Epoch,
    /// When it asked last what was answered.
    last_asked: Moment,
    /// When an owner has told it something last.
    last_heard: Moment,
    over: Option<Moment>,
    left: Option<Moment>,
    has_died: bool,
    was_away: bool,
}

impl Life {
    /// Tells whether it may have been lost when a call was answered.
    fn is_gone(&self, look: &Span) -> bool {
        (self.has_died || self.over.is_some()) && look.told.is_none_or(|told| self.last_asked <= told)
    }
}

#[derive(Clone, Copy, Debug)]
struct Sync {
    span: Span,
    /// When an owner had told its session something last: what others had done by then, it may have seen.
    heard: Moment,
}

impl Sync {
    /// Tells whether it covers what was done.
    fn covers(&self, done: &Span, told: Moment) -> bool {
        match self.span.by == done.by {
            true => self.span.asked > told,
            false => !done.is_here && self.heard > told,
        }
    }
}

#[derive(Default)]
pub(super) struct Lives {
    lives: BTreeMap<Party, Life>,
    syncs: Vec<Sync>,
    /// Who was told that it is over though nobody was known to be gone, and when.
    unexplained: Vec<(Party, Moment)>,
    /// The first promise that was seen to be broken.
    broken: Option<Broken>,
}

impl Lives {
    pub(super) fn come(&mut self) -> Party {
        let party = Party(self.lives.len() as u64 + 1);
        self.lives.insert(party, Life::default());
        party
    }

    pub(super) fn syncs(&self) -> u64 {
        self.syncs.len() as u64
    }

    pub(super) fn breaks(&mut self, why: String) {
        self.broken.get_or_insert(Broken(why));
    }

    pub(super) fn told(&mut self, span: &Span, at: Moment, error: Option<&Error>) {
        let are_there = self.are_all_there();
        let life = self.lives.entry(span.by).or_default();
        match error {
            Some(Error::Failed(_)) => {}
            Some(Error::Refused(Refusal::Stale)) => {
                if life.over.is_none() && are_there {
                    self.unexplained.push((span.by, at));
                }
                life.over.get_or_insert(at);
            }
            Some(Error::Refused(_)) | None => {
                if let Some(over) = life.over {
                    let why = format!("{span} was done by a session that is over since {over}");
                    self.broken.get_or_insert(Broken(why));
                }
                life.carried = life.carried.max(span.epoch);
                life.last_asked = span.asked;
                if !span.is_here {
                    life.last_heard = at;
                }
            }
        }
    }

    /// Tells whether no session has died, was silent or is over: then none is, and none follows what is lost with another.
    fn are_all_there(&self) -> bool {
        let mut lives = self.lives.values();
        lives.all(|life| !life.has_died && !life.was_away && life.over.is_none())
    }

    pub(super) fn die(&mut self, party: Party) {
        self.lives.entry(party).or_default().has_died = true;
    }

    pub(super) fn was_away(&mut self, party: Party) {
        self.lives.entry(party).or_default().was_away = true;
    }

    /// Says that it is known of everybody who has died or was away by now.
    pub(super) fn all_are_known(&mut self) {
        if let Err(why) = self.judge_unexplained() {
            self.broken.get_or_insert(why);
        }
        self.unexplained.clear();
    }

    /// What a session followed is lost with another alone.
    fn judge_unexplained(&self) -> Verdict<()> {
        let mut lives = self.lives.values();
        match self.unexplained.first() {
            Some((party, at)) if !lives.any(|life| life.has_died || life.was_away) => {
                broken(format!("{party} is over at {at} though all sessions were there"))
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn leave(&mut self, party: Party, at: Moment) {
        self.lives.entry(party).or_default().left = Some(at);
    }

    pub(super) fn had_left(&self, party: Party, by: Moment) -> bool {
        let left = self.lives.get(&party).and_then(|life| life.left);
        left.is_some_and(|left| left < by)
    }

    pub(super) fn synced(&mut self, span: Span) {
        let heard = self.lives.get(&span.by).map_or(0, |life| life.last_heard);
        self.syncs.push(Sync { span, heard });
    }

    /// Tells whether a session was there after a moment.
    pub(super) fn was_there_after(&self, party: Party, moment: Moment) -> bool {
        self.lives
            .get(&party)
            .is_some_and(|life| life.last_asked > moment)
    }

    /// Tells whether what was done may be missing where another call is answered.
    pub(super) fn may_be_missing(&self, done: &Span, look: &Span) -> bool {
        let Some(told) = done.told else { return true };
        let life = self.lives.get(&done.by).copied().unwrap_or_default();
        let is_synced = |sync: &Sync| sync.covers(done, told) && sync.span.epoch <= life.carried;
        let may_be_lost = match done.is_here {
            true => life.is_gone(look),
            false => look.epoch > life.carried,
        };
        may_be_lost && !self.syncs.iter().any(is_synced)
    }

    pub(super) fn judge(&self) -> Verdict<()> {
        match &self.broken {
            Some(Broken(why)) => broken(why.clone()),
            None => self.judge_unexplained(),
        }
    }
}
