//! The marker object that makes a folder or a bucket one of ours, and says in which format it is.

use crate::bucket::{Bucket, OpenError};
use crate::key::Key;
use tenure_model::{Failure, Refusal, USE_NEWER};

/// The format of buckets that this program writes; it reads no newer one.
pub const FORMAT: u32 = 1;

const FIRST_LINE: &str = "tenure bucket";

/// Returns the marker's key.
pub fn key() -> Key {
    Key::parse("tenure-bucket").expect("a literal key")
}

/// Returns the marker's text.
pub fn text() -> String {
    format!(
        "{FIRST_LINE}\nformat {FORMAT}\nThe drives of Tenure rest in here. Nothing in it may be changed by hand.\n"
    )
}

/// Puts the marker; the bucket is one of ours from then on.
pub fn write(bucket: &dyn Bucket) -> Result<(), Failure> {
    bucket.put_if_absent(&key(), text().as_bytes()).map(|_| ())
}

/// Refuses a bucket that has no marker, or one of a newer format.
pub fn check(bucket: &dyn Bucket) -> Result<(), OpenError> {
    let found = bucket.get(&key())?;
    let place = bucket.describe();
    let refused = match found.as_deref().map(format_of) {
        Some(Some(format)) if (1..=FORMAT).contains(&format) => return Ok(()),
        Some(Some(format)) => format!(
            "{place} is a bucket of format {format}, as its `{}` says, and this program reads formats up to {FORMAT}: {USE_NEWER}",
            key()
        ),
        Some(None) => {
            format!(
                "{place} holds a `{}` that cannot be read: it is damaged, or not a bucket",
                key()
            )
        }
        None => format!("{place} is not a bucket: it has no `{}`", key()),
    };
    Err(Refusal::Because(refused).into())
}

/// Returns the format that a marker names.
fn format_of(bytes: &[u8]) -> Option<u32> {
    let mut lines = std::str::from_utf8(bytes).ok()?.lines();
    if lines.next()? != FIRST_LINE {
        return None;
    }
    let format: u32 = lines.next()?.strip_prefix("format ")?.parse().ok()?;
    // A marker that was cut has lost its last line, or the end of it.
    let is_whole = lines.next().is_some() && bytes.ends_with(b"\n");
    // What newer ones look like is not known here.
    (is_whole || format > FORMAT).then_some(format)
}
