//! What happens: given the state of a branch and an op, what it becomes, or why not. No I/O, clock, randomness or thread.
//!
//! A [`Branch`] is a [`Tree`] of small records. [`Branch::decide`] says what an op would change and touches nothing;
//! [`Branch::apply`] makes the change and cannot fail. A page that is not in memory is named ([`Missing`]), so that the
//! caller loads it and asks again. Server, client, simulator and `check` all run this code.

mod altered;
pub mod branch;
mod change;
mod check;
mod conflicts;
mod content;
mod cookie;
pub mod cover;
pub mod diff;
mod edits;
mod kept;
mod key;
pub mod locks;
mod merge;
mod ops;
mod read;
mod restore;
mod stored;
mod touched;
pub mod tree;

pub use altered::Altered;
pub use branch::{Branch, Decision, Outcome, Totals, Undecided};
pub use conflicts::{Conflicts, Standing};
pub use content::filled::fill;
pub use content::frayed::{Frayed, Search};
pub use cookie::NameHash;
pub use cover::{Cover, Lent, Plan};
pub use diff::Diff;
pub use locks::Locks;
pub use merge::{Both, Merge, Merged, Settled, Terms};
pub use read::{DirEntry, Seek};
pub use restore::{Restore, Source};
pub use stored::Stored;
pub use touched::{Fate, Touched};
pub use tree::{Missing, Tree};
