//! The drives of a bucket that this process serves: each is opened when it is first asked for, if nobody else owns it.
//!
//! Where a lock keeps others away the lock decides, and names who has it. Elsewhere whoever claims a drive deposes its owner, so that one is asked
//! first. Invariant: an owner that answers is not deposed; who asks for its drive is sent to it.

use crate::admin;
use crate::drive::{Drive, Options};
use crate::holder::{Holder, claimant};
use crate::open::Beginning;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure_core::Branch;
use tenure_journal::epoch;
use tenure_model::{DriveName, Epoch, Failure, Refusal};
use tenure_store::Bucket;
use tenure_wire::{Error, Owner, ServerAddress, Whereabouts};

/// Times that somebody else may claim a drive while this process is about to: each of them is asked.
const CLAIMANTS_MAX: u32 = 10;

/// Asks other servers. The network is no part of this room.
pub trait Peers: Send + Sync {
    /// Tells whether the server at an address says that it owns a drive, or opens it now: what [`Drives::owns`] says there. One
    /// that says nothing for long does not; a client waits meanwhile. That it is there may be enough where it cannot be asked
    /// more: who is sent to the newest owner has it open the drive again.
    fn owns(&self, address: &ServerAddress, drive: &DriveName, epoch: Epoch) -> bool;
}

/// The drives of a bucket that this process serves.
pub struct Drives {
    bucket: Arc<dyn Bucket>,
    options: Options,
    peers: Arc<dyn Peers>,
    slots: Mutex<BTreeMap<DriveName, Slot>>,
}

/// Locked while its drive is opened or closed.
type Slot = Arc<Mutex<Option<Arc<Drive>>>>;

impl Drives {
    /// Serves the drives of a bucket, each opened with `options`.
    pub fn new(bucket: Arc<dyn Bucket>, options: Options, peers: Arc<dyn Peers>) -> Self {
        Self {
            bucket,
            options,
            peers,
            slots: Mutex::default(),
        }
    }

    /// Returns where the owner of a drive is; makes this process the owner where no other answers for it.
    pub fn find(&self, name: &DriveName) -> Result<Whereabouts<Branch>, Error> {
        let slot = self.slot(name);
        let found = self.find_in(&mut slot.lock(), name);
        if found.is_err() {
            self.forget(name, &slot);
        }
        Ok(match found? {
            Found::Here(drive) => Whereabouts::Here(drive as Arc<dyn Owner<Branch>>),
            Found::Elsewhere(address) => Whereabouts::Elsewhere(address),
        })
    }

    /// Tells whether this process owns a drive at that epoch or a later one, or opens it now.
    pub fn owns(&self, name: &DriveName, epoch: Epoch) -> bool {
        let slot = self.slots.lock().get(name).cloned();
        slot.is_some_and(|slot| match slot.try_lock() {
            Some(open) => open
                .as_ref()
                .is_some_and(|drive| drive.is_open() && drive.epoch() >= epoch),
            None => true,
        })
    }

    /// Makes a drive, and owns it.
    pub fn create(&self, name: &DriveName, beginning: &Beginning) -> Result<(), Error> {
        let slot = self.slot(name);
        let mut open = slot.lock();
        let drive = Drive::create(self.bucket.clone(), name, beginning, self.options.clone())?;
        *open = Some(drive);
        Ok(())
    }

