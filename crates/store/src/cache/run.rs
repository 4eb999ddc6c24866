//! Blocks of a pack's body that lie together, and which of them are known to be right.

use super::Body;
use crate::pack::blocks::CHECKED_LEN;
use std::ops::Range;

/// Blocks one behind the other; of those that are not there the bytes mean nothing.
pub(super) struct Run {
    first: usize,
    there: Vec<bool>,
    bytes: Vec<u8>,
}

impl Run {
    /// Returns room for blocks of a body, none of which is there.
    pub(super) fn lacking(body: &Body<'_>, blocks: Range<usize>) -> Self {
        let start = (blocks.start * CHECKED_LEN) as u64;
        let end = ((blocks.end * CHECKED_LEN) as u64).min(body.index.body_len());
        Self {
            first: blocks.start,
            there: vec![false; blocks.len()],
            bytes: vec![0; (end - start) as usize],
        }
    }

    /// Returns the blocks that it has room for.
    pub(super) fn blocks(&self) -> Range<usize> {
        self.first..self.first + self.there.len()
    }

    /// Returns where its first byte stands in the body.
    pub(super) fn offset(&self) -> u64 {
        (self.first * CHECKED_LEN) as u64
    }

    /// Returns the number of its bytes.
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Tells whether a block is there.
    pub(super) fn has(&self, block: usize) -> bool {
        self.blocks().contains(&block) && self.there[block - self.first]
    }

    /// Returns the first blocks that are not there and lie together, if any.
    pub(super) fn missing(&self) -> Option<Range<usize>> {
        let start = self.there.iter().position(|there| !there)?;
        let len = self.there[start..].iter().take_while(|there| !**there).count();
        Some(self.first + start..self.first + start + len)
    }

    /// Takes the blocks for there whose bytes fit their checksums.
    pub(super) fn verify(&mut self, body: &Body<'_>) {
        let checksums = &body.index.checksums()[self.blocks()];
        let are_right = self.bytes.chunks(CHECKED_LEN).zip(checksums);
        self.there = are_right
            .map(|(bytes, checksum)| crc32c::crc32c(bytes) == *checksum)
            .collect();
    }

    /// Takes over the blocks that another run of the same body has and this one lacks.
    pub(super) fn take(&mut self, other: &Run) {
        let (ours, theirs) = (self.blocks(), other.blocks());
        for block in ours.start.max(theirs.start)..ours.end.min(theirs.end) {
            if other.has(block) && !self.has(block) {
                let (to, from) = (self.within(block), other.within(block));
                self.bytes[to].copy_from_slice(&other.bytes[from]);
                self.there[block - self.first] = true;
            }
        }
    }

    /// Fills `into` from `offset` of the body: bytes of blocks that are there.
    pub(super) fn copy_out(&self, offset: u64, into: &mut [u8]) {
        let start = (offset - self.offset()) as usize;
        into.copy_from_slice(&self.bytes[start..start + into.len()]);
    }

    /// Calls `part` with every stretch of blocks that are there: its place in the body, and its bytes.
    pub(super) fn right_parts(&self, mut part: impl FnMut(u64, &[u8])) {
        for blocks in self.there.chunk_by(|one, next| one == next).scan(0, |at, part| {
            let start = std::mem::replace(at, *at + part.len());
            Some((part[0], start..start + part.len()))
        }) {
            if let (true, blocks) = blocks {
                let bytes = blocks.start * CHECKED_LEN..(blocks.end * CHECKED_LEN).min(self.bytes.len());
                part(self.offset() + bytes.start as u64, &self.bytes[bytes]);
            }
        }
    }

    /// Returns where the bytes of a block are in those of the run.
    fn within(&self, block: usize) -> Range<usize> {
        let start = (block - self.first) * CHECKED_LEN;
        start..(start + CHECKED_LEN).min(self.bytes.len())
    }
}
