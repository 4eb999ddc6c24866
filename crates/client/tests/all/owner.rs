//! An owner that is watched: how many bytes are placed, and moments at which another may step in.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tenure_core::Branch;
use tenure_model::record::Plan;
use tenure_model::{
    Address, Attr, Batch, BranchId, BranchName, Failure, Ino, InoRange, Locked, PackNumber, Refusal,
    SessionId,
};
use tenure_server::Drive;
use tenure_wire::shared::{
    Borrow, Borrowed, Brought, Deed, Heard, LockAsk, Look, Ordered, Seen, Sharer, Yield,
};
use tenure_wire::{
    Access, BranchInfo, CheckpointAsk, Chunk, Created, Delegation, DiffAsk, Differences, Done, Error,
    ForkAsk, Hold, Lent, MergeAsk, MergeTold, Opened, Owner, Placed, Placings, ReclaimAsk, ReclaimTold,
    ResolveAsk, RestoreAsk, Room, Salvaged, SealedPack, Shipped, Standings, Status, Turned, Usage, Who,
};

/// Is called once.
type Step = Box<dyn FnOnce() + Send>;
/// Is called once; an error is the answer.
type ShipStep = Box<dyn FnOnce() -> Result<(), Error> + Send>;

pub(crate) struct Watched {
    pub(crate) drive: Arc<Drive>,
    placed: AtomicU64,
    places: AtomicU64,
    secured: AtomicU64,
    before_secure: Mutex<Option<ShipStep>>,
    before_read: Mutex<Option<Step>>,
    before_place: Mutex<Option<Step>>,
    before_ship: Mutex<Option<ShipStep>>,
    shipped: AtomicU64,
    is_unheard: AtomicBool,
    read: AtomicU64,
    bends_parts: AtomicBool,
    before_heard: Mutex<Option<Step>>,
    is_new: AtomicBool,
    asked: AtomicU64,
    loses_loan: AtomicBool,
}

impl Watched {
    pub(crate) fn new(drive: Arc<Drive>) -> Self {
        Self {
            drive,
            placed: AtomicU64::new(0),
            places: AtomicU64::new(0),
            secured: AtomicU64::new(0),
            before_secure: Mutex::default(),
            before_read: Mutex::default(),
            before_place: Mutex::default(),
            before_ship: Mutex::default(),
            shipped: AtomicU64::new(0),
            is_unheard: AtomicBool::new(false),
            read: AtomicU64::new(0),
            bends_parts: AtomicBool::new(false),
            before_heard: Mutex::default(),
            is_new: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            loses_loan: AtomicBool::new(false),
        }
    }

    /// Lets nobody hear of what is lent next.
    pub(crate) fn lose_loan(&self) {
        self.loses_loan.store(true, Ordering::Relaxed);
    }

    /// Returns how many bytes of chunks were brought so far.
    pub(crate) fn placed(&self) -> u64 {
        self.placed.load(Ordering::Relaxed)
    }

    /// Returns how often chunks were brought, and how often some were made durable before they were named.
    pub(crate) fn places(&self) -> u64 {
        self.places.load(Ordering::Relaxed)
    }

    pub(crate) fn secured(&self) -> u64 {
        self.secured.load(Ordering::Relaxed)
    }

    /// Lets something happen when chunks are to be made durable next.
    pub(crate) fn before_secure(&self, step: impl FnOnce() -> Result<(), Error> + Send + 'static) {
        *self.before_secure.lock() = Some(Box::new(step));
    }

    /// Lets something happen when a chunk is read next.
    pub(crate) fn before_read(&self, step: impl FnOnce() + Send + 'static) {
        *self.before_read.lock() = Some(Box::new(step));
    }

    /// Lets something happen when chunks are brought next.
    pub(crate) fn before_place(&self, step: impl FnOnce() + Send + 'static) {
        *self.before_place.lock() = Some(Box::new(step));
    }

    /// Lets something happen when a batch is shipped next.
    pub(crate) fn before_ship(&self, step: impl FnOnce() -> Result<(), Error> + Send + 'static) {
        *self.before_ship.lock() = Some(Box::new(step));
    }

    /// Lets nobody hear what becomes of the batch that is shipped next.
    pub(crate) fn is_not_heard(&self) {
        self.is_unheard.store(true, Ordering::Relaxed);
    }