    /// Deletes a drive with everything in it, unless a session holds a branch of it or another server owns it; who only reads
    /// it is sent away.
    pub fn delete(&self, name: &DriveName) -> Result<(), Error> {
        let slot = self.slot(name);
        let mut open = slot.lock();
        if open.is_none() && self.bucket.disk().is_none() {
            // Nobody else may go on in a drive that is deleted.
            match self.find_in(&mut open, name) {
                Ok(Found::Here(_)) => {}
                Ok(Found::Elsewhere(address)) => {
                    return Err(Refusal::Because(format!(
                        "the server at {address} owns the drive {name}; have it deleted there"
                    ))
                    .into());
                }
                // What cannot be opened can be deleted.
                Err(Error::Refused(_) | Error::Failed(Failure::Corrupt(_))) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(drive) = open.as_ref().filter(|drive| drive.is_open()) {
            drive.end_silent_holders()?;
            if let Some(by) = drive.branches()?.into_iter().find_map(|line| line.holder) {
                return Err(Refusal::Held { by }.into());
            }
            drive.close()?;
        }
        *open = None;
        admin::delete(self.bucket.as_ref(), name, &self.us().to_string())
    }

    /// Closes the drives to which no connection is open: another server may have them then without waiting. A drive that cannot be
    /// closed now is closed later.
    pub fn close_unused(&self) {
        for (name, slot) in self.all() {
            let Some(mut open) = slot.try_lock() else { continue };
            // Whoever is connected shares it.
            let is_unused = |drive: &&Arc<Drive>| Arc::strong_count(drive) == 1;
            let Some(drive) = open.as_ref().filter(is_unused) else {
                continue;
            };
            match drive.close() {
                Err(error) if drive.is_open() => {
                    tracing::warn!(%name, %error, "a drive that nobody uses cannot be closed");
                }
                // One that has stopped is of no more use.
                Ok(()) | Err(_) => *open = None,
            }
        }
    }

    /// Closes every drive. Those that cannot be closed are let go as they are, and the first of them is told.
    pub fn close(&self) -> Result<(), (DriveName, Error)> {
        let mut told = Ok(());
        for (name, slot) in std::mem::take(&mut *self.slots.lock()) {
            let drive = slot.lock().take();
            let closed = drive
                .filter(|drive| drive.is_open())
                .map_or(Ok(()), |drive| drive.close());
            told = told.and(closed.map_err(|error| (name, error)));
        }
        told
    }

    fn slot(&self, name: &DriveName) -> Slot {
        self.slots.lock().entry(name.clone()).or_default().clone()
    }

    /// Forgets a name of which nothing came, unless somebody else tries it.
    fn forget(&self, name: &DriveName, slot: &Slot) {
        let mut slots = self.slots.lock();
        if Arc::strong_count(slot) == 2 && slot.try_lock().is_some_and(|open| open.is_none()) {
            slots.remove(name);
        }
    }

    fn all(&self) -> Vec<(DriveName, Slot)> {
        let slots = self.slots.lock();
        slots
            .iter()
            .map(|(name, slot)| (name.clone(), slot.clone()))
            .collect()
    }

    fn us(&self) -> Holder {
        Holder::of(&self.options)
    }

    fn find_in(&self, open: &mut Option<Arc<Drive>>, name: &DriveName) -> Result<Found, Error> {
        if let Some(drive) = open.as_ref().filter(|drive| drive.is_open()) {
            return Ok(Found::Here(drive.clone()));
        }
        // It has stopped: the next owner is another server, or this one again.
        *open = None;
        let mut tries = 1;
        loop {
            let mut options = self.options.clone();
            if self.bucket.disk().is_none() {
                let newest = epoch::newest(self.bucket.as_ref(), name)?;
                if let Some(address) = self.owner_elsewhere(name, newest)? {
                    return Ok(Found::Elsewhere(address));
                }
                options.after = Some(newest);
            }
            let may_try = options.after.is_some() && tries < CLAIMANTS_MAX;
            match Drive::open(self.bucket.clone(), name, options) {
                Ok(drive) => {
                    *open = Some(drive.clone());
                    return Ok(Found::Here(drive));
                }
                // Somebody else was faster.
                Err(Error::Refused(Refusal::Held { .. }) | Error::Failed(Failure::Fenced(_))) if may_try => {
                    tries += 1;
                }
                Err(Error::Refused(Refusal::Held { by })) => {
                    let there = Holder::parse(&by).and_then(|holder| self.other(holder));
                    return there.map(Found::Elsewhere).ok_or(Refusal::Held { by }.into());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns where a holder answers that is another server.
    fn other(&self, holder: Holder) -> Option<ServerAddress> {
        let address = holder.address;
        address.filter(|address| self.options.address.as_ref() != Some(address))
    }

    /// Returns where the owner of an epoch answers, if it does and is another process.
    fn owner_elsewhere(&self, name: &DriveName, newest: Epoch) -> Result<Option<ServerAddress>, Error> {
        let holder = claimant(self.bucket.as_ref(), name, newest)?;
        let address = holder.and_then(|holder| self.other(holder));
        Ok(address.filter(|address| self.peers.owns(address, name, newest)))
    }
}

/// Where the owner of a drive is.
enum Found {
    Here(Arc<Drive>),
    Elsewhere(ServerAddress),
}
