//! What goes wrong: power that fails at a call, buckets that refuse, disks that lie, owners that are too quick.
//!
//! It knows calls and bytes, and nothing of files.

mod chain;
mod flaw;
mod lane;
mod machine;
mod owner;
mod store;

pub use flaw::Flaw;
pub(crate) use lane::{Heir, Lane, Owning, Sessions};
pub(crate) use machine::{After, Late, Loss, Machine};
pub(crate) use owner::{Planted, Syncing};
pub(crate) use store::Store;

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
    /// The owner orders a batch in two halves.
    TearsBatches,
    /// The owner asks nobody whether he still holds what he changes.
    TrustsAnybody,
    /// Seals are said to be there and are not: an epoch that is over can grow.
    SealsNothing,
    /// A manifest is said to be there and is not, and the journal before it goes.
    LosesFolds,
    /// What sessions have placed and not named yet is kept for nobody.
    ClaimsNothing,
    /// The pack in which the newest manifest's rows are goes with whatever is given up.
    DeletesRows,
}

impl Plant {
    /// Every fault.
    pub const ALL: [Plant; 10] = [
        Plant::AcknowledgesEarly,
        Plant::SkipsSyncs,
        Plant::Misorders,
        Plant::NamesBeforeBytes,
        Plant::TearsBatches,
        Plant::TrustsAnybody,
        Plant::SealsNothing,
        Plant::LosesFolds,
        Plant::ClaimsNothing,
        Plant::DeletesRows,
    ];

    /// Returns the part of the keys of objects that the bucket says to have and has not.
    pub(crate) fn feigned(self) -> Option<&'static str> {
        match self {
            Plant::SealsNothing => Some("/sealed"),
            Plant::LosesFolds => Some("/manifests/"),
            Plant::AcknowledgesEarly
            | Plant::SkipsSyncs
            | Plant::Misorders
            | Plant::NamesBeforeBytes
            | Plant::TearsBatches
            | Plant::TrustsAnybody
            | Plant::ClaimsNothing
            | Plant::DeletesRows => None,
        }
    }

    /// Tells whether it is in the owner, and not in the disk or bucket.
    pub(crate) fn is_of_owners(self) -> bool {
        !matches!(self, Plant::SkipsSyncs | Plant::DeletesRows) && self.feigned().is_none()
    }

    /// Tells whether it shows only where the client is in another process than the owner.
    pub(crate) fn needs_a_client_elsewhere(self) -> bool {
        self == Plant::TrustsAnybody
    }
}
