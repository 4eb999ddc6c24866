//! The folder tier: one machine, preallocated journal files, a file lock, `fdatasync`.
//!
//! Here a file lock replaces claims and looks: it is held by a living process and released by its death, so one process
//! at a time writes. What is new are the two ways to lose: a kill, after which the kernel still has every write, and a power
//! loss, after which the disk has what was written back: each write on its own, in any order, whole, torn or not at all.
//!
//! A record carries the epoch that wrote it and the hash of the record before. Recovery follows that chain from the start to
//! the first record that does not fit. What the kernel gives it to read may not be on the disk: after a kill, or after a
//! sync that failed and left its pages clean. So it syncs and has the kernel forget its pages before it reads, or else it
//! writes what it read again and syncs that before it acknowledges anything. (A write that is cut off leaves every sector
//! old or new, so writing the same bytes again tears nothing.) An owner whose sync fails stops.
//!
//! The journal goes on in a second file, whose directory entry is synced as well before anything in it counts. One record
//! stands for a bulk write: its bytes are in a pack, which is synced before the record is written. Or else the two syncs go on
//! beside each other, and recovery verifies the bytes, ends the chain before a record whose bytes are not there, and writes
//! the bytes that it takes again, as it does with records.
//!
//! It does not model folding, nor a disk that loses what it synced.

use super::explorer::{Law, Model, Report, explore};

mod disk;

use disk::{BULK, Bytes, Disk, Epoch, FILE, Kernel, Page, RECORDS};

/// How many processes want the drive.
const PROCESSES: usize = 2;
/// The most processes that may open the drive, one after the other.
const EPOCHS: usize = 3;

/// What a wrong process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process opens the drive without the lock.
    NoLock,
    /// An owner acknowledges what it has written.
    AcknowledgesBeforeTheSync,
    /// An owner whose sync failed syncs again and believes it.
    SyncsAgainAfterAFailure,
    /// Recovery takes every whole record at its place, whatever it follows.
    NoChain,
    /// A process takes the epoch after the last that it reads, instead of one that was durably claimed for it alone.
    EpochFromWhatItReads,
    /// An owner does not sync the directory that it made the second file in.
    NoSyncOfTheDirectory,
}

/// How recovery makes sure that what it read is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// It writes what it read again and syncs it before it acknowledges anything.
    WritesAgain,
    /// It syncs, has the kernel forget its pages, and only then reads.
    ReadsTheDisk,
    /// It syncs what it read, and no more: a fault.
    Syncs,
    /// It takes what it read for durable: a fault.
    Trusts,
}

/// When the bytes of a bulk write are safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bulk {
    /// The pack is synced before the record is written.
    BeforeTheRecord,
    /// The pack is synced before the record is acknowledged, and recovery verifies the bytes.
    Verified,
    /// The pack is synced before the record is acknowledged, and recovery believes the record: a fault.
    Believed,
}

/// The world's bounds, and what its processes do wrong.
#[derive(Clone, Copy, Debug)]
pub struct Folder {
    /// How many processes open the drive one after the other; at most 3.
    pub epochs: u8,
    /// How recovery makes sure that what it read is on the disk.
    pub recovery: Recovery,
    /// When the bytes of a bulk write are safe.
    pub bulk: Bulk,
    /// The planted fault.
    pub fault: Option<Fault>,
}

impl Folder {
    /// Explores every interleaving within the bounds.
    pub fn explore(&self) -> Report {
        assert!(usize::from(self.epochs) <= EPOCHS);
        explore(self)
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

/// A process that has opened the drive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Owner {
    epoch: Epoch,
    /// How many records it has recovered and written.
    written: u8,
    /// How many of each file's it knows to be on the disk.
    synced: [u8; 2],
    /// Whether it knows that the second file's directory entry is.
    entry_synced: bool,
    bulk_written: bool,
    bulk_synced: bool,
    /// Whether a sync failed (and it goes on, wrongly).
    failed: bool,
}

/// What the witness saw happen that may not.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Seen {
    AcknowledgedLost,
    DroppedCameBack,
    BytesMissing,
}

