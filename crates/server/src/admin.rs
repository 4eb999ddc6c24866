//! The drives of a bucket, without opening them: which there are, and the end of one.

use crate::open::{has_manifest, is_there, refused};
use tenure_model::{DriveName, Refusal};
use tenure_store::{Bucket, Key};
use tenure_wire::Error;

/// Returns the drives of a bucket, by name; one that was begun and never finished is none.
pub fn list(bucket: &dyn Bucket) -> Result<Vec<DriveName>, Error> {
    let mut drives = Vec::new();
    for name in bucket.children("drives/")? {
        if let Ok(name) = DriveName::parse(&name)
            && has_manifest(bucket, &name)?
        {
            drives.push(name);
        }
    }
    Ok(drives)
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
