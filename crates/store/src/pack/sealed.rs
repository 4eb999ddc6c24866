//! A sealed pack: an object with an index, which is read when it is first needed.

use super::blocks::{CHECKED_LEN, SCRUB_LEN, checksums, read_verified, touched};
use super::index::{BadFooter, FOOTER_LEN, Footer, Index};
use super::{Entry, PackName, Sealed};
use crate::bucket::{Bucket, missing_or_short, whole_len};
use crate::cache::{Body, Cache, Source};
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

/// A sealed pack of a drive.
pub(super) struct SealedPack {
    name: PackName,
    key: Key,
    /// Never held while anybody waits.
    index: Mutex<Option<Arc<Index>>>,
    /// Held while the index is loaded.
    loading: Mutex<()>,
    used: AtomicU64,
}

impl SealedPack {
    pub(super) fn new(drive: &DriveName, name: PackName) -> Self {
        Self {
            key: name.key(drive),
            name,
            index: Mutex::default(),
            loading: Mutex::default(),
            used: AtomicU64::new(0),
        }
    }

    /// Returns a pack that was just sealed.
    pub(super) fn of(sealed: &Sealed, use_number: u64) -> Self {
        Self {
            name: sealed.name,
            key: sealed.key.clone(),
            index: Mutex::new(Some(sealed.index.clone())),
            loading: Mutex::default(),
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
    pub(super) fn load(&self, source: Source<'_>) -> Result<Arc<Index>, Failure> {
        if let Some(index) = source.cache.and_then(|cache| self.cached_index(cache)) {
            return Ok(self.keep(index));
        }
        (source.may_wait)()?;
        let _loading = self.loading.lock();
        // Somebody else may have loaded it meanwhile.
        if let Some(index) = self.index.lock().clone() {
            return Ok(index);
        }
        let (index, bytes) = self.read_index(source.bucket)?;
        if let Some(cache) = source.cache {
            cache.keep_index(self.name, &bytes);
        }
        Ok(self.keep(index))
    }

    fn keep(&self, index: Index) -> Arc<Index> {
        let index = Arc::new(index);
        *self.index.lock() = Some(index.clone());
        index
    }

    /// Returns the index that a cache has, if it is this pack's.
    fn cached_index(&self, cache: &Cache) -> Option<Index> {
        let bytes = cache.index(self.name)?;
        let index = Index::parsed(&bytes).ok()?;
        let is_ours = Digest::of(&bytes).0[..8] == self.name.tag && index.number() == self.name.number;
        is_ours.then_some(index)
    }

    /// Reads the index, verifies it, and returns it with its bytes.
    fn read_index(&self, bucket: &dyn Bucket) -> Result<(Index, Vec<u8>), Failure> {
        let corrupt = |why: &str| Failure::Corrupt(format!("{}: {why}", self.key));
        let found = bucket.get_end(&self.key, END_LEN)?;
        let (end, len) = found.ok_or_else(|| missing_or_short(&self.key))?;
        let footer = end.last_chunk().ok_or_else(|| corrupt("it is too short"))?;
        let footer = Footer::parsed(footer).map_err(|bad| match bad {
            BadFooter::Malformed => corrupt("its footer is damaged"),
            BadFooter::Newer(version) => {
                Failure::newer(format_args!("{}: it is a pack of version {version}", self.key))
            }
        })?;
        let footer_at = len - FOOTER_LEN as u64;
        if footer.body_len.checked_add(footer.index_len) != Some(footer_at) {
            return Err(corrupt("its footer does not fit its length"));
        }
        let bytes = match end.len().checked_sub(FOOTER_LEN + footer.index_len as usize) {
            Some(start) => end[start..end.len() - FOOTER_LEN].to_vec(),
            None => {
                let mut bytes = vec![0; whole_len(&self.key, footer.index_len)?];
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
        Ok((index, bytes))
    }

    /// Fills `into` with a verified range of an entry.
    pub(super) fn read_into(
        &self,
        source: Source<'_>,
        index: &Index,
        entry: Entry,
        start: u32,
        into: &mut [u8],
    ) -> Result<(), Failure> {
        if into.len() == entry.len as usize && into.len() <= DIGEST_LEN_MAX {
            return self.read_whole(source, index, entry, into);
        }
        self.read_range(source, index, entry.offset + u64::from(start), into)
    }

    /// Fills `into` with all of an entry, verified by its digest.
    pub(super) fn read_whole(
        &self,
        source: Source<'_>,
        index: &Index,
        entry: Entry,
        into: &mut [u8],
    ) -> Result<(), Failure> {
        match source.cache {
            Some(_) => self.read_range(source, index, entry.offset, into)?,
            None => source.bucket.get_range(&self.key, entry.offset, into)?,
        }
        self.check_digest(entry, into)
    }

    /// Fills `into` with a range of the body, verified by the checksums of its blocks.
    fn read_range(
        &self,
        source: Source<'_>,
        index: &Index,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), Failure> {
        if let Some(cache) = source.cache {
            let body = Body {
                name: self.name,
                key: &self.key,
                index,
            };
            return cache.read(&body, source, offset, into);
        }
        if into.is_empty() {
            return Ok(());
        }
        let checksums = &index.checksums()[touched(offset, into.len())];
        let read =
            |offset: u64, parts: &mut [IoSliceMut<'_>]| source.bucket.get_parts(&self.key, offset, parts);
        read_verified(&read, checksums, index.body_len(), offset, into, &self.key)
    }

    /// Fills `into` with a range of the object: of the body verified, and behind it as it must be.
    pub(super) fn object_part(
        &self,
        source: Source<'_>,
        index: &Index,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), Failure> {
        let body_len = index.body_len();
        let of_body = body_len.saturating_sub(offset).min(into.len() as u64) as usize;
        let (body, behind) = into.split_at_mut(of_body);
        self.read_range(source, index, offset, body)?;
        if behind.is_empty() {
            return Ok(());
        }
        let end = index.end();
        let start = usize::try_from(offset.saturating_sub(body_len)).unwrap_or(usize::MAX);
        let found = end.get(start..).and_then(|end| end.get(..behind.len()));
        behind.copy_from_slice(found.ok_or_else(|| missing_or_short(&self.key))?);
        Ok(())
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

    /// Reads everything from the bucket and verifies every block and every digest; returns the object's length. `read` is told
    /// of the bytes by and by.
    pub(super) fn verify(&self, bucket: &dyn Bucket, read: &dyn Fn(u64)) -> Result<u64, Failure> {
        let (index, bytes) = self.read_index(bucket)?;
        let mut entries: Vec<_> = index.entries().collect();
        entries.sort_unstable_by_key(|entry| entry.offset);
        let mut entries = entries.into_iter().peekable();
        // What was read of the body and is needed for entries that are not verified yet.
        let (mut window, mut start) = (Vec::new(), 0);
        let mut at = 0;
        while at < index.body_len() {
            let len = (index.body_len() - at).min(SCRUB_LEN as u64) as usize;
            let before = window.len();
            window.resize(before + len, 0);
            bucket.get_range(&self.key, at, &mut window[before..])?;
            let wanted = &index.checksums()[touched(at, len)];
            if !checksums(&window[before..]).eq(wanted.iter().copied()) {
                let key = &self.key;
                return Err(Failure::Corrupt(format!(
                    "{key}: the {len} bytes at {at} are damaged"
                )));
            }
            at += len as u64;
            let is_read = |entry: &Entry| entry.offset + u64::from(entry.len) <= at;
            while let Some(entry) = entries.next_if(is_read) {
                let from = (entry.offset - start) as usize;
                self.check_digest(entry, &window[from..from + entry.len as usize])?;
            }
            let rest = entries.peek().map_or(at, |entry| entry.offset.min(at));
            window.drain(..(rest - start) as usize);
            start = rest;
            read(len as u64);
        }
        Ok(index.body_len() + (bytes.len() + FOOTER_LEN) as u64)
    }
}
