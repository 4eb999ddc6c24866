//! The kinds of requests: the first thing that a call says of itself. Numbers are never given to another kind.

use tenure_model::codec::{Malformed, Reader, malformed};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal,)*) => {
        /// The kinds of requests, by the numbers that stand for them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $kind = $number,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];
        }
    };
}

kinds! {
    /// `Owner::open`.
    Open = 1,
    /// `Owner::close`.
    Close = 2,
    /// `Owner::renew`.
    Renew = 3,
    /// `Owner::lend`.
    Lend = 4,
    /// `Owner::lend_inos`.
    LendInos = 5,
    /// `Owner::give_back`.
    GiveBack = 6,
    /// `Owner::place`.
    Place = 7,
    /// `Owner::ship`.
    Ship = 8,
    /// `Owner::page`.
    Page = 9,
    /// `Owner::read`.
    Read = 10,
    /// `Owner::room`.
    Room = 11,
    /// `Owner::fork`.
    Fork = 12,
    /// `Owner::checkpoint`.
    Checkpoint = 13,
    /// `Owner::delete_branch`.
    DeleteBranch = 14,
    /// `Owner::branches`.
    Branches = 15,
    /// `Owner::status`.
    Status = 16,
    /// `Owner::fold`.
    Fold = 17,
    /// `Owner::check`.
    Check = 18,
    /// To the process itself.
    Control = 19,
    /// `Owner::act`.
    Act = 20,
    /// `Owner::look`.
    Look = 21,
    /// `Owner::hold`.
    Hold = 22,
    /// `Owner::let_go`.
    LetGo = 23,
    /// `Owner::sync`.
    Sync = 24,
    /// `Owner::lock`.
    Lock = 25,
    /// `Owner::hear`.
    Hear = 26,
    /// `Owner::rejoin`.
    Rejoin = 27,
    /// `Owner::salvage`.
    Salvage = 28,
    /// `Owner::take`.
    Take = 29,
    /// `Owner::delegations`.
    Delegations = 30,
    /// `Owner::sealed`.
    Sealed = 31,
    /// `Owner::part`.
    Part = 32,
    /// `Owner::secure`.
    Secure = 33,
    /// `Owner::borrow`.
    Borrow = 34,
    /// `Owner::take_back`.
    TakeBack = 35,
    /// `Owner::prolong`.
    Prolong = 36,
    /// `Owner::look`, when another was asked to ship for it.
    LookAgain = 37,
    /// `Owner::rejoin`, of a session to which something is lent.
    Reclaim = 38,
    /// `Owner::diff`.
    Diff = 39,
    /// `Owner::contents`.
    Contents = 40,
    /// `Owner::undo`.
    Undo = 41,
    /// `Owner::merge`.
    Merge = 42,
    /// `Owner::conflicts`.
    Conflicts = 43,
    /// `Owner::resolve`.
    Resolve = 44,
    /// `Owner::fork`, of one that says more than what to make of what.
    ForkFor = 46,
    /// `Owner::checkpoint`, of one that goes by itself.
    CheckpointFor = 47,
    /// `Owner::rename`.
    Rename = 48,
    /// `Owner::set_plan`.
    SetPlan = 49,
    /// `Owner::plan`.
    Plan = 50,
    /// `Owner::usage`.
    Usage = 51,
    /// `Owner::order`.
    Order = 60,
    /// `Owner::rejoin`, of a session with batches that may be lost.
    Bring = 61,
    /// `Owner::reclaim`.
    ReclaimRoom = 70,
    /// `Owner::forgo`.
    Forgo = 71,
    /// `Owner::stand`.
    Stand = 80,
    /// `Owner::have_shipped`.
    HaveShipped = 81,
    /// `Owner::mark`.
    Mark = 82,
    /// `Owner::marks`.
    Marks = 83,
    /// `Owner::accept`.
    Accept = 84,
    /// `Owner::restore`.
    Restore = 85,
    /// `Owner::fork`, of a branch that waits for a review from its beginning.
    ForkStaged = 86,
    /// `Owner::merge`, of what has conflicts as well.
    MergeUnsettled = 87,
}

impl Kind {
    pub(super) fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let number = input.byte()?;
        Self::ALL
            .iter()
            .copied()
            .find(|kind| *kind as u8 == number)
            .ok_or(malformed("request"))
    }
}
