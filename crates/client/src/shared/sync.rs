//! Syncs: whoever asks, and the lag, make durable what is kept; then it is kept no longer.

use super::{Callers, Inner};
use crate::branch::{Branch, Threads};
use crate::wants::{Scope, Turn, Waiter};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tenure_wire::{Done, Error};

/// How often in a lag it is looked whether something has waited for it.
const TICKS_PER_LAG: u32 = 10;

impl Inner {
    /// Makes everything durable that this session has done or seen.
    pub(super) fn sync_now(&self) -> Result<(), Error> {
        self.check()?;
        let seen = self.seen.load(Ordering::Acquire);
        let answered: Vec<u64> = {
            let state = self.state.lock();
            let answered = state
                .pending
                .iter()
                .filter(|(_, pending)| pending.place.is_some());
            answered.map(|(number, _)| *number).collect()
        };
        let who = self.who;
        self.ask(Callers::Stay, |owner| owner.sync(who))?;
        self.synced.fetch_max(seen, Ordering::AcqRel);
        let mut state = self.state.lock();
        answered.into_iter().for_each(|number| state.forget(number));
        Ok(())
    }

    /// Notes that the owner has said something that may not be durable.
    pub(super) fn note_seen(&self) {
        self.seen.fetch_add(1, Ordering::AcqRel);
    }

    /// Makes durable what was done here, and then what was done or seen at the owner.
    pub(super) fn sync_with(self: &Arc<Self>, ship: impl FnOnce(&Branch, Done<()>), done: Done<()>) {
        let (inner, seen) = (Arc::clone(self), self.seen.load(Ordering::Acquire));
        let then = move |shipped| match shipped {
            Ok(()) if inner.synced.load(Ordering::Acquire) < seen => inner.ask_sync(done),
            shipped => done(shipped),
        };
        ship(&self.held, Box::new(then));
    }

    fn ask_sync(&self, done: Done<()>) {
        if self.options.threads == Threads::None {
            // Whoever asks does what the syncer would.
            self.tell_let_go();
            return done(self.sync_now());
        }
        let until = self.clock.elapsed() + self.options.sync_patience;
        let scope = Scope::All;
        self.waiting.ask(Waiter { scope, until, done });
    }

    /// The syncer's loop.
    pub(super) fn run_syncer(&self) {
        let tick = self.options.lag_max / TICKS_PER_LAG;
        loop {
            match self.waiting.turn(tick) {
                Turn::Ship(waiters) => {
                    let synced = self.sync_now();
                    self.note(&synced);
                    for waiter in waiters {
                        (waiter.done)(synced.clone());
                    }
                }
                Turn::Look => {
                    self.tell_let_go();
                    if self.unsynced().age + tick >= self.options.lag_max {
                        let synced = self.sync_now();
                        self.note(&synced);
                    }
                    let has_more = !self.state.lock().pending.is_empty() || self.has_let_go();
                    if has_more && self.check().is_ok() {
                        self.waiting.changed();
                    }
                }
                Turn::End => return,
            }
        }
    }

    fn note(&self, synced: &Result<(), Error>) {
        match synced {
            Ok(()) => self.waiting.set_shipped(),
            Err(error) => {
                if self.waiting.set_fails(error.clone()) {
                    tracing::warn!(%error, "changes wait for the owner");
                }
            }
        }
    }
}
