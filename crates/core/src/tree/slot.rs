//! What a search looks at before it looks at an entry: few bytes, close together.
//!
//! Invariant: hints sort as the keys do, so only entries whose hint is that of the wanted key need comparing.

use std::ops::Range;

/// Hints that are compared one after the other, which the compiler does several at a time.
const RUN: usize = 64;

/// One entry's place in a page's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// The first four bytes of the key behind the prefix, as a number.
    hint: u32,
    /// Where the entry begins.
    pub(super) offset: u32,
}

impl Slot {
    /// Returns the slot of an entry at `offset` whose key goes on with `rest` behind the prefix.
    pub(super) fn new(rest: &[u8], offset: usize) -> Self {
        let offset = u32::try_from(offset).expect("a page is shorter than 4 GiB");
        Self {
            hint: hint(rest),
            offset,
        }
    }
}

/// Returns the slots whose hint is that of `rest`, or the place where they would be.
pub(super) fn rank(slots: &[Slot], rest: &[u8]) -> Range<usize> {
    let wanted = hint(rest);
    let first = below(slots, wanted);
    let alike = slots[first..].iter().take_while(|slot| slot.hint == wanted);
    first..first + alike.count()
}

/// Returns how many of the slots, which are sorted, have a hint less than `wanted`.
fn below(mut slots: &[Slot], wanted: u32) -> usize {
    let mut below = 0;
    while slots.len() > RUN {
        let middle = slots.len() / 2;
        if slots[middle].hint < wanted {
            below += middle + 1;
            slots = &slots[middle + 1..];
        } else {
            slots = &slots[..middle];
        }
    }
    let run: u32 = slots.iter().map(|slot| u32::from(slot.hint < wanted)).sum();
    below + run as usize
}

fn hint(rest: &[u8]) -> u32 {
    if let Some(front) = rest.first_chunk() {
        return u32::from_be_bytes(*front);
    }
    let mut front = [0; 4];
    front[..rest.len()].copy_from_slice(rest);
    u32::from_be_bytes(front)
}
