//! A server's memory in the world of `fold`.

use super::history::{EMPTY, History, Nonce, Place};

/// What a server is doing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    /// Not running, or told that it is fenced.
    Down,
    /// It claimed its epoch, or starts over.
    Claimed,
    /// It reads the journal, next at this place.
    Reading(Place),
    /// It appends to its epoch; the first segment is its opening.
    Owner,
}

/// A server's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Server {
    pub(super) phase: Phase,
    pub(super) epoch: u8,
    /// What it read, and what it appended and knows to be durable.
    pub(super) history: History,
    /// The place of its next segment.
    pub(super) next: u8,
    /// The segment sent to that place.
    pub(super) sent: Option<Nonce>,
    /// Whether it knows that this stands there.
    pub(super) stands: bool,
}

/// A server that is not running.
pub(super) const DOWN: Server = Server {
    phase: Phase::Down,
    epoch: 0,
    history: EMPTY,
    next: 0,
    sent: None,
    stands: false,
};

impl Server {
    /// Returns a server that has claimed `epoch` and read nothing.
    pub(super) fn claimant_of(epoch: u8) -> Self {
        Self {
            phase: Phase::Claimed,
            epoch,
            ..DOWN
        }
    }
}
