//! Standing still: a branch that is held here becomes another state at its owner, such as what it was before.
//!
//! The owner says so by what this session hears. Nothing more is changed then, all that was done is shipped, and the owner is asked what
//! to do next until it says: to go on as before, or from what the branch has become. Whoever changes something waits meanwhile; reading
//! goes on. Invariant: between the last batch and the answer of an owner nothing is changed here, so nothing that was accepted is lost
//! by a turn; what is told here of it, such as the kernel, is told with no lock held and after changes go on.

use crate::branch::{Branch, Inner};
use crate::frays::Frays;
use crate::wait;
use parking_lot::{Condvar, Mutex, RwLockWriteGuard};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tenure_core::Altered;
use tenure_model::{Digest, Failure, Ino, Refusal, limits};
use tenure_wire::Error;
use tenure_wire::shared::{Heard, Next, Sharer, Stand};

/// How long is listened before the owner is asked again: one that has ended tells nothing.
const LISTEN_MAX: Duration = Duration::from_secs(10);
/// How often who waits looks whether his caller is still there.
const LOOK: Duration = Duration::from_millis(20);
/// How long is rested before an owner is asked again what to do next, at first and at most.
const REST_FIRST: Duration = Duration::from_micros(500);
const REST_MAX: Duration = Duration::from_millis(8);
/// How long is rested when the owner was not reached, or not all could be shipped.
const REST_FAILED: Duration = Duration::from_millis(100);
/// Times that what came meanwhile is shipped before it is given up for now: what was begun before is all that can come.
const TRIES_MAX: usize = 16;

/// Who knows what is open of a branch, and remembers what was told of it: a mount.
pub trait Company: Send + Sync {
    /// Returns the inodes that somebody may have open.
    fn known(&self) -> Vec<Ino>;

    /// Hears what is not any more as it was told, and returns once nobody is told it as it was.
    fn became(&self, altered: &Altered);
}

/// What is known of standing still.
#[derive(Default)]
pub(crate) struct Still {
    myself: OnceLock<Weak<Inner>>,
    company: OnceLock<Weak<dyn Company>>,
    /// Since when the owner is asked to tell.
    hearing: Mutex<Option<Duration>>,
    is_standing: AtomicBool,
    /// Guards nothing but the waiting for changes to go on.
    gate: Mutex<()>,
    opened: Condvar,
}

impl Branch {
    /// Has a mount asked what is open, and told what has become another under it.
    pub fn keep_company(&self, company: Weak<dyn Company>) {
        // The first one stays.
        let _ = self.inner.still.company.set(company);
    }
}

impl Inner {
    /// Hears from now on when the branch is to become another state.
    pub(crate) fn begin_hearing(self: &Arc<Self>) {
        let _ = self.still.myself.set(Arc::downgrade(self));
        self.hear();
    }

    /// Asks the owner to tell when this session is to stand still, unless it was asked just now.
    pub(crate) fn hear(&self) {
        let (Some(myself), Some(branch)) = (self.still.myself.get(), self.id) else {
            return;
        };
        let now = self.clock.elapsed();
        {
            let mut hearing = self.still.hearing.lock();
            if hearing.is_some_and(|since| now.saturating_sub(since) < LISTEN_MAX) {
                return;
            }
            *hearing = Some(now);
        }
        let who = Sharer {
            session: self.opened.session,
            branch,
        };
        let myself = Weak::clone(myself);
        let told = move |told: Result<Heard, Error>| {
            if let Some(inner) = myself.upgrade() {
                inner.note_heard(now, told);
            }
        };
        self.owner.hear(who, Box::new(told));
    }

    fn note_heard(self: Arc<Self>, since: Duration, told: Result<Heard, Error>) {
        {
            let mut hearing = self.still.hearing.lock();
            if *hearing == Some(since) {
                *hearing = None;
            }
        }
        let is_needed = told.is_ok_and(|heard| !heard.demands.is_empty());
        if !is_needed || self.waiting.is_stopped() || self.still.is_standing.swap(true, Ordering::SeqCst) {
            // Where it was not told, it asks again with its next renewal, or once it goes on.
            return;
        }
        let inner = Arc::clone(&self);
        let spawned = std::thread::Builder::new().name("stands".into()).spawn(move || {
            inner.stand_still();
            inner.still.is_standing.store(false, Ordering::SeqCst);
            inner.hear();
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "the branch cannot become another state now");
            self.still.is_standing.store(false, Ordering::SeqCst);
        }
    }

