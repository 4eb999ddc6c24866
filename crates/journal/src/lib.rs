//! The order of a drive: claim, seal, append, replay, manifest; fenced by epoch.
//!
//! [`Opening::begin`] claims the next epoch and finds the newest manifest. [`Opening::replay`] hands over every record since.
//! [`Opening::go_on`] seals the epochs before and gives the [`Journal`], which puts records in order and says when they are durable. Where they
//! are kept differs by tier: in files under a lock where the bucket has a disk, else in objects, one for each group, under
//! names that whoever comes first has. Which bytes are written stands in `docs/FORMAT.md`.

mod chain;
mod claimant;
mod envelope;
mod put;

pub mod epoch;
pub mod manifest;
pub mod seal;
pub mod spare;

mod evidence;
mod tier;

pub mod journal;
pub mod open;

mod audit;

pub use audit::{Depth, audit};
pub use chain::Position;
pub use claimant::{Claimant, Draw, Means};
pub use epoch::Claim;
pub use journal::{Done, Journal, MANIFESTS_KEPT};
pub use manifest::{Manifest, Tier};
pub use open::{Opening, Replayed};
pub use seal::Seal;
pub use tier::folder::room::Sizes;
