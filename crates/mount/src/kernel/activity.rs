//! Whether requests are coming, for threads that work only while they do.
//!
//! Invariant: a request costs one addition and one look, unless somebody sleeps until it comes.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The requests of one mount, as far as the threads beside its readers care.
#[derive(Debug, Default)]
pub(super) struct Activity {
    requests: AtomicU64,
    asleep: AtomicUsize,
    ended: AtomicBool,
    state: Mutex<()>,
    stirred: Condvar,
}

impl Activity {
    /// Says that a request has come.
    pub(super) fn stir(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.asleep.load(Ordering::Relaxed) != 0 {
            let _state = self.state.lock();
            self.stirred.notify_all();
        }
    }

    /// Ends the threads.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        let _state = self.state.lock();
        self.stirred.notify_all();
    }

    /// Returns how many requests there have been.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Sleeps until there has been a request that was not `seen`; returns whether there may be more.
    pub(super) fn sleep(&self, seen: u64) -> bool {
        let mut state = self.state.lock();
        self.asleep.fetch_add(1, Ordering::Relaxed);
        while self.requests() == seen && !self.ended.load(Ordering::Acquire) {
            self.stirred.wait(&mut state);
        }
        self.asleep.fetch_sub(1, Ordering::Relaxed);
        !self.ended.load(Ordering::Acquire)
    }

    /// Sleeps for a while, whatever comes; returns whether there may be more requests.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !self.ended.load(Ordering::Acquire) {
            self.stirred.wait_for(&mut state, time);
        }
        !self.ended.load(Ordering::Acquire)
    }
}
