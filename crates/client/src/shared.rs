//! A branch that this session shares with others: the owner is asked for everything but what is lent, and nothing is remembered of
//! the rest but what must not be lost with it.
//!
//! What was done and is not known to be durable is kept, with what is open and locked: the next owner is brought it. What is lent is
//! changed as a branch that is held whole, on a copy (`held`). Invariant: an act has one number, whoever is asked and however often;
//! what nobody was answered is asked for again until it is; an act comes behind all that was done here before.

mod act;
mod files;
mod hear;
mod loan;
mod locks;
mod open;
mod sync;

pub use locks::{Told, Wished};

use crate::branch::{Branch, Options, Threads, Unsynced};
use crate::wait;
use crate::wants::Waiting;
use crate::watch::{Renewed, watch};
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tenure_core::Locks;
use tenure_model::{Clock, Failure, InoRange, Refusal, limits};
use tenure_store::Cache;
use tenure_wire::owner::Opened;
use tenure_wire::shared::{Brought, Deed, Demand, Kept, Place, Sharer};
use tenure_wire::{Access, Error, Owner};

/// How long is rested before what has failed is asked again.
const AGAIN_REST: Duration = Duration::from_millis(20);

type AnyOwner = Arc<dyn Owner<tenure_core::Branch>>;

/// An act that is not known to be durable.
struct Pending {
    deed: Arc<Deed>,
    /// Where the owner has ordered it, once that was answered.
    place: Option<Place>,
    since: Duration,
}

struct State {
    inos: InoRange,
    /// The number of the last act.
    last: u64,
    pending: BTreeMap<u64, Pending>,
    /// Bytes of what is pending, about.
    bytes: usize,
    opens: open::Opens,
    /// What is locked here.
    locks: Locks,
    /// Times that an owner was brought all this.
    rejoined: u64,
    wishes: locks::Wishes,
    hearing: hear::Hearing,
    borrowing: loan::Borrowing,
    /// Why nothing more is accepted here.
    broken: Option<Error>,
}

struct Inner {
    owner: AnyOwner,
    clock: Arc<dyn Clock>,
    opened: Opened,
    who: Sharer,
    options: Options,
    state: Mutex<State>,
    /// Told when an act was answered, or what is open was told.
    answered: Condvar,
    waiting: Waiting,
    /// Held by whoever brings the next owner what it must know.
    rejoining: Mutex<()>,
    myself: Weak<Inner>,
    /// What is lent, on a copy of the branch.
    held: Branch,
    /// Held by whoever borrows or gives back.
    lending: Mutex<()>,
    /// Held by all who change what is lent, and alone by who takes a new copy.
    still: RwLock<()>,
    /// Until when this session may rely on what is lent, by the clock.
    lease: Mutex<Duration>,
    demands: Mutex<Option<loan::Demands>>,
    demanded: Mutex<mpsc::Receiver<Vec<Demand>>>,
    /// Whether somebody does what others demand: nothing is borrowed before.
    is_tended: AtomicBool,
    /// Counts what the owner has said, and how much of that is durable.
    seen: AtomicU64,
    synced: AtomicU64,
}

/// A branch that this session shares.
pub struct SharedBranch {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SharedBranch {
    /// Asks the owner to let this session share a branch.
    pub fn join(
        owner: AnyOwner,
        clock: Arc<dyn Clock>,
        opened: Opened,
        name: &str,
        options: Options,
    ) -> Result<Self, Error> {
        let lent = owner.lend(opened.session, name, Access::Shared)?;
        let who = Sharer {
            session: opened.session,
            branch: lent.branch.ok_or(Refusal::ReadOnly)?,
        };
        let held = Branch::borrowing(
            Arc::clone(&owner),
            Arc::clone(&clock),
            opened.clone(),
            (who.branch, lent.hash_key),
            options,
        );
        let (demands, demanded) = mpsc::channel();
        let inner = Arc::new_cyclic(|myself| Inner {
            owner,
            clock,
            opened,
            who,
            options,
            state: Mutex::new(State::begin(lent.inos)),
            answered: Condvar::new(),
            waiting: Waiting::default(),
            rejoining: Mutex::new(()),
            myself: Weak::clone(myself),
            held,
            lending: Mutex::new(()),
            still: RwLock::new(()),
            lease: Mutex::default(),
            demands: Mutex::new(Some(demands)),
            demanded: Mutex::new(demanded),
            is_tended: AtomicBool::new(options.threads == Threads::Started),
            seen: AtomicU64::new(0),
            synced: AtomicU64::new(0),
        });
        let rejoining = Arc::downgrade(&inner);
        let rejoin = move || rejoining.upgrade().map_or(Ok(()), |inner| inner.rejoin());
        let set = inner.held.inner.rejoins.set(Box::new(rejoin));
        assert!(set.is_ok(), "it is set once");
        let threads = match options.threads {
            Threads::Started => inner.start(),
            Threads::None => Vec::new(),
        };
        Ok(Self {
            inner,
            threads: Mutex::new(threads),
        })
    }

