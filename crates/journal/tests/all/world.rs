//! What the tests share: opening a drive's journal, and records that tell themselves apart.

use std::sync::Arc;
use tenure_journal::{Journal, Manifest, Opening, Position, Sizes, Tier};
use tenure_model::{DriveName, Failure, Seq};
use tenure_store::{Bucket, OpenError};

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
    let opening = Opening::begin(bucket.clone(), &drive(), who, [7; 16])?.with_sizes(sizes);
    let mut records = Vec::new();
    let mut apply = |seq: Seq, record: &[u8]| {
        records.push((seq, Bytes(record.to_vec())));
        Ok(())
    };
    let journal = opening.replay(&mut apply)?;
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
    Manifest {
        drive: drive(),
        epoch: journal.epoch(),
        at,
        tier: Tier::Folder,
        root: None,
        state: format!("the state after {}", at.seq).into_bytes(),
    }
}
