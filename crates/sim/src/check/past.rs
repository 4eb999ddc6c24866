//! What several sessions have asked of one shared branch and were told, and whether one order explains all of it.
//!
//! It knows when each call was asked and answered, by which owner's epoch, and the outcome; nothing of how. What may be missing is
//! what a lost session had done and nobody had synced, once its owner is lost as well, or if it was lent to the session. Invariant: whatever else is missing, was seen
//! after what followed it, or happened twice is a promise that was not kept.

mod lives;
mod locks;
mod logs;
mod names;
mod registers;

pub(crate) use lives::{Party, Span};
pub(crate) use logs::Entry;

use super::Verdict;
use lives::{Lives, Moment};
use locks::Locks;
use logs::Logs;
use names::Names;
use registers::Registers;
use std::collections::BTreeMap;
use tenure_model::{Epoch, Ino, Refusal};
use tenure_wire::Error;

/// A name, in one of the directories.
pub(crate) type Place = (usize, String);

/// What was asked and told, call by call.
#[derive(Default)]
pub(crate) struct Past {
    now: Moment,
    lives: Lives,
    registers: Registers,
    logs: Logs,
    names: Names,
    locks: Locks,
    /// Looks that are held against something.
    looks: u64,
}

/// A call that was asked and is not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    by: Party,
    at: Moment,
    last: Epoch,
}

