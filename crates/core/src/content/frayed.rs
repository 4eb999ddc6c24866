//! Frayed runs: neighbouring extents that are so short that fewer, longer chunks should hold their bytes.
//!
//! This finds them and changes nothing: who holds the branch puts the same bytes there again, as long chunks.
//! Invariant: a run has no gap, so what is put over it fills no hole.

use super::piece;
use crate::branch::Branch;
use crate::key::Key;
use crate::tree::Missing;
use std::ops::{Bound, ControlFlow};
use tenure_model::{Ino, Piece};

/// Bytes from which an extent is never part of a run: it is worth more than what copying it gains.
const LONG: u64 = 128 << 10;
/// Extents that a run has at least: fewer are not worth a chunk of their own.
const EXTENTS_MIN: usize = 8;
/// Bytes that the extents of a run have on average, at most. A program's write makes two extents more at most, so that
/// merging copies no more than twice this for each write.
const MEAN_MAX: u64 = 16 << 10;
/// Extents that one search looks at, so that it takes a bounded time.
const LOOKS_MAX: usize = 4096;

/// A run of short extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frayed {
    /// The extents, in rising order and without a gap.
    pub pieces: Vec<Piece>,
    /// Whether what follows it is frayed as well, as far as that was looked at.
    pub goes_on: bool,
}

impl Frayed {
    /// Returns its first byte in the file.
    pub fn offset(&self) -> u64 {
        self.pieces.first().expect("a run is not empty").offset
    }

    /// Returns the first byte of the file behind it.
    pub fn end(&self) -> u64 {
        self.pieces.last().expect("a run is not empty").end()
    }
}

/// What a search has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// The first frayed run.
    pub found: Option<Frayed>,
    /// Where the next search begins; the end of the range when all of it was looked at.
    pub next: u64,
}

impl Branch {
    /// Looks in a file for the first frayed run of at most `len_max` bytes whose extents begin in `from..end`.
    pub fn frayed(&self, ino: Ino, (from, end): (u64, u64), len_max: u64) -> Result<Search, Missing> {
        let mut finder = Finder::new(from, len_max);
        let (first, last) = (Key::extent(ino, from), Key::extent(ino, end));
        self.tree
            .scan(Bound::Included(&*first), Bound::Excluded(&*last), |key, value| {
                finder.look(piece(key, value))
            })?;
        Ok(finder.search(end))
    }
}

/// Finds the longest stretch of a run whose extents are short enough on average, as extents come by.
struct Finder {
    from: u64,
    len_max: u64,
    run: Vec<Piece>,
    len: u64,
    /// How many bytes more the run could have.
    slack: i64,
    /// The most slack so far, and how many extents had it.
    best: (i64, usize),
    goes_on: bool,
    looked: usize,
    looked_to: u64,
    is_cut_short: bool,
}

impl Finder {
    fn new(from: u64, len_max: u64) -> Self {
        Self {
            from,
            len_max,
            run: Vec::new(),
            len: 0,
            slack: 0,
            best: (0, 0),
            goes_on: false,
            looked: 0,
            looked_to: from,
            is_cut_short: false,
        }
    }

    fn look(&mut self, piece: Piece) -> ControlFlow<()> {
        self.looked += 1;
        self.looked_to = piece.end();
        let len = piece.extent.len();
        let follows = self.run.last().is_some_and(|last| last.end() == piece.offset);
        let is_short = len < LONG && len <= self.len_max;
        let slack = MEAN_MAX as i64 - len as i64;
        let goes_on = follows && is_short && self.slack + slack >= 0;
        if !goes_on || self.len + len > self.len_max {
            if self.is_frayed() {
                self.goes_on = goes_on && self.best.1 == self.run.len();
                return ControlFlow::Break(());
            }
            self.begin();
        }
        if is_short && self.slack + slack >= 0 {
            self.len += len;
            self.slack += slack;
            self.run.push(piece);
            if self.slack >= self.best.0 {
                self.best = (self.slack, self.run.len());
            }
        }
        self.is_cut_short = self.looked == LOOKS_MAX;
        if self.is_cut_short {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn begin(&mut self) {
        self.run.clear();
        (self.len, self.slack, self.best) = (0, 0, (0, 0));
    }

    fn is_frayed(&self) -> bool {
        self.best.1 >= EXTENTS_MIN
    }

    fn search(mut self, end: u64) -> Search {
        if self.is_frayed() {
            self.run.truncate(self.best.1);
            let found = Frayed {
                pieces: self.run,
                goes_on: self.goes_on,
            };
            return Search {
                next: found.end(),
                found: Some(found),
            };
        }
        let next = match (self.is_cut_short, &self.run[..]) {
            (false, _) => end,
            // What was begun is looked at again from its begin, unless that is where this search began.
            (true, [first, ..]) if first.offset > self.from => first.offset,
            (true, _) => self.looked_to,
        };
        Search { found: None, next }
    }
}
