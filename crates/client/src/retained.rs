//! The bytes of chunks that have their place and may be lost with their owner: where packs are filled in memory, few chunks have
//! nothing durable to show before a batch is. What is more is made durable before it is named ([`Safety`](crate::place::Safety)).
//!
//! Invariant: bytes are kept until the batch that names them is durable. What no batch will name any more, because its file was
//! deleted meanwhile, goes after a while.

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use tenure_model::{Address, ChunkPlace};

/// Times that everything is shipped before what is kept still counts as named by nobody. A sync takes some milliseconds, and what
/// is placed ahead waits for no longer than the lag.
const ROUNDS_MAX: u64 = 1000;

/// The bytes that are kept.
#[derive(Default)]
pub(crate) struct Retained(Mutex<Chunks>);

#[derive(Default)]
struct Chunks {
    bytes: HashMap<Address, (Bytes, u64)>,
    sum: u64,
    /// How often everything was shipped so far.
    rounds: u64,
}

impl Retained {
    /// Keeps a chunk.
    pub(crate) fn keep(&self, at: Address, bytes: &[u8]) {
        let mut kept = self.0.lock();
        let round = kept.rounds;
        let before = kept.bytes.insert(at, (Bytes::copy_from_slice(bytes), round));
        kept.sum += bytes.len() as u64;
        kept.sum -= before.map_or(0, |(bytes, _)| bytes.len() as u64);
    }

    /// Fills `into` from a chunk's bytes, beginning with its byte `start`; false when they are not kept.
    pub(crate) fn read(&self, at: Address, start: u32, into: &mut [u8]) -> bool {
        let kept = self.0.lock();
        let start = start as usize;
        let found = kept
            .bytes
            .get(&at)
            .and_then(|(bytes, _)| bytes.get(start..start + into.len()));
        found.is_some_and(|bytes| {
            into.copy_from_slice(bytes);
            true
        })
    }

    /// Returns the places with the bytes that are kept of them; none when none are.
    pub(crate) fn carried(&self, places: &[ChunkPlace]) -> Option<Vec<ChunkPlace>> {
        let kept = self.0.lock();
        let mut sum = 0;
        let carried = places.iter().map(|place| {
            let bytes = kept.bytes.get(&place.at).map(|(bytes, _)| bytes);
            sum += bytes.map_or(0, Bytes::len);
            ChunkPlace {
                inline: bytes.map(|bytes| bytes.to_vec().into()),
                ..place.clone()
            }
        });
        let carried: Vec<_> = carried.collect();
        (sum > 0).then_some(carried)
    }

    /// Returns how many bytes are kept.
    pub(crate) fn len(&self) -> u64 {
        self.0.lock().sum
    }

    /// Forgets what a durable batch names.
    pub(crate) fn forget(&self, places: &[ChunkPlace]) {
        let mut kept = self.0.lock();
        for place in places {
            let gone = kept.bytes.remove(&place.at);
            kept.sum -= gone.map_or(0, |(bytes, _)| bytes.len() as u64);
        }
    }

    /// Notes that everything was shipped.
    pub(crate) fn end_round(&self) {
        let mut kept = self.0.lock();
        kept.rounds += 1;
        let rounds = kept.rounds;
        kept.bytes.retain(|_, (_, round)| *round + ROUNDS_MAX > rounds);
        kept.sum = kept.bytes.values().map(|(bytes, _)| bytes.len() as u64).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_model::{Digest, PackNumber};

    fn place(number: u8, len: u32) -> ChunkPlace {
        ChunkPlace {
            at: Address {
                pack: PackNumber(1),
                digest: Digest([number; 32]),
            },
            offset: 0,
            len,
            inline: None,
        }
    }

    #[test]
    fn bytes_are_kept_until_their_batch_is_durable_or_nobody_names_them() {
        let retained = Retained::default();
        let (one, other) = (place(1, 300), place(2, 400));
        retained.keep(one.at, &[1; 300]);
        retained.keep(other.at, &[2; 400]);
        retained.keep(other.at, &[2; 400]);
        let mut bytes = [0; 2];
        assert!(retained.read(one.at, 298, &mut bytes) && bytes == [1, 1]);
        assert!(!retained.read(one.at, 299, &mut bytes) && !retained.read(place(3, 1).at, 0, &mut bytes));
        let carried = retained
            .carried(&[one.clone(), place(3, 1)])
            .expect("one is kept");
        assert_eq!(carried[0].inline.as_deref(), Some(&[1; 300][..]));
        assert_eq!(carried[1].inline, None);
        retained.forget(std::slice::from_ref(&one));
        assert_eq!(retained.carried(&[one]), None);
        assert_eq!(retained.len(), 400);
        (1..ROUNDS_MAX).for_each(|_| retained.end_round());
        assert!(
            retained.carried(std::slice::from_ref(&other)).is_some(),
            "it may be placed ahead"
        );
        retained.end_round();
        assert_eq!((retained.carried(&[other]), retained.len()), (None, 0));
    }
}
