//! Marks of segments: which ones there must be, whatever a listing of the journal shows.
//!
//! A mark is an empty file, made when the segment has its name and before its first record is written; when a segment goes, its
//! mark goes first. Invariant: a mark without its segment means that the segment was lost.

use tenure_model::{DriveName, Epoch, Failure, Seq};
use tenure_store::key::{number_text, parse_number};
use tenure_store::{Disk, Key};

/// Which segment is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) epoch: Epoch,
    pub(crate) first: Seq,
}

impl Mark {
    /// Returns the mark that `name` stands for, among the claims.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (epoch, first) = name.split_once('.')?;
        Some(Self {
            epoch: Epoch(parse_number(epoch)?),
            first: Seq(parse_number(first)?),
        })
    }

    pub(crate) fn key(self, drive: &DriveName) -> Key {
        let name = format!("{}.{}", number_text(self.epoch.0), number_text(self.first.0));
        Key::in_drive(drive, &["epochs", &name])
    }

    /// Returns the key of the segment that it marks.
    pub(crate) fn segment(self, drive: &DriveName) -> Key {
        let names = [&number_text(self.epoch.0), &number_text(self.first.0)];
        Key::in_drive(drive, &["journal", names[0], names[1]])
    }

    /// Makes it, durably.
    pub(crate) fn make(self, disk: &dyn Disk, drive: &DriveName) -> Result<(), Failure> {
        disk.create(&self.key(drive)).map(drop)
    }

    /// Removes it, durably; one that is not there is no failure.
    pub(crate) fn remove(self, disk: &dyn Disk, drive: &DriveName) -> Result<(), Failure> {
        disk.remove(&self.key(drive))
    }
}