/// The disk, the kernel, the processes, and a witness's notes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// How many processes have opened the drive.
    opened: u8,
    disk: Disk,
    owners: [Option<Owner>; PROCESSES],
    /// The epoch that each process stamps on its records, 0 standing for none before the first.
    stamps: [u8; EPOCHS + 1],
    acknowledged: [Option<Bytes>; RECORDS],
    /// For each epoch, the shortest history that a later process recovered: the epoch's records from there on are dropped.
    kept: [u8; EPOCHS],
    seen: Option<Seen>,
}

/// One thing that happens. A process is told by its epoch.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "a trace prints them")]
pub(crate) enum Step {
    Recovers { epoch: Epoch, records: u8 },
    FailsToRecover { epoch: Epoch },
    WritesBulk { epoch: Epoch },
    SyncsBulk { epoch: Epoch },
    SyncOfBulkFails { epoch: Epoch },
    Writes { epoch: Epoch, record: u8 },
    Syncs { epoch: Epoch, file: usize },
    SyncFails { epoch: Epoch, file: usize },
    SyncsTheDirectory { epoch: Epoch },
    Acknowledges { epoch: Epoch, records: u8 },
    IsKilled { epoch: Epoch },
    TheKernel(Kernel),
    PowerIsLost,
}

impl Model for Folder {
    type State = State;
    type Step = Step;

    fn starts(&self) -> Vec<State> {
        vec![State {
            opened: 0,
            disk: Disk::NEW,
            owners: [None; PROCESSES],
            stamps: [0; EPOCHS + 1],
            acknowledged: [None; RECORDS],
            kept: [RECORDS as u8; EPOCHS],
            seen: None,
        }]
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        next.extend(self.recover(state));
        for (at, owner) in state.owners.iter().enumerate() {
            if let Some(owner) = owner {
                next.extend(self.bulk_steps(state, at, owner));
                next.extend(self.write(state, at, owner));
                for file in 0..2 {
                    next.extend(self.sync_steps(state, at, owner, file).into_iter().flatten());
                }
                next.extend(state.sync_directory(at, owner));
                next.extend(self.acknowledge(state, owner));
                let mut after = state.clone();
                after.owners[at] = None;
                next.push((Step::IsKilled { epoch: owner.epoch }, after));
            }
        }
        for (step, disk) in state.disk.kernel_steps() {
            next.push((
                Step::TheKernel(step),
                State {
                    disk,
                    ..state.clone()
                },
            ));
        }
        let (disk, owners) = (state.disk.after_power_loss(), [None; PROCESSES]);
        next.push((
            Step::PowerIsLost,
            State {
                disk,
                owners,
                ..state.clone()
            },
        ));
    }

    fn laws(&self) -> Vec<Law<Self>> {
        vec![
            Law::always("what was acknowledged is recovered, in order", |_, s: &State| {
                s.seen != Some(Seen::AcknowledgedLost)
            }),
            Law::always("what a recovery dropped never comes back", |_, s: &State| {
                s.seen != Some(Seen::DroppedCameBack)
            }),
            Law::always("a recovered bulk write has its bytes", |_, s: &State| {
                s.seen != Some(Seen::BytesMissing)
            }),
            Law::sometimes(
                "all is acknowledged, the last by the last process",
                |m: &Self, s: &State| {
                    s.acknowledged[RECORDS - 1].is_some_and(|bytes| bytes.writer() == m.epochs)
                },
            ),
            Law::sometimes(
                "a torn record is dropped and its place written again",
                |_, s: &State| {
                    let page = s.disk.journal[0];
                    page.disk == Bytes::Torn && page.cache.writer() > 1
                },
            ),
            Law::sometimes("a record that nobody was told of is recovered", |_, s: &State| {
                let has_other =
                    |owner: &Owner| owner.written > 0 && owner.epoch > s.disk.journal[0].cache.writer();
                s.acknowledged[0].is_none() && s.owners.iter().flatten().any(has_other)
            }),
            Law::stays_possible(
                "the next process can acknowledge",
                |m: &Self, s: &State| s.opened < m.epochs,
                |m: &Self, s: &State| s.acknowledged[RECORDS - 1].is_some() && s.opened == m.epochs,
            ),
        ]
    }
}

