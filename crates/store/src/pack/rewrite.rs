//! Rewriting: what is needed of a pack is put as another object of its number, so that the others may go and no address changes.
//!
//! Invariant: what is put was read and verified by digest.

use super::blocks::checksums;
use super::packs::Packs;
use super::seal::{self, Body};
use super::{Entry, PackName};
use std::collections::BTreeMap;
use tenure_model::{Address, Digest, Failure, PackNumber};

impl Packs {
    /// Puts those chunks and pages of a sealed pack that `keep` wants as an object of its number; returns that and its length. Both it and
    /// the others are read from then on.
    pub fn rewrite(
        &self,
        number: PackNumber,
        keep: &dyn Fn(&Address) -> bool,
    ) -> Result<(PackName, u64), Failure> {
        let mut bytes = Vec::new();
        let mut entries = BTreeMap::<Digest, Entry>::new();
        // They lie as they lay: neighbours stay neighbours.
        let mut all = self.entries(number)?;
        all.sort_by_key(|entry| entry.offset);
        for entry in all {
            let at = Address {
                pack: number,
                digest: entry.digest,
            };
            if entries.contains_key(&entry.digest) || !keep(&at) {
                continue;
            }
            let offset = bytes.len() as u64;
            bytes.extend(self.read_stored(at)?);
            entries.insert(entry.digest, Entry { offset, ..entry });
        }
        let body = Body {
            number,
            len: bytes.len() as u64,
            entries: entries.into_values().collect(),
            checksums: checksums(&bytes).collect(),
        };
        let sealed = seal::put(&*self.bucket, &self.drive, body, bytes)?;
        self.add_sealed(&sealed);
        Ok((sealed.name, sealed.len))
    }
}
