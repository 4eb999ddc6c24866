//! What is open here: the owner knows each inode that is, so that it stays without an entry.
//!
//! That one was closed is told a while later, several at once: who opens it again meanwhile need not ask. Invariant: an inode
//! that is open here is known to the owner, also while it hears of others.

use super::{Callers, Inner, SharedBranch};
use crate::wait;
use std::collections::{BTreeMap, BTreeSet};
use tenure_model::Ino;
use tenure_wire::{Error, Owner};

/// What is open, and what the owner does not know yet to be so no longer.
#[derive(Default)]
pub(super) struct Opens {
    /// How often each is open; at 0 the owner is to hear so.
    counts: BTreeMap<Ino, u64>,
    /// Those that the owner is hearing of.
    going: BTreeSet<Ino>,
}

impl Opens {
    /// Returns all that the owner must know.
    pub(super) fn all(&self) -> Vec<Ino> {
        self.counts.keys().copied().collect()
    }

    /// Counts an open inode that the owner knows of.
    pub(super) fn add_told(&mut self, ino: Ino) {
        *self.counts.entry(ino).or_default() += 1;
    }

    fn closed(&mut self, ino: Ino) {
        if let Some(count) = self.counts.get_mut(&ino) {
            *count = count.saturating_sub(1);
        }
    }
}

impl SharedBranch {
    /// Opens an inode.
    pub fn open(&self, ino: Ino) -> Result<(), Error> {
        let inner = &self.inner;
        inner.check()?;
        {
            let mut state = inner.state.lock();
            if let Some(count) = state.opens.counts.get_mut(&ino) {
                *count += 1;
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
    pub(super) fn has_let_go(&self) -> bool {
        self.state.lock().opens.counts.values().any(|count| *count == 0)
    }

    /// Tells the owner what is open no longer.
    pub(super) fn tell_let_go(&self) {
        let gone: Vec<Ino> = {
            let mut state = self.state.lock();
            let gone = state.opens.counts.iter().filter(|(_, count)| **count == 0);
            let gone: Vec<_> = gone.map(|(ino, _)| *ino).collect();
            gone.iter().for_each(|ino| {
                state.opens.counts.remove(ino);
                state.opens.going.insert(*ino);
            });
            gone
        };
        if gone.is_empty() {
            return;
        }
        let who = self.who;
        if let Err(error) = self.ask(Callers::Stay, |owner| owner.let_go(who, &gone)) {
            // It hears of it when the session ends.
            tracing::debug!(%error, "the owner takes closed files for open for now");
        }
        self.state.lock().opens.going.clear();
        self.answered.notify_all();
    }
}
