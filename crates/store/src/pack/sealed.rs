//! A sealed pack: an object with an index, which is read when it is first needed.

use super::blocks::{CHECKED_LEN, checksums, read_verified, touched};
use super::index::{BadFooter, FOOTER_LEN, Footer, Index};
use super::{Entry, PackName, Sealed};
use crate::bucket::{Bucket, missing_or_short};
use crate::key::Key;
use parking_lot::Mutex;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_model::{Digest, DriveName, Failure};

/// Whole chunks and pages up to this length are read alone and verified by digest, rather than with the blocks around.
const DIGEST_LEN_MAX: usize = CHECKED_LEN;
/// Bytes of a pack's end that are read for its index: most have it there.
const END_LEN: usize = 128 << 10;
/// Bytes of a pack that are read at once to verify all of it.
const SCRUB_LEN: usize = 64 * CHECKED_LEN;

/// A sealed pack of a drive.
pub(super) struct SealedPack {
    name: PackName,
    key: Key,
    index: Mutex<Option<Arc<Index>>>,
    used: AtomicU64,
}

impl SealedPack {
    pub(super) fn new(drive: &DriveName, name: PackName) -> Self {
        Self {
            key: name.key(drive),
            name,
            index: Mutex::default(),
            used: AtomicU64::new(0),
        }
    }

    /// Returns a pack that was just sealed.
    pub(super) fn of(sealed: &Sealed, use_number: u64) -> Self {
        Self {
            name: sealed.name,
            key: sealed.key.clone(),
            index: Mutex::new(Some(sealed.index.clone())),
            used: AtomicU64::new(use_number),
        }
    }

    pub(super) fn name(&self) -> PackName {
        self.name
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the index if it is in memory, and notes when it was used.
    pub(super) fn cached(&self, use_number: u64) -> Option<Arc<Index>> {
        self.used.store(use_number, Ordering::Relaxed);
        self.index.lock().clone()
    }

    /// Returns when the index was used last, and how much memory it takes; none when it is not in memory.
    pub(super) fn usage(&self) -> Option<(u64, usize)> {
        let index = self.index.lock();
        index
            .as_ref()
            .map(|index| (self.used.load(Ordering::Relaxed), index.memory()))
    }

    pub(super) fn forget_index(&self) {
        self.index.lock().take();
    }

    /// Reads the index, verifies it and keeps it.
    pub(super) fn load(&self, bucket: &dyn Bucket) -> Result<Arc<Index>, Failure> {
        let mut kept = self.index.lock();
        if let Some(index) = &*kept {
            return Ok(index.clone());
        }
        let index = Arc::new(self.read_index(bucket)?);
        *kept = Some(index.clone());
        Ok(index)
    }

    fn read_index(&self, bucket: &dyn Bucket) -> Result<Index, Failure> {
        let corrupt = |why: &str| Failure::Corrupt(format!("{}: {why}", self.key));
        let found = bucket.get_end(&self.key, END_LEN)?;
        let (end, len) = found.ok_or_else(|| missing_or_short(&self.key))?;
        let footer = end.last_chunk().ok_or_else(|| corrupt("it is too short"))?;
        let footer = Footer::parsed(footer).map_err(|bad| match bad {
            BadFooter::Malformed => corrupt("its footer is damaged"),
            BadFooter::Newer(version) => corrupt(&format!(
                "it is a pack of version {version}, which this program cannot read: use a newer tenure"
            )),
        })?;
        let footer_at = len - FOOTER_LEN as u64;
        if footer.body_len.checked_add(footer.index_len) != Some(footer_at) {
            return Err(corrupt("its footer does not fit its length"));
        }
        let bytes = match end.len().checked_sub(FOOTER_LEN + footer.index_len as usize) {
            Some(start) => end[start..end.len() - FOOTER_LEN].to_vec(),
            None => {
                let mut bytes = vec![0; footer.index_len as usize];
                bucket.get_range(&self.key, footer.body_len, &mut bytes)?;
                bytes
            }
        };
        let digest = Digest::of(&bytes);
        if digest != footer.index_digest || digest.0[..8] != self.name.tag {
            return Err(corrupt("its index is damaged, or belongs to another pack"));
        }
        let index = Index::parsed(&bytes).map_err(|malformed| corrupt(&malformed.to_string()))?;
        if index.number() != self.name.number || index.body_len() != footer.body_len {
            return Err(corrupt("its index belongs to another pack"));
        }
        Ok(index)
    }

    /// Fills `into` with a verified range of an entry.
    pub(super) fn read_into(
        &self,
        bucket: &dyn Bucket,
        index: &Index,
        entry: Entry,
        start: u32,
        into: &mut [u8],
    ) -> Result<(), Failure> {
        if into.len() == entry.len as usize && into.len() <= DIGEST_LEN_MAX {
            return self.read_whole(bucket, entry, into);
        }
        if into.is_empty() {
            return Ok(());
        }
        let offset = entry.offset + u64::from(start);
        let checksums = &index.checksums()[touched(offset, into.len())];
        let read = |offset: u64, parts: &mut [IoSliceMut<'_>]| bucket.get_parts(&self.key, offset, parts);
        read_verified(&read, checksums, index.body_len(), offset, into, &self.key)
    }

    /// Fills `into` with all of an entry, verified by its digest.
    pub(super) fn read_whole(
        &self,
        bucket: &dyn Bucket,
        entry: Entry,
        into: &mut [u8],
    ) -> Result<(), Failure> {
        bucket.get_range(&self.key, entry.offset, into)?;
        self.check_digest(entry, into)
    }

    fn check_digest(&self, entry: Entry, bytes: &[u8]) -> Result<(), Failure> {
        if Digest::of(bytes) == entry.digest {
            return Ok(());
        }
        Err(Failure::Corrupt(format!(
            "{}: the {} bytes at {} are not {}",
            self.key, entry.len, entry.offset, entry.digest
        )))
    }

    /// Reads everything and verifies every block and every digest; returns the object's length.
    pub(super) fn verify(&self, bucket: &dyn Bucket) -> Result<u64, Failure> {
        let index = self.read_index(bucket)?;
        let mut bytes = vec![0; SCRUB_LEN];
        let mut at = 0;
        while at < index.body_len() {
            let len = (index.body_len() - at).min(SCRUB_LEN as u64) as usize;
            bucket.get_range(&self.key, at, &mut bytes[..len])?;
            let wanted = &index.checksums()[touched(at, len)];
            if !checksums(&bytes[..len]).eq(wanted.iter().copied()) {
                let key = &self.key;
                return Err(Failure::Corrupt(format!(
                    "{key}: the {len} bytes at {at} are damaged"
                )));
            }
            at += len as u64;
        }
        for entry in index.entries() {
            let mut bytes = vec![0; entry.len as usize];
            self.read_whole(bucket, entry, &mut bytes)?;
        }
        Ok(bucket.size(&self.key)?.unwrap_or_default())
    }
}
