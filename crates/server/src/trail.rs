//! The trail of a pack that is being filled: which chunks the sessions of other processes have placed there.
//!
//! The journal names a chunk only when a batch does. A session that outlives this owner ships that batch to the next
//! one, which must have the bytes then. So they are handed to the operating system before they count as placed, and the
//! trail says where they are. Invariant: it is a hint; the next owner takes only bytes whose digest fits.

use parking_lot::Mutex;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use tenure_model::{Address, ChunkPlace, Digest, DriveName, Failure, PackNumber, limits};
use tenure_store::key::{number_text, parse_number};
use tenure_store::{Bucket, Disk, DiskFile, Key};

/// Bytes of one entry: digest, offset, length.
const ENTRY_LEN: usize = 32 + 8 + 4;
const SUFFIX: &str = "trail";

/// The trails of the packs that this owner fills.
pub(crate) struct Trails {
    drive: DriveName,
    disk: Option<Arc<dyn Disk>>,
    open: Mutex<BTreeMap<PackNumber, Trail>>,
}

struct Trail {
    file: Arc<dyn DiskFile>,
    len: u64,
    known: HashSet<Digest>,
}

impl Trails {
    /// Keeps trails beside the packs of a drive.
    pub(crate) fn new(drive: DriveName, bucket: &dyn Bucket) -> Self {
        Self {
            drive,
            disk: bucket.disk(),
            open: Mutex::default(),
        }
    }

    /// Adds chunks of one pack; what it says survives the end of this process when it returns.
    pub(crate) fn note(&self, pack: PackNumber, places: &[&ChunkPlace]) -> Result<(), Failure> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let mut open = self.open.lock();
        let trail = match open.entry(pack) {
            Entry::Occupied(trail) => trail.into_mut(),
            Entry::Vacant(place) => {
                let key = key(&self.drive, pack);
                // One is there when it was created and nobody heard so.
                let file = match disk.open(&key)? {
                    Some(file) => file,
                    None => disk.create(&key)?,
                };
                place.insert(Trail {
                    file,
                    len: 0,
                    known: HashSet::new(),
                })
            }
        };
        let new: Vec<_> = places
            .iter()
            .filter(|place| !trail.known.contains(&place.at.digest))
            .collect();
        let bytes: Vec<u8> = new.iter().flat_map(|place| written(place)).collect();
        trail.file.write_at(trail.len, &bytes)?;
        trail.len += bytes.len() as u64;
        trail.known.extend(new.iter().map(|place| place.at.digest));
        Ok(())
    }

    /// Removes the trail of a pack that is sealed.
    pub(crate) fn end(&self, pack: PackNumber) -> Result<(), Failure> {
        match (&self.disk, self.open.lock().remove(&pack)) {
            (Some(disk), Some(_)) => disk.remove(&key(&self.drive, pack)),
            (_, _) => Ok(()),
        }
    }
}

/// Returns the chunks that a trail which an earlier owner has left names.
pub(crate) fn left(
    bucket: &dyn Bucket,
    drive: &DriveName,
    pack: PackNumber,
) -> Result<Vec<ChunkPlace>, Failure> {
    let opened = bucket.disk().map(|disk| disk.open(&key(drive, pack)));
    let file = match opened.transpose() {
        Ok(file) => file.flatten(),
        Err(Failure::Corrupt(why)) => {
            tracing::warn!(%why, "what is no file is no trail");
            None
        }
        Err(failure) => return Err(failure),
    };
    let Some(file) = file else {
        return Ok(Vec::new());
    };
    let len = file.len()?;
    if len > limits::OBJECT_LEN_MAX {
        let key = key(drive, pack);
        tracing::warn!(%key, len, "what is longer than any trail that was ever written is none");
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(0, &mut bytes)?;
    // An entry that was cut off or never written names nothing that could be verified.
    Ok(bytes
        .chunks_exact(ENTRY_LEN)
        .filter_map(|entry| read(pack, entry))
        .collect())
}

/// Removes the trails that earlier owners have left.
pub(crate) fn remove_left(bucket: &dyn Bucket, drive: &DriveName) -> Result<(), Failure> {
    let Some(disk) = bucket.disk() else { return Ok(()) };
    for name in bucket.children(&format!("drives/{drive}/packs/"))? {
        let Some(pack) = pack_of(&name) else { continue };
        match disk.remove(&key(drive, pack)) {
            Err(Failure::Corrupt(why)) => tracing::warn!(%why, "what is no file is left as it is"),
            removed => removed?,
        }
    }
    Ok(())
}

/// Returns the pack whose trail has that name among the packs.
pub(crate) fn pack_of(name: &str) -> Option<PackNumber> {
    let (number, SUFFIX) = name.split_once('.')? else {
        return None;
    };
    parse_number(number).map(PackNumber)
}

fn key(drive: &DriveName, pack: PackNumber) -> Key {
    Key::in_drive(drive, &["packs", &format!("{}.{SUFFIX}", number_text(pack.0))])
}

fn written(place: &ChunkPlace) -> [u8; ENTRY_LEN] {
    let mut entry = [0; ENTRY_LEN];
    entry[..32].copy_from_slice(&place.at.digest.0);
    entry[32..40].copy_from_slice(&place.offset.to_le_bytes());
    entry[40..].copy_from_slice(&place.len.to_le_bytes());
    entry
}

fn read(pack: PackNumber, entry: &[u8]) -> Option<ChunkPlace> {
    let (digest, rest) = entry.split_first_chunk::<32>()?;
    let (offset, len) = rest.split_first_chunk::<8>()?;
    let len = u32::from_le_bytes(len.try_into().ok()?);
    let is_chunk = (1..=limits::CHUNK_LEN_MAX).contains(&(len as usize));
    is_chunk.then(|| ChunkPlace {
        at: Address {
            pack,
            digest: Digest(*digest),
        },
        offset: u64::from_le_bytes(*offset),
        len,
        inline: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_store::FolderBucket;

    #[test]
    fn a_trail_that_is_longer_than_any_is_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let bucket = FolderBucket::create(dir.path()).expect("a bucket");
        let (drive, pack) = (DriveName::parse("work").expect("a name"), PackNumber(7));
        let disk = bucket.disk().expect("a folder is a disk");
        let file = disk.create(&key(&drive, pack)).expect("a file");
        file.write_at(1 << 40, &[1]).expect("a hole before it");
        assert_eq!(left(&bucket, &drive, pack).expect("it is no failure"), []);
    }
}
