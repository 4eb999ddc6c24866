//! All packs of one drive: which there are, and reading from them by address.

use super::buffer::Spare;
use super::home::Home;
use super::index::Index;
use super::lost::{LostName, Places};
use super::sealed::SealedPack;
use super::thread;
use super::writer::{Guard, PackWriter};
use super::{Entry, OPEN, PACK_LEN_TARGET, PackName, Recovered, Sealed, open_key, recover};
use crate::bucket::{Bucket, missing_or_short};
use crate::cache::{Body, Cache, Source};
use crate::key::parse_number;
use crate::signal::Signal;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_model::{Address, ChunkPlace, DriveName, Failure, PackNumber};

/// Bytes of one buffer of a pack that is being filled: large writes are what disks are fastest at.
const BUFFER_LEN: usize = 4 << 20;
/// Buffers that are kept for the next pack.
const BUFFERS_KEPT: usize = 4;
/// A pack that is filled in memory takes no more once it is this long: those that are held at once are 128 MiB then, and
/// putting one takes not much longer than a store's own latency.
const HELD_LEN_TARGET: u64 = 16 << 20;
/// Bytes of a pack that is kept in memory once it is put: the pages of a branch that was given back, and little more.
const KEPT_LEN_MAX: u64 = 1 << 20;
/// Bytes of indexes in memory: those of about a million small files.
const INDEXES_LEN_MAX: usize = 64 << 20;

/// How large packs are, and what they are filled through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of one buffer, a multiple of 16 KiB. A chunk can be three times as long.
    pub buffer_len: usize,
    /// Bytes from which a pack takes no more.
    pub pack_len: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            buffer_len: BUFFER_LEN,
            pack_len: PACK_LEN_TARGET,
        }
    }
}

/// The packs of one drive. Shared by threads.
pub struct Packs {
    pub(super) bucket: Arc<dyn Bucket>,
    home: Home,
    pub(super) drive: DriveName,
    slots: RwLock<BTreeMap<PackNumber, Slot>>,
    /// First byte and length, in the file that was being filled, of what packs should have and had not when they were recovered.
    pub(super) lost: RwLock<BTreeMap<PackNumber, Places>>,
    cache: Option<Arc<Cache>>,
    /// Is asked before a read waits.
    may_wait: fn() -> Result<(), Failure>,
    spare: Arc<Spare>,
    pack_len: u64,
    signal: Arc<Signal>,
    guard: Arc<Guard>,
    uses: AtomicU64,
}

#[derive(Clone)]
pub(super) enum Slot {
    Open(Arc<PackWriter>),
    /// The objects of the number: one, but for packs that were filled in memory when their owner ended.
    Sealed(Vec<Arc<SealedPack>>),
}

impl Slot {
    fn sealed(&self) -> &[Arc<SealedPack>] {
        match self {
            Slot::Sealed(packs) => packs,
            Slot::Open(_) => &[],
        }
    }

    /// Returns the objects that a number has, none while it is filled; by them one state of it is told from another.
    fn names(slot: Option<&Slot>) -> Option<Vec<PackName>> {
        slot.map(|slot| slot.sealed().iter().map(|pack| pack.name()).collect())
    }
}

/// The packs that a drive's folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Sealed ones.
    pub sealed: Vec<PackName>,
    /// Those that were being filled when their writer ended: recover or discard them.
    pub open: Vec<PackNumber>,
    /// Lists of what could not be had when a pack was recovered.
    pub lost: Vec<LostName>,
    /// The names of what is none of these.
    pub others: Vec<String>,
}

impl Packs {
    /// Knows the packs that `table` names.
    pub fn new(
        bucket: Arc<dyn Bucket>,
        drive: DriveName,
        table: impl IntoIterator<Item = PackName>,
    ) -> Arc<Self> {
        let packs = Self::with_sizes(bucket, drive, Sizes::default());
        table.into_iter().for_each(|name| packs.add(name));
        Arc::new(packs)
    }

    /// Knows no pack yet, and fills new ones as `sizes` says; those that are filled in memory become no longer than 16 MiB.
    pub fn with_sizes(bucket: Arc<dyn Bucket>, drive: DriveName, sizes: Sizes) -> Self {
        let home = Home::of(&bucket);
        let len_max = if home.keeps_parts() {
            u64::MAX
        } else {
            HELD_LEN_TARGET
        };
        Self {
            home,
            bucket,
            drive,
            slots: RwLock::default(),
            lost: RwLock::default(),
            cache: None,
            may_wait: || Ok(()),
            spare: Spare::new(sizes.buffer_len, BUFFERS_KEPT),
            pack_len: sizes.pack_len.min(len_max),
            signal: Arc::default(),
            guard: Arc::default(),
            uses: AtomicU64::new(0),
        }
    }

