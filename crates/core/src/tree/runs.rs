//! Which inserts into a page came one behind the other, so that a page is cut where more of them will come.
//!
//! A drive's records grow in several places at once: inodes at the end of their prefix, entries inside a directory. So
//! two places are kept: where the latest run stands, and where the latest insert was that continued none. It is a guess
//! about the future, never written, and no answer depends on it.

use std::ops::Range;

/// Where runs of inserts stand in a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs {
    /// The latest entry of the latest run.
    run: Option<u32>,
    /// The latest entry that continued no run.
    lone: Option<u32>,
}

impl Runs {
    /// Returns that there was no insert yet.
    pub(super) const NONE: Self = Self {
        run: None,
        lone: None,
    };

    /// Notes an insert at `at`.
    pub(super) fn note(&mut self, at: usize) {
        let Ok(at) = u32::try_from(at) else { return };
        let is_before = |place: &u32| place + 1 == at;
        let moved = |place: Option<u32>| place.map(|place| place + u32::from(place >= at));
        *self = if self.run.as_ref().is_some_and(is_before) {
            Self {
                run: Some(at),
                lone: moved(self.lone),
            }
        } else if self.lone.as_ref().is_some_and(is_before) {
            Self {
                run: Some(at),
                lone: moved(self.run),
            }
        } else {
            Self {
                run: moved(self.run),
                lone: Some(at),
            }
        };
    }

    /// Tells whether `at` is the latest entry of a run.
    pub(super) fn is_latest(self, at: usize) -> bool {
        self.run.is_some_and(|run| run as usize == at)
    }

    /// Returns what is known of the entries in `range`, which are counted from there on.
    pub(super) fn within(self, range: Range<usize>) -> Self {
        let within = |place: u32| {
            let is_within = range.contains(&(place as usize));
            is_within.then(|| place - range.start as u32)
        };
        Self {
            run: self.run.and_then(within),
            lone: self.lone.and_then(within),
        }
    }
}
