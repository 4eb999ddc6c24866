//! Numbers that follow from a seed, and nothing else (splitmix64, Steele et al. 2014).

use parking_lot::Mutex;
use std::sync::Arc;
use tenure_server::Draw;

/// A stream of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Returns the stream of a seed and a purpose, so that drawing for one purpose does not move another.
    pub(crate) fn new(seed: u64, purpose: &str) -> Self {
        let digest = blake3::Hasher::new()
            .update(&seed.to_le_bytes())
            .update(purpose.as_bytes())
            .finalize();
        let first = digest.as_bytes().first_chunk().expect("a hash has 32 bytes");
        Self(u64::from_le_bytes(*first))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns where an owner takes chance from: a stream of its own.
    pub(crate) fn draw(&mut self) -> Draw {
        let stream = Mutex::new(Self::new(self.next(), "draw"));
        Arc::new(move || {
            let mut stream = stream.lock();
            (u128::from(stream.next()) << 64 | u128::from(stream.next())).to_le_bytes()
        })
    }

    /// Returns a number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns a number from `from` up to but not including `end`.
    pub(crate) fn between(&mut self, from: u64, end: u64) -> u64 {
        from + self.below(end - from)
    }

    /// Tells whether it is this time, which it is in one of `many` cases.
    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// Returns one of `all`, which are not none.
    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    /// Returns the place of one of the weights, chosen as often as it weighs.
    pub(crate) fn weighted(&mut self, weights: impl Iterator<Item = u64> + Clone) -> usize {
        let mut at = self.below(weights.clone().sum());
        for (place, weight) in weights.enumerate() {
            if at < weight {
                return place;
            }
            at -= weight;
        }
        unreachable!("the number is below the sum of the weights")
    }
}

/// Returns bytes that are told apart by `seed`.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