    /// Returns how many pages and parts of chunks were asked for so far.
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Shows parts of packs from now on that are not what they should be.
    pub(crate) fn bend_parts(&self) {
        self.bends_parts.store(true, Ordering::Relaxed);
    }

    /// Takes another owner's place, which does not know who shares a branch, when it has answered such a one the next time; then lets
    /// something happen, before that one hears of it.
    pub(crate) fn is_replaced(&self, step: impl FnOnce() + Send + 'static) {
        *self.before_heard.lock() = Some(Box::new(step));
    }

    /// Returns how often those who share a branch have asked so far.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    fn answer<R>(&self, answer: Result<R, Error>) -> Result<R, Error> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let step = self.before_heard.lock().take();
        if let Some(step) = step {
            self.is_new.store(true, Ordering::Relaxed);
            step();
        }
        answer
    }

    /// Returns how many batches were shipped so far.
    pub(crate) fn shipped(&self) -> u64 {
        self.shipped.load(Ordering::Relaxed)
    }
}

impl Owner<Branch> for Watched {
    fn open(&self, who: &Who) -> Result<Opened, Error> {
        self.drive.open(who)
    }

    fn renew(&self, session: SessionId) -> Result<(), Error> {
        if self.is_new.swap(false, Ordering::Relaxed) {
            return Err(Refusal::Unjoined.into());
        }
        Owner::renew(&*self.drive, session)
    }

    fn rejoin(&self, _: Sharer, _: &Brought) -> Result<(), Error> {
        // It is the same drive, which knows everything.
        Ok(())
    }

    fn act(&self, who: Sharer, number: u64, deed: &Deed, hold: Hold) -> Result<Ordered, Error> {
        self.answer(self.drive.act(who, number, deed, hold))
    }

    fn look(&self, who: Sharer, look: &Look, asked: u64) -> Result<Seen, Error> {
        self.answer(self.drive.look(who, look, asked))
    }

    fn order(&self, batch: &Batch) -> Result<Shipped, Error> {
        self.drive.order(batch)
    }

    fn borrow(&self, who: Sharer, ask: &Borrow) -> Result<Borrowed<Branch>, Error> {
        let borrowed = self.drive.borrow(who, ask)?;
        let is_lent = matches!(borrowed, Borrowed::Lent(_));
        match is_lent && self.loses_loan.swap(false, Ordering::Relaxed) {
            true => Err(Failure::Corrupt("nobody hears of it".into()).into()),
            false => Ok(borrowed),
        }
    }

    fn take_back(&self, who: Sharer, given: &Yield) -> Result<(), Error> {
        self.drive.take_back(who, given)
    }

    fn prolong(&self, who: Sharer) -> Result<Duration, Error> {
        self.drive.prolong(who)
    }

    fn hear(&self, who: Sharer, told: Done<Heard>) {
        self.drive.hear(who, told);
    }

    fn sync(&self, who: Sharer) -> Result<(), Error> {
        self.drive.sync(who)
    }

    fn hold(&self, who: Sharer, ino: Ino) -> Result<Attr, Error> {
        self.answer(self.drive.hold(who, ino))
    }

    fn lock(&self, who: Sharer, ask: &LockAsk) -> Result<Locked, Error> {
        self.answer(self.drive.lock(who, ask))
    }

    fn close(&self, session: SessionId) -> Result<(), Error> {
        Owner::close(&*self.drive, session)
    }

    fn lend(&self, session: SessionId, name: &str, access: Access) -> Result<Lent<Branch>, Error> {
        self.drive.lend(session, name, access)
    }

    fn lend_inos(&self, session: SessionId) -> Result<InoRange, Error> {
        self.drive.lend_inos(session)
    }

    fn give_back(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        self.drive.give_back(session, branch)
    }

