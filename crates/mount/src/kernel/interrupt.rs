//! Which waiting requests want to know that their caller was interrupted.
//!
//! The kernel sends INTERRUPT with the number of a request that it already handed out, possibly before that request was
//! decoded, and never twice. So an INTERRUPT that finds nobody waiting is remembered until its request is answered or starts
//! to wait. Requests that never wait cost one atomic load. Invariant: at most [`EARLY_MAX`] INTERRUPTs are
//! remembered (the oldest goes first), and a request that was answered has nothing here, unless its INTERRUPT was read
//! while the answer was being written; that number means nothing any more and ages out.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// How many INTERRUPTs are remembered: far more than callers that can be signalled between two reads of the device.
const EARLY_MAX: usize = 1024;

/// What a waiting request asked to be called when its caller is interrupted.
pub(super) type OnInterrupt = Box<dyn FnOnce() + Send>;

/// What came of asking to be told of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a request that was interrupted before it began to wait gets no call"]
pub enum Arming {
    /// The call will come if an interrupt does.
    Armed,
    /// The caller was interrupted already: answer EINTR and do not wait; the call will not come.
    Interrupted,
}

/// The table of one mount.
#[derive(Default)]
pub(super) struct Interrupts {
    state: Mutex<State>,
    /// `state.early.len()`, readable without the lock.
    early: AtomicUsize,
}

#[derive(Default)]
struct State {
    waiting: HashMap<u64, OnInterrupt>,
    early: VecDeque<u64>,
}

impl std::fmt::Debug for Interrupts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Interrupts")
    }
}

impl Interrupts {
    /// Has `call` called when the request `unique` is interrupted.
    pub(super) fn arm(&self, unique: u64, call: OnInterrupt) -> Arming {
        let mut state = self.state.lock();
        if self.forget_early(&mut state, unique) {
            return Arming::Interrupted;
        }
        state.waiting.insert(unique, call);
        Arming::Armed
    }

    /// Drops the call of a request that is about to be answered.
    pub(super) fn disarm(&self, unique: u64) {
        let call = self.state.lock().waiting.remove(&unique);
        drop(call);
    }

    /// Forgets the request `unique`, which was answered.
    pub(super) fn answered(&self, unique: u64) {
        if self.early.load(Ordering::Acquire) != 0 {
            self.forget_early(&mut self.state.lock(), unique);
        }
    }

    /// Takes an INTERRUPT of the request `unique`; returns what is to be called, with no lock held.
    pub(super) fn interrupt(&self, unique: u64) -> Option<OnInterrupt> {
        let mut state = self.state.lock();
        let call = state.waiting.remove(&unique);
        if call.is_none() && !state.early.contains(&unique) {
            if state.early.len() == EARLY_MAX {
                state.early.pop_front();
            }
            state.early.push_back(unique);
            self.early.store(state.early.len(), Ordering::Release);
        }
        call
    }

    fn forget_early(&self, state: &mut State, unique: u64) -> bool {
        let Some(at) = state.early.iter().position(|&early| early == unique) else {
            return false;
        };
        state.early.remove(at);
        self.early.store(state.early.len(), Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    fn flag() -> (Arc<AtomicBool>, OnInterrupt) {
        let flag = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&flag);
        (flag, Box::new(move || set.store(true, Ordering::Relaxed)))
    }

    #[test]
    fn a_waiting_request_is_called_once() {
        let table = Interrupts::default();
        let (called, call) = flag();
        assert_eq!(table.arm(2, call), Arming::Armed);
        table.interrupt(2).expect("it waits")();
        assert!(called.load(Ordering::Relaxed));
        assert!(table.interrupt(2).is_none());
    }

    #[test]
    fn an_interrupt_before_the_wait_is_remembered() {
        let table = Interrupts::default();
        assert!(table.interrupt(2).is_none());
        assert_eq!(table.arm(2, flag().1), Arming::Interrupted);
        assert_eq!(table.arm(4, flag().1), Arming::Armed);
    }

    #[test]
    fn an_answered_request_leaves_nothing() {
        let table = Interrupts::default();
        assert_eq!(table.arm(2, flag().1), Arming::Armed);
        table.disarm(2);
        table.answered(2);
        assert!(table.interrupt(4).is_none());
        table.answered(4);
        let state = table.state.lock();
        assert!(state.waiting.is_empty() && state.early.is_empty());
        assert_eq!(table.early.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let table = Interrupts::default();
        for unique in 0..3 * EARLY_MAX as u64 {
            assert!(table.interrupt(unique * 2).is_none());
        }
        assert_eq!(table.state.lock().early.len(), EARLY_MAX);
    }
}
