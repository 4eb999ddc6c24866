//! What a crash left open: the chunks that the journal places there are verified, and the pack is sealed.
//!
//! Invariant: nothing enters the index whose bytes do not hash to its digest, and no verified byte is overwritten.

use super::blocks::{CHECKED_LEN, checksums};
use super::home::Home;
use super::index::Index;
use super::seal::{self, Body};
use super::{Entry, EntryKind, PackName, Sealed, open_key};
use crate::bucket::Bucket;
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

/// Verifies the places, adds the bytes that came with them where the pack lacks them, and seals the pack. What is only hinted
/// at is taken where it is there.
///
/// A file that lacks what it must have is evidence, and is left as it is: the pack is sealed from a copy then. So is what stands in
/// its place and is no file.
pub(super) fn recover(
    (home, bucket): (&Home, &dyn Bucket),
    drive: &DriveName,
    number: PackNumber,
    (places, hints): (&[ChunkPlace], &[ChunkPlace]),
) -> Result<Recovered, Failure> {
    let key = open_key(drive, number);
    let (there, is_odd) = match home.open(&key) {
        Ok(there) => (there, false),
        Err(Failure::Corrupt(_)) => (None, true),
        Err(failure) => return Err(failure),
    };
    let mut found = Found::default();
    if let Some(file) = &there {
        file.settle()?;
        found.len = file.len()?;
    }
    let lacking = found.verify(there.as_deref(), places)?;
    found.verify(there.as_deref(), hints)?;
    let (carried, lost): (Vec<_>, Vec<_>) = lacking.into_iter().partition(|place| carries_bytes(place));
    let known =
        |digest| found.entries.contains_key(&digest) || carried.iter().any(|place| place.at.digest == digest);
    let lost = lost.into_iter().filter(|place| !known(place.at.digest));
    let missing: Vec<_> = lost.map(|place| missing(place, &key, "is not there")).collect();
    if found.entries.is_empty() && carried.is_empty() {
        if missing.is_empty() && there.is_some() {
            home.remove(&key)?;
        }
        return Ok(nothing(missing));
    }
    if !missing.is_empty() || is_odd {
        let sealed = Some(found.copied((bucket, drive), number, there.as_deref(), &carried)?);
        return Ok(Recovered { sealed, missing });
    }
    let file = match there {
        Some(file) => file,
        None => home.create(&key)?,
    };
    for place in carried {
        found.write(&*file, place)?;
    }
    let body = found.into_body(&*file, number, &key)?;
    let sealed = Some(seal::finish(home, drive, &*file, body)?);
    Ok(Recovered { sealed, missing })
}

/// What is known of an open pack's bytes.
#[derive(Default)]
struct Found {
    len: u64,
    /// Verified ranges, none touching another: first byte and first byte behind.
    ranges: BTreeMap<u64, u64>,
    entries: BTreeMap<Digest, Entry>,
}

impl Found {
    /// Takes what is in the file, and returns the places of what is not.
    fn verify<'p>(
        &mut self,
        file: Option<&dyn DiskFile>,
        places: &'p [ChunkPlace],
    ) -> Result<Vec<&'p ChunkPlace>, Failure> {
        let mut lacking = Vec::new();
        let mut seen = BTreeSet::new();
        let mut bytes = Vec::new();
        for place in places {
            // A chunk is written once; a second record that places it adds nothing unless it carries the bytes.
            if place.inline.is_none() && !seen.insert((place.at.digest, place.offset)) {
                continue;
            }
            let end = place.offset.checked_add(u64::from(place.len));
            let Some(file) = file.filter(|_| end.is_some_and(|end| end <= self.len)) else {
                lacking.push(place);
                continue;
            };
            bytes.resize(place.len as usize, 0);
            // A read that only went wrong must not decide.
            if holds(file, place, &mut bytes)? || holds(file, place, &mut bytes)? {
                self.take(place, place.offset);
            } else {
                lacking.push(place);
            }
        }
        Ok(lacking)
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
    fn write(&mut self, file: &dyn DiskFile, place: &ChunkPlace) -> Result<(), Failure> {
        if self.entries.contains_key(&place.at.digest) {
            return Ok(());
        }
        let bytes = place.inline.as_ref().expect("only places with bytes are written");
        let offset = if self.is_free(place.offset, bytes.len()) {
            place.offset
        } else {
            self.end()
        };
        file.write_at(offset, bytes)?;
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
    fn into_body(self, file: &dyn DiskFile, number: PackNumber, key: &Key) -> Result<Body, Failure> {
        let len = self.end();
        let checksums = checksums_of(file, len)?;
        // Bytes between chunks have no digest: a read that went wrong would stay as their checksum for ever.
        if checksums_of(file, len)? != checksums {
            return Err(unsteady(key));
        }
        Ok(Body {
            number,
            len,
            entries: self.entries.into_values().collect(),
            checksums,
        })
    }

    /// Puts a pack of its own with everything that can be had, the file being left as it is.
    fn copied(
        self,
        (bucket, drive): (&dyn Bucket, &DriveName),
        number: PackNumber,
        file: Option<&dyn DiskFile>,
        carried: &[&ChunkPlace],
    ) -> Result<Sealed, Failure> {
        let mut bytes = Vec::new();
        let mut entries = self.entries;
        for entry in entries.values_mut() {
            let file = file.expect("what was verified was read from it");
            let start = bytes.len();
            bytes.resize(start + entry.len as usize, 0);
            file.read_at(entry.offset, &mut bytes[start..])?;
            if Digest::of(&bytes[start..]) != entry.digest {
                return Err(unsteady(&open_key(drive, number)));
            }
            entry.offset = start as u64;
        }
        for place in carried {
            entries.entry(place.at.digest).or_insert_with(|| {
                let offset = bytes.len() as u64;
                bytes.extend_from_slice(place.inline.as_ref().expect("only places with bytes are carried"));
                Entry {
                    digest: place.at.digest,
                    offset,
                    len: place.len,
                    kind: EntryKind::Chunk,
                }
            });
        }
        let body = Body {
            number,
            len: bytes.len() as u64,
            entries: entries.into_values().collect(),
            checksums: checksums(&bytes).collect(),
        };
        seal::put(bucket, drive, body, bytes)
    }
}

/// Tells whether a file holds a place's bytes, as it is read now.
fn holds(file: &dyn DiskFile, place: &ChunkPlace, bytes: &mut [u8]) -> Result<bool, Failure> {
    file.read_at(place.offset, bytes)?;
    Ok(place.len > 0 && Digest::of(bytes) == place.at.digest)
}

/// Returns the checksums of the first `len` bytes as they are read now.
fn checksums_of(file: &dyn DiskFile, len: u64) -> Result<Vec<u32>, Failure> {
    let mut sums = Vec::new();
    let mut bytes = vec![0; READ_LEN];
    let mut at = 0;
    while at < len {
        let part = (len - at).min(READ_LEN as u64) as usize;
        file.read_at(at, &mut bytes[..part])?;
        sums.extend(checksums(&bytes[..part]));
        at += part as u64;
    }
    Ok(sums)
}

fn unsteady(key: &Key) -> Failure {
    Failure::Corrupt(format!("{key}: reading it twice gives other bytes"))
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
