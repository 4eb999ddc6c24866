//! The way of who shares a branch to its owner and back: each call takes time both ways, and meanwhile others go on.
//!
//! It asks again what `tenure_wire` asks again, over the same connection or the next, and may lie where a flaw is put in. Invariant:
//! a session says that it is there, and brings what it must, in no time: these hold what its other calls need.

use super::town::{Found, Town};
use crate::fault::Flaw;
use crate::random::Random;
use crate::shared::Way;
use crate::turns::Turn;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tenure_core::Branch;
use tenure_model::record::Plan;
use tenure_model::{
    Address, Attr, Batch, BranchId, BranchName, Clock, Epoch, Failure, Ino, InoRange, Locked, Refusal,
    SessionId,
};
use tenure_wire::shared::{
    Borrow, Borrowed, Brought, Deed, Heard, Kept, LockAsk, Look, Ordered, Seen, Sharer, Yield,
};
use tenure_wire::{
    Access, BranchInfo, CheckpointAsk, Chunk, Created, Delegation, DiffAsk, Differences, Done, Error,
    ForkAsk, Hold, Lent, MergeAsk, MergeTold, Opened, Owner, Placed, Placings, ReclaimAsk, ReclaimTold,
    ResolveAsk, Room, Salvaged, Shipped, Standings, Status, Turned, Usage, Who,
};

/// Times that one call is asked again, as in `tenure_wire`.
const REPEATS_MAX: u32 = 8;
/// One answer in so many is lost.
const ONE_LOST_IN: u64 = 30;
/// One act in so many comes a second time, much later.
const ONE_LATE_IN: u64 = 10;
/// For how long a session may say nothing without being silent, by any clock of the world.
const SILENCE_MAX: Duration = Duration::from_millis(4500);

/// The way of one session.
pub(super) struct Post {
    town: Arc<Town>,
    turn: Turn,
    is_cut_off: AtomicBool,
    state: Mutex<State>,
}

struct State {
    found: Option<Found>,
    /// When it was dialled in vain: it is dialled again a while later.
    in_vain: Option<Duration>,
    random: Random,
    /// The epoch of the owner that has answered last.
    answered: Epoch,
    /// How often one has answered what it was asked to look at or to change.
    answers: u64,
    /// When the newest owner has heard of the session last.
    heard: Duration,
    /// Acts that were done, on their way once more.
    late: Vec<(Sharer, u64, Deed)>,
    /// What was answered to looks, where a flaw remembers it.
    looked: BTreeMap<String, Seen>,
}

impl Post {
    pub(super) fn new(town: &Arc<Town>, turn: Turn, random: Random) -> Self {
        Self {
            town: town.clone(),
            turn,
            is_cut_off: AtomicBool::new(false),
            state: Mutex::new(State {
                found: None,
                in_vain: None,
                random,
                answered: Epoch(0),
                answers: 0,
                heard: town.clock().elapsed(),
                late: Vec::new(),
                looked: BTreeMap::new(),
            }),
        }
    }

