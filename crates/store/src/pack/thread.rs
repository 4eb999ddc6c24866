//! The thread that writes full buffers to disk while others append.

use super::Packs;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak};
use tenure_model::Failure;

/// Tells the thread that a buffer is full, or that there is nothing left to do.
#[derive(Default)]
pub(super) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    raised: bool,
    ended: bool,
}

impl Signal {
    pub(super) fn raise(&self) {
        self.state.lock().raised = true;
        self.changed.notify_one();
    }

    pub(super) fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }

    /// Waits; tells whether there is work, and not the end.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.raised && !state.ended {
            self.changed.wait(&mut state);
        }
        state.raised = false;
        !state.ended
    }
}

/// Starts the thread. It ends when the packs are dropped.
pub(super) fn start(packs: Weak<Packs>, signal: Arc<Signal>) -> Result<(), Failure> {
    let write = move || {
        while signal.wait() {
            let Some(packs) = packs.upgrade() else { return };
            packs.write_out();
        }
    };
    let started = std::thread::Builder::new()
        .name("pack-writer".to_owned())
        .spawn(write);
    started
        .map(|_| ())
        .map_err(|error| Failure::DidNotHappen(format!("cannot start a thread: {error}")))
}
