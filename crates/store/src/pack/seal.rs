//! Sealing: a body gets its index and its name, and never changes again.

use super::home::Home;
use super::index::{self, Footer, Index};
use super::{Entry, PackName, Sealed};
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
    let mut bytes = index::written(body.number, body.len, &body.entries, &body.checksums);
    let footer = Footer::of(body.len, &bytes);
    let index = Index::parsed(&bytes).expect("an index is read as it was written");
    bytes.extend_from_slice(&footer.written());
    let len = body.len + bytes.len() as u64;
    file.write_at(body.len, &bytes).map_err(again)?;
    file.truncate(len)?;
    file.sync()?;
    let name = PackName {
        number: body.number,
        tag: footer.index_digest.0[..8]
            .try_into()
            .expect("a digest has 32 bytes"),
    };
    let key = name.key(drive);
    home.publish(&super::open_key(drive, body.number), &key)?;
    Ok(Sealed {
        name,
        key,
        len,
        entries: body.entries,
        index: Arc::new(index),
    })
}
