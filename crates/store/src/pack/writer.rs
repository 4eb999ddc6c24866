//! The pack that is being filled, on a disk or in memory.
//!
//! Bytes are copied once, into aligned memory, and written from there; each is written to disk once, but for the
//! last block of what was flushed before it was full. Invariant: what is not in whole checksummed blocks on disk
//! is in a buffer, so that every read is either from there or verified.

use super::blocks::{CHECKED_LEN, SCRUB_LEN, read_verified, touched};
use super::buffer::{Buffer, Spare};
use super::home::Home;
use super::{Entry, EntryKind, Sealed, index, open_key, seal};
use crate::bucket::missing_or_short;
use crate::disk::DiskFile;
use crate::key::Key;
use crate::signal::Signal;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::io::IoSliceMut;
use std::sync::{Arc, OnceLock};
use tenure_model::limits::CHUNK_LEN_MAX;
use tenure_model::{Address, ChunkPlace, Digest, DriveName, Failure, PackNumber};

/// Buffers of one pack: one that fills, and some on their way to disk; more would only hide a slow disk.
const BUFFERS_MAX: usize = 4;
/// Room on disk is asked for so many buffers ahead: enough to be rare, and little to give back at the end.
const BUFFERS_AHEAD: usize = 8;
/// A step that has no room is tried again at this size: the last of a disk can be used.
const RESERVE_UNIT: u64 = 1 << 20;

/// Is asked before each write: once it fails, another owner may have sealed the file.
pub(super) type Guard = OnceLock<Box<dyn Fn() -> Result<(), Failure> + Send + Sync>>;

/// A pack that is being filled. Shared by threads.
pub struct PackWriter {
    number: PackNumber,
    drive: DriveName,
    key: Key,
    home: Home,
    file: Arc<dyn DiskFile>,
    spare: Arc<Spare>,
    len_target: u64,
    signal: Arc<Signal>,
    guard: Arc<Guard>,
    state: Mutex<State>,
    /// Held while buffers are written, so that they are written in order.
    writing: Mutex<()>,
    /// Held while the disk is waited for: who waits for it finds the work done.
    syncing: Mutex<()>,
    /// Held while room is asked for.
    growing: Mutex<()>,
}

struct State {
    entries: Vec<Entry>,
    by_digest: HashMap<Digest, usize>,
    /// Takes what is appended.
    tail: Option<Buffer>,
    /// Buffers that are to be written, in order.
    leaving: VecDeque<Arc<Buffer>>,
    /// Of the whole blocks that were written.
    checksums: Vec<u32>,
    written: u64,
    durable: u64,
    reserved: u64,
    /// Whether it takes no more.
    closed: bool,
    sealed: Option<Sealed>,
    failed: Option<Failure>,
}

impl PackWriter {
    /// Creates the pack's file and asks for its first room.
    pub(super) fn create(
        home: &Home,
        drive: &DriveName,
        number: PackNumber,
        (spare, len_target): (Arc<Spare>, u64),
        (signal, guard): (Arc<Signal>, Arc<Guard>),
    ) -> Result<Self, Failure> {
        let key = open_key(drive, number);
        let file = home.create(&key)?;
        let writer = Self {
            number,
            drive: drive.clone(),
            key: key.clone(),
            home: home.clone(),
            file,
            state: Mutex::new(State::new(Buffer::new(spare.take(), 0))),
            spare,
            len_target,
            signal,
            guard,
            writing: Mutex::default(),
            syncing: Mutex::default(),
            growing: Mutex::default(),
        };
        writer.reserve(1).inspect_err(|_| {
            // The room that was not there is what the caller hears of; an empty file is discarded at the next start.
            let _ = home.remove(&key);
        })?;
        Ok(writer)
    }

    /// Returns the pack's number.
    pub fn number(&self) -> PackNumber {
        self.number
    }

    /// Adds a chunk or page and returns where it lies, or none when the pack takes no more: start another.
    ///
    /// Bytes that the pack holds already are not added again. Copies the bytes once and does not wait for the
    /// disk, unless all buffers are on their way to it. `bytes` are 1 to `CHUNK_LEN_MAX`, and hash to `digest`.
    pub fn append(
        &self,
        kind: EntryKind,
        digest: Digest,
        bytes: &[u8],
    ) -> Result<Option<ChunkPlace>, Failure> {
        self.check_len(bytes)?;
        loop {
            let mut state = self.state.lock();
            state.check()?;
            if let Some(entry) = state.find(digest) {
                return Ok(Some(self.place(entry)));
            }
            if state.closed || state.end() >= self.len_target {
                return Ok(None);
            }
            if state.needed(1, bytes.len() as u64) > state.reserved {
                drop(state);
                self.reserve(bytes.len() as u64)?;
            } else if state.room(self.spare.buffer_len()) < bytes.len() {
                drop(state);
                self.write_out()?;
            } else {
                let offset = state.end();
                self.copy_in(&mut state, bytes);
                let entry = Entry {
                    digest,
                    offset,
                    len: u32::try_from(bytes.len()).expect("a chunk's length was checked"),
                    kind,
                };
                state.add(entry);
                return Ok(Some(self.place(entry)));
            }
        }
    }

