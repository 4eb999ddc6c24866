//! How we know that it is right: one world per seed, and the protocol model.
//!
//! A [`world`] is a drive, a client that holds a branch, a disk that fails and a clock that is moved, all driven by one
//! seed on one thread. The [`workload`] chooses what happens, [`fault`] what goes wrong, and [`check`] holds what is seen
//! against what was promised. The three do not know each other. A [`crowd`] is the same drive and client with all their
//! threads, where nothing repeats itself; [`servers`] are several over one bucket without a lock, of which some clients share a branch.
//! [`model`] is the protocol, small enough to try everything.

pub mod model;

pub mod clock;
mod program;
mod random;
mod shared;
mod trace;
mod turns;

pub mod check;
pub mod fault;
pub mod workload;
pub mod world;

pub mod crowd;
pub mod servers;
