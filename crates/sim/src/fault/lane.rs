//! The way from a client to the owner of its drive, as a client in another process has it: answers get lost on it, the
//! owner ends and the next one is asked again.
//!
//! It asks again what `tenure_wire` asks again, and tells that a call may have been done where that does. It also counts
//! the batches, for those who watch where one ended. Invariant: a client in the owner's own process loses no answer, and
//! ends with it.

use super::Machine;
use crate::random::Random;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use tenure_core::Branch;
use tenure_model::record::Plan;
use tenure_model::{Address, Batch, BranchId, BranchName, Failure, Ino, InoRange, Refusal, SessionId};
use tenure_wire::{
    Access, BranchInfo, CheckpointAsk, Chunk, Created, Delegation, DiffAsk, Differences, Done, Error,
    ForkAsk, Lent, MergeAsk, MergeTold, Opened, Owner, Placed, Placings, ReclaimAsk, ReclaimTold, ResolveAsk,
    Room, Salvaged, Shipped, Standings, Status, Turned, Usage, Who,
};

/// Times that one call is asked again, as in `tenure_wire`.
const REPEATS_MAX: u32 = 8;
/// One answer in so many is lost.
const ONE_LOST_IN: u64 = 40;

/// An owner with the machine that it runs on.
#[derive(Clone)]
pub(crate) struct Owning {
    pub(crate) owner: Arc<dyn Owner<Branch>>,
    pub(crate) machine: Machine,
}

/// Finds who owns the drive after its owner has ended; none when the client ends with it.
pub(crate) type Heir = Box<dyn FnMut() -> Option<Owning> + Send>;

/// A way to whoever owns the drive.
pub(crate) struct Lane {
    state: Mutex<State>,
    ships: AtomicU64,
    has_told_of_loss: AtomicBool,
}

struct State {
    owning: Owning,
    heir: Option<Heir>,
    random: Random,
    sessions: BTreeSet<SessionId>,
}

impl Lane {
    /// Leads to an owner; with an heir, the client outlives it.
    pub(crate) fn new(owning: Owning, heir: Option<Heir>, random: Random) -> Self {
        Self {
            state: Mutex::new(State {
                owning,
                heir,
                random,
                sessions: BTreeSet::new(),
            }),
            ships: AtomicU64::new(0),
            has_told_of_loss: AtomicBool::new(false),
        }
    }

    /// Tells whether the client can outlive the owner.
    pub(crate) fn has_heirs(&self) -> bool {
        self.state.lock().heir.is_some()
    }

    /// Finds the next owner, now that the last one has ended; with `sessions` they come back to it at once.
    pub(crate) fn inherit(&self, sessions: Sessions) -> bool {
        let mut state = self.state.lock();
        let Some(owning) = state.heir.as_mut().and_then(|heir| heir()) else {
            // The client ends as well, and must not go on with the next call.
            state.heir = None;
            return false;
        };
        state.owning = owning.clone();
        let known = state.sessions.clone();
        drop(state);
        if sessions == Sessions::ComeBack {
            for session in known {
                // One that is over is told so with its next call.
                let _ = owning.owner.renew(session);
            }
        }
        true
    }

    /// Has the owner hear that a session is there, whatever troubles other calls. One that is over is told so with its next call.
    pub(crate) fn hear(&self, session: SessionId) {
        let owning = self.state.lock().owning.clone();
        let _ = owning.owner.renew(session);
    }

    /// Returns how many batches were shipped.
    pub(crate) fn ships(&self) -> u64 {
        self.ships.load(Ordering::Relaxed)
    }

    /// Tells whether somebody was told since the last time that a call may have been done.
    pub(crate) fn take_told_of_loss(&self) -> bool {
        self.has_told_of_loss.swap(false, Ordering::Relaxed)
    }

    /// Makes a call that may be done twice; tells also whether it was.
    fn again<T>(&self, mut make: impl FnMut(&dyn Owner<Branch>) -> T) -> (T, bool) {
        for repeat in 0.. {
            let answer = self.ask(&mut make);
            if repeat == REPEATS_MAX || !self.is_lost() {
                return (answer, repeat > 0);
            }
        }
        unreachable!("the repeats are counted")
    }

    fn call<T>(&self, make: impl FnMut(&dyn Owner<Branch>) -> T) -> T {
        self.again(make).0
    }

    /// Makes a call that ends something: made twice, it finds nothing left to end.
    fn end(&self, make: impl FnMut(&dyn Owner<Branch>) -> Result<(), Error>) -> Result<(), Error> {
        match self.again(make) {
            (Err(Error::Refused(Refusal::Stale)), true) => Ok(()),
            (ended, _) => ended,
        }
    }

    /// Makes a call that must not be done twice.
    fn once<T>(&self, mut make: impl FnMut(&dyn Owner<Branch>) -> Result<T, Error>) -> Result<T, Error> {
        let answer = self.ask(&mut make);
        if !self.is_lost() {
            return answer;
        }
        self.has_told_of_loss.store(true, Ordering::Relaxed);
        Err(Failure::Unknown("the owner of the drive ended before it answered".to_owned()).into())
    }

    fn ask<T>(&self, make: &mut impl FnMut(&dyn Owner<Branch>) -> T) -> T {
        let owner = self.state.lock().owning.owner.clone();
        make(&*owner)
    }

    /// Tells whether the last answer did not arrive, and finds the next owner where the last one has ended.
    fn is_lost(&self) -> bool {
        let mut state = self.state.lock();
        if state.owning.machine.is_off() {
            drop(state);
            return self.inherit(Sessions::ComeBack);
        }
        state.heir.is_some() && state.random.one_in(ONE_LOST_IN)
    }
}

