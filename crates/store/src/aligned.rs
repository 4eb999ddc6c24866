//! Memory that begins on a block, so that what is written from it can go to the disk directly.

use crate::disk::BLOCK_LEN;
use std::ops::{Deref, DerefMut};

/// Zeroed memory of a fixed length that begins on a block.
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// Returns `len` zeros.
    pub fn new(len: usize) -> Self {
        let memory = vec![0; len + BLOCK_LEN];
        let address = memory.as_ptr().addr();
        Self {
            start: address.next_multiple_of(BLOCK_LEN) - address,
            memory,
            len,
        }
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}
