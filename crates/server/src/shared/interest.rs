//! Interest: who has looked at what of a shared branch a moment ago. What several look at is lent to none of them, so that none
//! waits for another's ship.
//!
//! Invariant: what was looked at is remembered for as long as who looks is taken to go on, and for twice that at most.

use super::changes::WORK_MAX;
use std::collections::BTreeMap;
use std::time::Duration;
use tenure_model::{Ino, SessionId};

/// What was looked at lately, by whom.
#[derive(Default)]
pub(super) struct Interest {
    lately: BTreeMap<Ino, Lookers>,
    before: BTreeMap<Ino, Lookers>,
    /// When `lately` began.
    since: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lookers {
    One(SessionId),
    Several,
}

impl Interest {
    /// Notes that a session has looked at some inodes.
    pub(super) fn note(&mut self, inos: &[Ino], by: SessionId, now: Duration) {
        let age = now.saturating_sub(self.since);
        if age >= WORK_MAX {
            let lately = std::mem::take(&mut self.lately);
            self.before = if age < 2 * WORK_MAX {
                lately
            } else {
                BTreeMap::new()
            };
            self.since = now;
        }
        for ino in inos {
            let lookers = self.lately.entry(*ino).or_insert(Lookers::One(by));
            if *lookers != Lookers::One(by) {
                *lookers = Lookers::Several;
            }
        }
    }

    /// Tells whether another session has looked at an inode lately.
    pub(super) fn is_others(&self, ino: Ino, session: SessionId, now: Duration) -> bool {
        let is_others = |seen: &BTreeMap<Ino, Lookers>| {
            let lookers = seen.get(&ino);
            lookers.is_some_and(|lookers| *lookers != Lookers::One(session))
        };
        match now.saturating_sub(self.since) {
            age if age < WORK_MAX => is_others(&self.lately) || is_others(&self.before),
            age if age < 2 * WORK_MAX => is_others(&self.lately),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SessionId = SessionId(1);
    const OTHER: SessionId = SessionId(2);

    #[test]
    fn what_another_has_looked_at_is_remembered_for_a_while_and_not_for_ever() {
        let mut interest = Interest::default();
        let begin = Duration::from_secs(100);
        interest.note(&[Ino(7)], ONE, begin);
        let is_others = |interest: &Interest, ino, session, later: f64| {
            let now = begin + WORK_MAX.mul_f64(later);
            interest.is_others(Ino(ino), session, now)
        };
        assert!(is_others(&interest, 7, OTHER, 0.0) && is_others(&interest, 7, OTHER, 1.0));
        assert!(!is_others(&interest, 7, ONE, 0.0) && !is_others(&interest, 8, OTHER, 0.0));
        assert!(!is_others(&interest, 7, OTHER, 2.0));
        interest.note(&[Ino(8)], OTHER, begin + WORK_MAX);
        assert!(
            is_others(&interest, 7, OTHER, 1.5),
            "it was before, and counts on"
        );
        interest.note(&[Ino(8)], ONE, begin + WORK_MAX);
        assert!(is_others(&interest, 8, ONE, 1.5) && is_others(&interest, 8, OTHER, 1.5));
    }
}
