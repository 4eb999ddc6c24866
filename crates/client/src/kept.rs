//! Batches of what is lent that were sent and are not known to be durable: others may have seen them, so the next owner is brought them
//! before it answers anybody (decision 0012).
//!
//! Invariant: a batch is kept before it is sent, until it is durable, or in a stray.

use crate::log::Log;
use crate::retained::Retained;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;
use tenure_model::{Batch, ChunkPlace};

/// Batches that are kept at most, and their bytes: an owner knows them again, and they are brought in one message.
const COUNT_MAX: usize = 32;
const BYTES_MAX: usize = 8 << 20;

/// The batches that are kept.
#[derive(Default)]
pub(crate) struct Kept(Mutex<VecDeque<One>>);

struct One {
    batch: Batch,
    /// What it counts as, once it is in the owner's order.
    ordered: Option<Counted>,
}

/// What batches that are in order and not durable count as.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) ops: u64,
    pub(crate) contents: u64,
    pub(crate) since: Option<Duration>,
}

impl One {
    fn weight(&self) -> usize {
        let chunks = self.batch.chunks.iter().map(|chunk| chunk.len as usize);
        self.batch.ops.len() + chunks.sum::<usize>()
    }
}

fn weight(kept: &VecDeque<One>) -> usize {
    kept.iter().map(One::weight).sum()
}

impl Kept {
    /// Keeps a batch that is sent now, perhaps once more.
    pub(crate) fn keep(&self, batch: &Batch) {
        let mut kept = self.0.lock();
        if kept.back().is_none_or(|last| last.batch.number < batch.number) {
            kept.push_back(One {
                batch: batch.clone(),
                ordered: None,
            });
        }
    }

    /// Notes that a batch is in the owner's order.
    pub(crate) fn note_ordered(&self, number: u64, log: &Log) {
        let mut kept = self.0.lock();
        let one = kept.iter_mut().find(|one| one.batch.number == number);
        if let Some(one) = one {
            one.ordered = Some(Counted {
                ops: log.count,
                contents: log.contents,
                since: log.oldest(),
            });
        }
    }

    /// Returns the number of the last batch that is in order, if one is kept.
    pub(crate) fn last_ordered(&self) -> Option<u64> {
        let kept = self.0.lock();
        let last = kept.iter().rev().find(|one| one.ordered.is_some());
        last.map(|one| one.batch.number)
    }

    /// Keeps batches no longer up to a number; returns the chunks that they name.
    pub(crate) fn settle(&self, number: u64) -> Vec<ChunkPlace> {
        let mut kept = self.0.lock();
        let mut chunks = Vec::new();
        while let Some(one) = kept.pop_front_if(|one| one.batch.number <= number) {
            chunks.extend(one.batch.chunks);
        }
        chunks
    }

    /// Tells whether none is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Tells whether so much is kept that some of it should be made durable.
    pub(crate) fn is_much(&self) -> bool {
        let kept = self.0.lock();
        kept.len() >= COUNT_MAX / 2 || weight(&kept) >= BYTES_MAX / 2
    }

    /// Tells whether another one may be kept, or the owner is to make some durable first.
    pub(crate) fn has_room(&self) -> bool {
        let kept = self.0.lock();
        kept.len() < COUNT_MAX && weight(&kept) < BYTES_MAX
    }

    /// Returns all of them, with the bytes of chunks that may be lost with an owner.
    pub(crate) fn all(&self, retained: Option<&Retained>) -> Vec<Batch> {
        let kept = self.0.lock();
        let carried = |one: &One| {
            let batch = one.batch.clone();
            match retained.and_then(|retained| retained.carried(&batch.chunks)) {
                Some(chunks) => Batch { chunks, ..batch },
                None => batch,
            }
        };
        kept.iter().map(carried).collect()
    }

    /// Returns what those count as that are in order.
    pub(crate) fn counted(&self) -> Counted {
        let kept = self.0.lock();
        let ordered = kept.iter().filter_map(|one| one.ordered);
        ordered.fold(Counted::default(), |all, one| Counted {
            ops: all.ops + one.ops,
            contents: all.contents + one.contents,
            since: all.since.into_iter().chain(one.since).min(),
        })
    }
}
