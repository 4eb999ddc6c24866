//! The drives of a bucket, without opening them: which there are, and the end of one.
//!
//! A drive is there as long as it has a manifest. Invariant: what a crash leaves of one that was to be deleted says so, and is no drive
//! any more once its newest manifest is gone.

use crate::open::{has_manifest, is_there, refused};
use tenure_journal::spare;
use tenure_model::{DriveName, Failure, Refusal};
use tenure_store::{Bucket, Key};
use tenure_wire::Error;

/// What stands among the drives of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The drives, by name.
    pub drives: Vec<DriveName>,
    /// What is there of others: no drives.
    pub parts: Vec<(DriveName, Part)>,
    /// Why of others it cannot be told whether they are drives, such as of a symbolic link; each names one.
    pub unclear: Vec<Failure>,
}

/// What is there of a drive that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It was begun and never finished: who makes it again finishes it.
    Begun,
    /// It was to be deleted, and not all of it is: who deletes it again does so.
    Deleted,
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
            Ok(false) if is_being_deleted(bucket, &name)? => listing.parts.push((name, Part::Deleted)),
            Ok(false) if is_there(bucket, &name)? => listing.parts.push((name, Part::Begun)),
            Ok(false) => {}
            Err(failure @ Failure::Corrupt(_)) => listing.unclear.push(failure),
            Err(failure) => return Err(failure),
        }
    }
    Ok(listing)
}

/// Deletes a drive that nobody owns, with everything in it.
///
/// That it is to be deleted is noted first, and its manifests go before the rest, the newest last: until then it is whole, and from then
/// on no drive any more. What a crash leaves is deleted by deleting it again.
pub fn delete(bucket: &dyn Bucket, name: &DriveName, who: &str) -> Result<(), Error> {
    match delete_once(bucket, name, who) {
        // Also on a disk that is full: in the room that was set aside.
        Err(Error::Failed(Failure::NoSpace(_))) if spare::give_up(bucket) => delete_once(bucket, name, who),
        deleted => deleted,
    }
}

fn delete_once(bucket: &dyn Bucket, name: &DriveName, who: &str) -> Result<(), Error> {
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
    let note = note_of_deletion(name);
    match bucket.put_if_absent(&note, DELETED) {
        // Where there is no room for a note, what is left is taken for a drive that was begun.
        Ok(_) | Err(Failure::NoSpace(_)) => {}
        Err(failure) => return Err(failure.into()),
    }
    for part in ["manifests/", ""] {
        for key in bucket.list(&format!("{under}{part}"))? {
            if key != lock_key && key != note {
                bucket.delete(&key)?;
            }
        }
    }
    drop(lock);
    bucket.delete(&lock_key)?;
    Ok(bucket.delete(&note)?)
}

/// What stands in the note, for people.
const DELETED: &[u8] = b"This drive is being deleted.\n";

fn note_of_deletion(name: &DriveName) -> Key {
    Key::in_drive(name, &["deleting"])
}

/// Tells whether what is there of a drive without a manifest is what is left of one that was to be deleted.
fn is_being_deleted(bucket: &dyn Bucket, name: &DriveName) -> Result<bool, Failure> {
    Ok(bucket.size(&note_of_deletion(name))?.is_some())
}

/// Refuses what is left of a drive that was to be deleted.
pub(crate) fn refuse_deleted(bucket: &dyn Bucket, name: &DriveName) -> Result<(), Error> {
    if !is_being_deleted(bucket, name)? || has_manifest(bucket, name)? {
        return Ok(());
    }
    Err(Refusal::Because(format!(
        "the drive {name} is being deleted, and nothing of it can be had: have that finished first"
    ))
    .into())
}
