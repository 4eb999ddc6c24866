//! What a recovered pack must have and has not: a list that stays in the bucket, so that a copy of the pack which is put back
//! later is taken for what it held.
//!
//! Nothing of a damaged pack is changed or removed while a list names it. Invariant: bytes that come from elsewhere than the
//! pack's index are returned only when their digest fits.

use super::packs::{Packs, check_range, not_held};
use super::{Entry, EntryKind, Missing, open_key};
use crate::bucket::{Bucket, Put};
use crate::key::{Key, number_text, parse_number};
use std::collections::BTreeMap;
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_varint};
use tenure_model::limits::CHUNK_LEN_MAX;
use tenure_model::{Address, Digest, DriveName, Failure, PackNumber};

const MAGIC: &[u8; 8] = b"TNLOST_1";
const VERSION: u32 = 1;
/// What stands behind the number in the name of a list.
const LOST: &str = "lost";

/// A list's name in its drive: the pack's number, and the beginning of its bytes' digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostName {
    /// The pack.
    pub number: PackNumber,
    tag: u64,
}

/// A chunk that should be in a pack, and cannot be had now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// Which.
    pub at: Address,
    /// Its bytes.
    pub len: u32,
    /// Why it cannot be had: names the object.
    pub why: Failure,
}

/// First byte and length of chunks in the file that was being filled.
pub(super) type Places = BTreeMap<Digest, (u64, u32)>;

impl LostName {
    /// Returns the name that the last component of a key is, if it is one.
    pub(super) fn parse(file_name: &str) -> Option<Self> {
        let (number, rest) = file_name.split_once('.')?;
        let name = Self {
            number: PackNumber(parse_number(number)?),
            tag: u64::from_str_radix(rest.strip_prefix(LOST)?.strip_prefix('.')?, 16).ok()?,
        };
        // Only one way to write a name is a name.
        (name.file_name() == file_name).then_some(name)
    }

    fn file_name(self) -> String {
        format!("{}.{LOST}.{:016x}", number_text(self.number.0), self.tag)
    }

    fn key(self, drive: &DriveName) -> Key {
        Key::in_drive(drive, &["packs", &self.file_name()])
    }
}

/// A list as it stands in the bucket.
struct List {
    drive: DriveName,
    number: PackNumber,
    places: Places,
}

impl Codec for List {
    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.drive.as_str().as_bytes());
        put_varint(out, self.number.0);
        put_varint(out, self.places.len() as u64);
        for (digest, (offset, len)) in &self.places {
            out.extend_from_slice(&digest.0);
            put_varint(out, *offset);
            put_varint(out, u64::from(*len));
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let drive = DriveName::parse(input.text()?).map_err(|_| malformed("drive name"))?;
        let number = PackNumber(input.varint()?);
        let mut places = BTreeMap::new();
        for _ in 0..input.varint()? {
            let (digest, offset, len) = (input.digest()?, input.varint()?, input.varint()?);
            let len = u32::try_from(len)
                .ok()
                .filter(|len| (1..=CHUNK_LEN_MAX).contains(&(*len as usize)));
            let is_next = places.last_key_value().is_none_or(|(last, _)| *last < digest);
            let place = (offset, len.filter(|_| is_next).ok_or(malformed("lost chunk"))?);
            places.insert(digest, place);
        }
        Ok(Self {
            drive,
            number,
            places,
        })
    }
}

/// Puts the list of what is missing in a pack, durably; the same is put once.
fn put(bucket: &dyn Bucket, drive: &DriveName, number: PackNumber, places: &Places) -> Result<(), Failure> {
    let list = List {
        drive: drive.clone(),
        number,
        places: places.clone(),
    };
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    list.write(&mut bytes);
    let digest = Digest::of(&bytes);
    bytes.extend_from_slice(&digest.0);
    let tag = u64::from_be_bytes(*digest.0.first_chunk().expect("a digest has 32 bytes"));
    let key = LostName { number, tag }.key(drive);
    match bucket.put_if_absent(&key, &bytes)? {
        Put::Created => Ok(()),
        Put::Exists if bucket.get(&key)?.is_some_and(|found| found == bytes) => Ok(()),
        Put::Exists => Err(Failure::Corrupt(format!(
            "{key}: it is damaged: remove it; what it said was found again"
        ))),
    }
}

