//! A drive that is open here: what belongs to it, and the calls of [`Owner`] that it answers.
//!
//! Each call is done in the file of its name. Invariant: a drive that was closed answers nothing more, and one that has stopped
//! nothing but what packs hold, which never changes.

use crate::health::Health;
use crate::holds::Holds;
use crate::load::Loader;
use crate::order::{Live, Places};
use crate::place::Filling;
use crate::proof::{self, Proof};
use crate::reclaim::{Stale, Sweep};
use crate::state::News;
use crate::work::{self, Work};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tenure_core::Branch;
use tenure_core::tree::Memory;
use tenure_journal::{Draw, Sizes as JournalSizes};
use tenure_model::record::Plan;
use tenure_model::{
    Address, Attr, Batch, BranchId, BranchName, Clock, Digest, DriveName, Epoch, Failure, Ino, InoRange,
    Locked, PackNumber, Seq, SessionId,
};
use tenure_store::pack::{PackName, Packs, Sizes as PackSizes};
use tenure_store::{Bucket, Cache};
use tenure_wire::owner::SESSION_TTL;
use tenure_wire::shared::{
    Borrow, Borrowed, Brought, Deed, Heard, LockAsk, Look, Next, Ordered, Seen, Sharer, Stand, Yield,
};
use tenure_wire::{
    AcceptAsk, Access, BranchInfo, CheckpointAsk, Chunk, Created, Delegation, DiffAsk, Differences, Done,
    Error, ForkAsk, Hold, Lent, MarkAsk, Marked, MergeAsk, MergeTold, Opened, Owner, Placed, Placings,
    ReclaimAsk, ReclaimTold, ResolveAsk, RestoreAsk, Room, Salvaged, SealedPack, ServerAddress, Shipped,
    Standings, Status, Turned, Usage, Verified, Who, identity,
};

/// Bytes of records after which they are folded: replaying them takes a fraction of a second.
const FOLD_BYTES: u64 = 32 << 20;
/// Bytes of pages in memory from which some are evicted.
const PAGE_BYTES_MAX: usize = 256 << 20;
/// Bytes that were written or deleted after which it is looked what nothing needs: less is not worth looking at everything.
const RECLAIM_BYTES: u64 = 64 << 20;
/// How long an owner answers after it was certain that it is one, where no lock says so. Looks come once a second, and
/// whoever takes over waits for so long.
const OWNER_TTL: Duration = Duration::from_millis(1500);

/// How a drive is opened.
#[derive(Clone)]
pub struct Options {
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where chance comes from, asked when something is sent: of a machine that was copied each twin draws another.
    pub draw: Draw,
    /// Who opens it: the machine.
    pub host: String,
    /// Who opens it: the process.
    pub pid: u32,
    /// Where that process answers for the drive, if it does.
    pub address: Option<ServerAddress>,
    /// Whether threads are started.
    pub threads: Threads,
    /// Bytes of records after which they are folded.
    pub fold_bytes: u64,
    /// Bytes of pages in memory from which some are evicted.
    pub page_bytes_max: usize,
    /// Bytes that were written or deleted after which it is looked what nothing needs, where threads are started.
    pub reclaim_bytes: u64,
    /// How long a session of another process may be silent before another takes what it holds.
    pub session_ttl: Duration,
    /// How long an owner answers after it was certain that it is one, where no lock says so: at least a second, because a
    /// younger proof is not renewed; at most `session_ttl`; and the same for all owners of a drive.
    pub owner_ttl: Duration,
    /// The epoch whose owner was found gone: a drive that was claimed since is refused. None where nobody was asked.
    pub after: Option<Epoch>,
    /// Bytes of the journal's segments.
    pub journal_sizes: JournalSizes,
    /// Bytes of packs, and of what they are filled through.
    pub pack_sizes: PackSizes,
    /// What was read of packs, kept nearer than the bucket is; none where the bucket is a disk of this machine.
    pub cache: Option<Arc<Cache>>,
}

/// Whether an open drive has threads of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// It has: to fold, to commit, to write packs out.
    Started,
    /// Everything is done by who calls; for the simulator.
    None,
}

