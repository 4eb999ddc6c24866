//! The reader of a lane: it hands answers out, and when a link has ended it finds the next one and asks again.
//!
//! Invariant: whoever has sent a call over a link that ended is told, or asked for again over the next one.

use super::{Inner, Progress, REPEATS_MAX, Reply, Stage, closed, ended, too_late};
use crate::frame::Broken;
use crate::message::Answer;
use crate::owner::Error;
use crate::transport::link::{Incoming, Link};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How much later than it should the reader looks around where it must have slept.
const SLEEP_MIN: Duration = Duration::from_secs(10);

impl Inner {
    /// The reader's loop.
    pub(super) fn run(self: Arc<Self>, mut incoming: Incoming) {
        let _fuse = Fuse(&self);
        loop {
            let why = self.read_answers(&mut incoming);
            match self.mend(&incoming.link, &why) {
                Some(next) => incoming = next,
                None => return,
            }
        }
    }

    /// Hands answers out until the link ends; returns why it did.
    fn read_answers(&self, incoming: &mut Incoming) -> String {
        let mut looked = self.patience.clock.elapsed();
        let mut look = self.until(self.waits().silence);
        loop {
            match incoming.next() {
                Ok(Some(bytes)) => {
                    if !self.hand_out(bytes) {
                        return "the owner sent something that answers nothing".into();
                    }
                }
                Ok(None) => return "the owner has ended the connection".into(),
                Err(Broken::Stream(error)) if is_silence(&error) => {
                    look = Duration::ZERO;
                    if incoming.link.is_spent() && self.state.lock().waiting.is_empty() {
                        return "the owner does not read".into();
                    }
                    if !incoming.is_alive(|| self.is_wanted()) {
                        incoming
                            .link
                            .at()
                            .into_iter()
                            .for_each(|at| self.dial.was_silent(at));
                        return "the owner does not say that it is there".into();
                    }
                }
                Err(broken) => return broken.to_string(),
            }
            let now = self.patience.clock.elapsed();
            if now >= look {
                self.give_up_late(now, now.saturating_sub(looked));
                looked = now;
                look = self.until(self.waits().silence);
            }
        }
    }

    /// Tells whether anybody waits, or the lane must be there though nobody does.
    fn is_wanted(&self) -> bool {
        !self.state.lock().waiting.is_empty() || (self.purpose.is_needed)()
    }

    fn hand_out(&self, bytes: Vec<u8>) -> bool {
        let Ok(number) = Answer::peek(&bytes) else {
            return false;
        };
        self.state.lock().barren = 0;
        match self.take(number) {
            Some(waiting) => {
                (waiting.then)(Ok(Reply {
                    bytes,
                    was_repeated: waiting.repeats > 0,
                }));
                true
            }
            // It was given up, or answered over the link before.
            None => number < self.next.load(Ordering::Relaxed),
        }
    }

    /// Gives up calls that are late. Time in which this process did not run, as it or its machine slept, counts for none.
    fn give_up_late(&self, now: Duration, since_looked: Duration) {
        let mut state = self.state.lock();
        if since_looked > self.waits().silence + SLEEP_MIN {
            let waiting = state.waiting.values_mut();
            waiting.for_each(|waiting| waiting.until += since_looked);
        }
        let late = state.extract(|waiting| waiting.until <= now);
        drop(state);
        self.changed.notify_all();
        late.into_iter()
            .for_each(|waiting| waiting.tell_lost(&too_late()));
    }

    /// Goes on after a link has ended: tells those whose calls are not made again, and finds the next link if there are
    /// others, or the lane must be there.
    fn mend(&self, ended_link: &Link, why: &str) -> Option<Incoming> {
        ended_link.end();
        let mut state = self.state.lock();
        if matches!(state.stage, Stage::Closed) {
            drop(state);
            self.fail(&closed());
            return None;
        }
        let is_wanted =
            state.waiting.values().any(|waiting| waiting.kept.is_some()) || (self.purpose.is_needed)();
        state.stage = if is_wanted { Stage::Dialling } else { Stage::Down };
        state.barren += 1;
        let barren = state.barren;
        // Who is still writing learns it from that.
        let lost = state.extract(|waiting| waiting.kept.is_none() && waiting.progress != Progress::Writing);
        drop(state);
        self.changed.notify_all();
        lost.into_iter()
            .for_each(|waiting| waiting.tell_lost(&ended(why)));
        if !is_wanted {
            return None;
        }
        tracing::debug!(why, "dialling the owner again");
        let attempts = self.patience.redials_max.saturating_sub(barren - 1);
        self.redial(attempts, barren > 1)
    }

    /// Finds the next link and asks again over it; tells everybody when there is none.
    fn redial(&self, attempts: u32, rests_first: bool) -> Option<Incoming> {
        loop {
            let incoming = match self.dial(attempts, rests_first) {
                Ok(incoming) => incoming,
                Err(error) => {
                    self.fail(&error);
                    return None;
                }
            };
            if !self.ask_again(&incoming.link) {
                continue;
            }
            let mut state = self.state.lock();
            if matches!(state.stage, Stage::Closed) {
                drop(state);
                self.fail(&closed());
                return None;
            }
            state.begin(incoming.link.clone());
            drop(state);
            self.changed.notify_all();
            return Some(incoming);
        }
    }

    /// Makes every kept call again, in its order; returns false when the link has ended before.
    fn ask_again(&self, link: &Link) -> bool {
        let mut state = self.state.lock();
        let tired = state.extract(|waiting| waiting.repeats >= REPEATS_MAX);
        let kept = state.waiting.values_mut().filter_map(|waiting| {
            let kept = waiting.kept.clone()?;
            waiting.repeats += 1;
            waiting.progress = Progress::Sent;
            Some(kept)
        });
        let kept: Vec<_> = kept.collect();
        drop(state);
        tired
            .into_iter()
            .for_each(|waiting| waiting.tell_lost(&ended("each owner has ended before it answered")));
        kept.iter()
            .all(|call| link.write(&[call], self.patience.write_max).is_ok())
    }

    /// Tells everybody that there is no owner. Who is still writing learns it from that.
    fn fail(&self, error: &Error) {
        let mut state = self.state.lock();
        if !matches!(state.stage, Stage::Closed) {
            state.stage = Stage::Down;
        }
        let lost = state.extract(|waiting| waiting.kept.is_some() || waiting.progress != Progress::Writing);
        drop(state);
        self.changed.notify_all();
        lost.into_iter().for_each(|waiting| waiting.tell_lost(error));
    }
}

/// Tells everybody when the reader ends by a panic of somebody whom it told something.
struct Fuse<'a>(&'a Inner);

impl Drop for Fuse<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.state.lock();
            if let Some(link) = state.stage.link() {
                link.end();
            }
            if !matches!(state.stage, Stage::Closed) {
                state.stage = Stage::Down;
            }
            let untold = std::mem::take(&mut state.waiting);
            drop(state);
            self.0.changed.notify_all();
            // Who waits learns it by there being nobody left who could tell him.
            drop(untold);
        }
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
