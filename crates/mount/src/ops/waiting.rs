//! A request that is answered later, unless its caller is interrupted before.

use super::errno;
use crate::kernel::{Errno, Reply};
use parking_lot::Mutex;
use std::sync::Arc;
use tenure_client::Error;

/// The reply of a request that waits; whoever takes it first answers.
pub(super) struct Waiting(Arc<Mutex<Option<Reply>>>);

impl Waiting {
    /// Lets a request wait; a signal to its caller ends the wait with EINTR, not what is waited for.
    pub(super) fn new(mut reply: Reply) -> Self {
        let slot = Arc::new(Mutex::new(None));
        let interrupted = Arc::clone(&slot);
        let arming = reply.on_interrupt(move || {
            let reply: Option<Reply> = interrupted.lock().take();
            if let Some(reply) = reply {
                reply.error(Errno::INTR);
            }
        });
        *slot.lock() = Some(reply);
        let _ = arming;
        Waiting(slot)
    }

    /// Answers, if nobody has.
    pub(super) fn end(self, outcome: Result<(), Error>) {
        let reply = self.0.lock().take();
        match (reply, outcome) {
            (None, _) => {}
            (Some(reply), Ok(())) => reply.ok(),
            (Some(reply), Err(error)) => reply.error(errno(&error)),
        }
    }
}