    /// Cuts the session off from every server, or lets it come back.
    pub(super) fn cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, Ordering::Relaxed);
    }

    /// Lets an act that was done arrive once more, at whoever is the owner.
    pub(super) fn deliver_late(&self) {
        let Some((who, number, deed)) = self.state.lock().late.pop() else {
            return;
        };
        if let Some(found) = self.town.newest() {
            let again = found.owner.act(who, number, &deed, Hold::No);
            self.town.trace().note(format_args!(
                "  act {number} of {} comes again: {:?}",
                who.session.0,
                again.map(drop)
            ));
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.town.flaw() == Some(flaw)
    }

    /// Returns the owner at the other end of the connection, if it is still there.
    fn connected(&self) -> Option<Found> {
        let found = self.state.lock().found.clone();
        found.filter(|found| self.is_reached(found) && !found.machine.is_off())
    }

    fn is_reached(&self, found: &Found) -> bool {
        !self.is_cut_off.load(Ordering::Relaxed) && !self.town.is_cut_off(found.server)
    }

    /// Returns the owner, and dials where there is no connection.
    fn reach(&self) -> Option<Found> {
        if let Some(found) = self.connected() {
            return Some(found);
        }
        let in_vain = self.state.lock().in_vain;
        if self.is_cut_off.load(Ordering::Relaxed) || in_vain == Some(self.town.clock().elapsed()) {
            return None;
        }
        let mut random = Random::new(self.state.lock().random.next(), "dial");
        let found = self.town.find(&mut random);
        let mut state = self.state.lock();
        state.found = found.clone();
        state.in_vain = found.is_none().then(|| self.town.clock().elapsed());
        found
    }

    /// Makes a call that only an owner answers who knows what the session brings; again where its answer was lost, with the number of
    /// tries before.
    fn call<T>(&self, make: impl FnMut(&dyn Owner<Branch>, u32) -> Result<T, Error>) -> Result<T, Error> {
        let (epoch, answer) = self.made(make)?;
        if is_answered(&answer) {
            let mut state = self.state.lock();
            state.answered = state.answered.max(epoch);
        }
        answer
    }

    /// As `call`, of what any owner answers, whatever it knows of the session.
    fn call_any<T>(&self, mut make: impl FnMut(&dyn Owner<Branch>) -> Result<T, Error>) -> Result<T, Error> {
        self.made(|owner, _| make(owner))?.1
    }

    /// Makes a call until its answer comes; returns by which owner, and the answer.
    fn made<T>(
        &self,
        mut make: impl FnMut(&dyn Owner<Branch>, u32) -> Result<T, Error>,
    ) -> Result<(Epoch, Result<T, Error>), Error> {
        for tries in 0..=REPEATS_MAX {
            if !self.turn.pass() {
                return Err(ended());
            }
            let Some(found) = self.reach() else {
                return Err(Failure::DidNotHappen("no server was reached".into()).into());
            };
            let answer = make(&*found.owner, tries);
            if self.is_lost(&found, &answer) {
                continue;
            }
            self.note_heard(&found, &answer);
            if !self.turn.pass() {
                return Err(ended());
            }
            return Ok((found.epoch, answer));
        }
        Err(Failure::Unknown("every owner ends before it answers".into()).into())
    }

    /// Makes a call that takes no time, by which a session says that it is there.
    fn call_at_once<T>(&self, make: impl FnOnce(&dyn Owner<Branch>) -> Result<T, Error>) -> Result<T, Error> {
        let dialled = || self.town.newest().filter(|found| self.is_reached(found));
        let Some(found) = self.connected().or_else(dialled) else {
            return Err(Failure::DidNotHappen("no server was reached".into()).into());
        };
        let answer = make(&*found.owner);
        let is_lost = found.machine.is_off() || matches!(answer, Err(Error::Failed(Failure::Fenced(_))));
        self.state.lock().found = Some(found.clone()).filter(|_| !is_lost);
        if is_lost {
            return Err(Failure::DidNotHappen("the owner has ended".into()).into());
        }
        self.note_heard(&found, &answer);
        answer
    }

    /// Tells whether an answer does not arrive, because its owner or its connection has ended.
    fn is_lost<T>(&self, found: &Found, answer: &Result<T, Error>) -> bool {
        let has_ended = found.machine.is_off() || matches!(answer, Err(Error::Failed(Failure::Fenced(_))));
        let mut state = self.state.lock();
        let is_lost = has_ended || state.random.one_in(ONE_LOST_IN);
        if is_lost {
            state.found = None;
            self.town
                .trace()
                .note(format_args!("  an answer of {} is lost", found.server));
        }
        is_lost
    }

    /// Notes when the session was heard by whoever is the owner now.
    fn note_heard<T>(&self, found: &Found, answer: &Result<T, Error>) {
        let newest = self.town.newest();
        if is_answered(answer) && newest.is_none_or(|newest| newest.epoch <= found.epoch) {
            self.state.lock().heard = self.town.clock().elapsed();
        }
    }

    /// Returns the number under which an act is asked: where a flaw does acts twice, another one for each time.
    fn number(&self, number: u64, tries: u32) -> u64 {
        if self.has(Flaw::DoesTwice) {
            2 * number + u64::from(tries.min(1))
        } else {
            number
        }
    }
}

