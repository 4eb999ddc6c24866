//! Locks: no two have one of which one is exclusive, as long as both are there, and nobody has one who has left.

use super::lives::{Lives, Moment, Party, Span};
use crate::check::{Verdict, broken};
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Locks {
    held: BTreeMap<usize, Vec<Held>>,
    /// Who was refused a lock, and because of whom.
    blocked: Vec<(Span, Party)>,
}

/// A lock that somebody was told to have.
#[derive(Clone, Copy, Debug)]
struct Held {
    taken: Span,
    is_exclusive: bool,
    /// When it was begun to give it back.
    given_back: Option<Moment>,
}

impl Locks {
    pub(super) fn locked(&mut self, taken: Span, file: usize, is_exclusive: bool) {
        self.held.entry(file).or_default().push(Held {
            taken,
            is_exclusive,
            given_back: None,
        });
    }

    pub(super) fn unlocked(&mut self, span: Span, file: usize) {
        let mut held = self.held.entry(file).or_default().iter_mut().rev();
        if let Some(held) = held.find(|held| held.taken.by == span.by) {
            held.given_back.get_or_insert(span.asked);
        }
    }

    pub(super) fn was_blocked(&mut self, span: Span, by: Party) {
        self.blocked.push((span, by));
    }

    pub(super) fn judge(&self, lives: &Lives) -> Verdict<()> {
        for (file, all) in &self.held {
            for (at, one) in all.iter().enumerate() {
                if let Some(other) = all[at + 1..].iter().find(|other| meet(lives, one, other)) {
                    return broken(format!(
                        "the lock of file {file} is had by {} and by {}",
                        one.taken, other.taken
                    ));
                }
            }
        }
        let gone = self
            .blocked
            .iter()
            .find(|(span, by)| lives.had_left(*by, span.asked));
        match gone {
            Some((span, by)) => broken(format!("{span} is refused a lock, because of {by} that has left")),
            None => Ok(()),
        }
    }
}

/// Tells whether two had a lock at one moment that only one may have: both asked something after it and were not over.
fn meet(lives: &Lives, one: &Held, other: &Held) -> bool {
    let both = one.taken.told.max(other.taken.told).unwrap_or_default();
    let still = |held: &Held| {
        held.given_back.is_none_or(|given_back| given_back > both)
            && lives.was_there_after(held.taken.by, both)
    };
    (one.is_exclusive || other.is_exclusive) && one.taken.by != other.taken.by && still(one) && still(other)
}
