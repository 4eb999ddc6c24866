//! What the store promises over buckets that real servers keep. `./check stores` installs and starts them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod conform;
mod faults;
mod refused;
mod servers;
