//! What was read of packs, kept on this machine: in memory for a while, and in a folder where there is one for it.
//!
//! A pack's body is read in blocks, each of which has a checksum in the pack's index; the neighbours of what is missed
//! come with it, because files that are read together were written together. It knows nothing of drives: a pack's name is
//! the digest of what it holds. Invariants: what is returned fits the index of its pack, wherever it came from; whatever
//! becomes of the folder, a read is no worse than one without it; what somebody fetches nobody fetches beside.

mod fetches;
mod folder;
mod memory;
mod run;

use crate::bucket::Bucket;
use crate::key::Key;
use crate::pack::{PackName, blocks, index::Index};
use fetches::Fetches;
use folder::CacheFolder;
use memory::Memory;
use run::Run;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_model::Failure;

/// Times that a read looks again for what others have fetched for it: each time something of it came.
const ROUNDS_MAX: usize = 64;

/// What was read of packs. Shared by all drives of a process; its folder by all processes of a user.
#[derive(Default)]
pub struct Cache {
    memory: Memory,
    folder: Option<CacheFolder>,
    fetches: Fetches,
    reads: AtomicU64,
    hits: AtomicU64,
    fetched: AtomicU64,
}

/// How a cache does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    /// Its folder, if it has one.
    pub folder: Option<PathBuf>,
    /// Bytes that the folder may hold.
    pub limit: u64,
    /// Bytes that it holds, of all processes.
    pub bytes: u64,
    /// Reads of this process.
    pub reads: u64,
    /// Those of them for which nothing was fetched.
    pub hits: u64,
    /// Bytes that this process has fetched.
    pub fetched: u64,
}

/// A pack's body, and what its blocks should be.
pub(crate) struct Body<'a> {
    pub(crate) name: PackName,
    pub(crate) key: &'a Key,
    pub(crate) index: &'a Index,
}

/// Where the bytes of packs come from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) bucket: &'a dyn Bucket,
    pub(crate) cache: Option<&'a Cache>,
    /// Is asked before a read waits for the bucket, or for somebody who waits for it.
    pub(crate) may_wait: fn() -> Result<(), Failure>,
}

impl Cache {
    /// Returns a cache that keeps what it reads for a moment, and nothing once the process has ended.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Returns a cache in a folder, which is made where there is none, that holds about `limit` bytes at most.
    ///
    /// Refuses a folder that others can enter. Any number of processes may have one in the same folder; it may be deleted
    /// at any time.
    pub fn at(folder: &Path, limit: u64) -> Result<Self, Failure> {
        Ok(Self {
            folder: Some(CacheFolder::open(folder, limit)?),
            ..Self::default()
        })
    }

    /// Returns how it does.
    pub fn usage(&self) -> CacheUsage {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheUsage {
            folder: self.folder.as_ref().map(|folder| folder.path().to_owned()),
            limit: self.folder.as_ref().map_or(0, CacheFolder::limit),
            bytes: self.folder.as_ref().map_or(0, CacheFolder::bytes),
            reads: count(&self.reads),
            hits: count(&self.hits),
            fetched: count(&self.fetched),
        }
    }

    /// Tells whether somebody waits for bytes now: who is in no hurry lets him go first.
    pub fn is_fetching(&self) -> bool {
        self.fetches.are_any()
    }

    /// Fills `into` from `offset` of a body, verified by its checksums.
    pub(crate) fn read(
        &self,
        body: &Body<'_>,
        source: Source<'_>,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), Failure> {
        if into.is_empty() {
            return Ok(());
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        let mut run = Run::lacking(body, blocks::touched(offset, into.len()));
        for round in 0..ROUNDS_MAX {
            self.look_up(body, &mut run);
            let Some(missing) = run.missing() else {
                self.hits.fetch_add(u64::from(round == 0), Ordering::Relaxed);
                run.copy_out(offset, into);
                return Ok(());
            };
            (source.may_wait)()?;
            // Otherwise somebody else has fetched some of it meanwhile.
            if let Some(fetch) = self.fetches.begin(body, &missing) {
                let blocks = self.lacking(body, fetch.blocks(), &missing);
                run.take(&*self.fetched(body, source, (blocks, missing))?);
            }
        }
        Err(Failure::DidNotHappen(format!(
            "{}: what is read of it is forgotten as fast as it comes",
            body.key
        )))
    }

    /// Keeps a whole body in memory for a moment.
    pub(crate) fn keep(&self, body: &Body<'_>, bytes: &[u8]) {
        let mut run = Run::lacking(body, 0..body.index.checksums().len());
        run.bytes_mut().copy_from_slice(bytes);
        run.verify(body);
        self.memory.keep(body.name, Arc::new(run));
    }

    /// Returns the bytes of a pack's index that are kept, which nobody has verified.
    pub(crate) fn index(&self, name: PackName) -> Option<Vec<u8>> {
        self.folder.as_ref()?.index(name)
    }

    /// Keeps the bytes of a pack's index.
    pub(crate) fn keep_index(&self, name: PackName, bytes: &[u8]) {
        if let Some(folder) = &self.folder {
            folder.keep_index(name, bytes);
        }
    }

    fn look_up(&self, body: &Body<'_>, run: &mut Run) {
        self.memory.look_up(body.name, run);
        if let (Some(folder), Some(missing)) = (&self.folder, run.missing()) {
            // Most often all that is missing in memory is missing at once, and lies together.
            let mut found = Run::lacking(body, missing.start..run.blocks().end);
            folder.read(body.name, found.offset(), found.bytes_mut());
            found.verify(body);
            run.take(&found);
        }
    }

    /// Takes from both ends of a window what is there already, up to what is missing.
    fn lacking(&self, body: &Body<'_>, window: Range<usize>, missing: &Range<usize>) -> Range<usize> {
        let mut run = Run::lacking(body, window.clone());
        self.look_up(body, &mut run);
        let is_there = |block: &usize| run.has(*block);
        let front = (window.start..missing.start).take_while(is_there).count();
        let behind = (missing.end..window.end).rev().take_while(is_there).count();
        window.start + front..window.end - behind
    }

    /// Fetches blocks of a body, keeps those that are right, and returns them; it fails only for those that are `wanted`.
    fn fetched(
        &self,
        body: &Body<'_>,
        source: Source<'_>,
        (blocks, wanted): (Range<usize>, Range<usize>),
    ) -> Result<Arc<Run>, Failure> {
        let needed = wanted.start..wanted.end.min(blocks.end);
        let fetch = |blocks: &Range<usize>| {
            let mut run = Run::lacking(body, blocks.clone());
            let offset = run.offset();
            source.bucket.get_range(body.key, offset, run.bytes_mut())?;
            run.verify(body);
            Ok(run)
        };
        let run = match fetch(&blocks) {
            // A pack that has lost its end still has what stands before.
            Err(Failure::Corrupt(_)) if needed != blocks => fetch(&needed)?,
            fetched => fetched?,
        };
        let run = Arc::new(run);
        self.fetched.fetch_add(run.len(), Ordering::Relaxed);
        self.memory.keep(body.name, run.clone());
        if let Some(folder) = &self.folder {
            run.right_parts(|offset, bytes| folder.keep(body.name, offset, bytes));
        }
        match needed.into_iter().find(|block| !run.has(*block)) {
            Some(block) => Err(blocks::damaged(body.key, block)),
            None => Ok(run),
        }
    }
}
