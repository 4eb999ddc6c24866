//! The journal in the world of `batch`: a list with a durable prefix.

use super::line::{Batch, FOREIGN};

/// The most items: the session's and the other's batches, a second grant, and a revocation.
const ITEMS: usize = 5;

/// What the journal holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Item {
    Batch(Batch),
    /// The session, which had given its grant back, has it again.
    Granted,
    /// The session's grant was given to another.
    Revoked,
}

/// What is ordered, and how much of it is durable.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Journal {
    items: [Option<Item>; ITEMS],
    pub(super) length: u8,
    pub(super) durable: u8,
}

impl Journal {
    pub(super) const EMPTY: Self = Self {
        items: [None; ITEMS],
        length: 0,
        durable: 0,
    };

    /// Puts an item in order.
    pub(super) fn order(&mut self, item: Item) {
        self.items[usize::from(self.length)] = Some(item);
        self.length += 1;
    }

    /// Loses what is not durable.
    pub(super) fn recover(&mut self) {
        self.items[usize::from(self.durable)..].fill(None);
        self.length = self.durable;
    }

    /// Whether `item` is among the first `end`.
    pub(super) fn has_before(&self, end: u8, item: Item) -> bool {
        self.items[..usize::from(end)].contains(&Some(item))
    }

    /// Whether `item` is ordered.
    pub(super) fn has(&self, item: Item) -> bool {
        self.has_before(self.length, item)
    }

    /// Whether the other session's batch is ordered.
    pub(super) fn has_foreign(&self) -> bool {
        self.has(Item::Batch(FOREIGN))
    }

    /// Whether `holds` is true of every batch and its place.
    pub(super) fn all(&self, holds: impl Fn(u8, Batch) -> bool) -> bool {
        (0u8..).zip(&self.items).all(|(at, item)| match item {
            Some(Item::Batch(batch)) => holds(at, *batch),
            Some(Item::Granted | Item::Revoked) | None => true,
        })
    }

    /// Returns the last batch of the session that made `batch`.
    pub(super) fn last_of(&self, batch: Batch) -> Option<Batch> {
        self.items.iter().rev().find_map(|item| match item {
            Some(Item::Batch(last)) if last.is_of_the_session() == batch.is_of_the_session() => Some(*last),
            Some(Item::Batch(_) | Item::Granted | Item::Revoked) | None => None,
        })
    }

    /// Returns the last batch of the session that made `batch`, if nothing was granted since.
    pub(super) fn last_of_the_grant(&self, batch: Batch) -> Option<Batch> {
        let granted = self.items.iter().position(|item| *item == Some(Item::Granted));
        let last = self.last_of(batch)?;
        let at = self
            .items
            .iter()
            .position(|item| *item == Some(Item::Batch(last)));
        (at > granted).then_some(last)
    }

    /// Whether a batch of the session of `batch` and with its number, or a higher one, is among the first `end` items.
    pub(super) fn has_number(&self, end: u8, batch: Batch) -> bool {
        let reaches = |other: &Batch| {
            other.is_of_the_session() == batch.is_of_the_session() && other.number >= batch.number
        };
        self.items[..usize::from(end)].iter().any(|item| match item {
            Some(Item::Batch(other)) => reaches(other),
            Some(Item::Granted | Item::Revoked) | None => false,
        })
    }
}
