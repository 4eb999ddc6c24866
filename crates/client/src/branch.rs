//! A branch as this session holds it: its state, how it is read and changed, and its two threads.
//!
//! Invariant: the state's lock is never held while the owner is called.

use crate::damage::Damage;
use crate::ended::Ended;
use crate::forgo::Forgoing;
use crate::frays::Frays;
use crate::kept::{Counted, Kept};
use crate::lent::Lent as LentParts;
use crate::log::Log;
use crate::near::Near;
use crate::retained::Retained;
use crate::salvage::Salvage;
use crate::ship::{Cut, Shipping};
use crate::stage::Stage;
use crate::still::Still;
use crate::wait;
use crate::wants::Waiting;
use crate::warm::Noted;
use crate::watch::watch;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tenure_core::tree::{KNOWN_PAGE, Memory};
use tenure_core::{Missing, Totals, Tree, Undecided};
use tenure_model::codec::Malformed;
use tenure_model::{
    BranchId, Clock, Digest, Failure, Ino, InoRange, Refusal, SessionId, Timestamp, batch, limits,
};
use tenure_store::Cache;
use tenure_wire::owner::{Opened, Shared, identity};
use tenure_wire::{Access, Error, Lent, Owner, Room};

/// Pages that one op may have to load: a deep tree's paths and a huge file's extents, with a wide margin.
pub(crate) const LOADS_MAX: usize = 100_000;

/// The tier on which an owner has packs in memory until they are whole.
const HELD_TIER: &str = "bucket";

/// How a held branch behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The longest time between a change and its shipping when nobody syncs.
    pub lag_max: Duration,
    /// Staged bytes from which they are settled without being asked.
    pub stage_settle: u64,
    /// Staged bytes from which a writer waits.
    pub stage_max: u64,
    /// The longest that a sync waits for what may heal by itself on the way to where it is durable.
    pub sync_patience: Duration,
    /// Whether threads are started.
    pub threads: Threads,
}

/// Whether a held branch has threads of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// It has: one ships, one settles.
    Started,
    /// Everything is done by who calls, and by `step`; for the simulator.
    None,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            lag_max: Duration::from_secs(1),
            stage_settle: 4 << 20,
            stage_max: 64 << 20,
            sync_patience: limits::WAIT_MAX,
            threads: Threads::Started,
        }
    }
}

/// What was changed here and is not durable yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsynced {
    /// Number of ops.
    pub ops: u64,
    /// Bytes of contents.
    pub bytes: u64,
    /// Age of the oldest change.
    pub age: Duration,
}

/// Is told of each change, and when it is durable, so that somebody knows when this process is killed. It must be quick: all
/// others wait meanwhile.
pub trait Witness: Send + Sync {
    /// Hears of a change that is not durable.
    fn changed(&self);

    /// Hears that changes so far put so many bytes more into files: those are staged no more.
    fn settled(&self, bytes: u64);

    /// Hears that so many changes have become durable, and so many bytes that they put into files.
    fn shipped(&self, changes: u64, bytes: u64);

    /// Hears how many bytes of contents are staged now.
    fn staged(&self, bytes: u64);
}

/// Nobody.
impl Witness for () {
    fn changed(&self) {}

    fn settled(&self, _: u64) {}

    fn shipped(&self, _: u64, _: u64) {}

    fn staged(&self, _: u64) {}
}

pub(crate) struct State {
    pub(crate) branch: tenure_core::Branch,
    pub(crate) log: Log,
    /// Parts of the log that were set aside, oldest first: each becomes a batch, before the log does.
    pub(crate) cuts: VecDeque<Cut>,
    pub(crate) stage: Stage,
    pub(crate) frays: Frays,
    pub(crate) inos: InoRange,
    /// What of it is lent, where it is shared: the branch is a copy then.
    pub(crate) lent: Option<LentParts>,
    /// Whether changes wait, because the branch becomes another state at its owner.
    pub(crate) is_still: bool,
    /// Why nothing more is accepted here.
    pub(crate) broken: Option<Error>,
}

