//! A client as a Linux file system: `kernel` speaks FUSE, `ops` translates its requests into calls of a held branch.
//!
//! No rule lives here: what a request means is decided in `core`, by way of the client.

pub mod kernel;
mod ops;

pub use ops::{Checkpoints, Had, Inside, Mount, Options, Status};