    /// Has what is read of sealed packs pass through a cache.
    pub fn cached(mut self, cache: Option<Arc<Cache>>) -> Self {
        self.cache = cache;
        self
    }

    /// Has `may_wait` asked before a read waits for the bucket: the read fails as it does.
    pub fn waiting_if(mut self, may_wait: fn() -> Result<(), Failure>) -> Self {
        self.may_wait = may_wait;
        self
    }

    /// Has `may_write` asked from now on before anything is written into a file that is being filled: it fails once another owner may
    /// have sealed that.
    pub fn guard(&self, may_write: impl Fn() -> Result<(), Failure> + Send + Sync + 'static) {
        let is_first = self.guard.set(Box::new(may_write)).is_ok();
        debug_assert!(is_first, "packs have one owner");
    }

    /// Tells whether packs are filled in memory, and put whole: the bucket has no disk.
    pub fn are_held(&self) -> bool {
        !self.home.keeps_parts()
    }

    /// Lists the packs of a drive.
    pub fn list(bucket: &dyn Bucket, drive: &DriveName) -> Result<Listing, Failure> {
        let mut listing = Listing::default();
        for name in bucket.children(&format!("drives/{drive}/packs/"))? {
            if let Some(name) = PackName::parse(&name) {
                listing.sealed.push(name);
            } else if let Some(name) = LostName::parse(&name) {
                listing.lost.push(name);
            } else if let Some(number) = open_number(&name) {
                listing.open.push(number);
            } else {
                listing.others.push(name);
            }
        }
        Ok(listing)
    }

    /// Starts a pack of a number that was never used: on the bucket's disk, or in memory where it has none.
    ///
    /// Eight are held in memory at most: that one more is not started tells to seal one.
    pub fn start(&self, number: PackNumber) -> Result<Arc<PackWriter>, Failure> {
        if self.slots.read().contains_key(&number) {
            return Err(Failure::DidNotHappen(format!("pack {number} was started before")));
        }
        let (memory, shared) = (
            (self.spare.clone(), self.pack_len),
            (self.signal.clone(), self.guard.clone()),
        );
        let writer = PackWriter::create(&self.home, &self.drive, number, memory, shared)?;
        let writer = Arc::new(writer);
        let mut slots = self.slots.write();
        if self.signal.has_ended() {
            return Err(Failure::DidNotHappen(format!(
                "pack {number} is not started: the packs were closed"
            )));
        }
        slots.insert(number, Slot::Open(writer.clone()));
        Ok(writer)
    }

    /// Seals a pack that was started: its bytes and its index are durable, and it takes no more.
    pub fn seal(&self, number: PackNumber) -> Result<Sealed, Failure> {
        let Slot::Open(writer) = self.slot(number)? else {
            return Err(Failure::DidNotHappen(format!("pack {number} is sealed already")));
        };
        let sealed = writer.seal()?;
        self.add_sealed(&sealed);
        self.keep_short(&writer, &sealed);
        Ok(sealed)
    }

    /// Keeps a short pack that was just put whole: what was written last is often what another machine asks for next.
    fn keep_short(&self, writer: &PackWriter, sealed: &Sealed) {
        let len = sealed.index.body_len();
        let Some(cache) = self
            .cache
            .as_ref()
            .filter(|_| self.are_held() && len <= KEPT_LEN_MAX)
        else {
            return;
        };
        let mut bytes = vec![0; len as usize];
        if writer.read_back(&mut bytes).is_ok() {
            let body = Body {
                name: sealed.name,
                key: &sealed.key,
                index: &sealed.index,
            };
            cache.keep(&body, &bytes);
        }
    }

    /// Puts chunks back that an earlier owner had in memory alone, each with its bytes: another object of their pack's number.
    /// Those whose bytes are not theirs are left out.
    pub fn restore(&self, number: PackNumber, places: &[ChunkPlace]) -> Result<(), Failure> {
        let restored = self.recover(number, places, &[])?;
        restored.sealed.iter().for_each(|sealed| self.add_sealed(sealed));
        Ok(())
    }

