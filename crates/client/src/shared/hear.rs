//! Hearing: as long as anybody waits for a lock or anything is lent, one thread asks the owner what has become of it, and who needs it.

use super::Inner;
use crate::branch::Threads;
use std::sync::Weak;
use std::time::Duration;
use tenure_model::{Failure, Locked};
use tenure_wire::Error;
use tenure_wire::shared::Heard;

/// How long is listened before it is asked again: an owner that has ended tells nothing.
const LISTEN_MAX: Duration = Duration::from_secs(10);

/// What is heard.
#[derive(Default)]
pub(super) struct Hearing {
    /// Whether a thread hears.
    is_heard: bool,
    /// Whether the owner was asked to tell, and has not yet.
    is_listening: bool,
    /// What it has told.
    heard: Vec<Result<Heard, Error>>,
}

impl Inner {
    /// Lets a thread hear what the owner tells, unless one does.
    pub(super) fn listen(&self) {
        if self.options.threads == Threads::None {
            // Who calls hears.
            return;
        }
        if std::mem::replace(&mut self.state.lock().hearing.is_heard, true) {
            return;
        }
        let Some(inner) = self.myself.upgrade() else {
            return;
        };
        let spawned = std::thread::Builder::new()
            .name("hears".into())
            .spawn(move || inner.hear_all());
        if let Err(error) = spawned {
            tracing::warn!(%error, "who waits for a lock is not told, and what is lent is not given back");
            self.state.lock().hearing.is_heard = false;
        }
    }

    fn hear_all(&self) {
        while self.is_heard() {
            self.hear();
            let heard = {
                let mut state = self.state.lock();
                let is_silent =
                    |state: &mut super::State| state.hearing.heard.is_empty() && !self.waiting.is_stopped();
                self.answered.wait_while_for(&mut state, is_silent, LISTEN_MAX);
                std::mem::take(&mut state.hearing.heard)
            };
            let (mut tickets, mut demands) = (Vec::new(), Vec::new());
            for heard in heard.into_iter().flatten() {
                tickets.extend(heard.tickets);
                demands.extend(heard.demands);
            }
            if tickets.is_empty() && demands.is_empty() {
                // Another owner may be there, which knows of no wish.
                self.ask_again();
                self.rest();
            }
            for ticket in tickets {
                self.end_wish(ticket, Ok(Locked::Taken));
            }
            if !demands.is_empty() {
                self.demand(demands);
            }
        }
    }

    /// Takes what the owner has told of demands, and asks it for more, which it tells at once if there is any.
    pub(super) fn hear_at_once(&self) {
        self.state.lock().hearing.is_listening = false;
        self.hear();
        let heard = std::mem::take(&mut self.state.lock().hearing.heard);
        heard
            .into_iter()
            .flatten()
            .for_each(|heard| self.demand(heard.demands));
    }

    /// Asks to be told, unless that was asked and is not answered: an answer is found, whichever thread is there by then.
    fn hear(&self) {
        if std::mem::replace(&mut self.state.lock().hearing.is_listening, true) {
            return;
        }
        let inner = Weak::clone(&self.myself);
        let told = move |told| {
            if let Some(inner) = inner.upgrade() {
                let mut state = inner.state.lock();
                state.hearing.is_listening = false;
                state.hearing.heard.push(told);
                inner.answered.notify_all();
            }
        };
        self.owner.hear(self.who, Box::new(told));
    }

    /// Tells whether there is anything to hear of; the thread that listens ends where not.
    fn is_heard(&self) -> bool {
        let has_nothing = self.has_nothing();
        let mut state = self.state.lock();
        let is_over = self.waiting.is_stopped() || state.broken.is_some();
        if is_over {
            let wishes = state.wishes.take_all();
            let error = state.broken.clone().unwrap_or_else(closed);
            drop(state);
            for told in wishes {
                told(Err(error.clone()));
            }
            state = self.state.lock();
        }
        state.hearing.is_heard = !is_over && (state.wishes.is_any() || !has_nothing);
        state.hearing.is_heard
    }
}

fn closed() -> Error {
    Failure::DidNotHappen("the branch is closed".into()).into()
}
