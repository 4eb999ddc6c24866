//! Sealing: a body gets its index and its name, and never changes again.

use super::home::Home;
use super::index::{self, Footer, Index};
use super::{Entry, PackName, Sealed};
use crate::bucket::Bucket;
use crate::disk::DiskFile;
use std::sync::Arc;
use tenure_model::{DriveName, Failure, PackNumber};

/// A body that is written, and what is in it; entries are in order of digest.
pub(super) struct Body {
    pub(super) number: PackNumber,
    pub(super) len: u64,
    pub(super) entries: Vec<Entry>,
    pub(super) checksums: Vec<u32>,
}

/// Says of a write that is made again as a whole, the same bytes at the same place, that it did not happen: nothing
/// depends on what it may have left.
pub(super) fn again(failure: Failure) -> Failure {
    match failure {
        Failure::Unknown(why) => Failure::DidNotHappen(why),
        Failure::DidNotHappen(_)
        | Failure::Waits(_)
        | Failure::NoSpace(_)
        | Failure::Corrupt(_)
        | Failure::Newer(_)
        | Failure::Fenced(_) => failure,
    }
}

/// Writes index and footer behind the body, makes everything durable, and gives the file the pack's name.
pub(super) fn finish(
    home: &Home,
    drive: &DriveName,
    file: &dyn DiskFile,
    body: Body,
) -> Result<Sealed, Failure> {
    let (number, body_len) = (body.number, body.len);
    let (sealed, end) = ended(drive, body);
    file.write_at(body_len, &end).map_err(again)?;
    file.truncate(sealed.len)?;
    file.sync()?;
    home.publish(&super::open_key(drive, number), &sealed.key)?;
    Ok(sealed)
}

/// Puts a pack whose body's bytes are these as one object.
pub(super) fn put(
    bucket: &dyn Bucket,
    drive: &DriveName,
    body: Body,
    mut bytes: Vec<u8>,
) -> Result<Sealed, Failure> {
    let (sealed, end) = ended(drive, body);
    bytes.extend_from_slice(&end);
    // One that is there has the same index, and is verified whenever it is read.
    bucket.put_if_absent(&sealed.key, &bytes).map_err(again)?;
    Ok(sealed)
}

/// Returns what a body is once it is sealed, and the bytes behind it: index and footer.
fn ended(drive: &DriveName, body: Body) -> (Sealed, Vec<u8>) {
    let mut end = index::written(body.number, body.len, &body.entries, &body.checksums);
    let footer = Footer::of(body.len, &end);
    let index = Index::parsed(&end).expect("an index is read as it was written");
    end.extend_from_slice(&footer.written());
    let name = PackName {
        number: body.number,
        tag: footer.index_digest.0[..8]
            .try_into()
            .expect("a digest has 32 bytes"),
    };
    let sealed = Sealed {
        name,
        key: name.key(drive),
        len: body.len + end.len() as u64,
        entries: body.entries,
        index: Arc::new(index),
    };
    (sealed, end)
}
