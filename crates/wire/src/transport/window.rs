//! How many calls of one connection are underway, and how many bytes they have.
//!
//! Invariant: a call counts until its answer was handed to the kernel or thrown away.

use super::lane::IN_FLIGHT_MAX;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::limits;

/// Bytes of calls underway on one connection: several of the usual ones; one that is longer has them to itself.
const BYTES_MAX: usize = limits::MESSAGE_LEN_MAX / 2;

/// The calls of one connection that are underway.
#[derive(Default)]
pub(super) struct Window {
    underway: Mutex<Underway>,
    changed: Condvar,
}

#[derive(Default)]
struct Underway {
    calls: usize,
    bytes: usize,
    is_shut: bool,
    /// Whether nothing more comes and nothing is underway.
    is_over: bool,
}

/// The place of one call.
pub(super) struct Slot {
    window: Arc<Window>,
    bytes: usize,
}

impl Window {
    /// Waits for a place for a call, and does something each `rest` meanwhile; none when there will be no more.
    pub(super) fn enter(
        self: &Arc<Self>,
        bytes: usize,
        rest: Duration,
        meanwhile: impl Fn(),
    ) -> Option<Slot> {
        let mut underway = self.underway.lock();
        let is_full = |now: &mut Underway| {
            !now.is_shut && (now.calls >= IN_FLIGHT_MAX || now.calls > 0 && now.bytes + bytes > BYTES_MAX)
        };
        while self
            .changed
            .wait_while_for(&mut underway, is_full, rest)
            .timed_out()
        {
            MutexGuard::unlocked(&mut underway, &meanwhile);
        }
        if underway.is_shut {
            return None;
        }
        underway.calls += 1;
        underway.bytes += bytes;
        Some(Slot {
            window: self.clone(),
            bytes,
        })
    }

    /// Notes that nothing more comes, and waits until nothing is underway, or nobody cares any more.
    pub(super) fn finish(&self) {
        let mut underway = self.underway.lock();
        self.changed
            .wait_while(&mut underway, |now| now.calls > 0 && !now.is_shut);
        underway.is_over = true;
        drop(underway);
        self.changed.notify_all();
    }

    /// Waits until nothing more comes and nothing is underway, within a bound.
    pub(super) fn wait_until_over(&self, bound: Duration) {
        let mut underway = self.underway.lock();
        self.changed
            .wait_while_for(&mut underway, |now| !now.is_over, bound);
    }

    /// Lets nobody in any more, and nobody wait.
    pub(super) fn shut(&self) {
        self.underway.lock().is_shut = true;
        self.changed.notify_all();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut underway = self.window.underway.lock();
        underway.calls -= 1;
        underway.bytes -= self.bytes;
        drop(underway);
        self.window.changed.notify_all();
    }
}
