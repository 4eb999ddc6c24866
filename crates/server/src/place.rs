//! Placing: chunks and pages get their places in the packs that are being filled.
//!
//! A chunk that was placed lately is not placed again, whoever brings it; nor is a long one that is there from before.
//! On a disk a pack becomes durable by and by. In memory it is put whole, several at once, and whoever needs another while
//! too many wait puts one first. Invariant: a pack's number is used once in the life of a drive, because it carries the epoch.

use crate::drive::Threads;
use crate::health::Health;
use crate::known::Known;
use crate::reclaim::Stale;
use crate::trail::Trails;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_model::{Address, ChunkPlace, Digest, Epoch, Failure, PackNumber, limits};
use tenure_store::pack::{EntryKind, PackWriter, Packs};

/// Packs that one epoch can fill: the number has the epoch above these bits.
pub(crate) const NUMBER_BITS: u32 = 24;
/// Chunks that are known to have been placed lately: some MiB of memory, some GiB of usual contents.
const RECENT_MAX: usize = 1 << 16;
/// Packs of one kind that wait in memory to be put before bulk waits for one of them. With one more for what is little, and as
/// many of the other kind, there are no more than may be held.
const HELD_FULL_MAX: usize = 3;

/// How much is to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// What somebody syncs: it waits for no bulk to be put.
    Little,
    Bulk,
}

impl Load {
    /// Returns what so many bytes that come at once are.
    pub(crate) fn of(len: usize) -> Self {
        if len <= limits::LITTLE_LEN_MAX {
            Load::Little
        } else {
            Load::Bulk
        }
    }
}

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
    stale: Arc<Stale>,
    /// Packs of one kind that are sealed at once.
    seals_max: usize,
}

/// Packs of one kind.
#[derive(Default)]
struct Fill {
    /// The one that takes more.
    open: Option<Arc<PackWriter>>,
    /// Those that wait to be sealed.
    full: Vec<Arc<Full>>,
}

/// A pack that takes no more.
struct Full {
    writer: Arc<PackWriter>,
    /// Held while it is sealed, so that this is done once.
    is_sealed: Mutex<bool>,
}

#[derive(Default)]
struct Recent {
    places: HashMap<Digest, ChunkPlace>,
    order: VecDeque<Digest>,
}