impl Options {
    /// Returns the usual options for process `pid` of `host`.
    pub fn new(clock: Arc<dyn Clock>, draw: Draw, host: impl Into<String>, pid: u32) -> Self {
        Self {
            clock,
            draw,
            host: host.into(),
            pid,
            address: None,
            threads: Threads::Started,
            fold_bytes: FOLD_BYTES,
            page_bytes_max: PAGE_BYTES_MAX,
            reclaim_bytes: RECLAIM_BYTES,
            session_ttl: SESSION_TTL,
            owner_ttl: OWNER_TTL,
            after: None,
            journal_sizes: JournalSizes::default(),
            pack_sizes: PackSizes::default(),
            cache: None,
        }
    }
}

/// A drive that this process owns.
pub struct Drive {
    inner: Arc<Inner>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

/// What belongs to an open drive.
pub(crate) struct Inner {
    pub(crate) name: DriveName,
    pub(crate) bucket: Arc<dyn Bucket>,
    pub(crate) options: Options,
    pub(crate) epoch: Epoch,
    pub(crate) packs: Arc<Packs>,
    pub(crate) loader: Loader,
    pub(crate) filling: Filling,
    pub(crate) holds: Arc<Holds>,
    /// Held while it is looked for what nothing needs.
    pub(crate) sweep: Mutex<Sweep>,
    pub(crate) stale: Arc<Stale>,
    pub(crate) memory: Memory,
    pub(crate) live: Mutex<Live>,
    pub(crate) health: Arc<Health>,
    pub(crate) proof: Proof,
    pub(crate) places: Arc<Places>,
    /// Bytes of records since the newest manifest.
    pub(crate) unfolded: AtomicU64,
    pub(crate) work: Arc<Work>,
    /// Whether a branch has changed of which a checkpoint is to be made.
    pub(crate) news: News,
    /// Held while chunks are put back that were lost with an earlier owner.
    pub(crate) restoring: Mutex<()>,
    /// Held while a fold runs: the record that the newest manifest follows, if it says all up to there.
    pub(crate) folding: Mutex<Option<Seq>>,
    /// How far a deep check is that runs now.
    pub(crate) verified: Mutex<Option<Verified>>,
    /// What was found when the drive was opened and a person should know.
    pub(crate) notices: Vec<String>,
    /// Records that were read again when the drive was opened.
    pub(crate) replayed: u64,
}

impl Drive {
    pub(crate) fn started(inner: Arc<Inner>) -> Arc<Self> {
        let workers = match inner.options.threads {
            Threads::Started => {
                // Nobody is answered before, so that nobody need ask again.
                std::thread::sleep(inner.time_to_wait());
                inner.work_on_lines();
                std::iter::once(work::start(&inner))
                    .chain(proof::start(&inner))
                    .collect()
            }
            Threads::None => Vec::new(),
        };
        Arc::new(Self {
            inner,
            workers: Mutex::new(workers),
        })
    }

    /// Returns what was found when the drive was opened and a person should know, in sentences.
    pub fn notices(&self) -> &[String] {
        &self.inner.notices
    }

    /// Returns the drive's name.
    pub fn name(&self) -> &DriveName {
        &self.inner.name
    }

    /// Returns the epoch under which this process owns the drive.
    pub fn epoch(&self) -> Epoch {
        self.inner.epoch
    }

    /// Tells whether it answers: that it was not closed and has not stopped, for a newer owner or a bug.
    pub fn is_open(&self) -> bool {
        self.inner.health.check().is_ok()
    }

    /// Ends the sessions that hold something and are silent for so long that another may have it.
    pub(crate) fn end_silent_holders(&self) -> Result<(), Error> {
        self.inner.change(|| self.inner.end_silent_holders())
    }

