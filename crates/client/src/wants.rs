//! What is wanted of the shipper and the settler, and where they wait for it.
//!
//! Invariant: what is wanted is noted under one lock, so a thread that is told is awake or finds it before it sleeps.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;
use tenure_model::{Failure, Ino};
use tenure_wire::{Done, Error};

/// What is on its way.
#[derive(Clone, Copy, Default)]
pub(crate) struct InFlight {
    pub(crate) ops: u64,
    pub(crate) contents: u64,
    pub(crate) since: Option<Duration>,
}

/// What a sync covers besides the order of all names.
pub(crate) enum Scope {
    File(Ino),
    /// Every file.
    Files,
    /// Every file, and what nobody can reach any more is gone: for who names or forks this state.
    All,
}

impl Scope {
    /// Returns what the sync of an inode covers: that of the root covers every file, because `sync` does not come here.
    pub(crate) fn of(ino: Ino) -> Self {
        if ino == Ino::ROOT {
            Scope::Files
        } else {
            Scope::File(ino)
        }
    }
}

pub(crate) struct Waiter {
    pub(crate) scope: Scope,
    /// Until when what failed is tried again for it, where that may heal by itself.
    pub(crate) until: Duration,
    pub(crate) done: Done<()>,
}

/// How long is rested before what failed is tried again for those who wait: a store or a server is asked twice a second.
const TRIED_REST: Duration = Duration::from_millis(500);

#[derive(Default)]
struct Wants {
    waiters: Vec<Waiter>,
    /// Whether all of them have been tried for in vain.
    tried: bool,
    changed: bool,
    hurry: bool,
    settle: bool,
    stopped: bool,
    in_flight: InFlight,
    /// Why the last thing that was shipped has to be shipped again: it is said once.
    fails: Option<Error>,
    trouble: Option<Error>,
}

/// Where the two threads are told what is wanted of them.
#[derive(Default)]
pub(crate) struct Waiting {
    wants: Mutex<Wants>,
    ship: Condvar,
    settle: Condvar,
}

impl Waiting {
    /// Says that there is something to ship within the lag.
    pub(crate) fn changed(&self) {
        let mut wants = self.wants.lock();
        if !wants.changed {
            wants.changed = true;
            self.ship.notify_one();
        }
    }

    /// Says that the log is so long that it should be shipped now.
    pub(crate) fn hurry(&self) {
        let mut wants = self.wants.lock();
        if !wants.hurry {
            wants.hurry = true;
            self.ship.notify_one();
        }
    }

    /// Asks the settler to make room on the stage.
    pub(crate) fn settle(&self) {
        let mut wants = self.wants.lock();
        if !wants.settle {
            wants.settle = true;
            self.settle.notify_one();
        }
    }

    /// Ends both threads.
    pub(crate) fn stop(&self) {
        self.wants.lock().stopped = true;
        self.ship.notify_all();
        self.settle.notify_all();
    }

    /// Tells whether it is time to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.wants.lock().stopped
    }

    /// Tells whether nobody asks for anything, and nothing that was asked has failed.
    pub(crate) fn is_idle(&self) -> bool {
        let wants = self.wants.lock();
        let asks = wants.hurry || wants.stopped || !wants.waiters.is_empty();
        !asks && wants.fails.is_none() && wants.trouble.is_none()
    }

    pub(crate) fn set_in_flight(&self, in_flight: InFlight) {
        self.wants.lock().in_flight = in_flight;
    }

    /// Says that nothing waits to be shipped again.
    pub(crate) fn set_shipped(&self) {
        self.wants.lock().fails = None;
    }

    /// Says why something waits to be shipped again; tells whether that is new.
    pub(crate) fn set_fails(&self, error: Error) -> bool {
        self.wants.lock().fails.replace(error).is_none()
    }

    pub(crate) fn in_flight(&self) -> InFlight {
        self.wants.lock().in_flight
    }

    pub(crate) fn trouble(&self) -> Option<Error> {
        self.wants.lock().trouble.clone()
    }

    /// Returns why what is not durable waits, if it does: said by the settler or by the shipper.
    pub(crate) fn reason(&self) -> Option<Error> {
        let wants = self.wants.lock();
        wants.fails.as_ref().or(wants.trouble.as_ref()).cloned()
    }

    pub(crate) fn set_trouble(&self, trouble: Option<Error>) {
        self.wants.lock().trouble = trouble;
    }

    /// Waits until the stage should be settled; false when it is time to end.
    pub(crate) fn until_settle(&self) -> bool {
        let mut wants = self.wants.lock();
        while !wants.settle && !wants.stopped {
            self.settle.wait(&mut wants);
        }
        wants.settle = false;
        !wants.stopped
    }

    /// Waits a while; false when it is time to end.
    pub(crate) fn rest(&self, time: Duration) -> bool {
        let mut wants = self.wants.lock();
        if !wants.stopped {
            self.settle.wait_for(&mut wants, time);
        }
        !wants.stopped
    }

    pub(crate) fn ask(&self, waiter: Waiter) {
        let mut wants = self.wants.lock();
        if wants.stopped {
            drop(wants);
            return (waiter.done)(Err(Failure::DidNotHappen("the branch is closed".into()).into()));
        }
        wants.waiters.push(waiter);
        wants.tried = false;
        self.ship.notify_one();
    }

    /// Takes back those who go on waiting after something was tried in vain; returns those who do not.
    pub(crate) fn wait_on(&self, waiters: Vec<Waiter>, now: Duration) -> Vec<Waiter> {
        let mut wants = self.wants.lock();
        if wants.stopped {
            return waiters;
        }
        let (waits, over): (Vec<_>, _) = waiters.into_iter().partition(|waiter| now < waiter.until);
        wants.tried = wants.waiters.is_empty();
        wants.waiters.extend(waits);
        over
    }

    /// Waits for the next thing to do; with changes that nobody waits for, no longer than `tick`.
    pub(crate) fn turn(&self, tick: Duration) -> Turn {
        let mut wants = self.wants.lock();
        loop {
            let is_asked = !wants.waiters.is_empty();
            if wants.hurry || (is_asked && (!wants.tried || wants.stopped)) {
                wants.hurry = false;
                return Turn::Ship(std::mem::take(&mut wants.waiters));
            }
            if wants.stopped {
                return Turn::End;
            }
            if is_asked {
                wants.tried = !self.ship.wait_for(&mut wants, TRIED_REST).timed_out();
            } else if !wants.changed {
                self.ship.wait(&mut wants);
            } else if self.ship.wait_for(&mut wants, tick).timed_out() {
                // Whoever changes something from here on says so again.
                wants.changed = false;
                return Turn::Look;
            }
        }
    }
}

/// What the shipper does next.
pub(crate) enum Turn {
    /// Ship what these want; without any, everything.
    Ship(Vec<Waiter>),
    /// Look whether something has waited for the lag.
    Look,
    /// End.
    End,
}
