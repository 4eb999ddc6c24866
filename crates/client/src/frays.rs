//! Frays: where files were written in small pieces, and how much may be copied to merge what that has left.
//!
//! Invariant: for each byte that is written in small pieces, no more than [`CREDIT`] are copied, whatever the pattern;
//! a piece counts as a sector where it is shorter.

use std::collections::BTreeMap;
use tenure_model::{Ino, Piece};

/// Bytes that may be copied for each that is written in small pieces.
const CREDIT: u64 = 4;
/// Bytes up to which a piece is small.
const SMALL: u64 = 64 << 10;
/// What writing less costs as well: a sector of the disk.
const SECTOR: u64 = 4 << 10;
/// Credit from which a file is looked at: that of some eight pieces, which is what a run has at least.
pub(crate) const CREDIT_MIN: u64 = 8 * SECTOR * CREDIT;
/// Bytes on both sides of what was written that are looked at as well.
const BESIDE: u64 = 2 << 20;
/// Files that are remembered: some hundred KiB of memory.
const FILES_MAX: usize = 4096;

/// Where one file has frayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fray {
    /// First byte that was written.
    pub(crate) from: u64,
    /// First byte behind all that was written.
    pub(crate) end: u64,
    /// Bytes that may be copied to merge it.
    pub(crate) credit: u64,
}

/// The frays of all files.
#[derive(Debug, Default)]
pub(crate) struct Frays {
    files: BTreeMap<Ino, Fray>,
    /// What is to be merged now.
    due: Vec<(Ino, Fray)>,
    /// Bytes written in small pieces since the last time that all was due.
    written: u64,
}

impl Frays {
    /// Notes pieces that were put into a file, which has so many bytes with them.
    pub(crate) fn note(&mut self, ino: Ino, pieces: &[Piece], allocated: u64) {
        let len: u64 = pieces.iter().map(|piece| piece.extent.len()).sum();
        let small = pieces.iter().filter(|piece| piece.extent.len() <= SMALL);
        let written: u64 = small.clone().map(|piece| piece.extent.len().max(SECTOR)).sum();
        let (Some(first), Some(last)) = (small.clone().next(), small.clone().next_back()) else {
            return;
        };
        // A file that holds nothing else is in one piece.
        if allocated <= len || !self.has_room_for(ino) {
            return;
        }
        self.written += written;
        let (from, end, credit) = (first.offset, last.end(), written * CREDIT);
        self.add(ino, Fray { from, end, credit });
    }

    fn add(&mut self, ino: Ino, more: Fray) {
        let add = |fray: &mut Fray| {
            fray.from = fray.from.min(more.from);
            fray.end = fray.end.max(more.end);
            fray.credit += more.credit;
        };
        self.files.entry(ino).and_modify(add).or_insert(more);
    }

    fn has_room_for(&mut self, ino: Ino) -> bool {
        if self.files.len() == FILES_MAX && !self.files.contains_key(&ino) {
            self.files.retain(|_, fray| fray.credit >= CREDIT_MIN);
        }
        self.files.len() < FILES_MAX || self.files.contains_key(&ino)
    }

    /// Lets everything be due that is worth it, once so many bytes were written; tells whether anything is.
    pub(crate) fn fall_due(&mut self, written: u64) -> bool {
        if self.written >= written {
            self.written = 0;
            let due = self.files.extract_if(.., |_, fray| fray.credit >= CREDIT_MIN);
            // Short extents beside what was written are part of its runs.
            self.due.extend(due.map(|(ino, fray)| {
                let (from, end) = (fray.from.saturating_sub(BESIDE), fray.end.saturating_add(BESIDE));
                (ino, Fray { from, end, ..fray })
            }));
        }
        !self.due.is_empty()
    }

    /// Takes a fray that is due.
    pub(crate) fn next(&mut self) -> Option<(Ino, Fray)> {
        self.due.pop()
    }

    /// Puts back what is left of a fray that is due.
    pub(crate) fn go_on(&mut self, ino: Ino, fray: Fray) {
        if fray.credit >= CREDIT_MIN && fray.from < fray.end {
            self.due.push((ino, fray));
        }
    }

    /// Puts back what could not be merged because it was written to: it is due with what was written.
    pub(crate) fn try_later(&mut self, ino: Ino, fray: Fray) {
        if self.has_room_for(ino) {
            self.add(ino, fray);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_model::{Address, Digest, Extent, PackNumber};

    fn page(number: u64, len: u32) -> Piece {
        let at = Address {
            pack: PackNumber(1),
            digest: Digest::of(b"page"),
        };
        Piece {
            offset: number * 4096,
            extent: Extent::Chunk { at, start: 0, len },
        }
    }

    #[test]
    fn a_file_is_due_once_enough_small_pieces_were_written_over_others() {
        let mut frays = Frays::default();
        for number in 0..7 {
            frays.note(Ino(20), &[page(number, 4096)], 1 << 20);
        }
        assert!(!frays.fall_due(7 * SECTOR));
        for ino in 21..28 {
            frays.note(Ino(ino), &[page(0, 4096)], 1 << 20);
        }
        frays.note(Ino(20), &[page(30, 100)], 1 << 20);
        assert!(!frays.fall_due(8 * SECTOR + 1));
        assert!(frays.fall_due(8 * SECTOR));
        let fray = Fray {
            from: 0,
            end: 30 * 4096 + 100 + BESIDE,
            credit: CREDIT_MIN,
        };
        assert_eq!(frays.next(), Some((Ino(20), fray)));
        assert!(!frays.fall_due(0));
    }

    #[test]
    fn what_is_written_whole_or_in_long_pieces_does_not_fray() {
        let mut frays = Frays::default();
        for ino in 20..120 {
            frays.note(Ino(ino), &[page(0, 4096)], 4096);
            frays.note(Ino(20), &[page(ino, 1 << 17)], 1 << 30);
        }
        assert!(frays.files.is_empty());
    }

    #[test]
    fn more_files_than_are_remembered_push_out_those_that_are_worth_nothing() {
        let mut frays = Frays::default();
        for _ in 0..8 {
            frays.note(Ino(1), &[page(0, 4096)], 1 << 20);
        }
        for ino in 2..2 + FILES_MAX as u64 {
            frays.note(Ino(ino), &[page(0, 4096)], 1 << 20);
        }
        assert_eq!(frays.files.len(), 2);
        assert!(frays.fall_due(0));
        assert_eq!(frays.next().map(|(ino, _)| ino), Some(Ino(1)));
    }
}