    /// Makes sure that so many more bytes have room on the disk; `Failure::NoSpace` when they have not.
    pub fn reserve(&self, bytes: u64) -> Result<(), Failure> {
        let _growing = self.growing.lock();
        let (needed, reserved) = {
            let state = self.state.lock();
            (state.needed(1, bytes), state.reserved)
        };
        if needed <= reserved {
            return Ok(());
        }
        self.may_write()?;
        let exact = needed.next_multiple_of(RESERVE_UNIT);
        let ahead = exact.max(reserved + (BUFFERS_AHEAD * self.spare.buffer_len()) as u64);
        let (room, got) = match self.file.reserve(ahead) {
            Err(Failure::NoSpace(_)) if exact < ahead => (exact, self.file.reserve(exact)),
            got => (ahead, got),
        };
        got?;
        self.state.lock().reserved = room;
        Ok(())
    }

    /// Writes the full buffers to disk; tells whether there were any.
    pub fn write_out(&self) -> Result<bool, Failure> {
        let writing = self.writing.lock();
        let mut any = false;
        while self.write_next(&writing)? {
            any = true;
        }
        Ok(any)
    }

    /// Writes everything that was appended to disk and does not wait until it is durable: it survives the end of this
    /// process. Where packs are filled in memory nothing does: whoever has the bytes keeps them until they are durable.
    pub fn hand_over(&self) -> Result<(), Failure> {
        self.write_all()
    }

    /// Returns when everything before `upto` is durable. Concurrent callers share one wait for the disk.
    ///
    /// Where packs are filled in memory the pack is put for that, and takes no more.
    pub fn flush(&self, upto: u64) -> Result<(), Failure> {
        let _syncing = self.syncing.lock();
        {
            let state = self.state.lock();
            state.check()?;
            if state.durable >= upto.min(state.end()) {
                return Ok(());
            }
        }
        if !self.home.keeps_parts() {
            return self.seal_alone().map(|_| ());
        }
        self.write_all()?;
        let written = self.state.lock().written;
        self.file.sync().map_err(|failure| self.fail(failure))?;
        self.state.lock().durable = written;
        Ok(())
    }

    /// Returns how many bytes were appended.
    pub fn len(&self) -> u64 {
        self.state.lock().end()
    }

    /// Tells whether nothing was appended yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells whether the pack takes no more.
    pub fn is_full(&self) -> bool {
        let state = self.state.lock();
        state.closed || state.end() >= self.len_target
    }

    /// Returns up to where the bytes are durable.
    pub fn durable(&self) -> u64 {
        self.state.lock().durable
    }

    /// Returns what the pack says about a digest that it holds.
    pub(super) fn find(&self, digest: Digest) -> Option<Entry> {
        self.state.lock().find(digest)
    }

