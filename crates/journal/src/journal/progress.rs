//! Who waits for records to become durable: each is woken when its own are, not whenever any are.
//!
//! Invariant: whoever waits is in the list, so whoever changes the queue under its lock wakes all that the change concerns.

use super::queue::Queue;
use parking_lot::{Condvar, MutexGuard};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::Seq;

/// Those that wait, in the order in which they came.
#[derive(Default)]
pub(super) struct Waiters(Vec<Waiter>);

struct Waiter {
    /// The last record that it waits for.
    seq: Seq,
    turn: Arc<Condvar>,
}

/// Waits until something has happened that may concern who waits for `seq`.
pub(super) fn wait(queue: &mut MutexGuard<'_, Queue>, seq: Seq) {
    let turn = begin(queue, seq);
    turn.wait(queue);
    end(queue, &turn);
}

/// As `wait`, for so long at most; tells whether it was that long.
pub(super) fn wait_for(queue: &mut MutexGuard<'_, Queue>, seq: Seq, longest: Duration) -> bool {
    let turn = begin(queue, seq);
    let waited = turn.wait_for(queue, longest);
    end(queue, &turn);
    waited.timed_out()
}

fn begin(queue: &mut Queue, seq: Seq) -> Arc<Condvar> {
    let turn = Arc::new(Condvar::new());
    queue.waiters.0.push(Waiter {
        seq,
        turn: turn.clone(),
    });
    turn
}

fn end(queue: &mut Queue, turn: &Arc<Condvar>) {
    queue.waiters.0.retain(|waiter| !Arc::ptr_eq(&waiter.turn, turn));
}

impl Queue {
    /// Wakes those whose records are durable and, where there is work for one more, the first of the others. Where something
    /// has failed or ended, it wakes all.
    pub(super) fn wake(&self, may_commit: bool) {
        let concerns_all = self.failed.is_some() || self.check_open().is_err();
        let mut may_commit = may_commit;
        for waiter in &self.waiters.0 {
            let is_reached = concerns_all || waiter.seq <= self.durable.seq;
            if is_reached || std::mem::take(&mut may_commit) {
                waiter.turn.notify_one();
            }
        }
    }
}
