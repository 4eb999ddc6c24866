//! Syncs: whoever asks, and the lag, make durable what is kept; then it is kept no longer.

use super::{Callers, Inner};
use crate::branch::Threads;
use crate::wants::{Scope, Turn, Waiter};
use tenure_wire::{Done, Error};

/// How often in a lag it is looked whether something has waited for it.
const TICKS_PER_LAG: u32 = 10;

impl Inner {
    /// Makes everything durable that this session has done or seen.
    pub(super) fn sync_now(&self) -> Result<(), Error> {
        self.check()?;
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
        let mut state = self.state.lock();
        answered.into_iter().for_each(|number| state.forget(number));
        Ok(())
    }

    pub(super) fn ask_sync(&self, done: Done<()>) {
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
