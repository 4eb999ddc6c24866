//! Opens a drive, runs core behind the journal, lends authority and folds.
//!
//! A [`Drive`] is the owner of one drive and answers the calls of [`tenure_wire::Owner`]. What it accepts goes into its
//! state and into the journal in one step; what it acknowledges is durable. In a client's own process branches and
//! bytes are shared with it; for any other they are written out first.

mod drive;
mod open;
mod outset;
mod recover;

mod proof;

mod automatic;
mod branches;
mod check;
mod graft;
mod lend;
mod merge;
mod resolve;
mod restore;
mod review;
mod session;
mod shared;
mod ship;
mod still;
mod stray;
mod tend;
mod turn;
mod vet;

mod decide;
mod diff;
mod order;
mod state;

mod fold;
mod health;
mod holds;
mod known;
mod load;
mod place;
mod reclaim;
mod trail;
mod usage;
mod work;

mod admin;
mod drives;
mod holder;

pub use admin::{Listing, Part, delete, list};
pub use drive::{Drive, Options, Threads};
pub use drives::{Drives, Peers};
pub use holder::{Holder, holder};
pub use open::Beginning;
pub use tenure_journal::{Draw, Sizes as JournalSizes};
pub use tenure_store::pack::Sizes as PackSizes;
