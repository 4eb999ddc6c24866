//! The kernel room over real mounts, with a small file system in memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod daemon;
mod interrupted;
mod memory;
mod mounted;
