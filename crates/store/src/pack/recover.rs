//! What a crash left open: the chunks that the journal places there are verified, and the pack is sealed.
//!
//! Invariant: nothing enters the index whose bytes do not hash to its digest, and no verified byte is overwritten.

use super::blocks::{CHECKED_LEN, checksums};
use super::home::Home;
use super::index::Index;
use super::seal::{self, Body};
use super::{Entry, EntryKind, PackName, Sealed, open_key};
use crate::disk::DiskFile;
use crate::key::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tenure_model::{ChunkPlace, Digest, DriveName, Failure, PackNumber};

/// Bytes of a body that are read at once: whole checksummed blocks.
const READ_LEN: usize = 64 * CHECKED_LEN;

/// What recovery made of a pack that was being filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The pack, sealed, with every chunk that could be verified; none when there was nothing to keep.
    pub sealed: Option<Sealed>,
    /// Chunks that the journal names and that cannot be had. One that was acknowledged is a loss.
    pub missing: Vec<Missing>,
}

/// A chunk whose bytes cannot be had, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What should be there.
    pub place: ChunkPlace,
    /// Why it is not.
    pub why: Failure,
}

/// Compares a pack that is sealed with what the journal places in it.
pub(super) fn compare(name: PackName, key: &Key, index: Arc<Index>, places: &[ChunkPlace]) -> Recovered {
    let entries: Vec<Entry> = index.entries().collect();
    let lost = places
        .iter()
        .filter(|place| index.find(place.at.digest).is_none());
    let missing = lost
        .map(|place| missing(place, key, "is not in its index"))
        .collect();
    Recovered {
        missing,
        sealed: Some(Sealed {
            name,
            key: key.clone(),
            len: index.body_len() + super::index::written_len(entries.len(), index.body_len()),
            entries,
            index,
        }),
    }
}

/// Verifies the places, writes the bytes that came with them where the pack lacks them, and seals the pack.
pub(super) fn recover(
    home: &Home,
    drive: &DriveName,
    number: PackNumber,
    places: &[ChunkPlace],
) -> Result<Recovered, Failure> {
    let key = open_key(drive, number);
    let file = match home.open(&key)? {
        Some(file) => file,
        None if places.is_empty() => return Ok(nothing(Vec::new())),
        None => home.create(&key)?,
    };
    file.settle()?;
    let mut found = Found {
        file: &*file,
        len: file.len()?,
        ranges: BTreeMap::new(),
        entries: BTreeMap::new(),
    };
    let lacking = found.verify(places)?;
    let (carried, lost): (Vec<_>, Vec<_>) = lacking.into_iter().partition(|place| carries_bytes(place));
    for place in carried {
        found.write(place)?;
    }
    let lost = lost
        .into_iter()
        .filter(|place| !found.entries.contains_key(&place.at.digest));
    let missing: Vec<_> = lost
        .map(|place| missing(place, &key, "was not written before the crash"))
        .collect();
    if found.entries.is_empty() {
        home.remove(&key)?;
        return Ok(nothing(missing));
    }
    let body = found.into_body(number, &key)?;
    let sealed = Some(seal::finish(home, drive, &*file, body)?);
    Ok(Recovered { sealed, missing })
}

/// What is known of an open pack's bytes.
struct Found<'a> {
    file: &'a dyn DiskFile,
    len: u64,
    /// Verified ranges, none touching another: first byte and first byte behind.
    ranges: BTreeMap<u64, u64>,
    entries: BTreeMap<Digest, Entry>,
}

