//! An owner with a fault of ours in it: it acknowledges, orders or parts batches as no owner may.

use super::Plant;
use super::chain::{Chains, Holder};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use tenure_core::Branch;
use tenure_model::codec::{Codec, Reader};
use tenure_model::record::Plan;
use tenure_model::{Address, Batch, BranchId, BranchName, Digest, Ino, InoRange, Op, SessionId};
use tenure_wire::{
    Access, BranchInfo, CheckpointAsk, Chunk, Created, Delegation, DiffAsk, Differences, Done, Error,
    ForkAsk, Lent, MergeAsk, MergeTold, Opened, Owner, Placed, Placings, ReclaimAsk, ReclaimTold, ResolveAsk,
    Room, Salvaged, Shipped, Standings, Status, Turned, Usage, Who,
};

/// Told by whoever syncs, so that a fault can wait for batches that nobody waits for.
pub(crate) type Syncing = Arc<AtomicBool>;

/// An owner that is not to be trusted.
pub(crate) struct Planted {
    inner: Arc<dyn Owner<Branch>>,
    plant: Plant,
    syncing: Syncing,
    held: Mutex<Held>,
    chains: Chains,
}

#[derive(Default)]
struct Held {
    batch: Option<(Batch, Option<Branch>)>,
    /// Ops that belong into a batch that has gone.
    ops: Vec<u8>,
}

impl Planted {
    pub(crate) fn new(inner: Arc<dyn Owner<Branch>>, plant: Plant, syncing: Syncing) -> Self {
        Self {
            inner,
            plant,
            syncing,
            held: Mutex::default(),
            chains: Chains::default(),
        }
    }

    /// Hands on what was acknowledged already.
    fn honest(&self) -> &dyn Owner<Branch> {
        if let Some((batch, after)) = self.held.lock().batch.take() {
            self.inner.ship(batch, after, Box::new(drop));
        }
        &*self.inner
    }

    /// Ships a batch behind whatever has passed.
    fn pass(&self, batch: Batch, after: Option<Branch>, holder: Holder) -> Result<Shipped, Error> {
        let as_shipped = Digest::of(&batch.written());
        if self.chains.has_passed(batch.branch, as_shipped) {
            return Ok(Shipped { digest: as_shipped });
        }
        let batch = self.chains.put_behind(batch, holder);
        let (send, shipped) = mpsc::channel();
        let told = Box::new(move |outcome| drop(send.send(outcome)));
        self.inner.ship(batch.clone(), after, told);
        let shipped = shipped.recv().expect("every batch is answered")?;
        self.chains.pass(&batch, as_shipped);
        Ok(shipped)
    }

    /// Ships a batch as two.
    fn tear(&self, batch: Batch, after: Option<Branch>) -> Result<(), Error> {
        let mut ops = ops_of(&batch.ops);
        let behind = ops.split_off(ops.len() / 2);
        let half = |ops: &[Op]| Batch {
            ops: bytes_of(ops),
            ..batch.clone()
        };
        self.pass(half(&ops), None, Holder::Kept)?;
        self.pass(half(&behind), after, Holder::Kept).map(drop)
    }
}

fn ops_of(bytes: &[u8]) -> Vec<Op> {
    let mut reader = Reader::new(bytes);
    let mut ops = Vec::new();
    while !reader.is_empty() {
        ops.push(Op::read(&mut reader).expect("a client ships ops"));
    }
    ops
}

fn bytes_of(ops: &[Op]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ops.iter().for_each(|op| op.write(&mut bytes));
    bytes
}

/// Returns the file whose bytes an op changes.
fn file_of(op: &Op) -> Option<Ino> {
    if let Op::Write { ino, .. } | Op::Punch { ino, .. } = op {
        return Some(*ino);
    }
    if let Op::SetAttr { ino, change, .. } = op {
        return change.size.map(|_| *ino);
    }
    None
}

/// Lets the first two neighbours that change one file change it in the other order.
fn misorder(ops: &mut [Op]) {
    let places: Vec<_> = (0..ops.len()).filter(|at| file_of(&ops[*at]).is_some()).collect();
    for (place, one) in places.iter().enumerate() {
        let same = |other: &&usize| file_of(&ops[**other]) == file_of(&ops[*one]);
        if let Some(other) = places[place + 1..].iter().find(same) {
            return ops.swap(*one, *other);
        }
    }
}

/// Takes the writes out of a batch that also names files, where nothing else depends on them.
fn part_names_from_bytes(ops: Vec<Op>) -> (Vec<Op>, Vec<Op>) {
    let is_write = |op: &Op| matches!(op, Op::Write { .. });
    let names = ops
        .iter()
        .any(|op| matches!(op, Op::Rename { .. } | Op::Link { .. }));
    let depends =
        |op: &Op| matches!(op, Op::Drop { .. } | Op::Copy { .. }) || !is_write(op) && file_of(op).is_some();
    if !names || ops.iter().any(depends) {
        return (ops, Vec::new());
    }
    ops.into_iter().partition(|op| !is_write(op))
}

impl Owner<Branch> for Planted {
    fn open(&self, who: &Who) -> Result<Opened, Error> {
        self.honest().open(who)
    }

    fn renew(&self, session: SessionId) -> Result<(), Error> {
        self.honest().renew(session)
    }

    fn close(&self, session: SessionId) -> Result<(), Error> {
        self.honest().close(session)
    }

