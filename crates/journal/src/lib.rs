//! The order of a drive: claim, seal, append, replay, manifest; fenced by epoch.
//!
//! [`Opening::begin`] takes the drive's lock, claims the next epoch and finds the newest manifest.
//! [`Opening::replay`] hands over every record since, seals the epochs before and gives the [`Journal`],
//! which puts records in order and says when they are durable. Which bytes are written stands in `docs/FORMAT.md`.

pub mod epoch;
pub mod journal;
pub mod manifest;
pub mod open;

pub use epoch::Claim;
pub use journal::{Done, Journal};
pub use manifest::{Manifest, Tier};
pub use open::Opening;

use tenure_model::{Digest, Seq};

/// A place in the order of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The last record.
    pub seq: Seq,
    /// The hash over every record up to it.
    pub chain: Digest,
}
