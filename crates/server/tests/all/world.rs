//! What the scenarios share: a clock that stands still, ways to open a drive, and a holder that ships what it is told.

use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tenure_core::tree::Memory;
use tenure_core::{Branch, Missing, Totals, Tree, Undecided};
use tenure_model::batch::chain_start;
use tenure_model::codec::Codec;
use tenure_model::record::Source;
use tenure_model::{
    Batch, BranchId, BranchName, CheckpointName, ChunkPlace, Clock, Digest, DriveName, Epoch, Extent, Ino,
    InoRange, Kind, Name, NewNode, Op, Piece, SessionId, Timestamp,
};
use tenure_server::{Beginning, Drive, JournalSizes, Options, Threads};
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::{
    Access, CheckpointAsk, Chunk, Error, ForkAsk, Owner, Placings, Salvaged, Shared, Shipped, Who,
};

/// A clock that moves when it is told.
#[derive(Default)]
pub(crate) struct StillClock(AtomicU64);

impl StillClock {
    pub(crate) fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp::since_epoch(Duration::from_secs(1_800_000_000) + self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

pub(crate) fn options(clock: &Arc<StillClock>) -> Options {
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    let draw = Arc::new(|| u128::from(DRAWN.fetch_add(1, Ordering::Relaxed)).to_le_bytes());
    // Small, because these drives are opened many times.
    let journal_sizes = JournalSizes {
        first: 256 << 10,
        next: 512 << 10,
        reserve: 16 << 10,
    };
    Options {
        threads: Threads::None,
        journal_sizes,
        ..Options::new(clock.clone(), draw, "box-1", 42)
    }
}

pub(crate) fn drive_name() -> DriveName {
    DriveName::parse("work").unwrap()
}

pub(crate) fn branch_name(name: &str) -> BranchName {
    BranchName::parse(name).unwrap()
}

pub(crate) fn checkpoint_name(name: &str) -> CheckpointName {
    CheckpointName::parse(name).unwrap()
}

pub(crate) fn fork_ask(from: &Source, name: &str) -> ForkAsk {
    ForkAsk::new(from.clone(), branch_name(name))
}

pub(crate) fn checkpoint_ask(branch: &str, name: &str) -> CheckpointAsk {
    CheckpointAsk::new(branch_name(branch), checkpoint_name(name))
}

pub(crate) fn beginning() -> Beginning {
    Beginning {
        hash_key: [7; 16],
        branch: branch_name("main"),
        uid: 1000,
        gid: 100,
    }
}

pub(crate) fn create(bucket: &(impl Bucket + Clone + 'static)) -> Arc<Drive> {
    create_by(&Arc::default(), bucket)
}

/// As `create`, by a clock that the test moves.
pub(crate) fn create_by(clock: &Arc<StillClock>, bucket: &(impl Bucket + Clone + 'static)) -> Arc<Drive> {
    let options = options(clock);
    Drive::create(Arc::new(bucket.clone()), &drive_name(), &beginning(), options).unwrap()
}

pub(crate) fn open(bucket: &(impl Bucket + Clone + 'static)) -> Arc<Drive> {
    try_open(Arc::new(bucket.clone())).unwrap()
}

/// Opens a drive, and lets the time pass in which an owner before may still answer.
pub(crate) fn try_open(bucket: Arc<dyn Bucket>) -> Result<Arc<Drive>, Error> {
    let clock = Arc::<StillClock>::default();
    let drive = Drive::open(bucket, &drive_name(), options(&clock))?;
    clock.pass(OWNER_WAIT);
    Ok(drive)
}

/// How long an owner waits for the one before.
pub(crate) const OWNER_WAIT: Duration = Duration::from_millis(1600);

/// Where drives are tested: in a bucket in memory with a disk, or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    Folder,
    Bucket,
}

pub(crate) const TIERS: [Tier; 2] = [Tier::Folder, Tier::Bucket];

impl Tier {
    pub(crate) fn new_bucket(self) -> MemoryBucket {
        match self {
            Tier::Folder => MemoryBucket::new(),
            Tier::Bucket => MemoryBucket::new().without_disk(),
        }
    }
}

/// Runs a test in an empty bucket of each tier.
pub(crate) fn on_each_tier(test: impl Fn(MemoryBucket)) {
    TIERS.into_iter().for_each(|tier| test(tier.new_bucket()));
}

pub(crate) fn who(agent: &str, hosted: bool) -> Who {
    Who {
        agent: agent.into(),
        host: "box-1".into(),
        pid: 42,
        purpose: format!("mount at /work/{agent}"),
        hosted,
    }
}

/// A session that holds a branch, or reads a state.
#[derive(Clone)]
pub(crate) struct Holder {
    pub(crate) drive: Arc<Drive>,
    pub(crate) session: SessionId,
    pub(crate) epoch: Epoch,
    pub(crate) id: Option<BranchId>,
    pub(crate) branch: Branch,
    pub(crate) inos: InoRange,
    pub(crate) number: u64,
    pub(crate) previous: Digest,
    hosted: bool,
    ops: Vec<u8>,
    chunks: Vec<ChunkPlace>,
    ticks: u64,
}

impl Holder {
    pub(crate) fn hosted(drive: &Arc<Drive>, name: &str) -> Self {
        Self::new(drive, name, Access::Exclusive, true).unwrap()
    }

    pub(crate) fn remote(drive: &Arc<Drive>, name: &str) -> Self {
        Self::new(drive, name, Access::Exclusive, false).unwrap()
    }

    pub(crate) fn reader(drive: &Arc<Drive>, name: &str) -> Self {
        Self::new(drive, name, Access::Read, true).unwrap()
    }

    pub(crate) fn new(drive: &Arc<Drive>, name: &str, access: Access, hosted: bool) -> Result<Self, Error> {
        let opened = drive.open(&who("ada", hosted))?;
        let lent = drive.lend(opened.session, name, access)?;
        let branch = match lent.state {
            Shared::Here(branch) => {
                assert!(hosted, "only a session of this process shares pages");
                branch
            }
            Shared::Kept => panic!("it is asked for whole, or to be read"),
            Shared::Stored { root, inodes, bytes } => {
                let tree = Tree::stored(root, &Memory::new());
                Branch::stored(lent.hash_key, tree, Totals { inodes, bytes })
            }
        };
        Ok(Self {
            drive: drive.clone(),
            session: opened.session,
            epoch: opened.epoch,
            id: lent.branch,
            branch,
            inos: lent.inos,
            number: 0,
            previous: chain_start(opened.session, lent.branch.unwrap_or_default(), lent.inos.next),
            hosted,
            ops: Vec::new(),
            chunks: Vec::new(),
            ticks: 0,
        })
    }

    fn load(&self, missing: &Missing) -> Result<(), Error> {
        missing.supply(&self.drive.page(missing.at())?).unwrap();
        Ok(())
    }

    /// Asks the branch, loading what is missing.
    pub(crate) fn ask<R>(&self, mut question: impl FnMut(&Branch) -> Result<R, Missing>) -> R {
        loop {
            match question(&self.branch) {
                Ok(answer) => return answer,
                Err(missing) => self.load(&missing).unwrap(),
            }
        }
    }

    pub(crate) fn try_change(&mut self, op: Op) -> Result<(), Error> {
        loop {
            match self.branch.decide(&op) {
                Ok(decision) => {
                    self.branch.apply(decision);
                    op.write(&mut self.ops);
                    return Ok(());
                }
                Err(Undecided::Missing(missing)) => self.load(&missing)?,
                Err(Undecided::Refused(refusal)) => panic!("{op:?} is refused: {refusal}"),
            }
        }
    }

    fn tick(&mut self) -> Timestamp {
        self.ticks += 1;
        Timestamp {
            secs: self.ticks as i64,
            nanos: 0,
        }
    }

    pub(crate) fn make(&mut self, parent: Ino, name: &str, kind: Kind) -> Ino {
        self.try_make(parent, name, kind).unwrap()
    }

    pub(crate) fn try_make(&mut self, parent: Ino, name: &str, kind: Kind) -> Result<Ino, Error> {
        let ino = self.inos.take().unwrap();
        let node = NewNode {
            kind,
            uid: 1,
            gid: 1,
            ..NewNode::file()
        };
        let (name, time) = (Name::parse(name.as_bytes()).unwrap(), self.tick());
        self.try_change(Op::Create {
            parent,
            name,
            ino,
            node,
            time,
        })?;
        Ok(ino)
    }

    pub(crate) fn unlink(&mut self, name: &str) {
        self.try_unlink(name).unwrap();
    }

    pub(crate) fn try_unlink(&mut self, name: &str) -> Result<(), Error> {
        let (name, time) = (Name::parse(name.as_bytes()).unwrap(), self.tick());
        self.try_change(Op::Unlink {
            parent: Ino::ROOT,
            name,
            time,
        })
    }

    /// Writes bytes at the file's begin, as one chunk.
    pub(crate) fn write(&mut self, ino: Ino, bytes: &[u8]) {
        let digest = Digest::of(bytes);
        let place = self
            .drive
            .place(self.session, &[Chunk { digest, bytes }])
            .unwrap()
            .remove(0);
        self.write_placed(ino, place);
    }

    pub(crate) fn write_placed(&mut self, ino: Ino, place: ChunkPlace) {
        self.try_write_placed(ino, place).unwrap();
    }

    pub(crate) fn try_write_placed(&mut self, ino: Ino, place: ChunkPlace) -> Result<(), Error> {
        let extent = Extent::Chunk {
            at: place.at,
            start: 0,
            len: place.len,
        };
        let (pieces, time) = (vec![Piece { offset: 0, extent }], Some(self.tick()));
        self.chunks.push(place);
        self.try_change(Op::Write {
            ino,
            pieces,
            size: 0,
            time,
        })
    }

    pub(crate) fn file(&mut self, name: &str, bytes: &[u8]) -> Ino {
        let ino = self.make(Ino::ROOT, name, Kind::File);
        self.write(ino, bytes);
        ino
    }

    /// Takes what was changed since the last batch.
    pub(crate) fn batch(&mut self) -> Batch {
        Batch {
            session: self.session,
            branch: self.id.unwrap(),
            epoch: self.epoch,
            number: self.number + 1,
            previous: self.previous,
            chunks: std::mem::take(&mut self.chunks),
            ops: std::mem::take(&mut self.ops),
        }
    }

    pub(crate) fn ship(&mut self) {
        self.try_ship().unwrap();
    }

    pub(crate) fn try_ship(&mut self) -> Result<(), Error> {
        let batch = self.batch();
        let after = self.hosted.then(|| self.branch.clone());
        let shipped = ship(&self.drive, batch, after)?;
        self.number += 1;
        self.previous = shipped.digest;
        Ok(())
    }

    /// Brings what was changed since the last batch into a stray, and returns its name.
    pub(crate) fn try_salvage(&mut self) -> Result<String, Error> {
        let batch = self.batch();
        let after = self.hosted.then(|| self.branch.clone());
        let salvaged = salvage(&self.drive, batch, after)?;
        self.number += 1;
        self.previous = salvaged.digest;
        Ok(salvaged.stray)
    }

    /// Says that nothing is left that was placed and that no batch has named.
    pub(crate) fn forgo(&self) {
        let placings = self.drive.forgo(self.session, Placings::default()).unwrap();
        self.drive.forgo(self.session, placings).unwrap();
    }

    pub(crate) fn give_back(self) {
        self.drive.give_back(self.session, self.id.unwrap()).unwrap();
        Owner::close(&*self.drive, self.session).unwrap();
    }

    pub(crate) fn find(&self, name: &str) -> Option<Ino> {
        let name = Name::parse(name.as_bytes()).unwrap();
        self.ask(|branch| match branch.lookup(Ino::ROOT, &name) {
            Ok(ino) => Ok(Some(ino)),
            Err(Undecided::Refused(_)) => Ok(None),
            Err(Undecided::Missing(missing)) => Err(missing),
        })
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut after = 0;
        self.ask(|branch| {
            // After a page was missing it goes on where it was.
            branch.list(Ino::ROOT, after, |entry| {
                after = entry.cookie;
                names.push(String::from_utf8_lossy(entry.name).into_owned());
                ControlFlow::Continue(())
            })
        });
        names.sort();
        names
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        self.try_read(name).unwrap()
    }

    pub(crate) fn try_read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let ino = self.find(name).unwrap();
        let size = self.ask(|branch| branch.attr(ino)).unwrap().size;
        let mut bytes = vec![0; size as usize];
        for piece in self.ask(|branch| branch.pieces(ino, 0, size)) {
            let into = &mut bytes[piece.offset as usize..piece.end() as usize];
            match piece.extent {
                Extent::Inline(bytes) => into.copy_from_slice(&bytes),
                Extent::Chunk { at, start, .. } => self.drive.read(at, start, into)?,
            }
        }
        Ok(bytes)
    }
}

/// Ships a batch and waits for what becomes of it.
pub(crate) fn ship(drive: &Drive, batch: Batch, after: Option<Branch>) -> Result<Shipped, Error> {
    let (send, receive) = mpsc::channel();
    drive.ship(batch, after, Box::new(move |shipped| drop(send.send(shipped))));
    receive.recv().expect("every batch is answered")
}

/// As `ship`, into a stray.
pub(crate) fn salvage(drive: &Drive, batch: Batch, after: Option<Branch>) -> Result<Salvaged, Error> {
    let (send, receive) = mpsc::channel();
    drive.salvage(batch, after, Box::new(move |salvaged| drop(send.send(salvaged))));
    receive.recv().expect("every batch is answered")
}

/// Returns bytes that are told apart by `seed`.
pub(crate) fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Returns the sentence of an error.
pub(crate) fn says<T>(outcome: Result<T, Error>) -> String {
    outcome.err().expect("it fails").to_string()
}

/// Collects what is told from any thread.
#[derive(Clone, Default)]
pub(crate) struct Told<T>(Arc<Mutex<Vec<T>>>);

impl<T> Told<T> {
    pub(crate) fn tell(&self, what: T) {
        self.0.lock().push(what);
    }

    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock())
    }
}
