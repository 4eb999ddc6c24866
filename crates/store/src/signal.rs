//! A signal that wakes one thread: there is work, or the end.

use parking_lot::{Condvar, Mutex};

/// Wakes the thread that waits on it. Raising it twice before the thread looks is raising it once.
#[derive(Default)]
pub struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    raised: bool,
    ended: bool,
}

impl Signal {
    /// Says that there is work.
    pub fn raise(&self) {
        self.state.lock().raised = true;
        self.changed.notify_one();
    }

    /// Says that there will be no more work.
    pub fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }

    /// Tells whether the end was said.
    pub fn has_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// Waits until there is work, and tells whether there is any: not at the end.
    pub fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.raised && !state.ended {
            self.changed.wait(&mut state);
        }
        state.raised = false;
        !state.ended
    }
}
