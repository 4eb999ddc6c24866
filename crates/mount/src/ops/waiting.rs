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

/// What a wait is known by to whoever may end it.
#[derive(Default)]
pub(super) struct Slot(Mutex<State>);

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
    pub(super) fn caller(&self) -> Arc<Slot> {
        Arc::clone(&self.0)
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
    /// Tells whether it was answered.
    pub(super) fn is_over(&self) -> bool {
        self.0.lock().reply.is_none()
    }

    /// Ends the wait with an error, unless something is being changed; tells whether it has ended.
    pub(super) fn give_up(&self, errno: Errno) -> bool {
        let mut state = self.0.lock();
        if state.acts {
            return false;
        }
        let reply = state.reply.take();
        drop(state);
        if let Some(reply) = reply {
            reply.error(errno);
        }
        true
    }

    /// Ends the wait, now or when it would go on after a change; tells whether it has ended.
    fn interrupt(&self) -> bool {
        let mut state = self.0.lock();
        if state.acts {
            state.is_interrupted = true;
            return false;
        }
        drop(state);
        self.give_up(Errno::INTR)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Line, line};

    const INTERRUPTED: Option<i32> = Some(-libc::EINTR);

    fn wait(line: &Line) -> (Waiting, Arc<Slot>) {
        let waiting = Waiting::new(line.reply());
        let caller = waiting.caller();
        assert!(caller.may_wait() && !caller.is_over());
        (waiting, caller)
    }

    #[test]
    fn an_interrupt_ends_a_wait_at_once_and_nothing_is_done_for_its_caller() {
        let line = line();
        let (waiting, caller) = wait(&line);
        line.interrupt();
        assert_eq!(line.answer(), INTERRUPTED);
        assert!(caller.is_over() && !caller.may_wait() && !caller.may_act());
        waiting.end(Ok(()));
        assert_eq!(line.answer(), None);
    }

    #[test]
    fn who_is_interrupted_while_something_changes_gets_the_outcome() {
        let line = line();
        let (waiting, caller) = wait(&line);
        assert!(caller.may_act());
        line.interrupt();
        assert_eq!(line.answer(), None);
        waiting.end(Ok(()));
        assert_eq!(line.answer(), Some(0));
    }

    #[test]
    fn who_was_interrupted_while_something_changed_is_sent_away_before_the_next_wait() {
        let line = line();
        let (waiting, caller) = wait(&line);
        assert!(caller.may_act());
        line.interrupt();
        assert!(!caller.may_wait());
        assert_eq!(line.answer(), INTERRUPTED);
        drop(waiting);
        assert_eq!(line.answer(), None);
    }

    #[test]
    fn a_wait_that_is_dropped_answers_eio_although_it_may_be_interrupted() {
        let line = line();
        drop(wait(&line));
        assert_eq!(line.answer(), Some(-libc::EIO));
    }
}
