//! The batches in the world of `seen`, and the journal that they are in.

/// How many batches a session may make.
pub(super) const NUMBERS: usize = 2;
/// How many batches the journal can hold: a session and its clone share their places.
const ITEMS: usize = 2 * NUMBERS;

/// A batch: who made it, and its number from 1. Line 2 is a clone of line 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Batch {
    pub(super) line: usize,
    pub(super) number: u8,
}

impl Batch {
    /// Returns the batch's bit in a set of batches.
    pub(super) fn bit(self) -> u8 {
        1 << (self.line * NUMBERS + usize::from(self.number) - 1)
    }

    fn code(self) -> u8 {
        (self.line * NUMBERS) as u8 + self.number
    }

    fn of_code(code: u8) -> Option<Self> {
        let place = usize::from(code.checked_sub(1)?);
        let (line, number) = (place / NUMBERS, (place % NUMBERS) as u8 + 1);
        Some(Self { line, number })
    }

    /// Returns which session its maker is, or believes to be.
    pub(super) fn session(self) -> usize {
        self.line % 2
    }

    /// Returns every batch that may be made.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..3).flat_map(|line| [1, 2].map(|number| Self { line, number }))
    }
}

/// What is ordered, and how much of it is durable.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Journal {
    /// Each batch by its place in [`Batch::bit`], from 1; 0 is none.
    items: [u8; ITEMS],
    pub(super) length: u8,
    pub(super) durable: u8,
}

impl Journal {
    pub(super) const EMPTY: Self = Self {
        items: [0; ITEMS],
        length: 0,
        durable: 0,
    };

    /// Returns the batches in their order.
    fn ordered(&self) -> impl Iterator<Item = Batch> {
        self.items.iter().map_while(|code| Batch::of_code(*code))
    }

    pub(super) fn order(&mut self, batch: Batch) {
        self.items[usize::from(self.length)] = batch.code();
        self.length += 1;
    }

    /// Loses what is not durable.
    pub(super) fn recover(&mut self) {
        self.items[usize::from(self.durable)..].fill(0);
        self.length = self.durable;
    }

    pub(super) fn at(&self, place: usize) -> Option<Batch> {
        Batch::of_code(self.items[place])
    }

    /// Returns the first `end` batches as a set.
    pub(super) fn set(&self, end: u8) -> u8 {
        let first = self.ordered().take(usize::from(end));
        first.fold(0, |set, batch| set | batch.bit())
    }

    /// Whether `holds` is true of every batch and its place.
    pub(super) fn all(&self, holds: impl Fn(u8, Batch) -> bool) -> bool {
        (0u8..).zip(self.ordered()).all(|(at, batch)| holds(at, batch))
    }

    /// Returns how many batches of the session that made `batch` are ordered.
    pub(super) fn count(&self, batch: Batch) -> u8 {
        let of_one = self.ordered().filter(|other| other.session() == batch.session());
        of_one.fold(0, |count, _| count + 1)
    }

    /// Returns the last batch of the session that made `batch`.
    pub(super) fn last_of(&self, batch: Batch) -> Option<Batch> {
        self.ordered()
            .filter(|other| other.session() == batch.session())
            .last()
    }
}
