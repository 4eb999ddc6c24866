//! A request that is answered later, unless its caller is interrupted before.
//!
//! Invariant: it is answered once; EINTR says that nothing was changed since it waited last, because from the moment of a
//! change on the outcome is the answer.

use super::errno;
use crate::kernel::{Arming, Errno, Reply};
use parking_lot::Mutex;
use std::sync::Arc;
use tenure_client::Error;
use tenure_client::wait::Caller;

/// The reply of a request that waits; whoever takes it first answers. One that is dropped answers EIO.
pub(super) struct Waiting(Arc<Slot>);

#[derive(Default)]
struct Slot(Mutex<State>);

#[derive(Default)]
struct State {
    /// None once somebody has taken it.
    reply: Option<Reply>,
    /// Whether something is being changed, or was since it waited last.
    acts: bool,
    /// Whether an interrupt came while it acted.
    is_interrupted: bool,
}

impl Waiting {
    /// Lets a request wait; a signal to its caller ends the wait with EINTR, not what is waited for.
    pub(super) fn new(reply: Reply) -> Self {
        Waiting::until(reply, || {})
    }

    /// As `new`; `interrupted` is called when a signal has ended the wait.
    pub(super) fn until(mut reply: Reply, interrupted: impl FnOnce() + Send + 'static) -> Self {
        let slot = Arc::new(Slot::default());
        let waits = Arc::clone(&slot);
        // The call waits for this lock, so it finds the reply.
        let mut state = slot.0.lock();
        let arming = reply.on_interrupt(move || {
            if waits.interrupt() {
                interrupted();
            }
        });
        match arming {
            Arming::Armed => state.reply = Some(reply),
            Arming::Interrupted => reply.error(Errno::INTR),
        }
        drop(state);
        Waiting(slot)
    }

    /// Returns whom the wait is for.
    pub(super) fn caller(&self) -> Arc<dyn Caller> {
        Arc::clone(&self.0) as Arc<dyn Caller>
    }

    /// Tells whether it was answered.
    pub(super) fn is_over(&self) -> bool {
        self.0.0.lock().reply.is_none()
    }

    /// Returns the reply, if nobody has answered.
    pub(super) fn take(&self) -> Option<Reply> {
        self.0.0.lock().reply.take()
    }

    /// Answers success or the error, if nobody has answered.
    pub(super) fn end(self, outcome: Result<(), Error>) {
        match (self.take(), outcome) {
            (None, _) => {}
            (Some(reply), Ok(())) => reply.ok(),
            (Some(reply), Err(error)) => reply.error(errno(&error)),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It is known to the table of interrupts as well, and would not go by itself.
        drop(self.take());
    }
}

impl Slot {
    /// Ends the wait, now or when it would go on after a change; tells whether it has ended.
    fn interrupt(&self) -> bool {
        let mut state = self.0.lock();
        if state.acts {
            state.is_interrupted = true;
            return false;
        }
        let reply = state.reply.take();
        drop(state);
        if let Some(reply) = reply {
            reply.error(Errno::INTR);
        }
        true
    }
}

impl Caller for Slot {
    fn may_wait(&self) -> bool {
        let mut state = self.0.lock();
        state.acts = false;
        if !state.is_interrupted {
            return state.reply.is_some();
        }
        drop(state);
        self.interrupt();
        false
    }

    fn may_act(&self) -> bool {
        let mut state = self.0.lock();
        state.acts = state.reply.is_some();
        state.acts
    }
}
