//! A file in memory that knows which of its bytes a power failure may take.

use parking_lot::Mutex;
use std::io::IoSliceMut;

/// Bytes that a disk writes whole or not at all.
const SECTOR_LEN: usize = 512;

/// One file: what a process reads, and what a power failure would leave.
pub(super) struct MemoryFile {
    content: Mutex<Content>,
}

#[derive(Clone)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Ranges of `now` that were written since the last sync.
    unsynced: Vec<(usize, usize)>,
}

impl MemoryFile {
    /// Returns a file whose bytes are durable.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self {
            content: Mutex::new(Content {
                synced: bytes.clone(),
                now: bytes,
                unsynced: Vec::new(),
            }),
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.content.lock().now.clone()
    }

    pub(super) fn len(&self) -> u64 {
        self.content.lock().now.len() as u64
    }

    /// Fills the parts, or returns none when the file is too short.
    pub(super) fn read_parts(&self, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Option<()> {
        let content = self.content.lock();
        let mut rest = content.now.get(usize::try_from(offset).ok()?..)?;
        for part in parts {
            let (front, behind) = rest.split_at_checked(part.len())?;
            part.copy_from_slice(front);
            rest = behind;
        }
        Some(())
    }

    pub(super) fn write_at(&self, offset: u64, bytes: &[u8]) {
        let mut content = self.content.lock();
        let start = usize::try_from(offset).expect("a file in memory is no larger than memory");
        let end = start + bytes.len();
        if content.now.len() < end {
            set_len(&mut content.now, end);
        }
        content.now[start..end].copy_from_slice(bytes);
        content.unsynced.push((start, end));
    }

    /// Makes only these bytes durable, as a write with O_DSYNC does.
    pub(super) fn sync_range(&self, offset: u64, len: usize) {
        let mut content = self.content.lock();
        let start = usize::try_from(offset).expect("a file in memory is no larger than memory");
        let end = start + len;
        if content.synced.len() < end {
            set_len(&mut content.synced, end);
        }
        let written = content.now[start..end].to_vec();
        content.synced[start..end].copy_from_slice(&written);
        content.unsynced.retain(|range| *range != (start, end));
    }

    pub(super) fn sync(&self) {
        let mut content = self.content.lock();
        let Content {
            now,
            synced,
            unsynced,
        } = &mut *content;
        set_len(synced, now.len());
        for (start, end) in unsynced.drain(..) {
            let end = end.min(now.len());
            if start < end {
                synced[start..end].copy_from_slice(&now[start..end]);
            }
        }
    }

    pub(super) fn set_len(&self, len: u64) {
        let len = usize::try_from(len).expect("a file in memory is no larger than memory");
        let mut content = self.content.lock();
        if len < content.now.len() {
            // What is cut off and written again reads as zeros in between, also after a power failure.
            content.unsynced.push((len, usize::MAX));
        }
        set_len(&mut content.now, len);
    }

    pub(super) fn damage(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut content = self.content.lock();
        change(&mut content.now);
        content.synced = content.now.clone();
        content.unsynced.clear();
    }

    pub(super) fn copy(&self) -> Self {
        Self {
            content: Mutex::new(self.content.lock().clone()),
        }
    }

    /// Returns the file that a power failure leaves: each unsynced sector as it was or as it is, by `seed`.
    pub(super) fn after_power_loss(&self, seed: u64) -> Self {
        let content = self.content.lock();
        let mut left = content.synced.clone();
        let mut random = Random(seed);
        let len = match random.flip() {
            true => content.now.len(),
            false => content.synced.len(),
        };
        set_len(&mut left, len);
        for &(start, end) in &content.unsynced {
            let end = end.min(len).min(content.now.len());
            let mut at = start;
            while at < end {
                let next = ((at / SECTOR_LEN + 1) * SECTOR_LEN).min(end);
                if random.flip() {
                    left[at..next].copy_from_slice(&content.now[at..next]);
                }
                at = next;
            }
        }
        Self::durable(left)
    }
}

/// Cuts bytes, or adds zeros; room that is only reserved is fresh memory, which nobody has to fill.
fn set_len(bytes: &mut Vec<u8>, len: usize) {
    if len <= bytes.len() {
        return bytes.truncate(len);
    }
    let mut longer = vec![0; len];
    longer[..bytes.len()].copy_from_slice(bytes);
    *bytes = longer;
}

/// Numbers that follow from a seed (splitmix64, Steele et al. 2014).
struct Random(u64);

impl Random {
    fn flip(&mut self) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) & 1 == 1
    }
}