impl Filling {
    /// Fills packs of `packs` with numbers of `epoch`.
    pub(crate) fn new(
        packs: Arc<Packs>,
        epoch: Epoch,
        (health, trails, stale): (Arc<Health>, Trails, Arc<Stale>),
        threads: Threads,
    ) -> Self {
        let seals_max = match threads {
            Threads::Started if packs.are_held() => HELD_FULL_MAX,
            // A disk writes one after the other anyway.
            Threads::Started | Threads::None => 1,
        };
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
            stale,
            seals_max,
        }
    }

    /// Tells whether bytes become durable only when their whole pack is put.
    pub(crate) fn is_held(&self) -> bool {
        self.packs.are_held()
    }

    /// Gives a chunk its place; tells whether a pack has become full.
    pub(crate) fn place(
        &self,
        digest: Digest,
        bytes: &[u8],
        load: Load,
    ) -> Result<(ChunkPlace, bool), Failure> {
        if let Some(place) = self.recent.lock().places.get(&digest) {
            return Ok((place.clone(), false));
        }
        if let Some(place) = self.known.find(&self.packs, digest, bytes) {
            self.recent.lock().add(place.clone());
            return Ok((place, false));
        }
        let (place, filled) = self.append((&self.chunks, load), EntryKind::Chunk, digest, bytes)?;
        self.recent.lock().add(place.clone());
        Ok((place, filled))
    }

    /// Finds nothing in some packs any more, whatever is brought.
    pub(crate) fn forget(&self, packs: &BTreeSet<PackNumber>) {
        self.known.forget(packs);
        self.recent.lock().forget(packs);
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
        let (place, _) = self.append(
            (&self.pages, Load::Bulk),
            EntryKind::Page,
            Digest::of(bytes),
            bytes,
        )?;
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
    ///
    /// In memory nothing survives that: who ships such a batch again is told which chunks are gone.
    pub(crate) fn hand_over(&self, places: &[ChunkPlace]) -> Result<(), Failure> {
        if self.is_held() {
            return Ok(());
        }
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
        if self.is_held() {
            let ended = self.chunks.lock().end_those(&ends);
            return self.seal_together(&self.chunks, &ended);
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
        self.chunks.lock().end_open();
        self.seal(&self.chunks)
    }

    /// Seals every pack with pages in it.
    pub(crate) fn seal_pages(&self) -> Result<(), Failure> {
        self.pages.lock().end_open();
        self.seal(&self.pages)
    }

    fn append(
        &self,
        (fill, load): (&Mutex<Fill>, Load),
        kind: EntryKind,
        digest: Digest,
        bytes: &[u8],
    ) -> Result<(ChunkPlace, bool), Failure> {
        let mut filled = false;
        loop {
            let writer = self.open_writer(fill, load)?;
            let appended = writer
                .append(kind, digest, bytes)
                .inspect_err(|_| self.stop_if_broken(&writer));
            if let Some(place) = appended? {
                self.stale.add(bytes.len() as u64);
                return Ok((place, filled));
            }
            fill.lock().end(writer.number());
            filled = true;
        }
    }

    /// Returns the pack that takes more. Where too many wait in memory, one of them is put first.
    fn open_writer(&self, fill: &Mutex<Fill>, load: Load) -> Result<Arc<PackWriter>, Failure> {
        let full_max = match load {
            Load::Bulk => HELD_FULL_MAX,
            Load::Little => HELD_FULL_MAX + 1,
        };
        loop {
            let first = {
                let mut fill = fill.lock();
                match (fill.full.first(), &fill.open) {
                    (Some(first), _) if self.is_held() && fill.full.len() >= full_max => first.clone(),
                    (_, Some(open)) => return Ok(open.clone()),
                    (_, None) => {
                        let writer = self.packs.start(self.next_number()?)?;
                        fill.open = Some(writer.clone());
                        return Ok(writer);
                    }
                }
            };
            self.seal_one(fill, &first)?;
        }
    }

    fn next_number(&self) -> Result<PackNumber, Failure> {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        if count >> NUMBER_BITS != 0 {
            return Err(Failure::DidNotHappen(
                "this owner has filled all packs it can; open the drive again".into(),
            ));
        }
        Ok(PackNumber(self.epoch.0 << NUMBER_BITS | count))
    }

    fn seal(&self, fill: &Mutex<Fill>) -> Result<(), Failure> {
        loop {
            let full: Vec<_> = {
                let fill = fill.lock();
                fill.full.iter().take(self.seals_max).cloned().collect()
            };
            if full.is_empty() {
                return Ok(());
            }
            self.seal_together(fill, &full)?;
        }
    }

    /// Seals these packs, several at once where that is quicker.
    fn seal_together(&self, fill: &Mutex<Fill>, full: &[Arc<Full>]) -> Result<(), Failure> {
        for several in full.chunks(self.seals_max) {
            if let [one] = several {
                self.seal_one(fill, one)?;
                continue;
            }
            std::thread::scope(|threads| {
                let seals: Vec<_> = several
                    .iter()
                    .map(|one| threads.spawn(|| self.seal_one(fill, one)))
                    .collect();
                let sealed = seals
                    .into_iter()
                    .map(|seal| seal.join().unwrap_or_else(|panic| resume_unwind(panic)));
                sealed.collect::<Vec<_>>().into_iter().collect::<Result<(), _>>()
            })?;
        }
        Ok(())
    }

    fn seal_one(&self, fill: &Mutex<Fill>, full: &Full) -> Result<(), Failure> {
        let mut is_sealed = full.is_sealed.lock();
        if *is_sealed {
            return Ok(());
        }
        let number = full.writer.number();
        self.packs
            .seal(number)
            .inspect_err(|_| self.stop_if_broken(&full.writer))?;
        *is_sealed = true;
        // It counts as durable from here on, because it is no longer among those that are filled.
        fill.lock().full.retain(|other| other.writer.number() != number);
        self.trails.end(number)
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
        self.full.iter().map(|full| &full.writer).chain(&self.open)
    }

    fn is_durable(&self, pack: PackNumber, end: u64) -> bool {
        let writer = self.writers().find(|writer| writer.number() == pack);
        writer.is_none_or(|writer| writer.durable() >= end)
    }

    /// Ends the pack that is filled, if it is this one.
    fn end(&mut self, pack: PackNumber) {
        let ended = self.open.take_if(|open| open.number() == pack);
        self.full.extend(ended.map(|writer| {
            Arc::new(Full {
                writer,
                is_sealed: Mutex::new(false),
            })
        }));
    }

    /// Ends the pack that is filled, if there is anything in it.
    fn end_open(&mut self) {
        if let Some(open) = self.open.as_ref().filter(|open| !open.is_empty()) {
            self.end(open.number());
        }
    }

    /// Ends the packs of which something is asked for, and returns those that are not durable up to there.
    fn end_those(&mut self, ends: &HashMap<PackNumber, u64>) -> Vec<Arc<Full>> {
        if let Some(open) = self
            .open
            .as_ref()
            .filter(|open| ends.contains_key(&open.number()))
        {
            self.end(open.number());
        }
        let asked = self.full.iter();
        asked
            .filter(|full| ends.contains_key(&full.writer.number()))
            .cloned()
            .collect()
    }
}

impl Recent {
    fn forget(&mut self, packs: &BTreeSet<PackNumber>) {
        let places = &mut self.places;
        places.retain(|_, place| !packs.contains(&place.at.pack));
        self.order.retain(|digest| places.contains_key(digest));
    }

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