    /// Seals what a crash left open, given the chunks that the journal places there, and those that are only hinted at. A file
    /// that lacks one of the journal's is left as it is.
    ///
    /// A pack that was sealed in the meantime is only compared with them; its name is then in the listing.
    pub fn recover_open(
        &self,
        number: PackNumber,
        places: &[ChunkPlace],
        hints: &[ChunkPlace],
    ) -> Result<Recovered, Failure> {
        if let Some(Slot::Sealed(packs)) = self.slots.read().get(&number).cloned() {
            let pack = packs.last().expect("a number that is sealed has an object");
            let index = self.index(pack)?;
            return Ok(recover::compare(pack.name(), pack.key(), index, places));
        }
        let recovered = self.recover(number, places, hints)?;
        recovered.sealed.iter().for_each(|sealed| self.add_sealed(sealed));
        Ok(recovered)
    }

    fn recover(
        &self,
        number: PackNumber,
        places: &[ChunkPlace],
        hints: &[ChunkPlace],
    ) -> Result<Recovered, Failure> {
        let to = (&self.home, &*self.bucket);
        recover::recover(to, &self.drive, number, (places, hints))
    }

    /// Removes a pack that a crash left open and of which nothing names what it holds.
    pub fn discard_open(&self, number: PackNumber) -> Result<(), Failure> {
        if let Some(Slot::Open(_)) = self.slots.read().get(&number) {
            return Err(Failure::DidNotHappen(format!("pack {number} is being filled")));
        }
        self.home.remove(&open_key(&self.drive, number))
    }

    /// Makes a sealed pack known, such as one that another process sealed.
    pub fn add(&self, name: PackName) {
        self.insert(SealedPack::new(&self.drive, name));
    }

    /// Adds an object to those of its number, unless it is known.
    fn insert(&self, pack: SealedPack) {
        let mut slots = self.slots.write();
        match slots.get_mut(&pack.name().number) {
            Some(Slot::Sealed(packs)) if packs.iter().any(|known| known.name() == pack.name()) => {}
            Some(Slot::Sealed(packs)) => packs.push(Arc::new(pack)),
            Some(Slot::Open(_)) | None => {
                slots.insert(pack.name().number, Slot::Sealed(vec![Arc::new(pack)]));
            }
        }
    }

    pub(super) fn add_sealed(&self, sealed: &Sealed) {
        let pack = SealedPack::of(sealed, self.uses.fetch_add(1, Ordering::Relaxed));
        self.insert(pack);
        self.forget_old_indexes(sealed.name.number);
    }

    /// Reads an object of a sealed pack no more: what it alone holds is not there from now on.
    pub fn forget(&self, name: PackName) {
        let mut slots = self.slots.write();
        if let Some(Slot::Sealed(packs)) = slots.get_mut(&name.number) {
            packs.retain(|pack| pack.name() != name);
            if packs.is_empty() {
                slots.remove(&name.number);
            }
        }
    }

    /// Deletes an object of a sealed pack that nothing names any more.
    pub fn delete(&self, name: PackName) -> Result<(), Failure> {
        self.forget(name);
        self.bucket.delete(&name.key(&self.drive))
    }

    /// Returns the length of a pack's object, as the bucket says it; none where it is not there.
    pub fn object_len(&self, name: PackName) -> Result<Option<u64>, Failure> {
        self.bucket.size(&name.key(&self.drive))
    }

    /// Returns all sealed packs, by number.
    pub fn table(&self) -> Vec<PackName> {
        let slots = self.slots.read();
        let sealed = slots.values().flat_map(Slot::sealed);
        sealed.map(|pack| pack.name()).collect()
    }

    /// Returns the numbers of all packs, those that are being filled too.
    pub fn numbers(&self) -> Vec<PackNumber> {
        self.slots.read().keys().copied().collect()
    }

    /// Tells whether there is such a pack.
    pub fn is_known(&self, number: PackNumber) -> bool {
        self.slots.read().contains_key(&number)
    }

    /// Returns the objects of a number with their lengths; none while it is filled, or of one that is not known.
    pub fn sealed(&self, number: PackNumber) -> Result<Vec<(PackName, u64)>, Failure> {
        let slot = self.slots.read().get(&number).cloned();
        let sealed = slot.iter().flat_map(Slot::sealed);
        sealed
            .map(|pack| Ok((pack.name(), self.index(pack)?.object_len())))
            .collect()
    }

