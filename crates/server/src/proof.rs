//! What an owner makes sure of before it answers: that nobody before it may still answer, and that nobody has come after it.
//!
//! Where a lock keeps others away there is nothing to ask. Elsewhere an owner answers only while it has lately proved that its
//! epoch goes on: by a record that became durable, or by a look. Invariant: an answer that depends on the state leaves
//! within `owner_ttl` of such a proof, and no owner after this one acknowledges anything in that time.

use crate::drive::{Inner, Options, Threads};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tenure_journal::Journal;
use tenure_model::Failure;
use tenure_store::{Bucket, Signal};
use tenure_wire::Error;

/// How much the clocks of two machines may drift apart within `owner_ttl`: three in a hundred, a thousand times what clocks do.
const CLOCK_DRIFT: Duration = Duration::from_millis(50);
/// How often an owner in use looks whether it still is one.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is known of an owner's right to answer.
pub(crate) struct Proof {
    /// Where others may claim the drive at any time; none where a lock keeps them away.
    rivals: Option<Rivals>,
    /// Set from the moment on at which this owner lets the drive go.
    is_leaving: AtomicBool,
}

struct Rivals {
    journal: Weak<Journal>,
    /// Until when an owner before this one may still answer, by the clock.
    free_at: Option<Duration>,
    /// When it was looked last, in nanoseconds by the clock.
    looked: AtomicU64,
    signal: Arc<Signal>,
}

impl Proof {
    /// Begins with what taking the drive over has found.
    pub(crate) fn new(bucket: &dyn Bucket, journal: &Arc<Journal>, options: &Options) -> Self {
        let has_rivals = bucket.disk().is_none();
        let wait = options.owner_ttl + 2 * CLOCK_DRIFT;
        Self {
            rivals: has_rivals.then(|| Rivals {
                journal: Arc::downgrade(journal),
                free_at: journal.sealed_since().map(|sealed| sealed + wait),
                looked: AtomicU64::new(nanos(options.clock.elapsed())),
                signal: Arc::default(),
            }),
            is_leaving: AtomicBool::new(false),
        }
    }

    /// Answers nothing from now on, or again.
    pub(crate) fn leave(&self, is_leaving: bool) {
        self.is_leaving.store(is_leaving, Ordering::SeqCst);
    }

    /// Returns how many segments this owner has begun that the next one would read one by one.
    pub(crate) fn segments(&self) -> u64 {
        let journal = self.rivals.as_ref().and_then(|rivals| rivals.journal.upgrade());
        journal.map_or(0, |journal| journal.segments())
    }

    /// Ends the thread that looks.
    pub(crate) fn stop(&self) {
        if let Some(rivals) = &self.rivals {
            rivals.signal.end();
        }
    }
}

/// Starts the thread that looks, where looks are needed: nobody who asks has to wait for them then.
pub(crate) fn start(inner: &Arc<Inner>) -> Option<JoinHandle<()>> {
    let signal = inner.proof.rivals.as_ref()?.signal.clone();
    let owner = Arc::downgrade(inner);
    let run = move || {
        while signal.wait() {
            let Some(inner) = owner.upgrade() else { return };
            // Who asks next is told what has come of it, or looks again.
            let _ = inner.look();
        }
    };
    let thread = std::thread::Builder::new().name("tenure-look".into()).spawn(run);
    Some(thread.expect("a process that opens a drive can start a thread"))
}

impl Inner {
    /// Answers what depends on the drive's state.
    pub(crate) fn answer<R>(&self, ask: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        self.may_begin()?;
        self.proven(ask())
    }

    /// Answers what a record says that is durable, which proves it, and what is as good from any owner. Only a refusal depends on
    /// the state.
    pub(crate) fn change<R>(&self, ask: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        self.may_begin()?;
        match ask() {
            Ok(done) => Ok(done),
            Err(error) => self.proven(Err(error)),
        }
    }

    /// Fails where nothing is answered at all, and has an owner look now and then.
    pub(crate) fn may_begin(&self) -> Result<(), Error> {
        self.may_speak()?;
        if let Some(rivals) = &self.proof.rivals {
            self.look_now_and_then(rivals, self.options.clock.elapsed());
        }
        Ok(())
    }

