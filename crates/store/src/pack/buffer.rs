//! The memory through which bytes go into a pack: copied in once, written to disk from there.

use super::blocks::CHECKED_LEN;
use crate::aligned::Aligned;
use crate::disk::BLOCK_LEN;
use parking_lot::Mutex;
use std::sync::Arc;

/// A run of a pack's bytes that begins at a checksummed block and is not all on disk yet.
pub(super) struct Buffer {
    memory: Aligned,
    /// Where it begins in the pack: a multiple of `CHECKED_LEN`.
    base: u64,
    /// The first byte in the pack that it has to write: a multiple of `BLOCK_LEN`.
    from: u64,
    len: usize,
}

impl Buffer {
    pub(super) fn new(memory: Aligned, base: u64) -> Self {
        Self {
            memory,
            base,
            from: base,
            len: 0,
        }
    }

    /// Returns the buffer that goes on where `full` ends, which is being written: it holds the bytes of the
    /// last checksummed block again, and writes the last disk block again when that is not full.
    pub(super) fn after(full: &Buffer, memory: Aligned) -> Self {
        let end = full.end();
        let base = end - end % CHECKED_LEN as u64;
        let mut next = Self::new(memory, base);
        next.append(full.range(base, end));
        next.from = end - end % BLOCK_LEN as u64;
        next
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    pub(super) fn end(&self) -> u64 {
        self.base + self.len as u64
    }

    /// Returns how many more bytes fit.
    pub(super) fn room(&self) -> usize {
        self.memory.len() - self.len
    }

    /// Copies in bytes that fit.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.memory[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Zeroes what is behind the last byte in its disk block: it is written too.
    pub(super) fn pad(&mut self) {
        let end = self.len.next_multiple_of(BLOCK_LEN);
        self.memory[self.len..end].fill(0);
    }

    /// Returns where to write, and the whole disk blocks that go there.
    pub(super) fn blocks(&self) -> (u64, &[u8]) {
        let start = usize::try_from(self.from - self.base).expect("a buffer fits memory");
        (
            self.from,
            &self.memory[start..self.len.next_multiple_of(BLOCK_LEN)],
        )
    }

    /// Returns its bytes, without padding.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[..self.len]
    }

    /// Returns the bytes of a range of the pack that lies within.
    pub(super) fn range(&self, start: u64, end: u64) -> &[u8] {
        let index = |at: u64| usize::try_from(at - self.base).expect("a buffer fits memory");
        &self.bytes()[index(start)..index(end)]
    }

    pub(super) fn into_memory(self) -> Aligned {
        self.memory
    }
}

/// Memory of buffers that are not in use: touching fresh memory costs as much as copying into it.
pub(super) struct Spare {
    free: Mutex<Vec<Aligned>>,
    buffer_len: usize,
    keep: usize,
}

impl Spare {
    /// Keeps up to `keep` buffers of `buffer_len` bytes, a multiple of a checksummed block.
    pub(super) fn new(buffer_len: usize, keep: usize) -> Arc<Self> {
        assert!(
            buffer_len.is_multiple_of(CHECKED_LEN),
            "a buffer is whole checksummed blocks"
        );
        Arc::new(Self {
            free: Mutex::default(),
            buffer_len,
            keep,
        })
    }

    pub(super) fn buffer_len(&self) -> usize {
        self.buffer_len
    }

    pub(super) fn take(&self) -> Aligned {
        let kept = self.free.lock().pop();
        kept.unwrap_or_else(|| Aligned::new(self.buffer_len))
    }

    pub(super) fn give(&self, memory: Aligned) {
        let mut free = self.free.lock();
        if free.len() < self.keep {
            free.push(memory);
        }
    }
}