impl Way for Post {
    fn answered(&self) -> Epoch {
        self.state.lock().answered
    }

    fn answers(&self) -> u64 {
        self.state.lock().answers
    }

    fn was_silent(&self) -> bool {
        let heard = self.state.lock().heard;
        self.town.clock().elapsed().saturating_sub(heard) >= SILENCE_MAX
    }
}

/// Tells whether an answer comes from an owner that knows the session, and all that it brings.
fn is_answered<T>(answer: &Result<T, Error>) -> bool {
    !matches!(
        answer,
        Err(Error::Failed(_) | Error::Refused(Refusal::Stale | Refusal::Unjoined))
    )
}

fn ended() -> Error {
    Failure::Fenced("the process has ended".into()).into()
}

impl Owner<Branch> for Post {
    fn open(&self, who: &Who) -> Result<Opened, Error> {
        self.call(|owner, _| owner.open(who))
    }

    fn renew(&self, session: SessionId) -> Result<(), Error> {
        self.call_at_once(|owner| owner.renew(session))
    }

    fn close(&self, session: SessionId) -> Result<(), Error> {
        if self.has(Flaw::KeepsLocks) {
            return Ok(());
        }
        self.call(|owner, tries| again(owner.close(session), tries))
    }

    fn lend(&self, session: SessionId, name: &str, access: Access) -> Result<Lent<Branch>, Error> {
        self.call(|owner, _| owner.lend(session, name, access))
    }

    fn lend_inos(&self, session: SessionId) -> Result<InoRange, Error> {
        self.call_any(|owner| owner.lend_inos(session))
    }

    fn give_back(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        if self.has(Flaw::KeepsLocks) {
            return Ok(());
        }
        self.call(|owner, tries| again(owner.give_back(session, branch), tries))
    }

    fn act(&self, who: Sharer, number: u64, deed: &Deed, hold: Hold) -> Result<Ordered, Error> {
        let ordered = self.call(|owner, tries| {
            let ordered = owner.act(who, self.number(number, tries), deed, hold);
            match ordered {
                Err(Error::Refused(Refusal::Stale)) if self.has(Flaw::BelievesAnybody) => Ok(Ordered {
                    behind: None,
                    inode: None,
                }),
                ordered => ordered,
            }
        });
        let mut state = self.state.lock();
        state.answers += 1;
        if ordered.is_ok() && state.random.one_in(ONE_LATE_IN) {
            state.late.push((who, self.number(number, 0), deed.clone()));
        }
        ordered
    }

    fn order(&self, batch: &Batch) -> Result<Shipped, Error> {
        self.call(|owner, _| owner.order(batch))
    }

    fn look(&self, who: Sharer, look: &Look, asked: u64) -> Result<Seen, Error> {
        let question = format!("{look:?}");
        let seen = self.call(|owner, _| {
            let seen = owner.look(who, look, asked)?;
            let mut state = self.state.lock();
            match state.looked.get(&question).cloned() {
                Some(before) if state.random.one_in(2) => Ok(before),
                Some(_) | None => Ok(seen),
            }
        });
        let mut state = self.state.lock();
        state.answers += 1;
        if let (Ok(seen), true) = (&seen, self.has(Flaw::AnswersFromThePast)) {
            state.looked.insert(question, seen.clone());
        }
        seen
    }