    /// Says that this session is there, and tells an owner that is new to it what it brings: where threads were started, one does so
    /// all the time.
    pub fn renew(&self) {
        // Who asks next is told what came of it.
        let _ = self.inner.renew();
    }

    /// Does what others demand of this session, to which directories are lent from then on: where threads were started, they do so all
    /// the time.
    pub fn tend(&self) {
        self.inner.tend();
    }

    /// Has the packs of an owner elsewhere read from here, through a cache.
    pub fn read_through(&self, cache: Arc<Cache>) {
        self.inner.held.read_through(cache);
    }

    fn stop(&self) {
        self.inner.waiting.stop();
        self.inner.answered.notify_all();
        drop(self.inner.demands.lock().take());
        for thread in self.threads.lock().drain(..) {
            // It has no state of its own that a panic there could leave behind.
            drop(thread.join());
        }
        self.inner.held.stop();
    }
}

impl Drop for SharedBranch {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether a caller can be sent away between two tries of a question.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Callers {
    /// He can: nothing has happened.
    MayLeave,
    /// He stays: it may have happened.
    Stay,
}

impl State {
    fn begin(inos: InoRange) -> Self {
        State {
            inos,
            last: 0,
            pending: BTreeMap::new(),
            bytes: 0,
            opens: open::Opens::default(),
            locks: Locks::default(),
            rejoined: 0,
            wishes: locks::Wishes::default(),
            hearing: hear::Hearing::default(),
            borrowing: loan::Borrowing::default(),
            broken: None,
        }
    }
}

impl Inner {
    fn start(self: &Arc<Self>) -> Vec<JoinHandle<()>> {
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.into()).spawn(run);
            thread.expect("a process that mounts can start two threads")
        };
        watch(self, self.opened.session_ttl, Inner::renew);
        let (syncing, lending) = (Arc::clone(self), Arc::clone(self));
        vec![
            spawn("syncer", Box::new(move || syncing.run_syncer())),
            spawn("lender", Box::new(move || lending.answer_demands())),
        ]
    }

