//! Placing: chunks and pages get their places in the packs that are being filled.
//!
//! A chunk that was placed lately is not placed again, whoever brings it; nor is a long one that is there from before.
//! Invariant: a pack's number is used once in
//! the life of a drive, because it carries the epoch.

use crate::health::Health;
use crate::known::Known;
use crate::trail::Trails;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_model::{Address, ChunkPlace, Digest, Epoch, Failure, PackNumber};
use tenure_store::pack::{EntryKind, PackWriter, Packs};

/// Packs that one epoch can fill: the number has the epoch above these bits.
pub(crate) const NUMBER_BITS: u32 = 24;
/// Chunks that are known to have been placed lately: some MiB of memory, some GiB of usual contents.
const RECENT_MAX: usize = 1 << 16;

/// The packs that are being filled by this owner.
pub(crate) struct Filling {
    packs: Arc<Packs>,
    epoch: Epoch,
    health: Arc<Health>,
    next: AtomicU64,
    chunks: Mutex<Fill>,
    pages: Mutex<Fill>,
    recent: Mutex<Recent>,
    known: Known,
    trails: Trails,
    /// Held while packs are sealed, so that none is sealed twice.
    sealing: Mutex<()>,
}

/// Packs of one kind.
#[derive(Default)]
struct Fill {
    /// The one that takes more.
    open: Option<Arc<PackWriter>>,
    /// Those that wait to be sealed.
    full: Vec<Arc<PackWriter>>,
}

#[derive(Default)]
struct Recent {
    places: HashMap<Digest, ChunkPlace>,
    order: VecDeque<Digest>,
}

impl Filling {
    /// Fills packs of `packs` with numbers of `epoch`.
    pub(crate) fn new(packs: Arc<Packs>, epoch: Epoch, health: Arc<Health>, trails: Trails) -> Self {
        Self {
            packs,
            epoch,
            health,
            next: AtomicU64::new(1),
            chunks: Mutex::default(),
            pages: Mutex::default(),
            recent: Mutex::default(),
            known: Known::default(),
            trails,
            sealing: Mutex::default(),
        }
    }

    /// Gives a chunk its place; tells whether a pack has become full.
    pub(crate) fn place(&self, digest: Digest, bytes: &[u8]) -> Result<(ChunkPlace, bool), Failure> {
        if let Some(place) = self.recent.lock().places.get(&digest) {
            return Ok((place.clone(), false));
        }
        if let Some(place) = self.known.find(&self.packs, digest, bytes) {
            self.recent.lock().add(place.clone());
            return Ok((place, false));
        }
        let (place, filled) = self.append(&self.chunks, EntryKind::Chunk, digest, bytes)?;
        self.recent.lock().add(place.clone());
        Ok((place, filled))
    }

    /// Tells whether a chunk of this length is a reason to learn what earlier owners have stored; once.
    pub(crate) fn should_learn(&self, len: usize) -> bool {
        self.known.ask(len)
    }

    /// Learns which long chunks earlier owners have stored.
    pub(crate) fn learn(&self) -> Result<(), Failure> {
        self.known
            .learn(&self.packs, PackNumber(self.epoch.0 << NUMBER_BITS))
    }

    /// Gives a page its place.
    pub(crate) fn put_page(&self, bytes: &[u8]) -> Result<Address, Failure> {
        let (place, _) = self.append(&self.pages, EntryKind::Page, Digest::of(bytes), bytes)?;
        Ok(place.at)
    }