impl Found<'_> {
    /// Takes what is in the file, and returns the places of what is not.
    fn verify<'p>(&mut self, places: &'p [ChunkPlace]) -> Result<Vec<&'p ChunkPlace>, Failure> {
        let mut lacking = Vec::new();
        let mut seen = BTreeSet::new();
        let mut bytes = Vec::new();
        for place in places {
            // A chunk is written once; a second record that places it adds nothing unless it carries the bytes.
            if place.inline.is_none() && !seen.insert((place.at.digest, place.offset)) {
                continue;
            }
            let end = place.offset.checked_add(u64::from(place.len));
            if end.is_none_or(|end| end > self.len) {
                lacking.push(place);
                continue;
            }
            bytes.resize(place.len as usize, 0);
            // What is not there is lost for ever once the pack is sealed: a read that only went wrong must not decide.
            if self.holds(place, &mut bytes)? || self.holds(place, &mut bytes)? {
                self.take(place, place.offset);
            } else {
                lacking.push(place);
            }
        }
        Ok(lacking)
    }

    fn holds(&self, place: &ChunkPlace, bytes: &mut [u8]) -> Result<bool, Failure> {
        self.file.read_at(place.offset, bytes)?;
        Ok(place.len > 0 && Digest::of(bytes) == place.at.digest)
    }

    fn take(&mut self, place: &ChunkPlace, offset: u64) {
        self.cover(offset, offset + u64::from(place.len));
        self.entries.entry(place.at.digest).or_insert(Entry {
            digest: place.at.digest,
            offset,
            len: place.len,
            kind: EntryKind::Chunk,
        });
    }

    /// Writes the bytes that came with a place: there, or at the end where something else is there.
    fn write(&mut self, place: &ChunkPlace) -> Result<(), Failure> {
        if self.entries.contains_key(&place.at.digest) {
            return Ok(());
        }
        let bytes = place.inline.as_ref().expect("only places with bytes are written");
        let offset = if self.is_free(place.offset, bytes.len()) {
            place.offset
        } else {
            self.end()
        };
        self.file.write_at(offset, bytes)?;
        self.take(place, offset);
        Ok(())
    }

    fn is_free(&self, offset: u64, len: usize) -> bool {
        // A place far behind everything else would make a pack of nothing but a gap.
        let near = offset <= self.end().max(self.len);
        let end = offset.saturating_add(len as u64);
        let before = self.ranges.range(..end).next_back();
        near && before.is_none_or(|(_, until)| *until <= offset)
    }

    /// Adds a range, together with those that it touches.
    fn cover(&mut self, mut start: u64, mut end: u64) {
        while let Some((&from, &until)) = self.ranges.range(..=end).next_back() {
            if until < start {
                break;
            }
            self.ranges.remove(&from);
            start = start.min(from);
            end = end.max(until);
        }
        self.ranges.insert(start, end);
    }

    fn end(&self) -> u64 {
        self.ranges.last_key_value().map_or(0, |(_, until)| *until)
    }

    /// Reads what the body is now, so that its checksums are those of the bytes that are there.
    fn into_body(self, number: PackNumber, key: &Key) -> Result<Body, Failure> {
        let len = self.end();
        let checksums = self.checksums(len)?;
        // Bytes between chunks have no digest: a read that went wrong would stay as their checksum for ever.
        if self.checksums(len)? != checksums {
            return Err(Failure::Corrupt(format!(
                "{key}: reading it twice gives other bytes"
            )));
        }
        Ok(Body {
            number,
            len,
            entries: self.entries.into_values().collect(),
            checksums,
        })
    }

    /// Returns the checksums of the body as it is read now.
    fn checksums(&self, len: u64) -> Result<Vec<u32>, Failure> {
        let mut sums = Vec::new();
        let mut bytes = vec![0; READ_LEN];
        let mut at = 0;
        while at < len {
            let part = (len - at).min(READ_LEN as u64) as usize;
            self.file.read_at(at, &mut bytes[..part])?;
            sums.extend(checksums(&bytes[..part]));
            at += part as u64;
        }
        Ok(sums)
    }
}

/// Tells whether the place brings its bytes, and they are the right ones.
fn carries_bytes(place: &ChunkPlace) -> bool {
    let right = |bytes: &[u8]| bytes.len() == place.len as usize && Digest::of(bytes) == place.at.digest;
    place.len > 0 && place.inline.as_deref().is_some_and(right)
}

fn missing(place: &ChunkPlace, key: &Key, why: &str) -> Missing {
    let (digest, len, offset) = (place.at.digest, place.len, place.offset);
    Missing {
        place: place.clone(),
        why: Failure::Corrupt(format!("{key}: {digest}, {len} bytes at {offset}, {why}")),
    }
}

fn nothing(missing: Vec<Missing>) -> Recovered {
    Recovered {
        sealed: None,
        missing,
    }
}