pub(crate) struct Inner {
    /// Whoever serves many callers asks by `asked`.
    pub(crate) owner: Arc<dyn Owner<tenure_core::Branch>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) witness: Arc<dyn Witness>,
    pub(crate) opened: Opened,
    /// What tells the drive from every other.
    pub(crate) drive: Digest,
    pub(crate) hash_key: [u8; 16],
    pub(crate) id: Option<BranchId>,
    pub(crate) options: Options,
    /// Whether the owner is in another process.
    pub(crate) is_elsewhere: bool,
    pub(crate) state: RwLock<State>,
    pub(crate) damage: Mutex<Damage>,
    pub(crate) waiting: Waiting,
    pub(crate) ended: Ended,
    pub(crate) shipping: Mutex<Shipping>,
    /// What has become of what was not shipped, should the branch be lost.
    pub(crate) salvage: Mutex<Salvage>,
    /// Batches that others may have seen and that may be lost with an owner; none where the branch is held whole.
    pub(crate) kept: Option<Kept>,
    /// What may be lost with an owner; none where packs are filled on a disk.
    pub(crate) retained: Option<Retained>,
    /// The owner's packs, where they are read from here.
    pub(crate) near: OnceLock<Near>,
    pub(crate) noted: Noted,
    pub(crate) still: Still,
    pub(crate) forgoing: Forgoing,
    /// Guards nothing but the waiting for a file that another thread settles, or for room on the stage.
    pub(crate) settling: Mutex<()>,
    pub(crate) settled: Condvar,
    /// Brings an owner that is new to a session which shares the branch what it must know.
    pub(crate) rejoins: OnceLock<Box<dyn Fn() -> Result<(), Error> + Send + Sync>>,
}

/// What a branch begins with.
struct Begin {
    id: Option<BranchId>,
    hash_key: [u8; 16],
    inos: InoRange,
    branch: tenure_core::Branch,
    lent: Option<LentParts>,
    broken: Option<Error>,
    is_elsewhere: bool,
}