    /// Returns everything that was appended, in order of digest.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut entries = self.state.lock().entries.clone();
        entries.sort_unstable_by_key(|entry| entry.digest);
        entries
    }

    /// Fills `into` from `offset` on: a range that was appended.
    pub(super) fn read_range(&self, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let state = self.state.lock();
        let checked = (state.checksums.len() * CHECKED_LEN) as u64;
        let on_disk = checked.saturating_sub(offset).min(into.len() as u64) as usize;
        let (from_disk, from_memory) = into.split_at_mut(on_disk);
        state.copy_out(offset + on_disk as u64, from_memory);
        if from_disk.is_empty() {
            return Ok(());
        }
        let checksums = state.checksums[touched(offset, on_disk)].to_vec();
        drop(state);
        let read = |offset: u64, parts: &mut [IoSliceMut<'_>]| self.file.read_parts(offset, parts);
        read_verified(&read, &checksums, checked, offset, from_disk, &self.key)
    }

    /// Reads all that is on the disk in whole blocks and verifies it, and looks whether the file is there; returns how many bytes
    /// were appended. `read` is told of the bytes by and by.
    pub(super) fn verify(&self, read: &dyn Fn(u64)) -> Result<u64, Failure> {
        let end = (self.state.lock().checksums.len() * CHECKED_LEN) as u64;
        let mut bytes = vec![0; SCRUB_LEN];
        let mut at = 0;
        while at < end {
            let len = (end - at).min(SCRUB_LEN as u64);
            self.read_range(at, &mut bytes[..len as usize])?;
            read(len);
            at += len;
        }
        // While it is sealed it has one name or the other.
        let _syncing = self.syncing.lock();
        let is_open = self.state.lock().sealed.is_none();
        if is_open {
            match self.home.open(&self.key) {
                Ok(None) => return Err(missing_or_short(&self.key)),
                Err(failure @ Failure::Corrupt(_)) => return Err(failure),
                // What cannot be written now can be read, as it just was.
                Ok(Some(_)) | Err(_) => {}
            }
        }
        Ok(self.len())
    }

    /// Fills `into` with the first bytes of what was sealed.
    pub(super) fn read_back(&self, into: &mut [u8]) -> Result<(), Failure> {
        self.file.read_parts(0, &mut [IoSliceMut::new(into)])
    }

    /// Writes the index and gives the pack its name; nothing can be appended from now on. What did not happen can be
    /// tried again.
    pub(super) fn seal(&self) -> Result<Sealed, Failure> {
        let _syncing = self.syncing.lock();
        self.seal_alone()
    }

    /// Seals the pack, while nobody else waits for the disk.
    fn seal_alone(&self) -> Result<Sealed, Failure> {
        {
            let mut state = self.state.lock();
            state.check()?;
            if let Some(sealed) = &state.sealed {
                return Ok(sealed.clone());
            }
            state.closed = true;
        }
        self.write_all()?;
        let (body_len, mut checksums) = {
            let state = self.state.lock();
            (state.end(), state.checksums.clone())
        };
        let rest = (checksums.len() * CHECKED_LEN) as u64;
        if rest < body_len {
            let mut last = vec![0; (body_len - rest) as usize];
            self.state.lock().copy_out(rest, &mut last);
            checksums.push(crc32c::crc32c(&last));
        }
        let body = seal::Body {
            number: self.number,
            len: body_len,
            entries: self.entries(),
            checksums,
        };
        self.may_write()?;
        let sealed =
            seal::finish(&self.home, &self.drive, &*self.file, body).map_err(|failure| match failure {
                Failure::DidNotHappen(_) | Failure::NoSpace(_) => failure,
                Failure::Unknown(_)
                | Failure::Waits(_)
                | Failure::Corrupt(_)
                | Failure::Newer(_)
                | Failure::Fenced(_) => self.fail(failure),
            })?;
        let mut state = self.state.lock();
        state.durable = body_len;
        state.sealed = Some(sealed.clone());
        Ok(sealed)
    }

    /// Ends the pack as it is. When this returns nothing is written to it any more.
    pub(super) fn close(&self) {
        self.fail(Failure::DidNotHappen(format!("{} was closed", self.key)));
        // Who wrote or waited for the disk has done so when these are free.
        drop(self.syncing.lock());
        drop(self.writing.lock());
    }

    /// Fails when the file may be another owner's. Only one who is stopped right behind this still writes to it.
    fn may_write(&self) -> Result<(), Failure> {
        self.guard.get().map_or(Ok(()), |may_write| may_write())
    }

    fn check_len(&self, bytes: &[u8]) -> Result<(), Failure> {
        let max = CHUNK_LEN_MAX.min((BUFFERS_MAX - 1) * self.spare.buffer_len());
        if (1..=max).contains(&bytes.len()) {
            return Ok(());
        }
        let len = bytes.len();
        Err(Failure::DidNotHappen(format!(
            "{}: a chunk of {len} bytes is not 1 to {max} bytes long",
            self.key
        )))
    }

    fn place(&self, entry: Entry) -> ChunkPlace {
        let pack = self.number;
        ChunkPlace {
            at: Address {
                pack,
                digest: entry.digest,
            },
            offset: entry.offset,
            len: entry.len,
            inline: None,
        }
    }

    /// Copies bytes for which there is room into the tail, and into what follows it when it is full.
    fn copy_in(&self, state: &mut State, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if state.tail().room() == 0 {
                self.let_go(state);
            }
            let tail = state.tail();
            let (front, behind) = rest.split_at(rest.len().min(tail.room()));
            tail.append(front);
            rest = behind;
        }
        if state.tail().room() == 0 && state.leaving.len() + 1 < BUFFERS_MAX {
            self.let_go(state);
        }
    }

    /// Hands the tail to whoever writes it, and begins another.
    fn let_go(&self, state: &mut State) {
        let mut full = state.tail.take().expect("there is always a tail");
        full.pad();
        state.tail = Some(Buffer::after(&full, self.spare.take()));
        state.leaving.push_back(Arc::new(full));
        self.signal.raise();
    }

    /// Writes everything that was appended before, also what does not fill a buffer.
    fn write_all(&self) -> Result<(), Failure> {
        let writing = self.writing.lock();
        loop {
            let mut state = self.state.lock();
            if state.leaving.len() + 1 >= BUFFERS_MAX {
                drop(state);
                self.write_next(&writing)?;
                continue;
            }
            if state.end() > state.handed_on() {
                self.let_go(&mut state);
            }
            break;
        }
        while self.write_next(&writing)? {}
        Ok(())
    }

    /// Writes the oldest buffer that waits for it. It waits until that was done, so a failed write is made again.
    fn write_next(&self, _writing: &MutexGuard<'_, ()>) -> Result<bool, Failure> {
        let buffer = {
            let state = self.state.lock();
            state.check()?;
            match state.leaving.front() {
                Some(buffer) => buffer.clone(),
                None => return Ok(false),
            }
        };
        let checksums: Vec<u32> = buffer
            .bytes()
            .chunks_exact(CHECKED_LEN)
            .map(crc32c::crc32c)
            .collect();
        let (offset, blocks) = buffer.blocks();
        self.may_write()?;
        self.file.write_at(offset, blocks).map_err(seal::again)?;
        let mut state = self.state.lock();
        debug_assert_eq!(buffer.base(), (state.checksums.len() * CHECKED_LEN) as u64);
        state.checksums.extend(checksums);
        state.written = buffer.end();
        state.leaving.pop_front();
        drop(state);
        // A reader that still copies from it keeps the memory a moment longer; then it is not used again.
        if let Some(buffer) = Arc::into_inner(buffer) {
            self.spare.give(buffer.into_memory());
        }
        Ok(true)
    }

    /// Nothing that this pack says is trusted any more.
    fn fail(&self, failure: Failure) -> Failure {
        let mut state = self.state.lock();
        state.failed.get_or_insert(failure).clone()
    }
}

