//! Putting an object whose fate must be known: a reply that is lost or odd is read back and compared whole.

use tenure_model::Failure;
use tenure_store::{Bucket, Key, Put};

/// Times that a put of which nobody knows the outcome is sent, the same to the byte.
const TRIES_MAX: usize = 3;

/// What stands at a key after a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Our bytes: this sending has put them there.
    Put,
    /// Our bytes: this sending has, or an earlier one.
    Found,
    /// Another's bytes, whole.
    Others(Vec<u8>),
}

/// Puts an object, and returns what stands at its key. A failure means that this is not known, and that the put may be
/// sent again. `is_whole` tells whether bytes are an object that may stand there: others were not read well.
pub(crate) fn settled(
    bucket: &dyn Bucket,
    key: &Key,
    bytes: &[u8],
    is_whole: impl Fn(&[u8]) -> bool,
) -> Result<Standing, Failure> {
    let mut unclear = None;
    for _ in 0..TRIES_MAX {
        let failure = match bucket.put_if_absent(key, bytes) {
            Ok(Put::Created) => return Ok(Standing::Put),
            Ok(Put::Exists) => Failure::Unknown(format!("{key} was put and cannot be found")),
            Err(failure @ Failure::Unknown(_)) => failure,
            Err(failure) => return Err(failure),
        };
        match bucket.get(key) {
            Ok(Some(found)) if found == bytes => return Ok(Standing::Found),
            Ok(Some(found)) if is_whole(&found) => return Ok(Standing::Others(found)),
            Ok(Some(_)) => unclear = Some(Failure::Corrupt(format!("{key}: it is damaged"))),
            Ok(None) => unclear = Some(failure),
            // It may be there, whatever has kept it from being read.
            Err(_) => return Err(failure),
        }
    }
    Err(unclear.expect("each try that did not return has left a failure"))
}
