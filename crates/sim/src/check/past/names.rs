//! Names of which each is made once and goes once: by several at once, but never again.
//!
//! So it is there from a call that made it to one that removed it, and what anybody sees says on which side of them he has looked.

use super::Place;
use super::lives::{Lives, Span};
use crate::check::{Verdict, broken};
use std::collections::BTreeMap;
use tenure_model::Ino;

#[derive(Default)]
pub(super) struct Names {
    names: BTreeMap<Place, Life>,
    listings: Vec<(Span, usize, BTreeMap<String, Ino>)>,
    /// What was open and not found.
    missed: Vec<(Span, Place, Ino)>,
}

#[derive(Default)]
struct Life {
    makers: Vec<(Span, Option<Ino>)>,
    removers: Vec<Span>,
    looks: Vec<(Span, Found)>,
}

/// What was found: nothing, something, or this.
type Found = Option<Option<Ino>>;

impl Names {
    pub(super) fn made(&mut self, span: Span, place: Place, ino: Option<Ino>) {
        self.life(place).makers.push((span, ino));
    }

    pub(super) fn removed(&mut self, span: Span, place: Place) {
        self.life(place).removers.push(span);
    }

    pub(super) fn saw(&mut self, span: Span, place: Place, found: Found) {
        self.life(place).looks.push((span, found));
    }

    pub(super) fn listed(&mut self, span: Span, directory: usize, found: BTreeMap<String, Ino>) {
        self.listings.push((span, directory, found));
    }

    pub(super) fn misses_open(&mut self, span: Span, place: Place, ino: Ino) {
        self.missed.push((span, place, ino));
    }

    fn life(&mut self, place: Place) -> &mut Life {
        self.names.entry(place).or_default()
    }

    pub(super) fn judge(&self, lives: &Lives) -> Verdict<()> {
        for (place, life) in &self.names {
            life.judge(place, lives)?;
        }
        for (span, directory, found) in &self.listings {
            if let Some(name) = found.keys().find(|name| !self.is_known(*directory, name)) {
                return broken(format!(
                    "{span} has found {name} in {directory}, which nobody made"
                ));
            }
            let of_directory = self.names.iter().filter(|((other, _), _)| other == directory);
            for (place, life) in of_directory {
                let found = found.get(&place.1).map(|ino| Some(*ino));
                life.judge_look(place, lives, (span, found))?;
            }
        }
        let mut missed = self.missed.iter();
        missed.try_for_each(|(span, place, ino)| self.judge_missed(lives, span, (place, *ino)))
    }

    fn is_known(&self, directory: usize, name: &str) -> bool {
        self.names.contains_key(&(directory, name.to_owned()))
    }

    /// What is open is there, unless its making was lost.
    fn judge_missed(&self, lives: &Lives, span: &Span, (place, ino): (&Place, Ino)) -> Verdict<()> {
        let made = self.names.get(place).into_iter().flat_map(|life| &life.makers);
        let mut made = made.filter(|(_, made)| made.is_none_or(|made| made == ino));
        if made.any(|(maker, _)| lives.may_be_missing(maker, span)) {
            return Ok(());
        }
        broken(format!(
            "{span} has inode {ino} open, once {place:?}, and it is gone"
        ))
    }
}

impl Life {
    fn judge(&self, place: &Place, lives: &Lives) -> Verdict<()> {
        once(place, lives, self.makers.iter().map(|(span, _)| span), "made")?;
        once(place, lives, self.removers.iter(), "removed")?;
        let mut looks = self.looks.iter();
        looks.try_for_each(|(span, found)| self.judge_look(place, lives, (span, *found)))
    }

    fn judge_look(&self, place: &Place, lives: &Lives, (look, found): (&Span, Found)) -> Verdict<()> {
        let happened = |call: &&Span| look.told > Some(call.asked);
        let is_certain = |call: &&Span| call.is_before(look) && !lives.may_be_missing(call, look);
        let makers = || self.makers.iter().map(|(span, _)| span);
        match found {
            Some(ino) => {
                let is_it = |made: Option<Ino>| made.is_none() || ino.is_none() || made == ino;
                if !self
                    .makers
                    .iter()
                    .any(|(span, made)| happened(&span) && is_it(*made))
                {
                    return broken(format!(
                        "{look} has found {place:?} as {ino:?}, which nobody had made"
                    ));
                }
                match self.removers.iter().find(is_certain) {
                    Some(by) => broken(format!("{look} has found {place:?}, removed before by {by}")),
                    None => Ok(()),
                }
            }
            None => match makers().find(is_certain) {
                Some(by) if !self.removers.iter().any(|remover| happened(&remover)) => {
                    broken(format!("{look} has not found {place:?}, made before by {by}"))
                }
                Some(_) | None => Ok(()),
            },
        }
    }
}

/// Only one of those who did something with a name was told so, unless what it did was lost.
fn once<'a>(place: &Place, lives: &Lives, calls: impl Iterator<Item = &'a Span>, what: &str) -> Verdict<()> {
    let told: Vec<_> = calls.filter(|call| call.told.is_some()).collect();
    for (at, one) in told.iter().enumerate() {
        let is_twin = |other: &&&Span| {
            let last = [one, *other]
                .into_iter()
                .max_by_key(|call| (call.epoch, call.told));
            last.is_some_and(|last| !lives.may_be_missing(one, last) && !lives.may_be_missing(other, last))
        };
        if let Some(other) = told[at + 1..].iter().find(is_twin) {
            return broken(format!("{place:?} was {what} by two, by {one} and by {other}"));
        }
    }
    Ok(())
}
