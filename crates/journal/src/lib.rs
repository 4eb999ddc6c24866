//! The order of a drive: claim, seal, append, replay, manifest; fenced by epoch.
//!
//! [`Opening::begin`] takes the drive's lock, claims the next epoch and finds the newest manifest.
//! [`Opening::replay`] hands over every record since, seals the epochs before and gives the [`Journal`],
//! which puts records in order and says when they are durable. Which bytes are written stands in `docs/FORMAT.md`.

mod chain;
mod envelope;

pub mod epoch;
pub mod manifest;
pub mod seal;

mod segment;

mod evidence;
mod mark;

mod replay;
mod room;

pub mod journal;
pub mod open;

mod audit;

pub use audit::audit;
pub use chain::Position;
pub use epoch::Claim;
pub use journal::{Done, Journal};
pub use manifest::{Manifest, Tier};
pub use open::Opening;
pub use room::Sizes;
pub use seal::Seal;
