//! Committing: what waits is sent as one group, and told when it and all before it are durable.
//!
//! Invariant: a group that failed is sent again as it was, before anything is told that lies behind it.

use super::order::Order;
use super::progress;
use super::queue::{Group, Queue};
use crate::manifest::Tier;
use crate::tier::FRAME_LEN;
use parking_lot::MutexGuard;
use tenure_model::{Failure, Seq};

/// Makes sure that a committer that panics leaves a journal that has stopped, not one that hangs.
struct Committing<'a>(&'a Order);

impl Order {
    /// Returns when every record up to `seq` is durable. The caller's own thread commits when nobody does,
    /// and then runs the callbacks of what it committed: hold no lock that they take.
    ///
    /// A failure leaves them waiting in their order, unless the journal has stopped: ask again to have it tried again.
    pub fn commit_through(&self, seq: Seq) -> Result<(), Failure> {
        let mut queue = self.queue.lock();
        let seq = seq.min(queue.last);
        let failures = queue.failures;
        loop {
            if queue.durable.seq >= seq {
                return Ok(());
            }
            if let (Some(failure), 0) = (&queue.stopped, queue.committers) {
                return Err(failure.clone());
            }
            if let Some(failure) = queue.failed.as_ref().filter(|_| queue.failures > failures) {
                return Err(failure.clone());
            }
            if !self.may_commit(&queue) {
                progress::wait(&mut queue, seq);
                continue;
            }
            queue.committers += 1;
            drop(queue);
            self.commit_until(Some(seq));
            queue = self.queue.lock();
        }
    }

    /// Commits everything that waits, unless somebody does so already.
    pub fn commit_waiting(&self) {
        let mut queue = self.queue.lock();
        if self.may_commit(&queue) {
            queue.committers += 1;
            drop(queue);
            self.commit_until(None);
        }
    }

    /// Tries again what failed, with pauses that grow, until it succeeds or the journal ends; where nobody but callers does
    /// so, does nothing.
    pub(super) fn heal(&self) {
        let Some((mut pause, longest)) = self.tier.pauses() else {
            return;
        };
        loop {
            let mut queue = self.queue.lock();
            // Whoever commits meanwhile ends the pause if it helps.
            loop {
                if queue.failed.is_none() || queue.stopped.is_some() || self.commit_signal.has_ended() {
                    return;
                }
                if progress::wait_for(&mut queue, Seq(0), pause) {
                    break;
                }
            }
            drop(queue);
            self.commit_waiting();
            pause = (pause * 2).min(longest);
        }
    }

    /// Finds out whether this epoch still goes on, and proves it: two small reads, or one while the last proof is younger than
    /// a second. `Failure::Fenced` when it does not go on: then the journal has stopped for good.
    ///
    /// While a drive is in use its owner looks once a second, so that who takes over need not race it for names.
    pub fn look(&self) -> Result<(), Failure> {
        if let Some(failure) = &self.queue.lock().stopped {
            return Err(failure.clone());
        }
        let looked = self.tier.look();
        if let Err(failure @ Failure::Fenced(_)) = &looked {
            let mut queue = self.queue.lock();
            queue.stop(failure.clone());
            self.refuse(queue);
            self.wake();
        }
        looked
    }

    /// Fails where the drive's lock keeps no other owner away any more. Stops nothing, so that whoever holds locks may ask.
    pub fn check_lock(&self) -> Result<(), Failure> {
        match self.tier.kind() {
            Tier::Folder => self.tier.look(),
            Tier::Bucket => Ok(()),
        }
    }

    /// Wakes all whom what has happened concerns.
    fn wake(&self) {
        let queue = self.queue.lock();
        queue.wake(self.may_commit(&queue));
    }

    fn may_commit(&self, queue: &Queue) -> bool {
        let sends_max = self.tier.sends_max();
        queue.committers < sends_max && queue.has_work(sends_max)
    }