/// A branch that this session holds, or a state that it reads.
pub struct Branch {
    pub(crate) inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Branch {
    /// Asks the owner for a branch, or for what a branch or checkpoint is now.
    pub fn hold(
        owner: Arc<dyn Owner<tenure_core::Branch>>,
        (clock, witness): (Arc<dyn Clock>, Arc<dyn Witness>),
        opened: Opened,
        (name, access): (&str, Access),
        options: Options,
    ) -> Result<Self, Error> {
        let Lent {
            branch: id,
            hash_key,
            inos,
            state,
        } = owner.lend(opened.session, name, access)?;
        let is_elsewhere = matches!(state, Shared::Stored { .. });
        let branch = match state {
            Shared::Here(branch) => branch,
            Shared::Stored { root, inodes, bytes } => tenure_core::Branch::stored(
                hash_key,
                Tree::stored(root, &Memory::new()),
                Totals { inodes, bytes },
            ),
            // Asked for with `Access::Shared`, which is for `SharedBranch`.
            Shared::Kept => return Err(Refusal::InvalidArgument.into()),
        };
        let broken = (access == Access::Read).then_some(Error::Refused(Refusal::ReadOnly));
        let begin = Begin {
            id,
            hash_key,
            inos,
            branch,
            lent: None,
            broken,
            is_elsewhere,
        };
        let inner = Inner::begun(owner, (clock, witness), opened, options, begin);
        let threads = match (access, options.threads) {
            (Access::Exclusive, Threads::Started) => {
                watch(&inner, inner.opened.session_ttl, Inner::renew);
                inner.begin_hearing();
                inner.threads()
            }
            (Access::Read, Threads::Started) if is_elsewhere => {
                // What it reads is kept for it as long as it is heard.
                watch(&inner, inner.opened.session_ttl, Inner::stay);
                Vec::new()
            }
            (Access::Read | Access::Shared, _) | (_, Threads::None) => Vec::new(),
        };
        Ok(Branch {
            inner,
            threads: Mutex::new(threads),
        })
    }

    /// Begins with nothing of a branch that is shared: parts of it are lent later. Who has it says that the session is there.
    pub(crate) fn borrowing(
        owner: Arc<dyn Owner<tenure_core::Branch>>,
        clock: Arc<dyn Clock>,
        opened: Opened,
        (id, hash_key): (BranchId, [u8; 16]),
        options: Options,
    ) -> Self {
        let nowhere = Ino(0);
        let begin = Begin {
            id: Some(id),
            hash_key,
            inos: InoRange {
                next: nowhere,
                end: nowhere,
            },
            branch: tenure_core::Branch::stored(hash_key, Tree::new(), Totals::default()),
            lent: Some(LentParts::nothing(opened.session)),
            broken: None,
            is_elsewhere: true,
        };
        let inner = Inner::begun(owner, (clock, Arc::new(())), opened, options, begin);
        let threads = match options.threads {
            Threads::Started => inner.threads(),
            Threads::None => Vec::new(),
        };
        Branch {
            inner,
            threads: Mutex::new(threads),
        }
    }

    /// Has the packs of an owner elsewhere read from here, through a cache; an owner in this process reads them itself.
    pub fn read_through(&self, cache: Arc<Cache>) {
        let inner = &self.inner;
        if inner.is_elsewhere {
            inner
                .near
                .get_or_init(|| Near::new(Arc::clone(&inner.owner), cache));
        }
    }

    /// Returns the session that holds it.
    pub fn session(&self) -> SessionId {
        self.inner.opened.session
    }

    /// Returns what tells its drive from every other, also of the same name.
    pub fn drive(&self) -> Digest {
        self.inner.drive
    }

    /// Returns what tells the branch from every other of any drive; none for a checkpoint.
    pub fn identity(&self) -> Option<(Digest, BranchId)> {
        Some((self.inner.drive, self.inner.id?))
    }

    /// Returns what the owner said when the session was opened.
    pub fn opened(&self) -> &Opened {
        &self.inner.opened
    }

    /// Returns what the branch holds in all.
    pub fn totals(&self) -> Totals {
        self.inner.state.read().branch.totals()
    }

    /// Returns what is free in the bucket.
    pub fn room(&self) -> Result<Room, Error> {
        self.inner.asked()?.room()
    }

    /// Returns what is not durable yet.
    pub fn unsynced(&self) -> Unsynced {
        self.inner.unsynced()
    }

    /// Returns why nothing more is accepted here, if so.
    pub fn broken(&self) -> Option<Error> {
        self.inner.state.read().broken.clone()
    }

    /// Returns why what is not durable waits for the bucket, if it does.
    pub fn trouble(&self) -> Option<Error> {
        self.inner.waiting.reason()
    }

    /// Makes everything durable, gives the branch back and ends the session. What a lost branch has not shipped is saved first.
    pub fn close(&self) -> Result<(), Error> {
        let inner = &self.inner;
        if inner.is_lost() {
            inner.save();
            self.stop();
            return Err(Refusal::Stale.into());
        }
        let holds = inner
            .id
            .filter(|_| self.broken() != Some(Error::Refused(Refusal::ReadOnly)));
        let synced = holds.map_or(Ok(()), |_| self.sync_all());
        if holds.is_some() && synced.is_ok() && inner.merge_all() {
            // Everything is durable already, if not in its last shape.
            drop(self.sync_all());
        }
        self.stop();
        let returned = match (&synced, holds) {
            (Ok(()), Some(id)) => inner.owner.give_back(inner.opened.session, id),
            (Ok(()), None) | (Err(_), _) => Ok(()),
        };
        let closed = match &returned {
            // An owner that has not answered once is not waited for again: it hears of the end by its silence.
            Err(Error::Failed(_)) => Ok(()),
            Ok(()) | Err(Error::Refused(_)) => inner.owner.close(inner.opened.session),
        };
        let closed = match closed {
            // A session that holds nothing and says nothing ends by itself.
            Err(Error::Refused(Refusal::Stale)) if holds.is_none() => Ok(()),
            closed => closed,
        };
        synced.and(returned).and(closed)
    }

    pub(crate) fn stop(&self) {
        self.inner.waiting.stop();
        for thread in self.threads.lock().drain(..) {
            // A panic there has broken the branch already, and said so.
            drop(thread.join());
        }
        // Another thread may be shipping; from here on none begins.
        drop(self.inner.shipping.lock());
    }
}

impl Drop for Branch {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Inner {
    fn begun(
        owner: Arc<dyn Owner<tenure_core::Branch>>,
        (clock, witness): (Arc<dyn Clock>, Arc<dyn Witness>),
        opened: Opened,
        options: Options,
        begin: Begin,
    ) -> Arc<Self> {
        let Begin {
            id,
            hash_key,
            inos,
            branch,
            lent,
            broken,
            is_elsewhere,
        } = begin;
        let state = State {
            branch,
            log: Log::default(),
            cuts: VecDeque::new(),
            stage: Stage::default(),
            frays: Frays::default(),
            inos,
            lent,
            is_still: false,
            broken,
        };
        // A state that is only read ships nothing, and of a branch that is shared the owner says it later.
        let chain_start = batch::chain_start(opened.session, id.unwrap_or_default(), inos.next);
        let retained = (opened.tier == HELD_TIER).then(Retained::default);
        let kept = state.lent.is_some().then(Kept::default);
        Arc::new(Inner {
            owner,
            clock,
            witness,
            opened,
            drive: identity(&hash_key),
            hash_key,
            id,
            options,
            is_elsewhere,
            state: RwLock::new(state),
            damage: Mutex::default(),
            waiting: Waiting::default(),
            ended: Ended::default(),
            shipping: Mutex::new(Shipping::begin(chain_start)),
            salvage: Mutex::default(),
            kept,
            retained,
            near: OnceLock::new(),
            noted: Noted::default(),
            still: Still::default(),
            forgoing: Forgoing::default(),
            settling: Mutex::new(()),
            settled: Condvar::new(),
            rejoins: OnceLock::new(),
        })
    }

    fn threads(self: &Arc<Self>) -> Vec<JoinHandle<()>> {
        let spawn = |name: &str, run: fn(&Inner)| {
            let inner = Arc::clone(self);
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || run(&inner))
                .expect("a process that mounts can start two threads")
        };
        vec![
            spawn("shipper", Inner::run_shipper),
            spawn("settler", Inner::run_settler),
        ]
    }

