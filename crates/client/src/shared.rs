//! A branch that this session shares with others: the owner is asked for everything, and nothing is remembered here but what
//! must not be lost with it.
//!
//! What was done and is not known to be durable is kept, with what is open and locked: the next owner is brought it. Invariant:
//! an act has one number, whoever is asked and however often; and what nobody was answered is asked for again until it is.

mod act;
mod files;
mod locks;
mod open;
mod sync;

pub use locks::{Told, Wished};

use crate::branch::{Options, Threads, Unsynced};
use crate::wait;
use crate::wants::Waiting;
use crate::watch::{Renewed, watch};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tenure_core::Locks;
use tenure_model::{Clock, Failure, InoRange, Refusal, limits};
use tenure_wire::owner::Opened;
use tenure_wire::shared::{Brought, Deed, Kept, Place, Sharer};
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
        let inner = Arc::new(Inner {
            owner,
            clock,
            opened,
            who,
            options,
            state: Mutex::new(State {
                inos: lent.inos,
                last: 0,
                pending: BTreeMap::new(),
                bytes: 0,
                opens: open::Opens::default(),
                locks: Locks::default(),
                rejoined: 0,
                wishes: locks::Wishes::default(),
                broken: None,
            }),
            answered: Condvar::new(),
            waiting: Waiting::default(),
            rejoining: Mutex::new(()),
        });
        let threads = match options.threads {
            Threads::Started => {
                watch(&inner, inner.opened.session_ttl, Inner::renew);
                let syncing = Arc::clone(&inner);
                let syncer = std::thread::Builder::new()
                    .name("syncer".into())
                    .spawn(move || syncing.run_syncer());
                vec![syncer.expect("a process that mounts can start a thread")]
            }
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

    fn stop(&self) {
        self.inner.waiting.stop();
        for thread in self.threads.lock().drain(..) {
            // It has no state of its own that a panic there could leave behind.
            drop(thread.join());
        }
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

impl Inner {
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
        match self.owner.renew(self.opened.session) {
            Err(over @ Error::Refused(Refusal::Stale)) => {
                self.break_down(&over);
                Renewed::Ended
            }
            // Others wait for what it brings, also while nobody asks anything here.
            Err(Error::Refused(Refusal::Unjoined)) => match self.rejoin() {
                Ok(()) => Renewed::Again,
                Err(_) => Renewed::Ended,
            },
            // An owner that was not reached is asked again.
            Ok(()) | Err(_) => Renewed::Again,
        }
    }

    fn rest(&self) {
        if self.options.threads == Threads::Started {
            std::thread::sleep(AGAIN_REST);
        }
    }

    fn check(&self) -> Result<(), Error> {
        self.state.lock().broken.clone().map_or(Ok(()), Err)
    }

    /// Stops for good: everybody who asks is told why.
    fn break_down(&self, error: &Error) {
        let mut state = self.state.lock();
        if state.broken.is_none() {
            tracing::error!(%error, "this branch accepts nothing more");
            state.broken = Some(error.clone());
        }
        self.answered.notify_all();
    }

    /// Brings an owner that is new to this session what it must know.
    fn rejoin(&self) -> Result<(), Error> {
        let _alone = self.rejoining.lock();
        let brought = {
            let mut state = self.state.lock();
            state.rejoined += 1;
            let kept = |(number, pending): (&u64, &Pending)| Kept {
                number: *number,
                place: pending.place,
                deed: Deed::clone(&pending.deed),
            };
            Brought {
                open: state.opens.all(),
                locks: state.locks.all().copied().collect(),
                acts: state.pending.iter().map(kept).collect(),
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
        let state = self.state.lock();
        let oldest = state.pending.values().map(|pending| pending.since).min();
        let age = oldest.map_or(Duration::ZERO, |since| self.clock.elapsed().saturating_sub(since));
        Unsynced {
            ops: state.pending.len() as u64,
            bytes: 0,
            age,
        }
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