    /// Commits group after group, until `seq` is durable, nothing waits, or a write fails. The caller has counted
    /// itself among the committers.
    fn commit_until(&self, seq: Option<Seq>) {
        let committing = Committing(self);
        let sends_max = self.tier.sends_max();
        loop {
            self.commit_group();
            let mut queue = self.queue.lock();
            let reached = seq.is_some_and(|seq| queue.durable.seq >= seq);
            let has_failed = queue.failed.is_some() && queue.stopped.is_none();
            let has_work = queue.has_work(sends_max);
            if reached || has_failed || !has_work {
                queue.committers -= 1;
                queue.wake(self.may_commit(&queue));
                drop(queue);
                std::mem::forget(committing);
                // What failed is tried again by the next caller, or by the journal's thread where it does so by itself.
                if has_work && (!has_failed || self.tier.pauses().is_some()) {
                    self.commit_signal.raise();
                }
                return;
            }
        }
    }

    /// Sends one group, and tells what is durable then. A journal that has stopped tells so instead.
    fn commit_group(&self) {
        let again = {
            let mut queue = self.queue.lock();
            if queue.stopped.is_some() {
                return self.refuse(queue);
            }
            queue.take_up_failed()
        };
        let number = match again {
            Some(number) => number,
            None => match self.form_group() {
                Ok(Some(number)) => number,
                Ok(None) => return,
                Err(failure) => {
                    let mut queue = self.queue.lock();
                    self.stop_where_gone(&mut queue, &failure);
                    queue.note_failure(failure);
                    if queue.stopped.is_some() {
                        self.refuse(queue);
                    }
                    return;
                }
            },
        };
        let outcome = self.tier.send(number);
        let mut queue = self.queue.lock();
        if let Err(failure) = &outcome {
            self.stop_where_gone(&mut queue, failure);
        }
        queue.note_outcome(number, outcome);
        if queue.stopped.is_some() {
            return self.refuse(queue);
        }
        while let Some(group) = queue.begin_telling() {
            drop(queue);
            let last = tell(group);
            queue = self.queue.lock();
            queue.end_telling();
            queue.durable = last;
            queue.wake(self.may_commit(&queue));
        }
    }

    /// Stops for good where somebody has removed the file that is written: written again, it would be nowhere. What a service says
    /// may be otherwise the next time.
    fn stop_where_gone(&self, queue: &mut Queue, failure: &Failure) {
        if matches!(failure, Failure::Corrupt(_)) && self.tier.kind() == Tier::Folder {
            queue.stop(failure.clone());
        }
    }

    /// Takes the records that go together, and fixes the bytes in which they are sent. Those for which that cannot be
    /// done go on waiting.
    fn form_group(&self) -> Result<Option<u64>, Failure> {
        let _alone = self.forming.lock();
        let first = self.queue.lock().first_len(self.tier.sends_max());
        let Some(first) = first else {
            return Ok(None);
        };
        let room = self.tier.make_ready(first)?;
        let records = self.queue.lock().take_group(room, FRAME_LEN);
        let (number, places) = self.tier.form(&records);
        self.queue.lock().note_sent(number, records, places);
        Ok(Some(number))
    }

    /// Tells everything that nobody sends why it will not become durable here.
    fn refuse(&self, mut queue: MutexGuard<'_, Queue>) {
        let why = queue
            .stopped
            .clone()
            .expect("only a journal that has stopped refuses");
        let refused = queue.take_untold();
        drop(queue);
        for waiting in refused {
            (waiting.done)(Err(why.clone()));
        }
    }
}

/// Runs the callbacks of a group, and returns its last place.
fn tell(group: Group) -> crate::Position {
    let last = *group.places.last().expect("a group has records");
    for (waiting, place) in group.records.into_iter().zip(group.places) {
        (waiting.done)(Ok(place));
    }
    last
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.committers -= 1;
        queue.end_telling();
        queue
            .stopped
            .get_or_insert_with(|| Failure::Unknown("a commit of the journal panicked".to_owned()));
        queue.wake(false);
    }
}