impl Drop for PackWriter {
    fn drop(&mut self) {
        if let Some(tail) = self.state.get_mut().tail.take() {
            self.spare.give(tail.into_memory());
        }
    }
}

impl State {
    fn new(tail: Buffer) -> Self {
        Self {
            entries: Vec::new(),
            by_digest: HashMap::new(),
            tail: Some(tail),
            leaving: VecDeque::new(),
            checksums: Vec::new(),
            written: 0,
            durable: 0,
            reserved: 0,
            closed: false,
            sealed: None,
            failed: None,
        }
    }

    fn check(&self) -> Result<(), Failure> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn tail(&mut self) -> &mut Buffer {
        self.tail.as_mut().expect("there is always a tail")
    }

    fn end(&self) -> u64 {
        self.tail.as_ref().map_or(0, Buffer::end)
    }

    /// Returns up to where bytes are on disk or in a buffer that is to be written.
    fn handed_on(&self) -> u64 {
        self.leaving.back().map_or(self.written, |buffer| buffer.end())
    }

    /// Returns how many bytes can be copied in before a buffer must have been written.
    fn room(&self, buffer_len: usize) -> usize {
        let more = BUFFERS_MAX - 1 - self.leaving.len().min(BUFFERS_MAX - 1);
        self.tail.as_ref().map_or(0, Buffer::room) + more * buffer_len
    }

    /// Returns how long the file will be with so much more in it, index and padding included.
    fn needed(&self, entries: usize, bytes: u64) -> u64 {
        let body_len = self.end() + bytes;
        body_len + index::written_len(self.entries.len() + entries, body_len) + CHECKED_LEN as u64
    }

    fn find(&self, digest: Digest) -> Option<Entry> {
        self.by_digest.get(&digest).map(|at| self.entries[*at])
    }

    fn add(&mut self, entry: Entry) {
        self.by_digest.insert(entry.digest, self.entries.len());
        self.entries.push(entry);
    }

    /// Copies bytes that are in memory.
    fn copy_out(&self, offset: u64, into: &mut [u8]) {
        let (mut at, mut rest) = (offset, into);
        let buffers = self.leaving.iter().map(|buffer| &**buffer).chain(&self.tail);
        for buffer in buffers {
            if buffer.base() <= at && at < buffer.end() && !rest.is_empty() {
                let end = buffer.end().min(at + rest.len() as u64);
                let bytes = buffer.range(at, end);
                let (front, behind) = rest.split_at_mut(bytes.len());
                front.copy_from_slice(bytes);
                (at, rest) = (end, behind);
            }
        }
        debug_assert!(rest.is_empty(), "what is not checked on disk is in memory");
    }
}
