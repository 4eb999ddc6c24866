//! What is fetched now, and how much is fetched at once.
//!
//! Invariants: no two fetches of a pack overlap; a fetch brings the first block that is missing, and at most
//! `WINDOW_MAX` blocks besides what is asked for.

use super::Body;
use crate::pack::PackName;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::ops::Range;

/// Blocks of the smallest window, 128 KiB: it takes a far store hardly longer than a single block.
const WINDOW_MIN: usize = 8;
/// Blocks of the largest window, 2 MiB: it takes about as long to come as to be asked for.
const WINDOW_MAX: usize = 128;
/// Blocks between two misses that are near each other, 4 MiB: the files of a directory lie so, in whatever order they are
/// read.
const NEAR: usize = 256;

/// What is fetched now, of all packs.
#[derive(Default)]
pub(super) struct Fetches {
    packs: Mutex<HashMap<PackName, OfPack>>,
    ended: Condvar,
}

/// What is known of the misses of a pack.
struct OfPack {
    underway: Vec<Range<usize>>,
    /// The block that was missed last.
    last: usize,
    window: usize,
}

/// A fetch that this thread makes; it ends when this goes.
pub(super) struct Fetch<'a> {
    fetches: &'a Fetches,
    name: PackName,
    blocks: Range<usize>,
}

impl Fetches {
    /// Begins to fetch what is missing, or a first part of it, with what lies around. None when somebody else was at it:
    /// then he has ended.
    pub(super) fn begin(&self, body: &Body<'_>, missing: &Range<usize>) -> Option<Fetch<'_>> {
        let mut packs = self.packs.lock();
        let comes = |packs: &mut HashMap<PackName, OfPack>| {
            let pack = packs.get(&body.name);
            pack.is_some_and(|pack| pack.underway.iter().any(|blocks| blocks.contains(&missing.start)))
        };
        if comes(&mut packs) {
            self.ended.wait_while(&mut packs, comes);
            return None;
        }
        let pack = packs.entry(body.name).or_insert(OfPack {
            underway: Vec::new(),
            last: missing.start,
            window: WINDOW_MIN / 2,
        });
        let blocks = pack.plan(missing, body.index.checksums().len());
        pack.underway.push(blocks.clone());
        Some(Fetch {
            fetches: self,
            name: body.name,
            blocks,
        })
    }

    /// Tells whether anything is fetched now.
    pub(super) fn are_any(&self) -> bool {
        self.packs.lock().values().any(|pack| !pack.underway.is_empty())
    }
}

impl OfPack {
    /// Returns the blocks to fetch: a window around what is missing, which is larger when the miss before was near, and
    /// reaches into nothing that is underway.
    fn plan(&mut self, missing: &Range<usize>, len: usize) -> Range<usize> {
        self.window = if missing.start.abs_diff(self.last) <= NEAR {
            (self.window * 2).min(WINDOW_MAX)
        } else {
            (self.window / 2).max(WINDOW_MIN)
        };
        self.last = missing.start;
        let start = missing.start / self.window * self.window;
        let end = (start + self.window).max(missing.end).min(len);
        self.underway
            .iter()
            .fold(start..end, |wanted, underway| match underway {
                before if before.end <= missing.start => wanted.start.max(before.end)..wanted.end,
                behind => wanted.start..wanted.end.min(behind.start),
            })
    }
}

impl Fetch<'_> {
    /// Returns what is to be fetched.
    pub(super) fn blocks(&self) -> Range<usize> {
        self.blocks.clone()
    }
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        let mut packs = self.fetches.packs.lock();
        if let Some(pack) = packs.get_mut(&self.name) {
            pack.underway.retain(|blocks| *blocks != self.blocks);
        }
        drop(packs);
        self.fetches.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack() -> OfPack {
        OfPack {
            underway: Vec::new(),
            last: 0,
            window: WINDOW_MIN / 2,
        }
    }

    #[test]
    fn a_window_grows_while_misses_are_near_and_shrinks_when_they_are_far() {
        let mut pack = pack();
        assert_eq!(pack.plan(&(3..4), 4000), 0..8);
        assert_eq!(pack.plan(&(9..10), 4000), 0..16);
        assert_eq!(pack.plan(&(40..41), 4000), 32..64);
        assert_eq!(pack.plan(&(70..71), 4000), 64..128);
        assert_eq!(pack.plan(&(200..201), 4000), 128..256);
        assert_eq!(pack.plan(&(300..301), 4000), 256..384);
        assert_eq!(pack.plan(&(3999..4000), 4000), 3968..4000);
        assert_eq!(pack.plan(&(1000..1001), 4000), 992..1024);
        assert_eq!(pack.plan(&(10..80), 4000), 0..80);
    }

    #[test]
    fn a_window_reaches_into_nothing_that_is_underway_and_brings_what_is_missing_first() {
        let mut pack = pack();
        pack.underway = vec![0..3, 6..8];
        assert_eq!(pack.plan(&(4..7), 4000), 3..6);
        assert_eq!(pack.plan(&(8..9), 4000), 8..16);
    }
}
