//! What the scenarios share: a drive in memory, a clock that stands still, and a branch that is held.

use crate::owner::Watched;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tenure_client::{Branch, Options, Threads, Witness};
use tenure_model::{
    Address, BranchName, Clock, DriveName, Extent, Ino, Kind, Name, NewNode, Piece, Timestamp,
};
use tenure_server::{Beginning, Drive, JournalSizes};
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::{Access, Error, Owner, Shared, Who};

/// A clock that stands still.
pub(crate) struct StillClock;

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp::since_epoch(Duration::from_secs(1_800_000_000))
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

/// A clock of a machine whose time is set, and that sleeps.
#[derive(Default)]
pub(crate) struct Jumping(AtomicU64);

impl Jumping {
    /// Lets the machine sleep until so many days have gone, and its time of day be set back by as much.
    pub(crate) fn jump_to(&self, day: u64) {
        self.0.store(day * 86_400, Ordering::Relaxed);
    }
}

impl Clock for Jumping {
    fn now(&self) -> Timestamp {
        Timestamp::since_epoch(Duration::from_secs(1_800_000_000) - self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

/// Where the holder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// In the owner's process.
    Here,
    /// In another process.
    Elsewhere,
}

pub(crate) fn drive_name() -> DriveName {
    DriveName::parse("work").unwrap()
}

pub(crate) fn name(text: &str) -> Name {
    Name::parse(text.as_bytes()).unwrap()
}

pub(crate) fn branch_name(text: &str) -> BranchName {
    BranchName::parse(text).unwrap()
}

pub(crate) fn server_options() -> tenure_server::Options {
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    let draw = Arc::new(|| u128::from(DRAWN.fetch_add(1, Ordering::Relaxed)).to_le_bytes());
    tenure_server::Options {
        threads: tenure_server::Threads::None,
        journal_sizes: JournalSizes {
            first: 256 << 10,
            next: 512 << 10,
            reserve: 16 << 10,
        },
        session_ttl: Duration::ZERO,
        ..tenure_server::Options::new(Arc::new(StillClock), draw, "box", 1)
    }
}

/// Returns how a branch is held: everything is done by who calls.
pub(crate) fn options(stage_settle: u64) -> Options {
    Options {
        stage_settle,
        threads: Threads::None,
        ..Options::default()
    }
}

pub(crate) fn create(bucket: Arc<dyn Bucket>) -> Result<Arc<Drive>, Error> {
    create_with(bucket, server_options())
}

pub(crate) fn create_with(
    bucket: Arc<dyn Bucket>,
    options: tenure_server::Options,
) -> Result<Arc<Drive>, Error> {
    let beginning = Beginning {
        hash_key: [7; 16],
        branch: branch_name("main"),
        uid: 0,
        gid: 0,
    };
    Drive::create(bucket, &drive_name(), &beginning, options)
}

pub(crate) fn who(at: At) -> Who {
    Who {
        agent: "ada".into(),
        host: "box".into(),
        pid: 1,
        purpose: "a scene".into(),
        hosted: at == At::Here,
    }
}

pub(crate) fn hold(
    owner: Arc<dyn Owner<tenure_core::Branch>>,
    at: At,
    (of, access): (&str, Access),
    options: Options,
) -> Result<Branch, Error> {
    hold_by(Arc::new(StillClock), owner, at, (of, access), options)
}

/// As `hold`, by another clock.
pub(crate) fn hold_by(
    clock: Arc<dyn Clock>,
    owner: Arc<dyn Owner<tenure_core::Branch>>,
    at: At,
    (of, access): (&str, Access),
    options: Options,
) -> Result<Branch, Error> {
    let opened = owner.open(&who(at))?;
    let witness: Arc<dyn Witness> = Arc::new(());
    Branch::hold(owner, (clock, witness), opened, (of, access), options)
}

/// A drive, and `main` of it, which is held.
pub(crate) struct World {
    pub(crate) bucket: MemoryBucket,
    pub(crate) owner: Arc<Watched>,
    pub(crate) branch: Arc<Branch>,
    at: At,
    options: Options,
}

impl World {
    pub(crate) fn new(at: At, options: Options) -> Self {
        let bucket = MemoryBucket::new();
        let drive = create(Arc::new(bucket.clone())).unwrap();
        Self::on(bucket, drive, at, options)
    }

    fn on(bucket: MemoryBucket, drive: Arc<Drive>, at: At, options: Options) -> Self {
        let owner = Arc::new(Watched::new(drive));
        let branch = hold(owner.clone(), at, ("main", Access::Exclusive), options).unwrap();
        Self {
            bucket,
            owner,
            branch: Arc::new(branch),
            at,
            options,
        }
    }

    /// Gives the branch back, closes the drive and opens both again.
    pub(crate) fn reopen(self) -> Self {
        self.branch.close().unwrap();
        self.owner.drive.close().unwrap();
        let drive = Drive::open(Arc::new(self.bucket.clone()), &drive_name(), server_options()).unwrap();
        Self::on(self.bucket.clone(), drive, self.at, self.options)
    }

    pub(crate) fn file(&self, at: &str) -> Ino {
        make(&self.branch, at).unwrap()
    }

    pub(crate) fn write(&self, ino: Ino, offset: u64, bytes: &[u8]) {
        self.branch
            .write(ino, offset, Bytes::copy_from_slice(bytes))
            .unwrap();
    }

    pub(crate) fn sync(&self, ino: Ino) {
        sync(&self.branch, ino).unwrap();
    }

    pub(crate) fn read(&self, ino: Ino) -> Vec<u8> {
        read(&self.branch, ino)
    }

    /// Returns the extents of a file as the owner has them.
    pub(crate) fn extents(&self, ino: Ino) -> Vec<Piece> {
        extents(&self.owner.drive, ino).unwrap()
    }
}

/// Returns the extents of a file of `main` as the owner has them.
pub(crate) fn extents(drive: &Drive, ino: Ino) -> Result<Vec<Piece>, Error> {
    let opened = drive.open(&who(At::Here))?;
    let Shared::Here(branch) = drive.lend(opened.session, "main", Access::Read)?.state else {
        panic!("a session of this process shares pages")
    };
    let extents = loop {
        match branch.pieces(ino, 0, u64::MAX) {
            Ok(pieces) => break pieces,
            Err(missing) => missing.supply(&drive.page(missing.at())?).unwrap(),
        }
    };
    Owner::close(drive, opened.session)?;
    Ok(extents)
}

/// Returns what an inode of root's is made from.
pub(crate) fn node(kind: Kind) -> NewNode {
    NewNode {
        kind,
        mode: 0o755,
        ..NewNode::file()
    }
}

pub(crate) fn make(branch: &Branch, at: &str) -> Result<Ino, Error> {
    Ok(branch.create(Ino::ROOT, &name(at), &node(Kind::File))?.0)
}

pub(crate) fn sync(branch: &Branch, ino: Ino) -> Result<(), Error> {
    let (send, receive) = mpsc::sync_channel(1);
    branch.sync(ino, Box::new(move |synced| drop(send.send(synced))));
    receive.recv().unwrap()
}

pub(crate) fn read(branch: &Branch, ino: Ino) -> Vec<u8> {
    let mut bytes = Vec::new();
    let size = branch.attr(ino).unwrap().size;
    branch.read(ino, 0, size as usize, &mut bytes).unwrap();
    bytes
}

/// Returns the chunks of extents.
pub(crate) fn chunks(extents: &[Piece]) -> BTreeSet<Address> {
    let chunk = |piece: &Piece| match &piece.extent {
        Extent::Chunk { at, .. } => Some(*at),
        Extent::Inline(_) => None,
    };
    extents.iter().filter_map(chunk).collect()
}

/// Chooses, always the same.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