    fn lend(&self, session: SessionId, name: &str, access: Access) -> Result<Lent<Branch>, Error> {
        let lent = self.honest().lend(session, name, access)?;
        if let (Access::Exclusive, Some(branch)) = (access, lent.branch) {
            self.chains.begin(session, branch, lent.inos.next);
        }
        Ok(lent)
    }

    fn lend_inos(&self, session: SessionId) -> Result<InoRange, Error> {
        self.honest().lend_inos(session)
    }

    fn give_back(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        self.honest().give_back(session, branch)
    }

    fn place(&self, session: SessionId, chunks: &[Chunk<'_>]) -> Result<Vec<Placed>, Error> {
        let placed = self.inner.place(session, chunks)?;
        if self.plant == Plant::ClaimsNothing {
            let placings = self.inner.forgo(session, Placings::default())?;
            self.inner.forgo(session, placings)?;
        }
        Ok(placed)
    }

    fn secure(&self, session: SessionId, places: &[Placed]) -> Result<(), Error> {
        self.inner.secure(session, places)
    }

    fn ship(&self, mut batch: Batch, after: Option<Branch>, done: Done<Shipped>) {
        let mut ops = ops_of(&batch.ops);
        let digest = Digest::of(&batch.written());
        match self.plant {
            Plant::SkipsSyncs
            | Plant::SealsNothing
            | Plant::LosesFolds
            | Plant::ClaimsNothing
            | Plant::DeletesRows => {}
            Plant::TearsBatches => {
                return done(self.tear(batch, after).map(|()| Shipped { digest }));
            }
            Plant::TrustsAnybody => {
                let passed = self.pass(batch, after, Holder::Forged);
                return done(passed.map(|_| Shipped { digest }));
            }
            Plant::AcknowledgesEarly => {
                self.honest();
                self.held.lock().batch = Some((batch, after));
                return done(Ok(Shipped { digest }));
            }
            Plant::Misorders => misorder(&mut ops),
            Plant::NamesBeforeBytes => {
                let mut late = ops_of(&std::mem::take(&mut self.held.lock().ops));
                late.append(&mut ops);
                ops = late;
                if !self.syncing.load(Ordering::Relaxed) {
                    let (now, late) = part_names_from_bytes(ops);
                    self.held.lock().ops = bytes_of(&late);
                    ops = now;
                }
            }
        }
        batch.ops = bytes_of(&ops);
        self.inner.ship(batch, after, done);
    }

    fn salvage(&self, batch: Batch, after: Option<Branch>, done: Done<Salvaged>) {
        self.honest().salvage(batch, after, done);
    }

    fn take(&self, session: SessionId, name: &str) -> Result<(), Error> {
        self.honest().take(session, name)
    }

    fn delegations(&self) -> Result<Vec<Delegation>, Error> {
        self.honest().delegations()
    }

    fn page(&self, at: Address) -> Result<Vec<u8>, Error> {
        self.inner.page(at)
    }

    fn read(&self, at: Address, start: u32, out: &mut [u8]) -> Result<(), Error> {
        self.inner.read(at, start, out)
    }

    fn room(&self) -> Result<Room, Error> {
        self.inner.room()
    }

    fn fork(&self, ask: &ForkAsk) -> Result<Created, Error> {
        self.honest().fork(ask)
    }

    fn checkpoint(&self, ask: &CheckpointAsk) -> Result<Created, Error> {
        self.honest().checkpoint(ask)
    }

    fn rename(&self, name: &str, to: &BranchName) -> Result<(), Error> {
        self.honest().rename(name, to)
    }

    fn set_plan(&self, plan: Plan) -> Result<(), Error> {
        self.honest().set_plan(plan)
    }

    fn plan(&self) -> Result<Plan, Error> {
        self.honest().plan()
    }

    fn delete_branch(&self, name: &BranchName) -> Result<(), Error> {
        self.honest().delete_branch(name)
    }

    fn diff(&self, ask: &DiffAsk) -> Result<Differences, Error> {
        self.honest().diff(ask)
    }

    fn contents(&self, name: &str, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        self.honest().contents(name, ino, offset, len)
    }

    fn undo(&self, who: &Who, branch: &BranchName, to: &str) -> Result<Turned, Error> {
        self.honest().undo(who, branch, to)
    }

    fn merge(&self, who: &Who, ask: &MergeAsk) -> Result<MergeTold, Error> {
        self.honest().merge(who, ask)
    }

    fn conflicts(&self, name: &str, behind: Ino) -> Result<Standings, Error> {
        self.honest().conflicts(name, behind)
    }

    fn resolve(&self, who: &Who, ask: &ResolveAsk) -> Result<Turned, Error> {
        self.honest().resolve(who, ask)
    }

    fn branches(&self) -> Result<Vec<BranchInfo>, Error> {
        self.honest().branches()
    }

    fn status(&self) -> Result<Status, Error> {
        self.inner.status()
    }

    fn reclaim(&self, ask: ReclaimAsk) -> Result<ReclaimTold, Error> {
        self.honest().reclaim(ask)
    }

    fn forgo(&self, session: SessionId, said: Placings) -> Result<Placings, Error> {
        self.honest().forgo(session, said)
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.honest().usage()
    }

    fn fold(&self) -> Result<(), Error> {
        self.honest().fold()
    }

    fn check(&self, deep: bool) -> Result<Vec<String>, Error> {
        self.honest().check(deep)
    }
}
