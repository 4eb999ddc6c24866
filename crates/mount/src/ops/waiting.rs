//! A request that is answered later, unless its caller is interrupted before.

use super::answer;
use crate::kernel::{Arming, Errno, Reply};
use parking_lot::Mutex;
use std::sync::Arc;
use tenure_client::Error;

/// The reply of a request that waits; whoever takes it first answers.
pub(super) struct Waiting(Arc<Mutex<Option<Reply>>>);

impl Waiting {
    /// Lets a request wait; a signal to its caller ends the wait with EINTR, not what is waited for.
    pub(super) fn new(mut reply: Reply) -> Self {
        let slot = Arc::new(Mutex::new(None));
        let interrupted = Waiting(Arc::clone(&slot));
        // The call waits for this lock, so it finds the reply.
        let mut filled = slot.lock();
        match reply.on_interrupt(move || interrupted.answer(|reply| reply.error(Errno::INTR))) {
            Arming::Armed => *filled = Some(reply),
            Arming::Interrupted => reply.error(Errno::INTR),
        }
        drop(filled);
        Waiting(slot)
    }

    /// Answers success or the error, if nobody has answered.
    pub(super) fn end(self, outcome: Result<(), Error>) {
        self.end_with(outcome, |reply, ()| reply.ok());
    }

    /// Answers with what `then` makes of a success, or with the error, if nobody has answered.
    pub(super) fn end_with<T>(self, outcome: Result<T, Error>, then: impl FnOnce(Reply, T)) {
        self.answer(|reply| answer(reply, outcome, then));
    }

    fn answer(&self, answer: impl FnOnce(Reply)) {
        let reply = self.0.lock().take();
        if let Some(reply) = reply {
            answer(reply);
        }
    }
}
