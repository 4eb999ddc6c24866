//! A drive in a program: a branch that this session holds, changed at memory speed and shipped to its owner.
//!
//! A [`Branch`] runs the same `core` as the owner. Every change is decided here and goes to one ordered log; written
//! bytes wait in the stage until they are settled as chunks. The shipper cuts the log into batches, which the owner
//! makes durable. Nothing here knows a kernel, a bucket or a clock of its own.

mod branch;
mod change;
mod cut;
mod damage;
mod ended;
mod entry;
mod file;
mod files;
mod forgo;
mod frays;
mod kept;
mod lapse;
mod lent;
pub mod lines;
mod log;
mod merge;
mod near;
mod place;
mod retained;
mod reviews;
mod salvage;
mod settle;
mod shared;
mod ship;
mod stage;
mod still;
pub mod wait;
mod wants;
pub mod warm;
mod watch;

pub use branch::{Branch, Options, Threads, Unsynced, Witness};
pub use files::{Files, Listing, ListingRoom};
pub use lapse::{Patience, hold_when_free};
pub use lines::Lines;
pub use reviews::Reviews;
pub use salvage::Salvage;
pub use shared::{SharedBranch, Told, Wished};
pub use still::Company;
pub use tenure_core::{Altered, DirEntry, Outcome, Seek, Totals};
pub use tenure_wire::{
    Access, BranchInfo, CheckpointAsk, Created, Done, Error, ForkAsk, IfThere, Owner, Room,
};