impl Folder {
    /// A process that gets the lock opens the drive, reads the journal, and sees to it that what it read is on the disk.
    fn recover(&self, state: &State) -> Vec<(Step, State)> {
        let is_locked = state.owners.iter().any(Option::is_some);
        let Some(free) = state.owners.iter().position(Option::is_none) else {
            return Vec::new();
        };
        if state.opened == self.epochs || is_locked && !self.has(Fault::NoLock) {
            return Vec::new();
        }
        let epoch = state.opened + 1;
        let mut next = Vec::new();
        let mut opened = State {
            opened: epoch,
            ..state.clone()
        };
        if self.recovery == Recovery::ReadsTheDisk {
            let mut failed = opened.clone();
            failed.disk.lose_dirt();
            next.push((Step::FailsToRecover { epoch }, failed));
            opened.disk.settle();
        }
        let count = self.readable(&opened);
        let records = count as u8;
        opened.stamps[usize::from(epoch)] = self.stamp(&opened, epoch, count);
        opened.witness_recovery(epoch, count);
        if self.recovery == Recovery::WritesAgain {
            opened.disk.write_again(count, self.bulk == Bulk::Verified);
        }
        opened.owners[free] = Some(self.owner_of(epoch, records));
        next.push((Step::Recovers { epoch, records }, opened));
        next
    }

    /// Returns the memory of a process that has just recovered so many records.
    fn owner_of(&self, epoch: Epoch, records: u8) -> Owner {
        let trusts = matches!(self.recovery, Recovery::ReadsTheDisk | Recovery::Trusts);
        let has_bulk = usize::from(records) > BULK;
        Owner {
            epoch,
            written: records,
            synced: if trusts {
                [in_file(records, 0), in_file(records, 1)]
            } else {
                [0, 0]
            },
            entry_synced: trusts && usize::from(records) > FILE,
            bulk_written: has_bulk,
            bulk_synced: has_bulk && (trusts || self.bulk == Bulk::BeforeTheRecord),
            failed: false,
        }
    }

    /// Returns the epoch that a process stamps on its records.
    fn stamp(&self, state: &State, epoch: Epoch, count: usize) -> u8 {
        if !self.has(Fault::EpochFromWhatItReads) {
            return epoch;
        }
        let last = count
            .checked_sub(1)
            .map_or(0, |last| state.disk.journal[last].cache.writer());
        state.stamps[usize::from(last)] + 1
    }

    /// Returns how many records recovery takes: the chain from the start.
    fn readable(&self, state: &State) -> usize {
        let mut before = 0;
        for (at, page) in state.disk.journal.iter().enumerate() {
            let Bytes::Record { by, after } = page.cache else {
                return at;
            };
            let stamp = |process: Epoch| state.stamps[usize::from(process)];
            let follows = stamp(after) == stamp(before) || self.has(Fault::NoChain);
            let has_bytes = at != BULK || self.bulk != Bulk::Verified || state.disk.pack_is_of(by);
            if !follows || !has_bytes {
                return at;
            }
            before = by;
        }
        RECORDS
    }

    /// An owner writes and syncs the bytes of its bulk write, ahead of or beside the record.
    fn bulk_steps(&self, state: &State, at: usize, owner: &Owner) -> Vec<(Step, State)> {
        let epoch = owner.epoch;
        let mut after = state.clone();
        if !owner.bulk_written && usize::from(owner.written) <= BULK {
            after.disk.pack.write(Bytes::Record { by: epoch, after: 0 });
            after.owner_mut(at).bulk_written = true;
            return vec![(Step::WritesBulk { epoch }, after)];
        }
        if !owner.bulk_written || owner.bulk_synced {
            return Vec::new();
        }
        after.disk.pack.write_back();
        after.owner_mut(at).bulk_synced = true;
        let mut failed = state.clone();
        failed.disk.pack.dirty = false;
        failed.owners[at] = None;
        vec![
            (Step::SyncsBulk { epoch }, after),
            (Step::SyncOfBulkFails { epoch }, failed),
        ]
    }

    /// An owner writes its next record.
    fn write(&self, state: &State, at: usize, owner: &Owner) -> Option<(Step, State)> {
        let place = usize::from(owner.written);
        if place == RECORDS || place == BULK && !self.may_write_bulk(owner) {
            return None;
        }
        let before = place
            .checked_sub(1)
            .map_or(0, |before| state.disk.journal[before].cache.writer());
        let (epoch, record) = (owner.epoch, owner.written);
        let mut after = state.clone();
        after.disk.journal[place].write(Bytes::Record {
            by: epoch,
            after: before,
        });
        after.disk.entry.0 |= place >= FILE;
        after.owner_mut(at).written += 1;
        Some((Step::Writes { epoch, record }, after))
    }