    fn borrow(&self, who: Sharer, ask: &Borrow) -> Result<Borrowed<Branch>, Error> {
        self.call(|owner, _| owner.borrow(who, ask))
    }

    fn take_back(&self, who: Sharer, given: &Yield) -> Result<(), Error> {
        self.call(|owner, _| owner.take_back(who, given))
    }

    fn prolong(&self, who: Sharer) -> Result<Duration, Error> {
        if self.has(Flaw::ReliesForEver) {
            return Ok(Duration::ZERO);
        }
        // A program waits for the answer; who says that it is there does not.
        if !self.turn.pass() {
            return Err(ended());
        }
        let age = self.call_at_once(|owner| owner.prolong(who));
        if self.turn.pass() { age } else { Err(ended()) }
    }

    fn hear(&self, who: Sharer, told: Done<Heard>) {
        match self.connected() {
            Some(found) => found.owner.hear(who, told),
            None => told(Err(Failure::DidNotHappen("no server was reached".into()).into())),
        }
    }

    fn hold(&self, who: Sharer, ino: Ino) -> Result<Attr, Error> {
        self.call(|owner, _| {
            if !self.has(Flaw::HoldsNothing) {
                return owner.hold(who, ino);
            }
            match owner.look(who, &Look::Attr(ino), 0)? {
                Seen::Inode(_, attr) => Ok(attr),
                Seen::Entries(_) | Seen::Bytes(_) | Seen::Offset(_) | Seen::Totals { .. } => {
                    Err(Refusal::NotFound.into())
                }
            }
        })
    }

    fn let_go(&self, who: Sharer, inos: &[Ino]) -> Result<(), Error> {
        self.call(|owner, _| owner.let_go(who, inos))
    }

    fn sync(&self, who: Sharer) -> Result<(), Error> {
        self.call(|owner, _| {
            if self.has(Flaw::SyncsNothing) {
                owner.look(who, &Look::Totals, 0).map(drop)
            } else {
                owner.sync(who)
            }
        })
    }

    fn lock(&self, who: Sharer, ask: &LockAsk) -> Result<Locked, Error> {
        self.call(|owner, _| match owner.lock(who, ask)? {
            Locked::Blocked(_) if self.has(Flaw::LocksForAll) => Ok(Locked::Taken),
            locked @ (Locked::Taken | Locked::Blocked(_) | Locked::Queued | Locked::Deadlock) => Ok(locked),
        })
    }

    fn rejoin(&self, who: Sharer, brought: &Brought) -> Result<(), Error> {
        let Some(found) = self.connected() else {
            return Err(Failure::DidNotHappen("no server was reached".into()).into());
        };
        let kept = |kept: &Kept| Kept {
            number: self.number(kept.number, 0),
            ..kept.clone()
        };
        let (acts, batches) = match self.has(Flaw::BringsNothing) {
            true => (Vec::new(), Vec::new()),
            false => (brought.acts.iter().map(kept).collect(), brought.batches.clone()),
        };
        let brought = Brought {
            acts,
            batches,
            ..brought.clone()
        };
        found.owner.rejoin(who, &brought)
    }