    /// Fills `into` with bytes of a pack's object from `offset` on, verified like everything else.
    pub fn read_object(&self, name: PackName, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let slot = self.slot(name.number)?;
        let pack = slot.sealed().iter().find(|pack| pack.name() == name);
        let pack = pack.ok_or_else(|| missing_or_short(&name.key(&self.drive)))?;
        pack.object_part(self.source(), &*self.index(pack)?, offset, into)
    }

    /// Returns the whole chunk or page, verified by its digest.
    pub fn read(&self, at: Address) -> Result<Vec<u8>, Failure> {
        self.read_from(at, self.source())
    }

    /// As `read`, from the bucket, whatever is kept nearer.
    pub fn read_stored(&self, at: Address) -> Result<Vec<u8>, Failure> {
        let source = Source {
            cache: None,
            ..self.source()
        };
        self.read_from(at, source)
    }

    fn read_from(&self, at: Address, source: Source<'_>) -> Result<Vec<u8>, Failure> {
        self.ask(at.pack, |slot| match slot {
            Some(Slot::Open(writer)) => {
                let entry = writer.find(at.digest).ok_or_else(|| not_held(at))?;
                let mut bytes = vec![0; entry.len as usize];
                writer.read_range(entry.offset, &mut bytes)?;
                Ok(bytes)
            }
            Some(Slot::Sealed(packs)) => {
                let (pack, index) = self.holder(packs, at)?;
                let Some(entry) = index.find(at.digest) else {
                    return self.read_lost(at);
                };
                let mut bytes = vec![0; entry.len as usize];
                pack.read_whole(source, &index, entry, &mut bytes)?;
                Ok(bytes)
            }
            None => self.read_lost(at),
        })
    }

    /// Fills `into` with the chunk's bytes from `start` on, verified by the pack's block checksums.
    pub fn read_into(&self, at: Address, start: u32, into: &mut [u8]) -> Result<(), Failure> {
        self.ask(at.pack, |slot| match slot {
            Some(Slot::Open(writer)) => {
                let entry = writer.find(at.digest).ok_or_else(|| not_held(at))?;
                check_range(entry.len, start, into.len(), at)?;
                writer.read_range(entry.offset + u64::from(start), into)
            }
            Some(Slot::Sealed(packs)) => {
                let (pack, index) = self.holder(packs, at)?;
                let Some(entry) = index.find(at.digest) else {
                    return self.read_part_of_lost(at, start, into);
                };
                check_range(entry.len, start, into.len(), at)?;
                pack.read_into(self.source(), &index, entry, start, into)
            }
            None => self.read_part_of_lost(at, start, into),
        })
    }