    /// Makes everything durable, folds it, and gives the drive up: whoever calls meanwhile or afterwards is told that it was
    /// closed.
    ///
    /// Sessions of this process end. When it fails the drive stays open, unless what is in the way would keep the next owner out:
    /// that is told once it is closed.
    pub fn close(&self) -> Result<(), Error> {
        let mut in_the_way = None;
        if self.inner.time_to_wait().is_zero() {
            // The next owner waits for nothing, so nothing is answered any more.
            self.inner.proof.leave(true);
            in_the_way = self.give_up().inspect_err(|_| self.inner.proof.leave(false))?;
        }
        // An owner that had to wait for the one before leaves that to the next one, by not saying that it has ended.
        self.end();
        in_the_way.map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Makes everything durable and ends the journal; returns what is in the way of the next owner, if anything is.
    fn give_up(&self) -> Result<Option<Failure>, Error> {
        self.inner.end_hosted_sessions()?;
        match self.inner.fold() {
            // All is durable in the journal, and the next owner replays it.
            Err(Error::Failed(Failure::NoSpace(why))) => tracing::warn!(why, "the drive is closed unfolded"),
            folded => folded?,
        }
        let journal = self.inner.with(|live| live.journal().cloned())?;
        let closed = journal.close().inspect_err(|failure| {
            // All is durable; the next owner does what is left of the journal's end.
            tracing::warn!(%failure, "the journal could not be closed");
        });
        self.inner.keep_spare();
        Ok(closed
            .err()
            .filter(|failure| matches!(failure, Failure::Corrupt(_))))
    }

    /// Stops the threads and lets the journal and its lock go.
    fn end(&self) {
        self.inner.health.close();
        self.inner.work.stop();
        self.inner.proof.stop();
        for worker in self.workers.lock().drain(..) {
            // A worker that has panicked has stopped the drive and said so.
            let _ = worker.join();
        }
        drop(self.inner.live.lock().journal.take());
    }
}

impl Drop for Drive {
    /// Gives the drive up as it is: what was acknowledged is durable, and the next owner replays it.
    fn drop(&mut self) {
        self.end();
    }
}

impl Owner<Branch> for Drive {
    fn open(&self, who: &Who) -> Result<Opened, Error> {
        self.inner.answer(|| self.inner.open_session(who))
    }

    fn renew(&self, session: SessionId) -> Result<(), Error> {
        self.inner.may_speak()?;
        // Nothing is lent by it, so nobody proves anything for it; only that a session is over depends on the state.
        match self.inner.renew_session(session) {
            Err(over @ Error::Refused(_)) => self.inner.answer(|| Err(over)),
            heard => heard,
        }
    }

    fn identity(&self) -> Result<Option<Digest>, Error> {
        let hash_key = self
            .inner
            .with(|live| Ok(live.state.head().map(|head| head.hash_key)))?;
        Ok(hash_key.map(|hash_key| identity(&hash_key)))
    }

    fn close(&self, session: SessionId) -> Result<(), Error> {
        self.inner.change(|| self.inner.close_session(session))
    }

    fn lend(&self, session: SessionId, name: &str, access: Access) -> Result<Lent<Branch>, Error> {
        self.inner.answer(|| self.inner.lend(session, name, access))
    }

    fn lend_inos(&self, session: SessionId) -> Result<InoRange, Error> {
        self.inner.change(|| self.inner.lend_inos(session))
    }

    fn give_back(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        self.inner.change(|| self.inner.give_back(session, branch))
    }