    fn place(&self, session: SessionId, chunks: &[Chunk<'_>]) -> Result<Vec<Placed>, Error> {
        self.call_any(|owner| owner.place(session, chunks))
    }

    fn secure(&self, session: SessionId, places: &[Placed]) -> Result<(), Error> {
        self.call_any(|owner| owner.secure(session, places))
    }

    fn ship(&self, batch: Batch, _: Option<Branch>, done: Done<Shipped>) {
        done(self.call(|owner, _| {
            let (send, shipped) = mpsc::channel();
            let told = Box::new(move |outcome| drop(send.send(outcome)));
            owner.ship(batch.clone(), None, told);
            shipped.recv().expect("every batch is answered")
        }));
    }

    fn salvage(&self, batch: Batch, _: Option<Branch>, done: Done<Salvaged>) {
        done(self.call(|owner, _| {
            let (send, salvaged) = mpsc::channel();
            let told = Box::new(move |outcome| drop(send.send(outcome)));
            owner.salvage(batch.clone(), None, told);
            salvaged.recv().expect("every batch is answered")
        }));
    }

    fn take(&self, session: SessionId, name: &str) -> Result<(), Error> {
        self.call(|owner, _| owner.take(session, name))
    }

    fn delegations(&self) -> Result<Vec<Delegation>, Error> {
        self.call(|owner, _| owner.delegations())
    }

    fn page(&self, at: Address) -> Result<Vec<u8>, Error> {
        self.call_any(|owner| owner.page(at))
    }

    fn read(&self, at: Address, start: u32, out: &mut [u8]) -> Result<(), Error> {
        self.call_any(|owner| owner.read(at, start, out))
    }

    fn room(&self) -> Result<Room, Error> {
        self.call(|owner, _| owner.room())
    }

    fn fork(&self, ask: &ForkAsk) -> Result<Created, Error> {
        self.call(|owner, _| owner.fork(ask))
    }

    fn checkpoint(&self, ask: &CheckpointAsk) -> Result<Created, Error> {
        self.call(|owner, _| owner.checkpoint(ask))
    }

    fn rename(&self, name: &str, to: &BranchName) -> Result<(), Error> {
        self.call(|owner, _| owner.rename(name, to))
    }

    fn set_plan(&self, plan: Plan) -> Result<(), Error> {
        self.call(|owner, _| owner.set_plan(plan))
    }

    fn plan(&self) -> Result<Plan, Error> {
        self.call(|owner, _| owner.plan())
    }

    fn delete_branch(&self, name: &BranchName) -> Result<(), Error> {
        self.call(|owner, _| owner.delete_branch(name))
    }

    fn diff(&self, ask: &DiffAsk) -> Result<Differences, Error> {
        self.call(|owner, _| owner.diff(ask))
    }

    fn contents(&self, name: &str, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        self.call(|owner, _| owner.contents(name, ino, offset, len))
    }

    fn undo(&self, who: &Who, branch: &BranchName, to: &str) -> Result<Turned, Error> {
        self.call(|owner, _| owner.undo(who, branch, to))
    }

    fn merge(&self, who: &Who, ask: &MergeAsk) -> Result<MergeTold, Error> {
        self.call(|owner, _| owner.merge(who, ask))
    }

    fn conflicts(&self, name: &str, behind: Ino) -> Result<Standings, Error> {
        self.call(|owner, _| owner.conflicts(name, behind))
    }

    fn resolve(&self, who: &Who, ask: &ResolveAsk) -> Result<Turned, Error> {
        self.call(|owner, _| owner.resolve(who, ask))
    }

    fn branches(&self) -> Result<Vec<BranchInfo>, Error> {
        self.call(|owner, _| owner.branches())
    }

    fn status(&self) -> Result<Status, Error> {
        self.call(|owner, _| owner.status())
    }

    fn reclaim(&self, ask: ReclaimAsk) -> Result<ReclaimTold, Error> {
        self.call(|owner, _| owner.reclaim(ask))
    }

    fn forgo(&self, session: SessionId, said: Placings) -> Result<Placings, Error> {
        self.call_at_once(|owner| owner.forgo(session, said))
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.call(|owner, _| owner.usage())
    }

    fn fold(&self) -> Result<(), Error> {
        self.call(|owner, _| owner.fold())
    }

    fn check(&self, deep: bool) -> Result<Vec<String>, Error> {
        self.call(|owner, _| owner.check(deep))
    }
}

/// What ended something finds nothing left to end when it is asked again.
fn again(ended: Result<(), Error>, tries: u32) -> Result<(), Error> {
    match ended {
        Err(Error::Refused(Refusal::Stale)) if tries > 0 => Ok(()),
        ended => ended,
    }
}
