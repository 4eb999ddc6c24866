//! Faults of ours in worlds of several servers: in their store, in an owner, or on the way of those who share a branch.

/// A fault of ours that is put in on purpose: worlds of several servers must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The store puts whatever it is given, also where something is.
    Overwrites,
    /// Segments are said to be there and are not: what was acknowledged was not durable.
    KeepsNoSegments,
    /// Seals are said to be there and are not: who was deposed can go on.
    SealsNothing,
    /// Nobody sees a claim or a segment that another made behind its own: an owner never learns that it was deposed.
    SeesNoOther,
    /// An owner waits for nobody: its clock has gone on when it has taken a drive over.
    WaitsForNobody,
    /// A new owner waits for none of those who share a branch, and goes on without them.
    GathersNobody,
    /// Who shares a branch brings the next owner nothing.
    BringsNothing,
    /// A question is answered as it was answered before.
    AnswersFromThePast,
    /// An act whose answer was lost is done again.
    DoesTwice,
    /// A sync of what is shared is acknowledged by nobody who has anything.
    SyncsNothing,
    /// A session that is over is told that what it asks was done.
    BelievesAnybody,
    /// Two have one lock.
    LocksForAll,
    /// The locks of who has gone stay.
    KeepsLocks,
    /// What is open somewhere goes with its last name.
    HoldsNothing,
    /// Who was lent something relies on it for ever, though he is not heard.
    ReliesForEver,
}

impl Flaw {
    /// Every flaw.
    pub const ALL: [Flaw; 15] = [
        Flaw::Overwrites,
        Flaw::KeepsNoSegments,
        Flaw::SealsNothing,
        Flaw::SeesNoOther,
        Flaw::WaitsForNobody,
        Flaw::GathersNobody,
        Flaw::BringsNothing,
        Flaw::AnswersFromThePast,
        Flaw::DoesTwice,
        Flaw::SyncsNothing,
        Flaw::BelievesAnybody,
        Flaw::LocksForAll,
        Flaw::KeepsLocks,
        Flaw::HoldsNothing,
        Flaw::ReliesForEver,
    ];
}