    /// Asks the objects that a number has; again where they have become others meanwhile, as those of a pack that is written again.
    fn ask<T>(
        &self,
        number: PackNumber,
        mut question: impl FnMut(Option<&Slot>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut slot = self.slots.read().get(&number).cloned();
        loop {
            let answer = question(slot.as_ref());
            let Err(Failure::Corrupt(_)) = answer else {
                return answer;
            };
            let now = self.slots.read().get(&number).cloned();
            if Slot::names(now.as_ref()) == Slot::names(slot.as_ref()) {
                return answer;
            }
            slot = now;
        }
    }

    /// Returns where a chunk or page lies in its pack, if there is such a pack and it holds it.
    pub fn find(&self, at: Address) -> Result<Option<Entry>, Failure> {
        let found = self.ask(at.pack, |slot| match slot {
            None => Ok(None),
            Some(Slot::Open(writer)) => Ok(writer.find(at.digest)),
            Some(Slot::Sealed(packs)) => Ok(self.holder(packs, at)?.1.find(at.digest)),
        });
        Ok(found?.or_else(|| self.find_lost(at)))
    }

    /// Returns what a pack holds, by digest.
    pub fn entries(&self, number: PackNumber) -> Result<Vec<Entry>, Failure> {
        match self.slot(number)? {
            Slot::Open(writer) => Ok(writer.entries()),
            Slot::Sealed(packs) => {
                let mut entries = Vec::new();
                for pack in &packs {
                    entries.extend(self.index(pack)?.entries());
                }
                Ok(entries)
            }
        }
    }

    /// Reads all of a pack from the bucket and verifies every block and every digest; returns its length. Of one that is being filled
    /// it verifies the blocks that are written: what is not, is in memory. `read` is told of the bytes by and by.
    pub fn verify(&self, number: PackNumber, read: &dyn Fn(u64)) -> Result<u64, Failure> {
        self.ask(number, |slot| match slot {
            Some(Slot::Open(writer)) => writer.verify(read),
            Some(Slot::Sealed(packs)) => packs
                .iter()
                .try_fold(0, |len, pack| Ok(len + pack.verify(&*self.bucket, read)?)),
            None => self.slot(number).map(|_| 0),
        })
    }

    /// Starts the thread that writes full buffers to disk; it ends when the packs are dropped.
    pub fn start_thread(self: &Arc<Self>) -> Result<(), Failure> {
        thread::start(Arc::downgrade(self), self.signal.clone())
    }

    /// Ends every pack that is being filled, as it is: when this returns nothing is written to one any more, and
    /// another owner can recover it.
    pub fn close(&self) {
        self.signal.end();
        for writer in self.open() {
            writer.close();
        }
    }

    /// Writes the full buffers of every pack that is being filled.
    pub(super) fn write_out(&self) {
        for writer in self.open() {
            // A failure stays with the pack, and is what its next append or flush returns.
            let _ = writer.write_out();
        }
    }

    fn open(&self) -> Vec<Arc<PackWriter>> {
        let slots = self.slots.read();
        let open = slots.values().filter_map(|slot| match slot {
            Slot::Open(writer) => Some(writer.clone()),
            Slot::Sealed(_) => None,
        });
        open.collect()
    }

    pub(super) fn slot(&self, number: PackNumber) -> Result<Slot, Failure> {
        let found = self.slots.read().get(&number).cloned();
        found.ok_or_else(|| {
            let drive = &self.drive;
            Failure::Corrupt(format!("drives/{drive}/packs: there is no pack {number}"))
        })
    }

    /// Returns the object of a number that holds a digest, and its index; the last one where none does.
    fn holder(
        &self,
        packs: &[Arc<SealedPack>],
        at: Address,
    ) -> Result<(Arc<SealedPack>, Arc<Index>), Failure> {
        let (last, others) = packs.split_last().expect("a number that is sealed has an object");
        for pack in others {
            // One that cannot be read says nothing of what another holds.
            if let Ok(index) = self.index(pack)
                && index.find(at.digest).is_some()
            {
                return Ok((pack.clone(), index));
            }
        }
        Ok((last.clone(), self.index(last)?))
    }

    fn source(&self) -> Source<'_> {
        Source {
            bucket: &*self.bucket,
            cache: self.cache.as_deref(),
            may_wait: self.may_wait,
        }
    }

    fn index(&self, pack: &SealedPack) -> Result<Arc<Index>, Failure> {
        let use_number = self.uses.fetch_add(1, Ordering::Relaxed);
        match pack.cached(use_number) {
            Some(index) => Ok(index),
            None => {
                let index = pack.load(self.source())?;
                self.forget_old_indexes(pack.name().number);
                Ok(index)
            }
        }
    }

    /// Forgets the indexes that were unused longest, until the others fit; never that of `but`.
    fn forget_old_indexes(&self, but: PackNumber) {
        let slots = self.slots.read();
        let mut used: Vec<_> = slots
            .iter()
            .filter(|(number, _)| **number != but)
            .flat_map(|(_, slot)| slot.sealed())
            .filter_map(|pack| pack.usage().map(|usage| (usage, pack)))
            .collect();
        used.sort_unstable_by_key(|((used, _), _)| std::cmp::Reverse(*used));
        let mut sum = 0;
        for ((_, memory), pack) in used {
            sum += memory;
            if sum > INDEXES_LEN_MAX {
                pack.forget_index();
            }
        }
    }
}

impl Drop for Packs {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns the number of a pack that is or was being filled, by the last component of its key.
fn open_number(name: &str) -> Option<PackNumber> {
    let (number, OPEN) = name.split_once('.')? else {
        return None;
    };
    parse_number(number).map(PackNumber)
}

/// Says that a pack has no such chunk or page.
pub(super) fn not_held(at: Address) -> Failure {
    let Address { pack, digest } = at;
    Failure::Corrupt(format!("pack {pack} does not hold {digest}"))
}

/// An extent that reaches beyond its chunk is damage, not a caller's mistake.
pub(super) fn check_range(whole: u32, start: u32, len: usize, at: Address) -> Result<(), Failure> {
    if u64::from(start) + len as u64 <= u64::from(whole) {
        return Ok(());
    }
    let (pack, digest) = (at.pack, at.digest);
    Err(Failure::Corrupt(format!(
        "pack {pack}: {len} bytes from {start} on are asked of {digest}, which has {whole}"
    )))
}
