//! Packs of an owner elsewhere, read as those of a bucket: with the neighbours of what is asked for, verified here, and kept
//! on this machine.
//!
//! Invariant: what it cannot tell, the owner is asked for as if there were no such thing.

use crate::wait;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::IoSliceMut;
use std::sync::Arc;
use tenure_core::Branch;
use tenure_model::{Address, DriveName, Failure, PackNumber, limits};
use tenure_store::bucket::Requests;
use tenure_store::pack::{PackName, Packs};
use tenure_store::{Bucket, Cache, Disk, Key, Put};
use tenure_wire::{Error, Owner, SealedPack};

/// The packs that an owner shows.
pub(crate) struct Near {
    owner: Arc<dyn Owner<Branch>>,
    packs: Packs,
    /// How often somebody needed a pack that the owner does not show: it is asked again when that has doubled.
    hidden: Mutex<HashMap<PackNumber, u64>>,
}

impl Near {
    pub(crate) fn new(owner: Arc<dyn Owner<Branch>>, cache: Arc<Cache>) -> Self {
        let shown = Shown {
            owner: Arc::clone(&owner),
            requests: Requests::default(),
        };
        // No message names it: the owner says what is wrong.
        let drive = DriveName::parse("elsewhere").expect("a literal name");
        let packs = Packs::with_sizes(Arc::new(shown), drive, Default::default());
        Self {
            owner,
            packs: packs.cached(Some(cache)).waiting_if(may_wait),
            hidden: Mutex::default(),
        }
    }

    /// Fills `into` from a chunk's bytes, beginning with its byte `start`; false where the owner is to be asked.
    pub(crate) fn read(&self, at: Address, start: u32, into: &mut [u8]) -> Result<bool, Error> {
        let read = || self.packs.read_into(at, start, into).map(Some);
        Ok(self.looked_up(at.pack, read)?.is_some())
    }

    /// Returns a page's bytes; none where the owner is to be asked.
    pub(crate) fn page(&self, at: Address) -> Result<Option<Vec<u8>>, Error> {
        self.looked_up(at.pack, || self.packs.read(at).map(Some))
    }

    fn looked_up<T>(
        &self,
        pack: PackNumber,
        read: impl FnOnce() -> Result<Option<T>, Failure>,
    ) -> Result<Option<T>, Error> {
        let found = match self.is_shown(pack) {
            Ok(true) => read(),
            Ok(false) => Ok(None),
            Err(failure) => Err(failure),
        };
        match found {
            Err(Failure::Corrupt(_)) => Ok(None),
            found => Ok(found?),
        }
    }

    /// Tells whether a pack is known; asks the owner for it, now and then.
    fn is_shown(&self, pack: PackNumber) -> Result<bool, Failure> {
        if self.packs.is_known(pack) {
            return Ok(true);
        }
        let mut hidden = self.hidden.lock();
        let needed = hidden.get(&pack).map_or(1, |needed| needed + 1);
        if needed.is_power_of_two() {
            drop(hidden);
            may_wait()?;
            for SealedPack { tag, .. } in self.owner.sealed(pack).map_err(failed)? {
                self.packs.add(PackName { number: pack, tag });
            }
            hidden = self.hidden.lock();
        }
        hidden.insert(pack, needed);
        Ok(self.packs.is_known(pack))
    }
}

/// The objects of packs, as the owner shows them: a bucket of which only parts are read.
struct Shown {
    owner: Arc<dyn Owner<Branch>>,
    requests: Requests,
}

impl Shown {
    fn read(&self, key: &Key, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let name = named(key)?;
        for (into, number) in into.chunks_mut(limits::PART_LEN_MAX).zip(0..) {
            let offset = offset + number * limits::PART_LEN_MAX as u64;
            let len = u32::try_from(into.len()).expect("a part's length was bounded");
            let part = self.owner.part(name.number, name.tag, offset, len);
            let bytes = part.map_err(failed)?;
            if bytes.len() != into.len() {
                return Err(Failure::Corrupt(format!("{key}: another number of bytes came")));
            }
            into.copy_from_slice(&bytes);
        }
        Ok(())
    }
}

impl Bucket for Shown {
    fn get_parts(&self, key: &Key, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        let mut bytes = vec![0; parts.iter().map(|part| part.len()).sum()];
        self.read(key, offset, &mut bytes)?;
        let mut rest = &bytes[..];
        for part in parts {
            let (front, behind) = rest.split_at(part.len());
            part.copy_from_slice(front);
            rest = behind;
        }
        Ok(())
    }

    fn size(&self, key: &Key) -> Result<Option<u64>, Failure> {
        let name = named(key)?;
        let shown = self.owner.sealed(name.number).map_err(failed)?;
        let found = shown.into_iter().find(|pack| pack.tag == name.tag);
        Ok(found.map(|pack| pack.len))
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        Err(only_parts(key))
    }

    fn put_if_absent(&self, key: &Key, _: &[u8]) -> Result<Put, Failure> {
        Err(only_parts(key))
    }

    fn list(&self, under: &str) -> Result<Vec<Key>, Failure> {
        Err(only_parts(&under))
    }

    fn children(&self, under: &str) -> Result<Vec<String>, Failure> {
        Err(only_parts(&under))
    }

    fn delete(&self, key: &Key) -> Result<(), Failure> {
        Err(only_parts(key))
    }

    fn requests(&self) -> &Requests {
        &self.requests
    }

    fn disk(&self) -> Option<Arc<dyn Disk>> {
        None
    }

    fn tier(&self) -> &'static str {
        "bucket"
    }

    fn describe(&self) -> String {
        "the packs of an owner elsewhere".to_owned()
    }
}

fn only_parts(of: &dyn std::fmt::Display) -> Failure {
    Failure::DidNotHappen(format!("{of}: an owner shows parts of packs and nothing else"))
}

fn named(key: &Key) -> Result<PackName, Failure> {
    PackName::parse(key.file_name()).ok_or_else(|| only_parts(key))
}

/// Asks whether the calling thread may wait.
fn may_wait() -> Result<(), Failure> {
    wait::before_waiting().map_err(failed)
}

fn failed(error: Error) -> Failure {
    match error {
        Error::Failed(failure) => failure,
        Error::Refused(refusal) => Failure::DidNotHappen(refusal.to_string()),
    }
}