impl Past {
    fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// Returns how many looks were answered, and how many syncs.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.looks, self.lives.syncs())
    }

    /// Says that a session is there.
    pub(crate) fn comes(&mut self) -> Party {
        self.lives.come()
    }

    /// Says that a session asks something; the owner of this epoch has answered it last.
    pub(crate) fn asks(&mut self, by: Party, last: Epoch) -> Asked {
        let at = self.tick();
        Asked { by, at, last }
    }

    /// Says what a session was told, by which epoch's owner, and whether one was asked.
    pub(crate) fn told<T>(
        &mut self,
        asked: Asked,
        outcome: &Result<T, Error>,
        (epoch, is_here): (Epoch, bool),
    ) -> Span {
        let told = self.tick();
        // Who is over may have done it before.
        let is_known = !matches!(outcome, Err(Error::Failed(_) | Error::Refused(Refusal::Stale)));
        let span = Span {
            by: asked.by,
            asked: asked.at,
            told: is_known.then_some(told),
            epoch,
            is_carried: epoch > asked.last,
            is_here,
        };
        self.lives.told(&span, told, outcome.as_ref().err());
        span
    }

    /// Says that a session was not heard for about as long as one may be.
    pub(crate) fn was_away(&mut self, party: Party) {
        self.lives.was_away(party);
    }

    /// Says that it is known of everybody who has died or was away by now.
    pub(crate) fn all_are_known(&mut self) {
        self.lives.all_are_known();
    }

    /// Says that something was seen that no promise allows.
    pub(crate) fn breaks(&mut self, why: String) {
        self.lives.breaks(why);
    }

    /// Says that a session has ended without a word.
    pub(crate) fn dies(&mut self, party: Party) {
        self.lives.die(party);
    }

    /// Says that a session has given everything back.
    pub(crate) fn leaves(&mut self, party: Party) {
        let at = self.tick();
        self.lives.leave(party, at);
    }

    pub(crate) fn synced(&mut self, span: Span) {
        self.lives.synced(span);
    }

    /// Says that a file of which all bytes are written at once got a version; what nobody was told of it may have happened.
    pub(crate) fn wrote(&mut self, span: Span, file: usize, version: u64) {
        self.registers.wrote(span, file, version);
    }

    pub(crate) fn read(&mut self, span: Span, file: usize, version: u64) {
        self.looks += 1;
        self.registers.read(span, file, version);
    }

    pub(crate) fn appended(&mut self, span: Span, file: usize, entry: Entry) {
        self.logs.appended(span, file, entry);
    }

    pub(crate) fn read_log(&mut self, span: Span, file: usize, entries: Vec<Entry>) {
        self.looks += 1;
        self.logs.read(span, file, entries);
    }

    /// Says that a name was made, and of which inode, if that is known.
    pub(crate) fn made(&mut self, span: Span, place: Place, ino: Option<Ino>) {
        self.names.made(span, place, ino);
    }

    pub(crate) fn removed(&mut self, span: Span, place: Place) {
        self.names.removed(span, place);
    }

    /// Says what a name was seen to be: nothing, or some inode, or one of which nothing is known.
    pub(crate) fn saw(&mut self, span: Span, place: Place, found: Option<Option<Ino>>) {
        self.looks += 1;
        self.names.saw(span, place, found);
    }

    pub(crate) fn listed(&mut self, span: Span, directory: usize, found: BTreeMap<String, Ino>) {
        self.looks += 1;
        self.names.listed(span, directory, found);
    }

    /// Says that a session has not found an inode that it has open, and as what it has opened it.
    pub(crate) fn misses_open(&mut self, span: Span, place: Place, ino: Ino) {
        self.names.misses_open(span, place, ino);
    }

    pub(crate) fn locked(&mut self, span: Span, file: usize, is_exclusive: bool) {
        self.locks.locked(span, file, is_exclusive);
    }

    pub(crate) fn unlocked(&mut self, span: Span, file: usize) {
        self.locks.unlocked(span, file);
    }

    /// Says that a lock was refused, because another has it.
    pub(crate) fn was_blocked(&mut self, span: Span, by: Party) {
        self.locks.was_blocked(span, by);
    }

    /// Holds everything against what was promised.
    pub(crate) fn judge(&self) -> Verdict<()> {
        self.lives.judge()?;
        self.registers.judge(&self.lives)?;
        self.logs.judge(&self.lives)?;
        self.names.judge(&self.lives)?;
        self.locks.judge(&self.lives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: usize = 0;

    fn call<T>(past: &mut Past, by: Party, outcome: &Result<T, Error>, at: (Epoch, bool)) -> Span {
        let asked = past.asks(by, at.0);
        past.told(asked, outcome, at)
    }

    fn over() -> Result<(), Error> {
        Err(Refusal::Stale.into())
    }

    #[test]
    fn who_is_over_because_of_another_need_not_be_told_after_it_is_known_that_that_one_was_away() {
        for is_away in [true, false] {
            let mut past = Past::default();
            let (one, other) = (past.comes(), past.comes());
            call(&mut past, one, &over(), (Epoch(1), false));
            if is_away {
                past.was_away(other);
            }
            past.all_are_known();
            assert_eq!(past.judge().is_ok(), is_away);
        }
    }

    /// Two write a file one after the other, and one syncs before the owner and the second are lost.
    fn read_after_a_loss(looks_before_it_syncs: bool) -> Verdict<()> {
        let (mut past, there) = (Past::default(), (Epoch(1), false));
        let (one, other) = (past.comes(), past.comes());
        let first = call(&mut past, one, &Ok(()), there);
        past.wrote(first, FILE, 1);
        let second = call(&mut past, other, &Ok(()), there);
        past.wrote(second, FILE, 2);
        if looks_before_it_syncs {
            call(&mut past, one, &Ok(()), there);
        }
        let sync = call(&mut past, one, &Ok(()), (Epoch(1), true));
        past.synced(sync);
        past.dies(other);
        let read = call(&mut past, one, &Ok(()), (Epoch(2), false));
        past.read(read, FILE, 1);
        past.judge()
    }

    #[test]
    fn a_sync_covers_what_its_session_may_have_seen_and_nothing_else() {
        assert!(read_after_a_loss(false).is_ok());
        assert!(read_after_a_loss(true).is_err());
    }

    /// One changes a file that is lent to it, and another reads it as it was.
    fn read_of_what_was_lent(loses_its_session: bool) -> Verdict<()> {
        let mut past = Past::default();
        let (one, other) = (past.comes(), past.comes());
        let write = call(&mut past, one, &Ok(()), (Epoch(1), true));
        past.wrote(write, FILE, 1);
        let read = call(&mut past, other, &Ok(()), (Epoch(1), false));
        past.read(read, FILE, 0);
        if loses_its_session {
            past.was_away(one);
            call(&mut past, one, &over(), (Epoch(1), false));
        } else {
            call(&mut past, one, &Ok(()), (Epoch(1), false));
        }
        past.judge()
    }

    #[test]
    fn what_was_done_on_a_loan_may_be_missing_only_once_its_session_is_lost() {
        assert!(read_of_what_was_lent(true).is_ok());
        assert!(read_of_what_was_lent(false).is_err());
    }
}
