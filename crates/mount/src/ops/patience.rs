//! How long a request may wait for an owner elsewhere while Linux holds a directory's lock for it: whoever needs another name of
//! that directory waits for the lock, and no signal ends that wait.
//!
//! Invariant: such a request is answered within `HOLD_MAX`; once one was given up, the next ones are not waited for at all, until
//! the owner has answered anything.

use super::waiting::Slot;
use crate::kernel::{Errno, Operation, Request};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Twice as long as a session may be silent before another may take its place: a server that is replaced is there by then.
const HOLD_MAX: Duration = Duration::from_secs(10);
/// How often is looked. Only time in which this process runs counts.
const TICK: Duration = Duration::from_millis(100);

/// Tells whether Linux holds the lock of a directory while it waits for the answer.
pub(super) fn holds_directory(request: &Request<'_>) -> bool {
    matches!(
        &request.operation,
        Operation::Lookup { .. }
            | Operation::Symlink { .. }
            | Operation::Mknod { .. }
            | Operation::Mkdir { .. }
            | Operation::Unlink { .. }
            | Operation::Rmdir { .. }
            | Operation::Rename { .. }
            | Operation::Link { .. }
            | Operation::Readdir { .. }
            | Operation::Readdirplus { .. }
    )
}

/// Those who wait with a directory's lock.
#[derive(Clone, Default)]
pub(super) struct Patience(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    holders: Vec<Holder>,
    /// Whether the owner has said nothing since somebody was given up.
    is_silent: bool,
    is_watched: bool,
}

struct Holder {
    ticks: u128,
    slot: Arc<Slot>,
    given_up: Box<dyn FnOnce() + Send>,
}

impl Patience {
    /// Tells whether it makes no sense to wait.
    pub(super) fn is_over(&self) -> bool {
        self.0.lock().is_silent
    }

    /// Hears that the owner has answered, or that it will not.
    pub(super) fn hear(&self) {
        self.0.lock().is_silent = false;
    }

    /// Gives a wait up in time; `given_up` is called then.
    pub(super) fn watch(&self, slot: Arc<Slot>, given_up: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        state.holders.push(Holder {
            ticks: HOLD_MAX.as_millis() / TICK.as_millis(),
            slot,
            given_up: Box::new(given_up),
        });
        if !state.is_watched {
            let patience = self.clone();
            let watching = move || {
                crate::kernel::serve_no_more();
                while patience.has_holders() {
                    std::thread::sleep(TICK);
                    patience.tick();
                }
            };
            // Without a thread they wait for as long as the owner's client does.
            state.is_watched = std::thread::Builder::new()
                .name("patience".into())
                .spawn(watching)
                .is_ok();
        }
    }

    fn has_holders(&self) -> bool {
        let mut state = self.0.lock();
        state.is_watched = !state.holders.is_empty();
        state.is_watched
    }

    fn tick(&self) {
        let mut state = self.0.lock();
        state.holders.retain_mut(|holder| {
            holder.ticks = holder.ticks.saturating_sub(1);
            !holder.slot.is_over()
        });
        let late = state.holders.extract_if(.., |holder| {
            holder.ticks == 0 && holder.slot.give_up(Errno::TIMEDOUT)
        });
        let late: Vec<_> = late.collect();
        state.is_silent |= !late.is_empty();
        drop(state);
        late.into_iter().for_each(|holder| (holder.given_up)());
    }
}

#[cfg(test)]
mod tests {
    use super::super::waiting::Waiting;
    use super::*;
    use crate::kernel::testing::line;
    use tenure_client::wait::Caller;

    const TICKS: u128 = HOLD_MAX.as_millis() / TICK.as_millis();

    fn holder(slot: Arc<Slot>) -> Holder {
        Holder {
            ticks: TICKS,
            slot,
            given_up: Box::new(|| {}),
        }
    }

    #[test]
    fn who_holds_a_directory_is_given_up_in_time_and_nobody_waits_behind_it() {
        let line = line();
        let waiting = Waiting::new(line.reply());
        let patience = Patience::default();
        patience.0.lock().holders.push(holder(waiting.caller()));
        (1..TICKS).for_each(|_| patience.tick());
        assert_eq!(line.answer(), None);
        assert!(!patience.is_over());
        patience.tick();
        assert_eq!(line.answer(), Some(-libc::ETIMEDOUT));
        assert!(patience.is_over() && !patience.has_holders());
        patience.hear();
        assert!(!patience.is_over());
        waiting.end(Ok(()));
        assert_eq!(line.answer(), None);
    }

    #[test]
    fn who_changes_something_is_not_given_up() {
        let line = line();
        let waiting = Waiting::new(line.reply());
        let caller = waiting.caller();
        assert!(caller.may_act());
        let patience = Patience::default();
        patience.0.lock().holders.push(holder(waiting.caller()));
        (0..2 * TICKS).for_each(|_| patience.tick());
        assert!(!patience.is_over() && patience.has_holders());
        waiting.end(Ok(()));
        assert_eq!(line.answer(), Some(0));
        patience.tick();
        assert!(!patience.has_holders());
    }
}