    /// Fails while an owner before this one may still answer, and when this one lets the drive go.
    pub(crate) fn may_speak(&self) -> Result<(), Error> {
        self.is_staying()?;
        let Some(rivals) = &self.proof.rivals else {
            return Ok(());
        };
        let now = self.options.clock.elapsed();
        if let Some(left) = rivals.free_at.and_then(|free_at| free_at.checked_sub(now))
            && !left.is_zero()
        {
            return Err(Failure::DidNotHappen(format!(
                "the owner before this one may still answer for {} ms; ask again then",
                left.as_millis()
            ))
            .into());
        }
        Ok(())
    }

    /// Lets an answer go, once it is certain that this owner may give it. A failure says nothing about the state.
    pub(crate) fn proven<R>(&self, answer: Result<R, Error>) -> Result<R, Error> {
        if let Err(Error::Failed(_)) = answer {
            return answer;
        }
        self.is_staying()?;
        let Some(rivals) = &self.proof.rivals else {
            return answer;
        };
        // What has failed while it looked is tried once more, since the first try may only have been slow.
        for _ in 0..2 {
            let age = rivals.journal.upgrade().map(|journal| journal.proof_age());
            if age.is_some_and(|age| age < self.options.owner_ttl) {
                self.health.check()?;
                return answer;
            }
            self.look()?;
        }
        Err(Failure::DidNotHappen(format!(
            "{} answers so slowly that this server cannot prove that it still owns the drive; try again",
            self.bucket.describe()
        ))
        .into())
    }

    /// Returns how old the proof is by which this owner answers, in full milliseconds; nothing where a lock keeps others away.
    pub(crate) fn proof_age(&self) -> Duration {
        let journal = self.proof.rivals.as_ref().map(|rivals| rivals.journal.upgrade());
        let age = journal.map(|journal| journal.map_or(Duration::MAX, |journal| journal.proof_age()));
        age.map_or(Duration::ZERO, |age| {
            let millis = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            Duration::from_millis(millis.saturating_add(1))
        })
    }

    /// Finds out whether this owner still is one; it stops for good when it is not.
    pub(crate) fn look(&self) -> Result<(), Error> {
        let journal = self
            .proof
            .rivals
            .as_ref()
            .and_then(|rivals| rivals.journal.upgrade());
        let Some(journal) = journal else {
            return self.with(|live| live.journal().map(drop));
        };
        journal.look().map_err(|failure| match failure {
            Failure::Fenced(_) => {
                self.health.stop_after("its journal", &failure);
                self.health.check().expect_err("it has just stopped")
            }
            Failure::DidNotHappen(_)
            | Failure::Unknown(_)
            | Failure::Waits(_)
            | Failure::NoSpace(_)
            | Failure::Corrupt(_)
            | Failure::Newer(_) => Failure::DidNotHappen(format!(
                "it is not known whether this server still owns the drive: {failure}; try again"
            ))
            .into(),
        })
    }

    /// Returns how long it is until this owner may answer.
    pub(crate) fn time_to_wait(&self) -> Duration {
        let free_at = self.proof.rivals.as_ref().and_then(|rivals| rivals.free_at);
        free_at.map_or(Duration::ZERO, |free_at| {
            free_at.saturating_sub(self.options.clock.elapsed())
        })
    }

    fn is_staying(&self) -> Result<(), Error> {
        if self.proof.is_leaving.load(Ordering::SeqCst) {
            // Once it is closed it says so in its own words.
            self.health.check()?;
            return Err(Failure::DidNotHappen("the drive is being closed; open it again".into()).into());
        }
        Ok(())
    }

    /// While it is used an owner looks once a second, so that its answers need not wait for that, and who takes over need
    /// not race it.
    fn look_now_and_then(&self, rivals: &Rivals, now: Duration) {
        let (looked, now) = (rivals.looked.load(Ordering::Relaxed), nanos(now));
        let is_due = now.saturating_sub(looked) >= nanos(LOOK_EVERY);
        let is_mine = is_due
            && rivals
                .looked
                .compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !is_mine {
            return;
        }
        match self.options.threads {
            Threads::Started => rivals.signal.raise(),
            // Who asks is told what has come of it, or looks again.
            Threads::None => drop(self.look()),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