    fn place(&self, session: SessionId, chunks: &[Chunk<'_>]) -> Result<Vec<Placed>, Error> {
        self.inner.change(|| self.inner.place(session, chunks))
    }

    fn secure(&self, session: SessionId, places: &[Placed]) -> Result<(), Error> {
        self.inner.change(|| self.inner.secure(session, places))
    }

    fn ship(&self, batch: Batch, after: Option<Branch>, done: Done<Shipped>) {
        self.inner.ship(batch, after, done);
    }

    fn order(&self, batch: &Batch) -> Result<Shipped, Error> {
        self.inner.answer(|| self.inner.order_of_sharer(batch))
    }

    fn act(&self, who: Sharer, number: u64, deed: &Deed, hold: Hold) -> Result<Ordered, Error> {
        self.inner.answer(|| self.inner.act(who, number, deed, hold))
    }

    fn look(&self, who: Sharer, look: &Look, asked: u64) -> Result<Seen, Error> {
        self.inner.answer(|| self.inner.look_at(who, look, asked))
    }

    fn borrow(&self, who: Sharer, ask: &Borrow) -> Result<Borrowed<Branch>, Error> {
        self.inner.answer(|| self.inner.borrow(who, ask))
    }

    fn take_back(&self, who: Sharer, given: &Yield) -> Result<(), Error> {
        self.inner.answer(|| self.inner.take_back_parts(who, given))
    }

    fn prolong(&self, who: Sharer) -> Result<Duration, Error> {
        self.inner.answer(|| self.inner.prolong(who))?;
        Ok(self.inner.proof_age())
    }

    fn hold(&self, who: Sharer, ino: Ino) -> Result<Attr, Error> {
        self.inner.answer(|| self.inner.hold(who, ino))
    }

    fn let_go(&self, who: Sharer, inos: &[Ino]) -> Result<(), Error> {
        self.inner.answer(|| self.inner.let_go(who, inos))
    }

    /// Where nothing waits no record proves anything, and what the session has seen may be at a newer owner.
    fn sync(&self, who: Sharer) -> Result<(), Error> {
        self.inner.answer(|| self.inner.sync(who))
    }

    fn lock(&self, who: Sharer, ask: &LockAsk) -> Result<Locked, Error> {
        self.inner.answer(|| self.inner.lock(who, ask))
    }

    fn hear(&self, who: Sharer, told: Done<Heard>) {
        match self.inner.may_speak().and_then(|()| self.inner.is_holder(who)) {
            // It is told as long as it holds the branch, and asks the bucket for nothing.
            Ok(true) => return self.inner.hear_as_holder(who, told),
            Ok(false) => {}
            Err(error) => return told(Err(error)),
        }
        match self.inner.may_begin() {
            Ok(()) => self.inner.hear(who, told),
            Err(error) => told(Err(error)),
        }
    }

    fn stand(&self, who: Sharer, stand: &Stand) -> Result<Next<Branch>, Error> {
        self.inner.answer(|| self.inner.stand(who, stand))
    }

    fn have_shipped(&self, branch: &BranchName) -> Result<(), Error> {
        self.inner.change(|| self.inner.have_shipped(branch))
    }

    fn rejoin(&self, who: Sharer, brought: &Brought) -> Result<(), Error> {
        self.inner.answer(|| self.inner.rejoin(who, brought))
    }

    fn salvage(&self, batch: Batch, after: Option<Branch>, done: Done<Salvaged>) {
        self.inner.salvage(batch, after, done);
    }

    fn take(&self, session: SessionId, name: &str) -> Result<(), Error> {
        self.inner.change(|| self.inner.take(session, name))
    }

    fn delegations(&self) -> Result<Vec<Delegation>, Error> {
        self.inner.answer(|| self.inner.delegations())
    }

    fn page(&self, at: Address) -> Result<Vec<u8>, Error> {
        self.inner.health.check_open()?;
        let page = self.inner.packs.read(at)?;
        self.inner.work_on_pages();
        Ok(page)
    }

    fn read(&self, at: Address, start: u32, out: &mut [u8]) -> Result<(), Error> {
        self.inner.health.check_open()?;
        Ok(self.inner.packs.read_into(at, start, out)?)
    }

    fn sealed(&self, pack: PackNumber) -> Result<Vec<SealedPack>, Error> {
        self.inner.health.check_open()?;
        let sealed = self.inner.packs.sealed(pack)?;
        let shown = sealed
            .into_iter()
            .map(|(name, len)| SealedPack { tag: name.tag, len });
        Ok(shown.collect())
    }

    fn part(&self, pack: PackNumber, tag: [u8; 8], offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        self.inner.health.check_open()?;
        let mut bytes = vec![0; len as usize];
        let name = PackName { number: pack, tag };
        self.inner.packs.read_object(name, offset, &mut bytes)?;
        Ok(bytes)
    }

    fn room(&self) -> Result<Room, Error> {
        self.inner.room()
    }

    fn fork(&self, ask: &ForkAsk) -> Result<Created, Error> {
        self.inner.change(|| self.inner.fork(ask))
    }

    fn checkpoint(&self, ask: &CheckpointAsk) -> Result<Created, Error> {
        self.inner.change(|| self.inner.checkpoint(ask))
    }

    fn rename(&self, name: &str, to: &BranchName) -> Result<(), Error> {
        self.inner.change(|| self.inner.rename(name, to))
    }

    fn set_plan(&self, plan: Plan) -> Result<(), Error> {
        self.inner.change(|| self.inner.set_plan(plan))
    }

    fn plan(&self) -> Result<Plan, Error> {
        self.inner
            .answer(|| self.inner.with(|live| Ok(live.state.plan())))
    }

    fn delete_branch(&self, name: &BranchName) -> Result<(), Error> {
        self.inner.change(|| self.inner.delete_branch(name))
    }

    fn diff(&self, ask: &DiffAsk) -> Result<Differences, Error> {
        let _working = self.inner.holds.work();
        self.inner.answer(|| self.inner.diff(ask))
    }

    fn contents(&self, name: &str, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        let _working = self.inner.holds.work();
        self.inner
            .answer(|| self.inner.contents(name, ino, (offset, len)))
    }

    fn undo(&self, who: &Who, branch: &BranchName, to: &str) -> Result<Turned, Error> {
        let _working = self.inner.holds.work();
        self.inner.change(|| self.inner.undo(who, branch, to))
    }

    fn merge(&self, who: &Who, ask: &MergeAsk) -> Result<MergeTold, Error> {
        let _working = self.inner.holds.work();
        self.inner.change(|| self.inner.merge(who, ask))
    }

    fn mark(&self, who: &Who, branch: &BranchName, mark: &MarkAsk) -> Result<(), Error> {
        self.inner.change(|| self.inner.mark(who, branch, mark))
    }

    fn marks(&self) -> Result<Vec<Marked>, Error> {
        self.inner.answer(|| self.inner.marks())
    }

    fn accept(&self, who: &Who, ask: &AcceptAsk) -> Result<MergeTold, Error> {
        let _working = self.inner.holds.work();
        self.inner.change(|| self.inner.accept_staged(who, ask))
    }

    fn restore(&self, who: &Who, ask: &RestoreAsk) -> Result<Turned, Error> {
        let _working = self.inner.holds.work();
        self.inner.change(|| self.inner.restore(who, ask))
    }

    fn conflicts(&self, name: &str, behind: Ino) -> Result<Standings, Error> {
        let _working = self.inner.holds.work();
        self.inner.answer(|| self.inner.conflicts(name, behind))
    }

    fn resolve(&self, who: &Who, ask: &ResolveAsk) -> Result<Turned, Error> {
        let _working = self.inner.holds.work();
        self.inner.change(|| self.inner.resolve(who, ask))
    }

    fn branches(&self) -> Result<Vec<BranchInfo>, Error> {
        self.inner.answer(|| self.inner.branches())
    }

    fn status(&self) -> Result<Status, Error> {
        self.inner.status()
    }

    fn fold(&self) -> Result<(), Error> {
        self.inner.health.guard(self.inner.epoch, || self.inner.fold())
    }

    fn usage(&self) -> Result<Usage, Error> {
        let _working = self.inner.holds.work();
        self.inner.health.guard(self.inner.epoch, || self.inner.usage())
    }

    fn reclaim(&self, ask: ReclaimAsk) -> Result<ReclaimTold, Error> {
        self.inner.change(|| {
            self.inner
                .health
                .guard(self.inner.epoch, || self.inner.reclaim(ask))
        })
    }

    fn forgo(&self, session: SessionId, said: Placings) -> Result<Placings, Error> {
        let borrows = self.inner.with(|live| {
            live.present(session)?;
            Ok(Inner::borrows(live, session))
        })?;
        Ok(self.inner.holds.forgo(session, said, borrows))
    }

    fn check(&self, deep: bool) -> Result<Vec<String>, Error> {
        let _working = self.inner.holds.work();
        self.inner
            .health
            .guard(self.inner.epoch, || self.inner.check(deep))
    }
}

impl Inner {
    /// Returns the tier: where a sync must be before it is acknowledged.
    pub(crate) fn tier(&self) -> &'static str {
        self.bucket.tier()
    }

    fn room(&self) -> Result<Room, Error> {
        self.health.check()?;
        match self.bucket.disk() {
            Some(disk) => {
                let space = disk.space()?;
                Ok(Room {
                    total: space.total,
                    free: space.free,
                })
            }
            // A bucket elsewhere has no end that anybody knows.
            None => Ok(Room {
                total: u64::MAX,
                free: u64::MAX,
            }),
        }
    }

    fn status(&self) -> Result<Status, Error> {
        let counts = self.bucket.requests().counts();
        let requests = [
            ("put", counts.puts),
            ("get", counts.gets),
            ("list", counts.lists),
            ("delete", counts.deletes),
            ("write", counts.writes),
            ("sync", counts.syncs),
        ];
        Ok(Status {
            drive: self.name.to_string(),
            epoch: self.epoch,
            tier: self.tier().to_owned(),
            journal_bytes: self.unfolded.load(Ordering::Relaxed),
            requests: requests
                .map(|(kind, count)| (kind.to_owned(), count))
                .into_iter()
                .collect::<BTreeMap<_, _>>(),
            page_bytes: self.memory.resident_bytes() as u64,
            pid: self.options.pid,
            trouble: self.health.trouble(),
            verified: *self.verified.lock(),
        })
    }
}
