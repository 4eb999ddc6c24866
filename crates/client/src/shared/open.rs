//! What is open here: the owner knows each inode that is, so that it stays without an entry; but for what is lent, of which it takes
//! everything for open.
//!
//! That one was closed is told a while later, several at once: who opens it again meanwhile need not ask. Invariant: an inode
//! that is open here and not lent is known to the owner, also while it hears of others.

use super::{Callers, Inner, SharedBranch};
use crate::wait;
use std::collections::{BTreeMap, BTreeSet};
use tenure_core::Outcome;
use tenure_model::Ino;
use tenure_wire::{Error, Owner};

/// Inodes that one message tells of.
const TOLD_MAX: usize = 4096;

/// What is open, and what the owner does not know yet to be so no longer.
#[derive(Default)]
pub(super) struct Opens {
    all: BTreeMap<Ino, Open>,
    /// Those that the owner is hearing of.
    going: BTreeSet<Ino>,
    /// Inodes that are lent, have lost their last entry here and are not open: the owner is to hear so, behind their ends.
    ended: BTreeSet<Ino>,
    /// Those that are open still.
    orphans: BTreeSet<Ino>,
}

struct Open {
    /// How often; at 0 the owner is to hear so.
    count: u64,
    /// Whether the owner knows of it; else it is lent.
    is_told: bool,
}

impl Opens {
    /// Returns all that is open; the owner knows of it from then on.
    pub(super) fn tell_all(&mut self) -> Vec<Ino> {
        self.all.values_mut().for_each(|open| open.is_told = true);
        self.all.keys().copied().collect()
    }

    /// Returns what is open of inodes that are given back; the owner knows of it from then on.
    pub(super) fn tell_those_in(&mut self, inodes: &BTreeSet<Ino>) -> Vec<Ino> {
        self.ended.retain(|ino| !inodes.contains(ino));
        self.orphans.retain(|ino| !inodes.contains(ino));
        let mut told = Vec::new();
        for (ino, open) in &mut self.all {
            if !open.is_told && inodes.contains(ino) {
                open.is_told = true;
                told.push(*ino);
            }
        }
        told
    }

    /// Counts an open inode that the owner knows of.
    pub(super) fn add_told(&mut self, ino: Ino) {
        self.add(ino, true);
    }

    fn add(&mut self, ino: Ino, is_told: bool) {
        let open = self.all.entry(ino).or_insert(Open { count: 0, is_told });
        open.count += 1;
        if self.ended.remove(&ino) {
            self.orphans.insert(ino);
        }
    }

    fn closed(&mut self, ino: Ino) {
        let Some(open) = self.all.get_mut(&ino) else {
            return;
        };
        open.count = open.count.saturating_sub(1);
        if open.count == 0 && !open.is_told {
            self.all.remove(&ino);
            if self.orphans.remove(&ino) {
                self.ended.insert(ino);
            }
        }
    }

    /// Notes that a lent inode has lost its last entry here.
    fn note_orphan(&mut self, ino: Ino) {
        match self.all.contains_key(&ino) {
            true => self.orphans.insert(ino),
            false => self.ended.insert(ino),
        };
    }
}

impl SharedBranch {
    /// Opens an inode.
    pub fn open(&self, ino: Ino) -> Result<(), Error> {
        let inner = &self.inner;
        inner.check()?;
        if inner.is_known_here(ino) {
            // Whoever is over has nothing open any more.
            inner.may_go_on()?;
            if inner.open_here(ino) {
                return Ok(());
            }
        }
        wait::before_waiting()?;
        let mut state = inner.state.lock();
        while state.opens.going.contains(&ino) {
            inner.answered.wait(&mut state);
        }
        drop(state);
        let who = inner.who;
        let hold = |owner: &dyn Owner<_>| owner.hold(who, ino);
        let held = inner.ask_then(Callers::MayLeave, hold, |state, held| {
            if held.is_ok() {
                state.opens.add_told(ino);
            }
        });
        held.map(drop)
    }

    /// Closes an inode that was opened.
    pub fn closed(&self, ino: Ino) {
        self.inner.state.lock().opens.closed(ino);
        self.inner.waiting.changed();
    }
}

impl Inner {
    /// Tells whether an inode is open already, or lent.
    fn is_known_here(&self, ino: Ino) -> bool {
        let is_open = self.state.lock().opens.all.contains_key(&ino);
        is_open || self.held.covers(ino)
    }

    /// Opens what is open already, or lent; tells whether it was.
    pub(super) fn open_here(&self, ino: Ino) -> bool {
        let mut state = self.state.lock();
        // In this order: what is given back meanwhile takes with it what is open.
        let is_lent = || self.held.covers(ino);
        let is_here = state.opens.all.contains_key(&ino) || is_lent();
        if is_here {
            state.opens.add(ino, false);
        }
        is_here
    }

    /// Notes what has lost its last entry here.
    pub(super) fn note_ended(&self, outcome: Outcome) {
        // What is replaced is a directory as what replaces it is one; directories are opened by nobody, and the owner sees to them.
        let is_directory = outcome.inode.is_some_and(|(_, attr)| attr.is_directory());
        if let Some(ino) = outcome.orphan.filter(|_| !is_directory) {
            self.note_orphan(ino);
        }
    }

    pub(super) fn note_orphan(&self, ino: Ino) {
        self.state.lock().opens.note_orphan(ino);
        self.waiting.changed();
    }

    /// Notes that an inode has an entry again.
    pub(super) fn note_adopted(&self, ino: Ino) {
        self.state.lock().opens.orphans.remove(&ino);
    }

    pub(super) fn has_let_go(&self) -> bool {
        let state = self.state.lock();
        !state.opens.ended.is_empty() || state.opens.all.values().any(|open| open.count == 0)
    }

    /// Tells the owner what is open no longer.
    pub(super) fn tell_let_go(&self) {
        self.held.forget_removed();
        let ended = self.state.lock().opens.ended.clone();
        // Their ends were shipped if nothing is left to be shipped now.
        let is_shipped = !ended.is_empty() && self.held.inner.is_clean();
        let gone: Vec<Ino> = {
            let mut state = self.state.lock();
            let opens = &mut state.opens;
            let closed = opens.all.extract_if(.., |_, open| open.count == 0);
            let closed: Vec<_> = closed.map(|(ino, _)| ino).collect();
            // Of these the owner is to hear once more, when it has heard of their ends.
            let orphans = closed.iter().filter(|ino| opens.orphans.remove(ino));
            opens.ended.extend(orphans.copied());
            let still = |ino: &Ino| is_shipped && opens.ended.contains(ino);
            let ended: Vec<_> = ended.into_iter().filter(still).collect();
            for ino in &ended {
                opens.ended.remove(ino);
                self.held.uncover(*ino);
            }
            let gone: Vec<_> = closed.into_iter().chain(ended).collect();
            opens.going.extend(&gone);
            gone
        };
        let who = self.who;
        for some in gone.chunks(TOLD_MAX) {
            if let Err(error) = self.ask(Callers::Stay, |owner| owner.let_go(who, some)) {
                // It hears of it when the session ends.
                tracing::debug!(%error, "the owner takes closed files for open for now");
            }
        }
        self.state.lock().opens.going.clear();
        self.answered.notify_all();
    }
}
