//! The long chunks that earlier owners have stored, so that a long file shares them whoever stored it.
//!
//! Short ones are not worth it: there are many of them, and each is its own file as a rule. Invariant: a chunk is found
//! again only after its bytes were read and are the same, so that nothing new rests on bytes that have rotted.

use parking_lot::RwLock;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use tenure_model::limits::CHUNK_LEN_MAX;
use tenure_model::{Address, ChunkPlace, Digest, Failure, PackNumber};
use tenure_store::pack::{EntryKind, Packs};

/// Bytes from which a chunk is long: those that long files are cut into have as many at least.
const LONG: usize = CHUNK_LEN_MAX / 8;
/// Packs whose chunks are known, the newest: some GiB, of which some thousand chunks are long.
const PACKS_MAX: usize = 64;

/// The long chunks of packs of earlier epochs, once they were asked for.
#[derive(Debug, Default)]
pub(crate) struct Known {
    places: RwLock<HashMap<Digest, ChunkPlace>>,
    is_asked: AtomicBool,
}

impl Known {
    /// Tells whether it is time to learn, because a long chunk came; once.
    pub(crate) fn ask(&self, len: usize) -> bool {
        len >= LONG && !self.is_asked.load(Ordering::Relaxed) && !self.is_asked.swap(true, Ordering::Relaxed)
    }

    /// Reads what packs with numbers below `end` hold. What cannot be read stays unknown.
    pub(crate) fn learn(&self, packs: &Packs, end: PackNumber) -> Result<(), Failure> {
        let table = packs.table();
        let earlier = table.iter().rev().filter(|pack| pack.number < end);
        for pack in earlier.take(PACKS_MAX) {
            let entries = packs.entries(pack.number)?;
            let long = entries
                .iter()
                .filter(|entry| entry.kind == EntryKind::Chunk && entry.len as usize >= LONG);
            self.places.write().extend(long.map(|entry| {
                let at = Address {
                    pack: pack.number,
                    digest: entry.digest,
                };
                let place = ChunkPlace {
                    at,
                    offset: entry.offset,
                    len: entry.len,
                    inline: None,
                };
                (entry.digest, place)
            }));
        }
        Ok(())
    }

    /// Finds nothing in some packs any more.
    pub(crate) fn forget(&self, packs: &BTreeSet<PackNumber>) {
        self.places
            .write()
            .retain(|_, place| !packs.contains(&place.at.pack));
    }

    /// Returns where these bytes are, if they are.
    pub(crate) fn find(&self, packs: &Packs, digest: Digest, bytes: &[u8]) -> Option<ChunkPlace> {
        if bytes.len() < LONG {
            return None;
        }
        let place = self.places.read().get(&digest).cloned()?;
        let is_whole = packs.read(place.at).is_ok_and(|stored| stored == bytes);
        if !is_whole {
            self.places.write().remove(&digest);
        }
        is_whole.then_some(place)
    }
}