    fn may_write_bulk(&self, owner: &Owner) -> bool {
        match self.bulk {
            Bulk::BeforeTheRecord => owner.bulk_synced,
            Bulk::Verified | Bulk::Believed => owner.bulk_written,
        }
    }

    /// An owner syncs a journal file: all dirty pages of it go to the disk, or the sync fails and leaves them clean.
    fn sync_steps(&self, state: &State, at: usize, owner: &Owner, file: usize) -> [Option<(Step, State)>; 2] {
        let epoch = owner.epoch;
        let written = in_file(owner.written, file);
        if owner.synced[file] == written {
            return [None, None];
        }
        let pages = file * FILE..(file + 1) * FILE;
        let mut good = state.clone();
        good.disk.journal[pages.clone()]
            .iter_mut()
            .for_each(Page::write_back);
        good.owner_mut(at).synced[file] = written;
        let mut failed = state.clone();
        failed.disk.journal[pages]
            .iter_mut()
            .for_each(|page| page.dirty = false);
        if self.has(Fault::SyncsAgainAfterAFailure) && !owner.failed {
            failed.owner_mut(at).failed = true;
        } else {
            failed.owners[at] = None;
        }
        [
            Some((Step::Syncs { epoch, file }, good)),
            Some((Step::SyncFails { epoch, file }, failed)),
        ]
    }

    /// An owner acknowledges all that it knows to be durable.
    fn acknowledge(&self, state: &State, owner: &Owner) -> Option<(Step, State)> {
        let (epoch, records) = (owner.epoch, self.durable(owner));
        let count = usize::from(records);
        let is_new = count > 0 && state.acknowledged[count - 1].is_none();
        is_new.then(|| {
            let mut after = state.clone();
            for (acknowledged, page) in after.acknowledged[..count].iter_mut().zip(&state.disk.journal) {
                *acknowledged = acknowledged.or(Some(page.cache));
            }
            (Step::Acknowledges { epoch, records }, after)
        })
    }

    /// Returns how many records the owner knows to be durable, without a gap.
    fn durable(&self, owner: &Owner) -> u8 {
        let second_counts = owner.entry_synced || self.has(Fault::NoSyncOfTheDirectory);
        let records = match owner.synced {
            _ if self.has(Fault::AcknowledgesBeforeTheSync) => owner.written,
            [first, second] if usize::from(first) == FILE && second_counts => first + second,
            [first, _] => first,
        };
        if owner.bulk_synced {
            records
        } else {
            records.min(BULK as u8)
        }
    }
}

/// Returns how many of the first `records` are in a file.
fn in_file(records: u8, file: usize) -> u8 {
    usize::from(records).saturating_sub(file * FILE).min(FILE) as u8
}

impl State {
    fn owner_mut(&mut self, at: usize) -> &mut Owner {
        self.owners[at].as_mut().expect("the step is this owner's")
    }

    /// An owner syncs the directory that the second file is in.
    fn sync_directory(&self, at: usize, owner: &Owner) -> Option<(Step, State)> {
        (self.disk.entry.0 && !owner.entry_synced).then(|| {
            let mut after = self.clone();
            after.disk.entry.1 = true;
            after.owner_mut(at).entry_synced = true;
            (Step::SyncsTheDirectory { epoch: owner.epoch }, after)
        })
    }

    /// Compares what a process recovers with what was acknowledged, and with what was dropped before.
    fn witness_recovery(&mut self, epoch: Epoch, records: usize) {
        for (at, acknowledged) in self.acknowledged.iter().enumerate() {
            let is_there =
                at < records && acknowledged.is_none_or(|bytes| self.disk.journal[at].cache == bytes);
            if acknowledged.is_some() && !is_there {
                self.seen = Some(Seen::AcknowledgedLost);
            }
        }
        for (at, page) in self.disk.journal[..records].iter().enumerate() {
            let by = page.cache.writer();
            if at >= usize::from(self.kept[usize::from(by) - 1]) {
                self.seen = Some(Seen::DroppedCameBack);
            }
            if at == BULK && !self.disk.pack_is_of(by) {
                self.seen = Some(Seen::BytesMissing);
            }
        }
        for kept in &mut self.kept[..usize::from(epoch) - 1] {
            *kept = (*kept).min(records as u8);
        }
    }
}
