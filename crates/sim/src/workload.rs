//! What happens in a world: programs that use files, people who fork and remount, and time.
//!
//! A step is chosen from what there is now and from the seed; whether it may be done is for the drive to say. Nothing here
//! knows what a drive promises.

mod choose;
mod profile;

pub(crate) use choose::choose;
pub use profile::Profile;

use std::time::Duration;
use tenure_model::{Ino, Kind, Name, RenameMode, XattrMode, XattrName};

/// A place for an entry.
pub(crate) type Place = (Ino, Name);

/// One thing that happens.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A new inode, with an entry or without (then in the directory of the place).
    Create { at: Place, kind: Kind, mode: u32, is_named: bool },
    Link { ino: Ino, to: Place },
    /// Removes an entry; what loses its last one is dropped at once, or later.
    Unlink { at: Place, drops: bool },
    Rmdir { at: Place },
    Rename { from: Place, to: Place, mode: RenameMode },
    SetMode { ino: Ino, mode: u32 },
    SetOwner { ino: Ino, owner: (u32, u32) },
    SetXattr { ino: Ino, name: XattrName, len: usize, mode: XattrMode },
    RemoveXattr { ino: Ino, name: XattrName },
    Drop { ino: Ino },
    /// Writes bytes that follow from `seed`.
    Write { ino: Ino, offset: u64, len: usize, seed: u64 },
    Append { ino: Ino, len: usize, seed: u64 },
    Resize { ino: Ino, size: u64 },
    Punch { ino: Ino, offset: u64, len: u64 },
    Collapse { ino: Ino, offset: u64, len: u64 },
    Insert { ino: Ino, offset: u64, len: u64 },
    Copy { from: (Ino, u64), to: (Ino, u64), len: u64 },
    Sync { ino: Ino },
    SyncAll,
    Read { ino: Ino, offset: u64, len: usize },
    Look { ino: Ino },
    /// Compares everything.
    Compare,
    Pass { time: Duration },
    /// The time of day jumps.
    Jump { secs: i64 },
    /// Nothing is done for long.
    Idle,
    Fork,
    Checkpoint,
    Delete,
    /// Looks at a branch or checkpoint that nobody holds.
    Inspect,
    /// Gives the branch back and takes it, or another, again.
    Remount,
    /// Closes the drive and opens it again.
    Reopen,
    Fold,
    Check,
    /// The process ends; what it had not written is gone.
    Kill,
    /// The machine loses its power between two calls.
    LosePower,
    /// Faults begin, or end.
    Trouble,
}