/// Whether the sessions of a client come to the next owner at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sessions {
    /// They do.
    ComeBack,
    /// Their process stands still.
    StayAway,
}

impl Owner<Branch> for Lane {
    fn open(&self, who: &Who) -> Result<Opened, Error> {
        let opened = self.call(|owner| owner.open(who))?;
        self.state.lock().sessions.insert(opened.session);
        Ok(opened)
    }

    fn renew(&self, session: SessionId) -> Result<(), Error> {
        self.call(|owner| owner.renew(session))
    }

    fn close(&self, session: SessionId) -> Result<(), Error> {
        let closed = self.end(|owner| owner.close(session));
        self.state.lock().sessions.remove(&session);
        closed
    }

    fn lend(&self, session: SessionId, name: &str, access: Access) -> Result<Lent<Branch>, Error> {
        self.call(|owner| owner.lend(session, name, access))
    }

    fn lend_inos(&self, session: SessionId) -> Result<InoRange, Error> {
        self.call(|owner| owner.lend_inos(session))
    }

    fn give_back(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        self.end(|owner| owner.give_back(session, branch))
    }

    fn place(&self, session: SessionId, chunks: &[Chunk<'_>]) -> Result<Vec<Placed>, Error> {
        self.call(|owner| owner.place(session, chunks))
    }

    fn secure(&self, session: SessionId, places: &[Placed]) -> Result<(), Error> {
        self.call(|owner| owner.secure(session, places))
    }

    fn ship(&self, batch: Batch, after: Option<Branch>, done: Done<Shipped>) {
        self.ships.fetch_add(1, Ordering::Relaxed);
        done(self.call(|owner| {
            let (send, shipped) = mpsc::channel();
            let told = Box::new(move |outcome| drop(send.send(outcome)));
            owner.ship(batch.clone(), after.clone(), told);
            shipped.recv().expect("every batch is answered")
        }));
    }

    fn salvage(&self, batch: Batch, after: Option<Branch>, done: Done<Salvaged>) {
        done(self.call(|owner| {
            let (send, salvaged) = mpsc::channel();
            let told = Box::new(move |outcome| drop(send.send(outcome)));
            owner.salvage(batch.clone(), after.clone(), told);
            salvaged.recv().expect("every batch is answered")
        }));
    }

    fn take(&self, session: SessionId, name: &str) -> Result<(), Error> {
        self.call(|owner| owner.take(session, name))
    }

    fn delegations(&self) -> Result<Vec<Delegation>, Error> {
        self.call(|owner| owner.delegations())
    }

    fn page(&self, at: Address) -> Result<Vec<u8>, Error> {
        self.call(|owner| owner.page(at))
    }

    fn read(&self, at: Address, start: u32, out: &mut [u8]) -> Result<(), Error> {
        self.call(|owner| owner.read(at, start, out))
    }

    fn room(&self) -> Result<Room, Error> {
        self.call(|owner| owner.room())
    }

    fn fork(&self, ask: &ForkAsk) -> Result<Created, Error> {
        self.once(|owner| owner.fork(ask))
    }

    fn checkpoint(&self, ask: &CheckpointAsk) -> Result<Created, Error> {
        self.once(|owner| owner.checkpoint(ask))
    }

    fn rename(&self, name: &str, to: &BranchName) -> Result<(), Error> {
        self.once(|owner| owner.rename(name, to))
    }

    fn set_plan(&self, plan: Plan) -> Result<(), Error> {
        self.call(|owner| owner.set_plan(plan))
    }

    fn plan(&self) -> Result<Plan, Error> {
        self.call(|owner| owner.plan())
    }

    fn delete_branch(&self, name: &BranchName) -> Result<(), Error> {
        self.once(|owner| owner.delete_branch(name))
    }

    fn diff(&self, ask: &DiffAsk) -> Result<Differences, Error> {
        self.call(|owner| owner.diff(ask))
    }

    fn contents(&self, name: &str, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        self.call(|owner| owner.contents(name, ino, offset, len))
    }

    fn undo(&self, who: &Who, branch: &BranchName, to: &str) -> Result<Turned, Error> {
        self.once(|owner| owner.undo(who, branch, to))
    }

    fn merge(&self, who: &Who, ask: &MergeAsk) -> Result<MergeTold, Error> {
        self.once(|owner| owner.merge(who, ask))
    }

    fn conflicts(&self, name: &str, behind: Ino) -> Result<Standings, Error> {
        self.call(|owner| owner.conflicts(name, behind))
    }

    fn resolve(&self, who: &Who, ask: &ResolveAsk) -> Result<Turned, Error> {
        self.once(|owner| owner.resolve(who, ask))
    }

    fn branches(&self) -> Result<Vec<BranchInfo>, Error> {
        self.call(|owner| owner.branches())
    }

    fn status(&self) -> Result<Status, Error> {
        self.call(|owner| owner.status())
    }

    fn reclaim(&self, ask: ReclaimAsk) -> Result<ReclaimTold, Error> {
        self.call(|owner| owner.reclaim(ask))
    }

    fn forgo(&self, session: SessionId, said: Placings) -> Result<Placings, Error> {
        self.call(|owner| owner.forgo(session, said))
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.call(|owner| owner.usage())
    }

    fn fold(&self) -> Result<(), Error> {
        self.call(|owner| owner.fold())
    }

    fn check(&self, deep: bool) -> Result<Vec<String>, Error> {
        self.call(|owner| owner.check(deep))
    }
}