    fn place(&self, session: SessionId, chunks: &[Chunk<'_>]) -> Result<Vec<Placed>, Error> {
        let len: usize = chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        self.placed.fetch_add(len as u64, Ordering::Relaxed);
        self.places.fetch_add(1, Ordering::Relaxed);
        let step = self.before_place.lock().take();
        step.into_iter().for_each(|step| step());
        self.drive.place(session, chunks)
    }

    fn secure(&self, session: SessionId, places: &[Placed]) -> Result<(), Error> {
        self.secured.fetch_add(1, Ordering::Relaxed);
        let step = self.before_secure.lock().take();
        step.map_or(Ok(()), |step| step())?;
        self.drive.secure(session, places)
    }

    fn ship(&self, batch: Batch, after: Option<Branch>, done: Done<Shipped>) {
        self.shipped.fetch_add(1, Ordering::Relaxed);
        if self.is_unheard.swap(false, Ordering::Relaxed) {
            self.drive.ship(batch, after, Box::new(drop));
            return done(Err(Failure::Unknown("nobody answers".into()).into()));
        }
        let step = self.before_ship.lock().take();
        match step.map_or(Ok(()), |step| step()) {
            Ok(()) => self.drive.ship(batch, after, done),
            Err(error) => done(Err(error)),
        }
    }

    fn sealed(&self, pack: PackNumber) -> Result<Vec<SealedPack>, Error> {
        self.drive.sealed(pack)
    }

    fn part(&self, pack: PackNumber, tag: [u8; 8], offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        let mut bytes = self.drive.part(pack, tag, offset, len)?;
        if self.bends_parts.load(Ordering::Relaxed) {
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(bytes)
    }

    fn salvage(&self, batch: Batch, after: Option<Branch>, done: Done<Salvaged>) {
        self.drive.salvage(batch, after, done);
    }

    fn take(&self, session: SessionId, name: &str) -> Result<(), Error> {
        Owner::take(&*self.drive, session, name)
    }

    fn delegations(&self) -> Result<Vec<Delegation>, Error> {
        self.drive.delegations()
    }

    fn page(&self, at: Address) -> Result<Vec<u8>, Error> {
        self.read.fetch_add(1, Ordering::Relaxed);
        self.drive.page(at)
    }

    fn read(&self, at: Address, start: u32, out: &mut [u8]) -> Result<(), Error> {
        self.read.fetch_add(1, Ordering::Relaxed);
        let step = self.before_read.lock().take();
        if let Some(step) = step {
            step();
        }
        self.drive.read(at, start, out)
    }

    fn room(&self) -> Result<Room, Error> {
        self.drive.room()
    }

    fn fork(&self, ask: &ForkAsk) -> Result<Created, Error> {
        self.drive.fork(ask)
    }

    fn checkpoint(&self, ask: &CheckpointAsk) -> Result<Created, Error> {
        self.drive.checkpoint(ask)
    }

    fn rename(&self, name: &str, to: &BranchName) -> Result<(), Error> {
        self.drive.rename(name, to)
    }

    fn set_plan(&self, plan: Plan) -> Result<(), Error> {
        self.drive.set_plan(plan)
    }

    fn plan(&self) -> Result<Plan, Error> {
        self.drive.plan()
    }

    fn delete_branch(&self, name: &BranchName) -> Result<(), Error> {
        self.drive.delete_branch(name)
    }

    fn diff(&self, ask: &DiffAsk) -> Result<Differences, Error> {
        self.drive.diff(ask)
    }

    fn contents(&self, name: &str, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        self.drive.contents(name, ino, offset, len)
    }

    fn undo(&self, who: &Who, branch: &BranchName, to: &str) -> Result<Turned, Error> {
        self.drive.undo(who, branch, to)
    }

    fn merge(&self, who: &Who, ask: &MergeAsk) -> Result<MergeTold, Error> {
        self.drive.merge(who, ask)
    }

    fn conflicts(&self, name: &str, behind: Ino) -> Result<Standings, Error> {
        self.drive.conflicts(name, behind)
    }

    fn resolve(&self, who: &Who, ask: &ResolveAsk) -> Result<Turned, Error> {
        self.drive.resolve(who, ask)
    }

    fn restore(&self, who: &Who, ask: &RestoreAsk) -> Result<Turned, Error> {
        self.drive.restore(who, ask)
    }

    fn branches(&self) -> Result<Vec<BranchInfo>, Error> {
        self.drive.branches()
    }

    fn status(&self) -> Result<Status, Error> {
        self.drive.status()
    }

    fn reclaim(&self, ask: ReclaimAsk) -> Result<ReclaimTold, Error> {
        self.drive.reclaim(ask)
    }

    fn forgo(&self, session: SessionId, said: Placings) -> Result<Placings, Error> {
        self.drive.forgo(session, said)
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.drive.usage()
    }

    fn fold(&self) -> Result<(), Error> {
        self.drive.fold()
    }

    fn check(&self, deep: bool) -> Result<Vec<String>, Error> {
        self.drive.check(deep)
    }
}
