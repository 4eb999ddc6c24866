//! The drives of a bucket, without opening them: which there are, and the end of one.

use crate::open::{has_manifest, is_there, refused};
use tenure_model::{DriveName, Failure, Refusal};
use tenure_store::{Bucket, Key};
use tenure_wire::Error;

/// What stands among the drives of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The drives, by name; one that was begun and never finished is none.
    pub drives: Vec<DriveName>,
    /// Why of others it cannot be told whether they are drives, such as of a symbolic link; each names one.
    pub unclear: Vec<Failure>,
}

/// Lists the drives of a bucket.
pub fn list(bucket: &dyn Bucket) -> Result<Listing, Failure> {
    let mut listing = Listing::default();
    for name in bucket.children("drives/")? {
        let Ok(name) = DriveName::parse(&name) else {
            continue;
        };
        match has_manifest(bucket, &name) {
            Ok(true) => listing.drives.push(name),
            Ok(false) => {}
            Err(failure @ Failure::Corrupt(_)) => listing.unclear.push(failure),
            Err(failure) => return Err(failure),
        }
    }
    Ok(listing)
}

/// Deletes a drive that nobody owns, with everything in it.
///
/// Its manifests go first: what a crash leaves of it is no drive any more, and deleting again goes on.
pub fn delete(bucket: &dyn Bucket, name: &DriveName, who: &str) -> Result<(), Error> {
    let under = format!("drives/{name}/");
    if !is_there(bucket, name)? {
        return Err(Refusal::Because(format!("there is no drive {name} in {}", bucket.describe())).into());
    }
    let lock_key = Key::in_drive(name, &["lock"]);
    let lock = bucket
        .disk()
        .map(|disk| disk.lock(&lock_key, who))
        .transpose()
        .map_err(refused)?;
    for part in ["manifests/", ""] {
        for key in bucket.list(&format!("{under}{part}"))? {
            if key != lock_key {
                bucket.delete(&key)?;
            }
        }
    }
    drop(lock);
    Ok(bucket.delete(&lock_key)?)
}
