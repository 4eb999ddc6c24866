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
    /// Something with entries.
    Entry(EntryStep),
    /// Something with an inode.
    Inode(Ino, InodeStep),
    /// Something with a file's bytes.
    Content(Ino, ContentStep),
    SyncAll,
    /// Compares everything.
    Compare,
    Pass {
        time: Duration,
    },
    /// The time of day jumps.
    Jump {
        secs: i64,
    },
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
    /// Another client acts.
    Switch,
    /// Somebody asks for the branch that is held.
    Ask,
    /// Somebody takes the branch from a holder that has been silent for too long.
    TakeOver,
    Fold,
    Check,
    /// The process ends; what it had not written is gone.
    Kill,
    /// The machine loses its power between two calls.
    LosePower,
    /// Faults begin.
    Trouble,
}

/// Something with entries.
#[derive(Clone, Debug)]
pub(crate) enum EntryStep {
    /// A new inode, with an entry or without (then in the directory of the place).
    Create {
        at: Place,
        kind: Kind,
        mode: u32,
        is_named: bool,
    },
    Link {
        ino: Ino,
        to: Place,
    },
    /// Removes an entry; what loses its last one is dropped at once, or later.
    Unlink {
        at: Place,
        drops: bool,
    },
    Rmdir {
        at: Place,
    },
    Rename {
        from: Place,
        to: Place,
        mode: RenameMode,
    },
}

/// Something with an inode.
#[derive(Clone, Debug)]
pub(crate) enum InodeStep {
    SetMode(u32),
    SetOwner(u32, u32),
    SetXattr {
        name: XattrName,
        len: usize,
        mode: XattrMode,
    },
    RemoveXattr(XattrName),
    /// Sets an access control list.
    SetAcl {
        name: XattrName,
        list: Vec<u8>,
    },
    /// Forgets an inode that has no entry.
    Drop,
    Sync,
    /// Compares what it says of itself.
    Look,
}

/// Something with a file's bytes. Those that are written follow from a seed.
#[derive(Clone, Debug)]
pub(crate) enum ContentStep {
    Write { offset: u64, len: usize, seed: u64 },
    Append { len: usize, seed: u64 },
    Resize(u64),
    Punch { offset: u64, len: u64 },
    Collapse { offset: u64, len: u64 },
    Insert { offset: u64, len: u64 },
    Copy { offset: u64, to: (Ino, u64), len: u64 },
    Read { offset: u64, len: usize },
}
