//! Places in the order of a drive, and the hash that chains its records.
//!
//! Invariant: two histories with the same chain at a seq are the same up to it.

use tenure_model::{Digest, DriveName, Epoch, Seq};

/// A place in the order of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The last record.
    pub seq: Seq,
    /// The hash over every record up to it.
    pub chain: Digest,
}

impl Position {
    /// Returns the place before a drive's first record.
    pub fn beginning(drive: &DriveName) -> Self {
        Self {
            seq: Seq(0),
            chain: Digest::of(format!("tenure journal of {drive}").as_bytes()),
        }
    }

    /// Returns the place behind one more record.
    pub fn after(&self, epoch: Epoch, record: &[u8]) -> Self {
        let seq = self.seq.next();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.chain.0);
        hasher.update(&epoch.0.to_le_bytes());
        hasher.update(&seq.0.to_le_bytes());
        hasher.update(record);
        Self {
            seq,
            chain: Digest(*hasher.finalize().as_bytes()),
        }
    }
}
