//! Threads for the few requests that wait for something slow, so that the threads that read requests never do.
//!
//! Invariant: there are at most `THREADS_MAX`; what waits for one of them is bounded by the requests that the kernel
//! lets be under way and the inodes that it forgets, because what nobody waits for any more is forgotten.

use crate::kernel::serve_no_more;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const THREADS_MAX: usize = 8;
/// How long a thread that has nothing to do stays.
const IDLE_MAX: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

/// Threads that come when there is work and go when there is none.
#[derive(Clone, Default)]
pub(super) struct Pool(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    queued: Condvar,
}

#[derive(Default)]
struct State {
    /// What has not been begun, by its tickets.
    queue: BTreeMap<u64, Work>,
    last_ticket: u64,
    threads: usize,
    idle: usize,
}

impl Pool {
    /// Returns the number of some work, which nothing else has.
    pub(super) fn ticket(&self) -> u64 {
        let mut state = self.0.state.lock();
        state.last_ticket += 1;
        state.last_ticket
    }

    /// Has `work` done by some thread.
    pub(super) fn run(&self, ticket: u64, work: impl FnOnce() + Send + 'static) {
        let mut state = self.0.state.lock();
        state.queue.insert(ticket, Box::new(work));
        if state.idle < state.queue.len() && state.threads < THREADS_MAX {
            let pool = self.clone();
            let spawned = std::thread::Builder::new().name("waits".into()).spawn(move || {
                serve_no_more();
                pool.work();
            });
            state.threads += usize::from(spawned.is_ok());
            // Without any thread the work would wait for ever; its requests are answered EIO by being dropped.
            if state.threads == 0 {
                let dropped = std::mem::take(&mut state.queue);
                drop(state);
                return drop(dropped);
            }
        }
        self.0.queued.notify_one();
    }

    /// Forgets work that was not begun.
    pub(super) fn forget(&self, ticket: u64) {
        let work = self.0.state.lock().queue.remove(&ticket);
        drop(work);
    }

    fn work(&self) {
        let mut state = self.0.state.lock();
        loop {
            if let Some((_, work)) = state.queue.pop_first() {
                drop(state);
                // A panic answers its request with EIO; the thread goes on.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                state = self.0.state.lock();
                continue;
            }
            state.idle += 1;
            let timed_out = self.0.queued.wait_for(&mut state, IDLE_MAX).timed_out();
            state.idle -= 1;
            if timed_out && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn more_work_than_threads_is_all_done_and_a_panic_takes_no_thread() {
        let pool = Pool::default();
        let (send, receive) = channel();
        for number in 0..100 {
            let send = send.clone();
            pool.run(pool.ticket(), move || {
                send.send(number).expect("the receiver waits");
                assert!(number % 2 == 0, "an odd one fails");
            });
        }
        let mut done: Vec<_> = receive.iter().take(100).collect();
        done.sort_unstable();
        assert_eq!(done, (0..100).collect::<Vec<_>>());
        assert!(pool.0.state.lock().threads <= THREADS_MAX);
    }

    #[test]
    fn what_is_forgotten_is_never_begun_and_takes_no_memory() {
        let pool = Pool::default();
        let (go, wait) = channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let (send, receive) = channel();
        let tickets: Vec<_> = (0..100)
            .map(|number| {
                let (send, wait) = (send.clone(), Arc::clone(&wait));
                let ticket = pool.ticket();
                pool.run(ticket, move || {
                    let _ = wait.lock().recv();
                    send.send(number).expect("the receiver waits");
                });
                ticket
            })
            .collect();
        drop(send);
        tickets[THREADS_MAX..]
            .iter()
            .for_each(|ticket| pool.forget(*ticket));
        assert!(pool.0.state.lock().queue.len() <= THREADS_MAX);
        drop(go);
        let mut done: Vec<_> = receive.iter().collect();
        done.sort_unstable();
        assert_eq!(done, (0..THREADS_MAX).collect::<Vec<_>>());
    }
}