    /// Returns those of `places` whose bytes are not durable yet.
    pub(crate) fn undurable<'a>(&self, places: &'a mut [ChunkPlace]) -> Vec<&'a mut ChunkPlace> {
        let fill = self.chunks.lock();
        let is_durable =
            |place: &ChunkPlace| fill.is_durable(place.at.pack, place.offset + u64::from(place.len));
        places.iter_mut().filter(|place| !is_durable(place)).collect()
    }

    /// Tells whether the bytes of a pack before `end` are durable.
    pub(crate) fn is_durable(&self, pack: PackNumber, end: u64) -> bool {
        self.chunks.lock().is_durable(pack, end)
    }

    /// Sees to it that the next owner finds these chunks if this process ends before a batch names them.
    pub(crate) fn hand_over(&self, places: &[ChunkPlace]) -> Result<(), Failure> {
        let writers: Vec<_> = self.chunks.lock().writers().cloned().collect();
        for writer in writers {
            let is_here = |place: &&ChunkPlace| place.at.pack == writer.number();
            let here: Vec<_> = places.iter().filter(is_here).collect();
            if !here.is_empty() {
                writer.hand_over().inspect_err(|_| self.stop_if_broken(&writer))?;
                self.trails.note(writer.number(), &here)?;
            }
        }
        Ok(())
    }

    /// Returns when the bytes of `places` are durable.
    pub(crate) fn flush<'a>(&self, places: impl Iterator<Item = &'a ChunkPlace>) -> Result<(), Failure> {
        let mut ends: HashMap<PackNumber, u64> = HashMap::new();
        for place in places {
            let end = ends.entry(place.at.pack).or_default();
            *end = (*end).max(place.offset + u64::from(place.len));
        }
        let writers: Vec<_> = self.chunks.lock().writers().cloned().collect();
        for writer in writers {
            if let Some(end) = ends.get(&writer.number()) {
                writer.flush(*end).inspect_err(|_| self.stop_if_broken(&writer))?;
            }
        }
        Ok(())
    }

    /// Seals the packs that are full.
    pub(crate) fn seal_full(&self) -> Result<(), Failure> {
        self.seal(&self.chunks)?;
        self.seal(&self.pages)
    }

    /// Seals every pack with chunks in it.
    pub(crate) fn seal_chunks(&self) -> Result<(), Failure> {
        self.chunks.lock().end();
        self.seal(&self.chunks)
    }

    /// Seals every pack with pages in it.
    pub(crate) fn seal_pages(&self) -> Result<(), Failure> {
        self.pages.lock().end();
        self.seal(&self.pages)
    }

    fn append(
        &self,
        fill: &Mutex<Fill>,
        kind: EntryKind,
        digest: Digest,
        bytes: &[u8],
    ) -> Result<(ChunkPlace, bool), Failure> {
        let mut filled = false;
        loop {
            let writer = self.open_writer(fill)?;
            let appended = writer
                .append(kind, digest, bytes)
                .inspect_err(|_| self.stop_if_broken(&writer));
            if let Some(place) = appended? {
                return Ok((place, filled));
            }
            let mut fill = fill.lock();
            if let Some(full) = fill.open.take_if(|open| open.number() == writer.number()) {
                fill.full.push(full);
            }
            filled = true;
        }
    }

    fn open_writer(&self, fill: &Mutex<Fill>) -> Result<Arc<PackWriter>, Failure> {
        let mut fill = fill.lock();
        if let Some(open) = &fill.open {
            return Ok(open.clone());
        }
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        if count >> NUMBER_BITS != 0 {
            return Err(Failure::DidNotHappen(
                "this owner has filled all packs it can; open the drive again".into(),
            ));
        }
        let writer = self
            .packs
            .start(PackNumber(self.epoch.0 << NUMBER_BITS | count))?;
        fill.open = Some(writer.clone());
        Ok(writer)
    }

    fn seal(&self, fill: &Mutex<Fill>) -> Result<(), Failure> {
        let _alone = self.sealing.lock();
        loop {
            let Some(writer) = fill.lock().full.first().cloned() else {
                return Ok(());
            };
            self.packs
                .seal(writer.number())
                .inspect_err(|_| self.stop_if_broken(&writer))?;
            // It counts as durable from here on, because it is no longer among those that are filled.
            fill.lock().full.retain(|full| full.number() != writer.number());
            self.trails.end(writer.number())?;
        }
    }

    /// Stops the drive when a pack cannot be trusted any more: what was placed there may never become durable.
    fn stop_if_broken(&self, writer: &PackWriter) {
        // Nothing lies before byte 0, so only a pack that has failed fails this.
        if let Err(failure) = writer.flush(0) {
            self.health.stop_after("a pack", &failure);
        }
    }
}

impl Fill {
    fn writers(&self) -> impl Iterator<Item = &Arc<PackWriter>> {
        self.full.iter().chain(&self.open)
    }

    fn is_durable(&self, pack: PackNumber, end: u64) -> bool {
        let writer = self.writers().find(|writer| writer.number() == pack);
        writer.is_none_or(|writer| writer.durable() >= end)
    }

    fn end(&mut self) {
        let ended = self.open.take_if(|open| !open.is_empty());
        self.full.extend(ended);
    }
}

impl Recent {
    fn add(&mut self, place: ChunkPlace) {
        let digest = place.at.digest;
        if self.places.insert(digest, place).is_none() {
            self.order.push_back(digest);
        }
        while self.order.len() > RECENT_MAX {
            let oldest = self.order.pop_front().expect("there are more than RECENT_MAX");
            self.places.remove(&oldest);
        }
    }
}
