//! The drives of a bucket, opened when they are first asked for; who asks for one that another server owns is sent there.
//!
//! Invariant: a drive that is slow to open keeps nobody from another; one that has stopped is opened anew.

use crate::drives::{self, Asked};
use crate::reach;
use anyhow::{Context, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure_core::Branch;
use tenure_model::{DriveName, Refusal};
use tenure_server::{Drive, Options};
use tenure_store::Bucket;
use tenure_wire::{Error, Host, Owner, ServerAddress, Whereabouts};

/// A drive that is open here, or will be.
type Slot = Arc<Mutex<Option<Arc<Drive>>>>;

/// The drives of a bucket.
pub(super) struct Served {
    bucket: Arc<dyn Bucket>,
    /// Where this server is.
    at: ServerAddress,
    drives: Mutex<BTreeMap<DriveName, Slot>>,
}

impl Served {
    pub(super) fn new(bucket: Arc<dyn Bucket>, at: ServerAddress) -> Self {
        Served {
            bucket,
            at,
            drives: Mutex::default(),
        }
    }

    /// Says which bucket it is.
    pub(super) fn describe(&self) -> String {
        self.bucket.describe()
    }

    /// Closes every drive.
    pub(super) fn close(&self) -> Result<()> {
        for (name, slot) in std::mem::take(&mut *self.drives.lock()) {
            let Some(drive) = slot.lock().take().filter(|drive| drive.is_open()) else {
                continue;
            };
            drive
                .close()
                .with_context(|| format!("the drive {name} could not be closed; what was synced is safe"))?;
        }
        Ok(())
    }

    fn slot(&self, name: &DriveName) -> Slot {
        Arc::clone(self.drives.lock().entry(name.clone()).or_default())
    }

    fn options(&self) -> Options {
        reach::options(Some(self.at.clone()))
    }

    /// Returns where clients are sent whose drive another server owns, if it says where it is.
    fn elsewhere(&self, name: &DriveName) -> Option<ServerAddress> {
        let holder = tenure_server::holder(self.bucket.as_ref(), name).ok().flatten()?;
        holder.address.filter(|there| *there != self.at)
    }

    fn create(&self, name: &DriveName, user: (u32, u32)) -> Result<Vec<u8>, Error> {
        let slot = self.slot(name);
        let mut open = slot.lock();
        let drive = reach::create(Arc::clone(&self.bucket), name, user, self.options())?;
        *open = Some(drive);
        Ok(Vec::new())
    }

    /// Deletes a drive unless a session holds a branch of it; who only reads one is sent away.
    fn delete(&self, name: &DriveName) -> Result<Vec<u8>, Error> {
        let slot = self.slot(name);
        let mut open = slot.lock();
        if let Some(drive) = open.as_ref().filter(|drive| drive.is_open()) {
            if let Some(by) = drive.branches()?.into_iter().find_map(|line| line.holder) {
                return Err(Refusal::Held { by }.into());
            }
            drive.close()?;
        }
        *open = None;
        tenure_server::delete(self.bucket.as_ref(), name, &drives::deleter())?;
        Ok(Vec::new())
    }

    /// Forgets a name of which nothing came, unless somebody else tries it.
    fn forget(&self, name: &DriveName, slot: &Slot) {
        let mut drives = self.drives.lock();
        if Arc::strong_count(slot) == 2 && slot.try_lock().is_some_and(|open| open.is_none()) {
            drives.remove(name);
        }
    }

    fn find(&self, name: &DriveName, open: &mut Option<Arc<Drive>>) -> Result<Whereabouts<Branch>, Error> {
        if let Some(drive) = open.take().filter(|drive| drive.is_open()) {
            *open = Some(Arc::clone(&drive));
            return Ok(Whereabouts::Here(drive));
        }
        match Drive::open(Arc::clone(&self.bucket), name, self.options()) {
            Ok(drive) => {
                *open = Some(Arc::clone(&drive));
                Ok(Whereabouts::Here(drive))
            }
            Err(error @ Error::Refused(Refusal::Held { .. })) => {
                let there = self.elsewhere(name);
                there.map(Whereabouts::Elsewhere).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }
}

impl Host<Branch> for Served {
    fn drive(&self, name: &DriveName) -> Result<Whereabouts<Branch>, Error> {
        let slot = self.slot(name);
        let found = self.find(name, &mut slot.lock());
        if found.is_err() {
            self.forget(name, &slot);
        }
        found
    }

    fn control(&self, verb: &str, arguments: &[u8]) -> Result<Vec<u8>, Error> {
        let asked = (verb == drives::VERB)
            .then(|| serde_json::from_slice(arguments).ok())
            .flatten()
            .ok_or_else(|| because(format!("this server does not know what `{verb}` asks for")))?;
        let name = |drive: &str| DriveName::parse(drive).map_err(because);
        match asked {
            Asked::List => {
                let drives = tenure_server::list(self.bucket.as_ref())?;
                let names: Vec<_> = drives.iter().map(DriveName::as_str).collect();
                Ok(serde_json::to_vec(&names).expect("names are text"))
            }
            Asked::Create { drive, uid, gid } => self.create(&name(&drive)?, (uid, gid)),
            Asked::Delete { drive } => self.delete(&name(&drive)?),
        }
    }
}

fn because(why: impl ToString) -> Error {
    Refusal::Because(why.to_string()).into()
}
