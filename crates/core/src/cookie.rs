//! Where a name stands in its directory: under a cookie, which is also where a listing goes on behind it.
//!
//! A cookie is a keyed hash of the name, and below it a number that tells apart the few names whose hashes are equal.
//! It is not an index: it stays with its entry whatever else comes and goes.
//!
//! Invariant: a cookie is at least `HASH_COLLISIONS_MAX`, so smaller ones can stand for `.` and `..`, and positive as
//! an offset that is signed.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::ops::Range;
use tenure_model::limits::HASH_COLLISIONS_MAX;

/// Bits of the hash that count: 63 of a positive offset, less those of the number below it.
const BITS: u32 = 63 - HASH_COLLISIONS_MAX.ilog2();

/// How the names of a branch are hashed. The key keeps anybody from choosing names that collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameHash {
    key: [u8; 16],
    bits: u32,
}

impl NameHash {
    /// Returns a hash of which only `bits` bits count, so that names collide: to try what happens then.
    pub fn colliding(key: [u8; 16], bits: u32) -> Self {
        Self {
            key,
            bits: bits.min(BITS),
        }
    }

    /// Returns the cookies that an entry of this name can have.
    pub(crate) fn cookies(&self, name: &[u8]) -> Range<u64> {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(name);
        let counting = ((1 << self.bits) - 1) * HASH_COLLISIONS_MAX;
        let first = (hasher.finish() >> 1 & counting).max(HASH_COLLISIONS_MAX);
        first..first + HASH_COLLISIONS_MAX
    }
}

impl From<[u8; 16]> for NameHash {
    fn from(key: [u8; 16]) -> Self {
        Self { key, bits: BITS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_kept_for_ever() {
        let hash = NameHash::from(std::array::from_fn(|at| at as u8));
        assert_eq!(
            hash.cookies(b"name"),
            0x47cc_b2f2_6dde_3370..0x47cc_b2f2_6dde_3380
        );
        let few = NameHash::colliding(std::array::from_fn(|at| at as u8), 3);
        assert_eq!(
            few.cookies(b"name"),
            0x70..0x80,
            "the lowest bits above the number count"
        );
    }
}