    /// Tells whether there is a network between here and where things become durable.
    pub(crate) fn is_far(&self) -> bool {
        self.is_elsewhere || self.opened.tier == HELD_TIER
    }

    pub(crate) fn unsynced(&self) -> Unsynced {
        // What the owner has in order is not lost with the branch.
        let kept = if self.is_lost() {
            Counted::default()
        } else {
            self.counted()
        };
        let (ops, bytes) = {
            let state = self.state.read();
            let in_flight = self.waiting.in_flight();
            let logs = || state.cuts.iter().map(|(log, _)| log).chain([&state.log]);
            let contents = logs().map(|log| log.contents).sum::<u64>() + in_flight.contents;
            (
                logs().map(|log| log.count).sum::<u64>() + in_flight.ops + kept.ops,
                contents + state.stage.bytes() + kept.contents,
            )
        };
        let is_any = ops > 0 || bytes > 0;
        let age = self.waits_for().filter(|_| is_any).unwrap_or_default();
        Unsynced { ops, bytes, age }
    }

    fn counted(&self) -> Counted {
        self.kept.as_ref().map(Kept::counted).unwrap_or_default()
    }

    /// Returns for how long the oldest of what is not durable has waited, also what nobody would miss.
    pub(crate) fn waits_for(&self) -> Option<Duration> {
        let state = self.state.read();
        let first_cut = state.cuts.front().and_then(|(log, _)| log.oldest());
        let in_flight = self.waiting.in_flight().since;
        let kept = self.counted().since;
        let all = [
            first_cut,
            state.log.oldest(),
            state.stage.oldest(),
            in_flight,
            kept,
        ];
        let oldest = all.into_iter().flatten().min()?;
        Some(self.clock.elapsed().saturating_sub(oldest))
    }

    /// Tells whether something has waited for the lag, or will have within `tick`.
    pub(crate) fn is_lag_over(&self, tick: Duration) -> bool {
        self.waits_for()
            .is_some_and(|age| age + tick >= self.options.lag_max)
    }

    /// Returns the owner for a call that is waited for; fails where it is elsewhere and the calling thread may not wait.
    pub(crate) fn asked(&self) -> Result<&dyn Owner<tenure_core::Branch>, Error> {
        if self.is_elsewhere {
            wait::before_waiting()?;
        }
        Ok(&*self.owner)
    }

    pub(crate) fn load(&self, missing: &Missing) -> Result<(), Error> {
        let near = self.near.get().map_or(Ok(None), |near| near.page(missing.at()))?;
        let page = near.map_or_else(|| self.asked()?.page(missing.at()), Ok);
        let supplied = page.and_then(|bytes| {
            missing.supply(&bytes).map_err(|Malformed { what }| {
                let at = missing.at();
                let page = format!("page {} of pack {}", at.digest, at.pack);
                if what == KNOWN_PAGE {
                    return Failure::newer(format_args!("{page}: it is of another kind or version")).into();
                }
                Failure::Corrupt(format!("{page}: malformed {what}")).into()
            })
        });
        supplied.inspect_err(|error| self.note_damage(error, None))
    }

    /// Reads the state, with every page that the reading needs.
    pub(crate) fn read<R>(&self, read: impl Fn(&State) -> Result<R, Undecided>) -> Result<R, Error> {
        for _ in 0..LOADS_MAX {
            let missing = match read(&self.state.read()) {
                Ok(answer) => return Ok(answer),
                Err(Undecided::Refused(refusal)) => return Err(refusal.into()),
                Err(Undecided::Missing(missing)) => missing,
            };
            self.load(&missing)?;
        }
        Err(too_many_loads())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Takes the number of an inode that is about to be made.
    pub(crate) fn take_ino(state: &mut State) -> Option<Ino> {
        state.inos.take()
    }

    /// Borrows more inode numbers when they run out.
    pub(crate) fn lend_inos(&self) -> Result<(), Error> {
        let lent = self.asked()?.lend_inos(self.opened.session)?;
        let mut state = self.state.write();
        if state.inos.next == state.inos.end {
            state.inos = lent;
        }
        Ok(())
    }

    /// Stops for good: nothing more is accepted, and everybody who asks is told why.
    pub(crate) fn break_down(&self, error: Error) {
        let mut state = self.state.write();
        if state.broken.is_none() {
            tracing::error!(%error, "this branch accepts nothing more");
            state.broken = Some(error);
            drop(state);
            // What was accepted may still be saved.
            self.waiting.hurry();
        }
    }
}

pub(crate) fn too_many_loads() -> Error {
    Failure::DidNotHappen(format!("an operation needed more than {LOADS_MAX} pages")).into()
}