    /// Asks the owner; again where another one must be told first what this session brings, or what failed may succeed.
    fn ask<R>(
        &self,
        callers: Callers,
        ask: impl Fn(&dyn Owner<tenure_core::Branch>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.ask_then(callers, ask, |_, _| {})
    }

    /// As `ask`; notes what came of it before another owner can be brought what is known here.
    fn ask_then<R>(
        &self,
        callers: Callers,
        ask: impl Fn(&dyn Owner<tenure_core::Branch>) -> Result<R, Error>,
        note: impl FnOnce(&mut State, &Result<R, Error>),
    ) -> Result<R, Error> {
        let until = self.clock.elapsed() + limits::WAIT_MAX;
        loop {
            // What has broken the copy breaks this as well.
            drop(self.check());
            let rejoined = {
                let mut state = self.state.lock();
                if let Some(error) = state.broken.clone() {
                    let refused = Err(error);
                    note(&mut state, &refused);
                    return refused;
                }
                state.rejoined
            };
            match ask(&*self.owner) {
                // Where it is not taken, all is over here.
                Err(Error::Refused(Refusal::Unjoined)) => drop(self.rejoin()),
                Err(error @ Error::Refused(Refusal::Stale)) => self.break_down(&error),
                Err(error) if may_succeed(&error) && self.clock.elapsed() < until => {
                    self.rest();
                }
                answered => {
                    let mut state = self.state.lock();
                    // Else another owner was brought meanwhile that this was not answered, and is asked.
                    if state.rejoined == rejoined {
                        note(&mut state, &answered);
                        return answered;
                    }
                }
            }
            if callers == Callers::MayLeave {
                wait::before_waiting()?;
            }
        }
    }

    /// Says that this session is there.
    fn renew(&self) -> Renewed {
        if self.waiting.is_stopped() || self.check().is_err() {
            return Renewed::Ended;
        }
        let renewed = match self.has_nothing() {
            true => self.owner.renew(self.opened.session),
            false => self.keep_up(),
        };
        match renewed {
            Err(over @ Error::Refused(Refusal::Stale)) => {
                self.break_down(&over);
                Renewed::Ended
            }
            // Others wait for what it brings, also while nobody asks anything here.
            Err(Error::Refused(Refusal::Unjoined)) => match self.rejoin() {
                Ok(()) => Renewed::Again,
                Err(_) => Renewed::Ended,
            },
            Ok(()) => {
                self.held.inner.forgo();
                Renewed::Again
            }
            // An owner that was not reached is asked again.
            Err(_) => Renewed::Again,
        }
    }

    fn rest(&self) {
        if self.options.threads == Threads::Started {
            std::thread::sleep(AGAIN_REST);
        }
    }

    fn check(&self) -> Result<(), Error> {
        if let Some(error) = self.state.lock().broken.clone() {
            return Err(error);
        }
        match self.held.broken() {
            None => Ok(()),
            Some(error) => {
                self.break_down(&error);
                Err(error)
            }
        }
    }

    /// Stops for good: everybody who asks is told why.
    fn break_down(&self, error: &Error) {
        let mut state = self.state.lock();
        if state.broken.is_none() {
            tracing::error!(%error, "this branch accepts nothing more");
            state.broken = Some(error.clone());
        }
        drop(state);
        self.answered.notify_all();
        // What was changed here and not shipped is saved, if the session was taken for one that is gone.
        self.held.inner.break_down(error.clone());
    }

    /// Brings an owner that is new to this session what it must know.
    fn rejoin(&self) -> Result<(), Error> {
        let _alone = self.rejoining.lock();
        let brought = {
            let mut state = self.state.lock();
            state.rejoined += 1;
            state.borrowing.is_unsure = false;
            let kept = |(number, pending): (&u64, &Pending)| Kept {
                number: *number,
                place: pending.place,
                deed: Deed::clone(&pending.deed),
            };
            let acts = state.pending.iter().map(kept).collect();
            Brought {
                open: state.opens.tell_all(),
                locks: state.locks.all().copied().collect(),
                acts,
                claims: self.held.claims(),
                batches: self.held.kept(),
            }
        };
        match self.owner.rejoin(self.who, &brought) {
            Err(error @ Error::Refused(_)) => {
                self.break_down(&error);
                Err(error)
            }
            // Who asked asks again, and comes here again.
            Ok(()) | Err(Error::Failed(_)) => Ok(()),
        }
    }

    fn unsynced(&self) -> Unsynced {
        let held = self.held.unsynced();
        let state = self.state.lock();
        // What the owner has in order is not lost with the session.
        let is_over = state.broken == Some(Error::Refused(Refusal::Stale));
        let counts = |pending: &&Pending| !is_over || pending.place.is_none();
        let oldest = state.pending.values().map(|pending| pending.since).min();
        let age = oldest.map_or(Duration::ZERO, |since| self.clock.elapsed().saturating_sub(since));
        Unsynced {
            ops: state.pending.values().filter(counts).count() as u64 + held.ops,
            bytes: held.bytes,
            age: age.max(held.age),
        }
    }
}

/// The rests of who waits for another session, which was asked to ship or to give something back: short at first.
struct Rests<'a> {
    inner: &'a Inner,
    next: Duration,
    until: Duration,
}

impl<'a> Rests<'a> {
    const FIRST: Duration = Duration::from_micros(500);
    const MAX: Duration = Duration::from_millis(8);

    fn begin(inner: &'a Inner) -> Self {
        Rests {
            inner,
            next: Self::FIRST,
            until: inner.clock.elapsed() + limits::WAIT_MAX,
        }
    }

    /// Rests; fails where the caller was sent away, or it has lasted too long.
    fn rest(&mut self) -> Result<(), Error> {
        wait::before_waiting()?;
        if self.inner.clock.elapsed() >= self.until {
            let why = "another session does not give back in time what it has of the branch";
            return Err(Failure::DidNotHappen(why.into()).into());
        }
        match self.inner.options.threads {
            Threads::Started => std::thread::sleep(self.next),
            // Who is waited for may wait for this session.
            Threads::None => self.inner.tend(),
        }
        self.next = (self.next * 2).min(Self::MAX);
        Ok(())
    }
}

/// Tells whether what failed may succeed when it is asked again, with the same number.
fn may_succeed(error: &Error) -> bool {
    match error {
        Error::Failed(Failure::DidNotHappen(_) | Failure::Unknown(_) | Failure::Waits(_)) => true,
        Error::Failed(Failure::NoSpace(_) | Failure::Corrupt(_) | Failure::Newer(_) | Failure::Fenced(_))
        | Error::Refused(_) => false,
    }
}
