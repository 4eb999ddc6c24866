//! The batches in the world of `batch`, and who makes them.

/// How many batches one line of a session may make.
pub(super) const NUMBERS: u8 = 2;

/// Who makes batches: a session, its clone, and another session whose one batch the first may see.
pub(crate) const LINES: [Line; 3] = [Line::Session, Line::Clone, Line::Other];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Line {
    Session,
    Clone,
    Other,
}

/// A batch: who made it, and its number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Batch {
    pub(super) line: Line,
    pub(super) number: u8,
}

/// The one batch of the other session.
pub(crate) const FOREIGN: Batch = Batch {
    line: Line::Other,
    number: 1,
};

impl Batch {
    fn index(self) -> usize {
        self.line as usize * usize::from(NUMBERS) + usize::from(self.number) - 1
    }

    /// Returns the batch's bit in a set of batches.
    pub(super) fn bit(self) -> u8 {
        1 << self.index()
    }

    /// A session and its clone are one session for the owner.
    pub(super) fn is_of_the_session(self) -> bool {
        self.line != Line::Other
    }

    /// Returns every batch that may be made.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let session = [Line::Session, Line::Clone].into_iter();
        session
            .flat_map(|line| (1..=NUMBERS).map(move |number| Self { line, number }))
            .chain([FOREIGN])
    }
}
