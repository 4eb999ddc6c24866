//! The drives of a bucket, opened when they are first asked for; who asks for one that another server owns is sent there.

use crate::drives::{self, Asked};
use crate::reach;
use anyhow::{Result, anyhow};
use std::sync::Arc;
use tenure_core::Branch;
use tenure_model::{DriveName, Refusal};
use tenure_server::{Drives, Listing, Part, Peers};
use tenure_store::{Bucket, Cache};
use tenure_wire::{Error, Host, ServerAddress, Whereabouts};

/// The drives of a bucket.
pub(super) struct Served {
    bucket: Arc<dyn Bucket>,
    drives: Drives,
}

impl Served {
    /// Serves the drives of a bucket; what is read of it passes through the cache, if there is one.
    pub(super) fn new(
        (bucket, cache): (Arc<dyn Bucket>, Option<Arc<Cache>>),
        at: ServerAddress,
        peers: Arc<dyn Peers>,
    ) -> Self {
        let mut options = reach::options(Some(at));
        options.cache = cache;
        Served {
            drives: Drives::new(Arc::clone(&bucket), options, peers),
            bucket,
        }
    }

    /// Says which bucket it is.
    pub(super) fn describe(&self) -> String {
        self.bucket.describe()
    }

    /// Closes the drives that nobody uses: they ask the bucket for nothing then, and another may have them at once.
    pub(super) fn close_unused(&self) {
        self.drives.close_unused();
    }

    /// Closes every drive.
    pub(super) fn close(&self) -> Result<()> {
        self.drives
            .close()
            .map_err(|(name, error)| anyhow!(error).context(format!("the drive {name} could not be closed")))
    }
}

impl Host<Branch> for Served {
    fn drive(&self, name: &DriveName) -> Result<Whereabouts<Branch>, Error> {
        self.drives.find(name)
    }

    fn control(&self, verb: &str, arguments: &[u8]) -> Result<Vec<u8>, Error> {
        let asked = drives::asked(verb, arguments)?;
        let name = |drive: &str| DriveName::parse(drive).map_err(|why| Refusal::Because(why.to_string()));
        match asked {
            Asked::List => {
                let Listing { drives, unclear, .. } = tenure_server::list(self.bucket.as_ref())?;
                for failure in unclear {
                    tracing::warn!(%failure, "something that may be no drive stands among the drives");
                }
                let names: Vec<_> = drives.iter().map(DriveName::as_str).collect();
                Ok(serde_json::to_vec(&names).expect("names are text"))
            }
            Asked::Parts => {
                let Listing { parts, .. } = tenure_server::list(self.bucket.as_ref())?;
                let parts: Vec<_> = parts
                    .iter()
                    .map(|(name, part)| (name.as_str(), *part == Part::Deleted))
                    .collect();
                Ok(serde_json::to_vec(&parts).expect("names and flags are JSON"))
            }
            Asked::Create { drive, uid, gid } => {
                let beginning = reach::beginning((uid, gid));
                self.drives.create(&name(&drive)?, &beginning)?;
                Ok(Vec::new())
            }
            Asked::Delete { drive } => {
                self.drives.delete(&name(&drive)?)?;
                Ok(Vec::new())
            }
            Asked::Owns { drive, epoch } => {
                let owns = self.drives.owns(&name(&drive)?, tenure_model::Epoch(epoch));
                Ok(serde_json::to_vec(&owns).expect("a flag is JSON"))
            }
        }
    }
}