    /// Returns the state to change it; none while changes wait.
    pub(crate) fn changing_now(&self) -> Result<Option<RwLockWriteGuard<'_, crate::branch::State>>, Error> {
        let state = self.state.write();
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        if state.is_still {
            return Ok(None);
        }
        wait::before_acting()?;
        Ok(Some(state))
    }

    /// Waits until changes go on, for as long as a caller is waited for at most.
    pub(crate) fn until_going_on(&self) -> Result<(), Error> {
        let until = self.clock.elapsed() + limits::WAIT_MAX;
        loop {
            wait::before_waiting()?;
            let mut gate = self.still.gate.lock();
            if !self.state.read().is_still {
                return Ok(());
            }
            if self.clock.elapsed() >= until {
                let why = "the branch becomes another state, and its owner does not say so in time";
                return Err(Failure::DidNotHappen(why.into()).into());
            }
            self.still.opened.wait_for(&mut gate, LOOK);
        }
    }

    fn stand_still(&self) {
        self.state.write().is_still = true;
        match self.ship_all() {
            Ok(behind) => self.ask_what_next(behind),
            Err(error) => {
                tracing::debug!(%error, "not all is shipped, so the branch stays what it is for now");
                self.go_on();
                std::thread::sleep(REST_FAILED);
            }
        }
    }

    fn go_on(&self) {
        self.state.write().is_still = false;
        let _gate = self.still.gate.lock();
        self.still.opened.notify_all();
    }

    /// Ships all that was accepted; returns number and digest of the last batch.
    fn ship_all(&self) -> Result<(u64, Digest), Error> {
        for _ in 0..TRIES_MAX {
            self.settle_all()?;
            let mut shipping = self.shipping.lock();
            self.ship(&mut shipping)?;
            if shipping.has_all() && self.state.read().has_shipped() {
                return Ok(shipping.behind());
            }
        }
        Err(Failure::DidNotHappen("more comes all the time".into()).into())
    }

    fn ask_what_next(&self, behind: (u64, Digest)) {
        let who = Sharer {
            session: self.opened.session,
            branch: self.id.expect("what is held is a branch"),
        };
        let (mut tells, mut rest) = (true, REST_FIRST);
        while !self.waiting.is_stopped() && self.state.read().broken.is_none() {
            let known = std::mem::take(&mut tells).then(|| self.known());
            match self.owner.stand(who, &Stand::Still { behind, known }) {
                Ok(Next::Stay) => {
                    std::thread::sleep(rest);
                    rest = (rest * 2).min(REST_MAX);
                }
                Ok(Next::Tell) => tells = true,
                Ok(Next::Became { behind, state }) => match self.branch_of(state) {
                    Ok(branch) if self.take_turn(behind, &branch) => {
                        // It is asked nothing more, and says itself where it is.
                        if let Err(error) = self.owner.stand(who, &Stand::Gone) {
                            tracing::debug!(%error, "the owner learns with the next batch that this session goes on");
                        }
                        return;
                    }
                    Ok(_) | Err(_) => std::thread::sleep(REST_FAILED),
                },
                Err(Error::Refused(Refusal::Stale)) => self.break_down(Refusal::Stale.into()),
                // An owner that does not know what this means has let nothing become another.
                Ok(Next::GoOn) | Err(Error::Refused(_)) => break,
                Err(Error::Failed(_)) => std::thread::sleep(REST_FAILED),
            }
        }
        self.go_on();
    }

    fn known(&self) -> Vec<Ino> {
        self.company().map(|company| company.known()).unwrap_or_default()
    }

    fn company(&self) -> Option<Arc<dyn Company>> {
        self.still.company.get().and_then(Weak::upgrade)
    }

    /// Goes on from what the branch has become; false where what differs could not be read, and nothing was changed.
    fn take_turn(&self, behind: Digest, after: &tenure_core::Branch) -> bool {
        let before = self.state.read().branch.clone();
        let mut altered = Altered::new(before, after.clone());
        let (found, orphans) = (self.loading(|| altered.go_on()), self.loading(|| after.orphans()));
        let orphans = match found.and(orphans) {
            Ok(orphans) => orphans,
            Err(error) => {
                tracing::warn!(%error, "what the branch has become cannot be read now");
                return false;
            }
        };
        let known: BTreeSet<Ino> = self.known().into_iter().collect();
        {
            let mut shipping = self.shipping.lock();
            let mut state = self.state.write();
            assert!(state.has_shipped(), "nothing is changed while it stands still");
            shipping.go_on_behind(behind);
            state.branch = after.clone();
            state.frays = Frays::default();
        }
        self.go_on();
        if let Some(company) = self.company() {
            company.became(&altered);
        }
        for orphan in orphans.into_iter().filter(|orphan| !known.contains(orphan)) {
            self.note_ended(orphan);
        }
        true
    }

    /// Asks until no page is missing.
    fn loading<R>(&self, mut ask: impl FnMut() -> Result<R, tenure_core::Missing>) -> Result<R, Error> {
        loop {
            match ask() {
                Ok(answer) => return Ok(answer),
                Err(missing) => self.load(&missing)?,
            }
        }
    }
}
