//! Threads that do what is asked, as many as are needed up to a bound; idle ones end after a while.
//!
//! Invariant: work that a pool has taken is done once or dropped, and dropping it tells whoever waits.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// How long a thread waits for more work before it ends.
const IDLE_MAX: Duration = Duration::from_secs(10);

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// A bounded number of threads with one queue.
pub(super) struct Pool {
    name: &'static str,
    workers_max: usize,
    state: Mutex<State>,
    wanted: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    workers: usize,
    idle: usize,
    is_stopped: bool,
}

impl Pool {
    pub(super) fn new(name: &'static str, workers_max: usize) -> Arc<Self> {
        Arc::new(Self {
            name,
            workers_max,
            state: Mutex::default(),
            wanted: Condvar::new(),
        })
    }

    /// Takes work. How much of it may wait is bounded by who brings it.
    pub(super) fn take(self: &Arc<Self>, job: Job) {
        let mut state = self.state.lock();
        if state.is_stopped {
            drop(state);
            return drop(job);
        }
        state.queue.push_back(job);
        if state.idle >= state.queue.len() {
            self.wanted.notify_one();
        } else if state.workers < self.workers_max {
            state.workers += 1;
            drop(state);
            self.start_worker();
        }
    }

    /// Ends the threads once they have done what they are at; what waits is dropped.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        let dropped = std::mem::take(&mut state.queue);
        drop(state);
        self.wanted.notify_all();
        drop(dropped);
    }

    fn start_worker(self: &Arc<Self>) {
        let pool = self.clone();
        let started = std::thread::Builder::new()
            .name(self.name.into())
            .spawn(move || pool.work());
        if let Err(error) = started {
            tracing::warn!(%error, "no thread can be started for {}", self.name);
            let mut state = self.state.lock();
            state.workers -= 1;
            if state.workers == 0 {
                let dropped = std::mem::take(&mut state.queue);
                drop(state);
                drop(dropped);
            }
        }
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            run(job);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                return Some(job);
            }
            let mut is_over = state.is_stopped;
            if !is_over {
                state.idle += 1;
                is_over = self.wanted.wait_for(&mut state, IDLE_MAX).timed_out() && state.queue.is_empty();
                state.idle -= 1;
            }
            if is_over {
                state.workers -= 1;
                return None;
            }
        }
    }
}

/// Does some work. A panic in it is a bug of whoever is called; who waits is told when the work is dropped.
pub(super) fn run(job: Job) {
    // The panic's own message was printed where it happened, and nothing of the job is used afterwards.
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a call to the owner of a drive has panicked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn as_much_is_done_at_once_as_the_bound_allows_and_no_more() {
        let pool = Pool::new("test", 2);
        let (begun, begins) = mpsc::channel();
        let gate = Arc::new(Mutex::new(()));
        let shut = gate.lock();
        for number in 0..5 {
            let (begun, gate) = (begun.clone(), gate.clone());
            pool.take(Box::new(move || {
                begun.send(number).expect("the test listens");
                drop(gate.lock());
            }));
        }
        let both = [(), ()].map(|()| begins.recv().expect("two begin"));
        assert_eq!(both.iter().sum::<i32>(), 1, "the first two");
        assert_eq!((begins.try_recv().ok(), pool.state.lock().workers), (None, 2));
        drop(shut);
        let rest = [(), (), ()].map(|()| begins.recv().expect("the rest is done too"));
        assert_eq!(rest.iter().sum::<i32>(), 9);
    }

    #[test]
    fn a_panic_ends_neither_the_pool_nor_its_thread() {
        let pool = Pool::new("test", 1);
        let (done, waits) = mpsc::channel();
        pool.take(Box::new(|| panic!("as this test wants")));
        pool.take(Box::new(move || done.send(()).expect("the test listens")));
        waits.recv().expect("the second is done");
        assert_eq!(pool.state.lock().workers, 1);
    }

    #[test]
    fn what_waits_is_dropped_when_the_pool_stops() {
        let pool = Pool::new("test", 1);
        let (go, gate) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        pool.take(Box::new(move || {
            begun.send(()).expect("the test listens");
            let _ = gate.recv();
        }));
        begins.recv().expect("the first has begun");
        let (held, told) = mpsc::channel::<()>();
        pool.take(Box::new(move || drop(held)));
        pool.stop();
        assert!(told.recv().is_err());
        drop(go);
    }
}
