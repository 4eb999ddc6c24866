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
