//! What goes wrong: power that fails at a call, buckets that refuse, disks that lie, owners that are too quick.
//!
//! It knows calls and bytes, and nothing of files.

mod machine;
mod owner;

pub(crate) use machine::{Loss, Machine};
pub(crate) use owner::{Planted, Syncing};

/// A fault of ours that is put in on purpose: the simulator must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The owner acknowledges a batch before it has it.
    AcknowledgesEarly,
    /// The disk says that it has synced, and has not.
    SkipsSyncs,
    /// Two changes of one file's bytes are shipped in the wrong order.
    Misorders,
    /// A file's new name is shipped, and its bytes with the batch after.
    NamesBeforeBytes,
}

impl Plant {
    /// Every fault.
    pub const ALL: [Plant; 4] = [
        Plant::AcknowledgesEarly,
        Plant::SkipsSyncs,
        Plant::Misorders,
        Plant::NamesBeforeBytes,
    ];
}
