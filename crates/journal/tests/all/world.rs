//! What the tests share: opening a drive's journal, and records that tell themselves apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure_journal::{Claimant, Draw, Journal, Manifest, Means, Opening, Position, Sizes};
use tenure_model::{Clock, DriveName, Failure, Seq, Timestamp};
use tenure_store::{Bucket, MemoryBucket, OpenError};

/// Segments of a few blocks, so that tests see many of them.
pub(crate) const SMALL: Sizes = Sizes {
    first: 6 * 4096,
    next: 10 * 4096,
    reserve: 4096,
};

pub(crate) type Records = Vec<(Seq, Bytes)>;

/// A record that is shown by its beginning and its length.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}.. {}", &self.0[..self.0.len().min(2)], self.0.len())
    }
}

/// What the journal's promises are tested on: each tier, on a bucket in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Files,
    Objects,
}

pub(crate) const TIERS: [On; 2] = [On::Files, On::Objects];

impl On {
    /// Returns the bucket as an owner sees it.
    pub(crate) fn bucket(self, memory: &MemoryBucket) -> Arc<dyn Bucket> {
        match self {
            On::Files => Arc::new(memory.clone()),
            On::Objects => Arc::new(memory.without_disk()),
        }
    }

    /// Returns an empty one.
    pub(crate) fn new_bucket(self) -> Arc<dyn Bucket> {
        self.bucket(&MemoryBucket::new())
    }
}

/// A clock that goes on when it is told to.
#[derive(Default)]
pub(crate) struct Hand(AtomicU64);

impl Hand {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::since_epoch(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Draws what nobody has drawn before.
pub(crate) fn draw() -> Draw {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    Arc::new(|| u128::from(DRAWN.fetch_add(1, Ordering::SeqCst)).to_le_bytes())
}

pub(crate) fn claimant(who: &str) -> Claimant {
    claimant_with(who, draw(), Arc::new(Hand::default()))
}

pub(crate) fn claimant_with(who: &str, draw: Draw, clock: Arc<dyn Clock>) -> Claimant {
    Claimant {
        who: who.to_owned(),
        after: None,
        means: Means {
            reads_at_once: 1,
            ..Means::new(clock, draw)
        },
    }
}

pub(crate) fn drive() -> DriveName {
    DriveName::parse("work").unwrap()
}

/// Returns a record that follows from its number, of a length that does too.
pub(crate) fn record(number: u64) -> Vec<u8> {
    let len = 1 + (number * 389 % 700) as usize;
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(8 + len, number as u8);
    bytes
}

/// Opens the drive and returns the records since its manifest.
pub(crate) fn open(bucket: &Arc<dyn Bucket>) -> Result<(Arc<Journal>, Records), OpenError> {
    open_as(bucket, "the test", SMALL)
}

pub(crate) fn open_as(
    bucket: &Arc<dyn Bucket>,
    who: &str,
    sizes: Sizes,
) -> Result<(Arc<Journal>, Records), OpenError> {
    open_by(bucket, claimant(who), sizes)
}

pub(crate) fn open_by(
    bucket: &Arc<dyn Bucket>,
    claimant: Claimant,
    sizes: Sizes,
) -> Result<(Arc<Journal>, Records), OpenError> {
    let opening = Opening::begin(bucket.clone(), &drive(), claimant)?.with_sizes(sizes);
    let mut records = Vec::new();
    let mut apply = |seq: Seq, record: &[u8]| {
        records.push((seq, Bytes(record.to_vec())));
        Ok(())
    };
    let replayed = opening.replay(&mut apply)?;
    let journal = opening.go_on(replayed)?;
    Ok((journal, records))
}

/// Returns the records `first..=last`, as a replay hands them over.
pub(crate) fn records(first: u64, last: u64) -> Records {
    (first..=last)
        .map(|number| (Seq(number), Bytes(record(number))))
        .collect()
}

/// Appends the records `first..=last`, each durable before the next.
pub(crate) fn append(journal: &Journal, first: u64, last: u64) -> Result<Position, Failure> {
    let mut at = journal.durable();
    for number in first..=last {
        at = journal.append_now(record(number))?;
        assert_eq!(at.seq, Seq(number));
    }
    Ok(at)
}

pub(crate) fn manifest(journal: &Journal, at: Position) -> Manifest {
    journal.manifest(at, None, format!("the state after {}", at.seq).into_bytes())
}