/// Reads a list.
fn read(bucket: &dyn Bucket, drive: &DriveName, name: LostName) -> Result<Places, Failure> {
    let key = name.key(drive);
    let corrupt = |why: &str| Failure::Corrupt(format!("{key}: {why}: restore it from a copy of the bucket"));
    let bytes = bucket.get(&key)?.ok_or_else(|| corrupt("it is missing"))?;
    let parsed = || {
        let (signed, digest) = bytes.split_last_chunk::<32>()?;
        let rest = signed
            .strip_prefix(MAGIC)
            .filter(|_| Digest::of(signed).0 == *digest)?;
        rest.split_first_chunk::<4>()
    };
    let (version, body) = parsed().ok_or_else(|| corrupt("it is damaged"))?;
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(Failure::newer(format_args!(
            "{key}: it is a list of version {version}"
        )));
    }
    let list = List::parsed(body).map_err(|malformed| corrupt(&malformed.to_string()))?;
    if list.number != name.number || list.drive != *drive {
        return Err(corrupt("it belongs to another pack"));
    }
    Ok(list.places)
}

impl Packs {
    /// Keeps in mind, durably, that these chunks belong in a pack and are missing: what is put back of it later is found.
    pub fn lose(&self, number: PackNumber, missing: &[Missing]) -> Result<(), Failure> {
        let mut lost = self.lost.write();
        let known = lost.get(&number);
        let is_known = |digest| known.is_some_and(|known| known.contains_key(&digest));
        let places = missing.iter().map(|missing| &missing.place);
        let new: Places = places
            .filter(|place| !is_known(place.at.digest) && (1..=CHUNK_LEN_MAX).contains(&(place.len as usize)))
            .map(|place| (place.at.digest, (place.offset, place.len)))
            .collect();
        if !new.is_empty() {
            put(&*self.bucket, &self.drive, number, &new)?;
            lost.entry(number).or_default().extend(new);
        }
        Ok(())
    }

    /// Takes a list that is in the bucket. One that is damaged still tells that its pack is to be left as it is.
    pub fn add_lost(&self, name: LostName) -> Result<(), Failure> {
        let read = read(&*self.bucket, &self.drive, name);
        let mut lost = self.lost.write();
        let known = lost.entry(name.number).or_default();
        known.extend(read?);
        Ok(())
    }

    /// Tells whether a list names a pack: then what is left of it is not removed.
    pub fn is_lost(&self, number: PackNumber) -> bool {
        self.lost.read().contains_key(&number)
    }

    /// Returns what lists name and cannot be had now either.
    pub fn lacking(&self) -> Vec<Lacking> {
        let mut named = Vec::new();
        for (pack, places) in &*self.lost.read() {
            let pack = *pack;
            named.extend(places.iter().map(|(digest, (_, len))| {
                (
                    Address {
                        pack,
                        digest: *digest,
                    },
                    *len,
                )
            }));
        }
        let tried = named.into_iter().map(|(at, len)| (at, len, self.read(at)));
        let lacking = tried.filter_map(|(at, len, read)| read.err().map(|why| Lacking { at, len, why }));
        lacking.collect()
    }

    /// Returns a chunk that no object of its pack has: where a list names it, from the file that may have been put back.
    pub(super) fn read_lost(&self, at: Address) -> Result<Vec<u8>, Failure> {
        let Some((offset, len)) = self.lost_place(at) else {
            if !self.is_lost(at.pack) {
                self.slot(at.pack)?;
            }
            return Err(not_held(at));
        };
        let key = open_key(&self.drive, at.pack);
        let mut bytes = vec![0; len as usize];
        let gone = |why: &str| {
            Failure::Corrupt(format!(
                "{key}: {why}: {len} bytes at {offset} that were synced cannot be had; restore it from a copy of the bucket"
            ))
        };
        match self.bucket.get_range(&key, offset, &mut bytes) {
            Ok(()) if Digest::of(&bytes) == at.digest => Ok(bytes),
            Ok(()) => Err(gone("it is damaged")),
            Err(Failure::Corrupt(_)) => Err(gone("it is missing, too short, or no plain file")),
            Err(failure) => Err(failure),
        }
    }

    pub(super) fn read_part_of_lost(&self, at: Address, start: u32, into: &mut [u8]) -> Result<(), Failure> {
        let bytes = self.read_lost(at)?;
        let len = u32::try_from(bytes.len()).expect("a chunk's length has 32 bits");
        check_range(len, start, into.len(), at)?;
        into.copy_from_slice(&bytes[start as usize..][..into.len()]);
        Ok(())
    }

    /// Returns where a list says that a chunk is, if it can be had there.
    pub(super) fn find_lost(&self, at: Address) -> Option<Entry> {
        let (offset, len) = self.lost_place(at)?;
        self.read_lost(at).ok()?;
        Some(Entry {
            digest: at.digest,
            offset,
            len,
            kind: EntryKind::Chunk,
        })
    }

    fn lost_place(&self, at: Address) -> Option<(u64, u32)> {
        self.lost.read().get(&at.pack)?.get(&at.digest).copied()
    }
}
