//! How the contents of one file that two sides changed are merged: a function of bytes, without I/O, clock or state.
//!
//! [`choose`] says which [`Driver`] a file has, by its path, by what [`Attributes`] say of it and by what it holds; [`merge`] does it,
//! and says by which driver it was done, or why both sides must be kept. What is merged here was written by anybody.
//!
//! Invariant: no input makes it panic or take more time and memory than its limits let it. What one side left as it was becomes what the
//! other has, byte for byte. What a file says as data after a merge by structure is what merging the data gives.

mod attributes;
mod driver;
mod limits;
mod outcome;
mod sequence;
mod structure;
mod text;
mod union;

pub use attributes::{Attributes, Complaint};
pub use driver::{Driver, choose};
pub use outcome::{Conflict, Merged, Outcome, Unfit, Why};

/// Merges what `ours` and `theirs` made of `base`, which is none where both made the file.
///
/// Where a driver cannot have it, it goes on by lines, and says so. What only one side changed is taken as it is, by any driver.
pub fn merge(driver: Driver, base: Option<&[u8]>, ours: &[u8], theirs: &[u8]) -> Outcome {
    if ours == theirs || base == Some(theirs) {
        return Outcome::merged(driver, None, ours.to_vec());
    }
    if base == Some(ours) {
        return Outcome::merged(driver, None, theirs.to_vec());
    }
    let by_lines = |unfit: Option<Unfit>| Outcome::of(Driver::Text, unfit, text::merge(base, ours, theirs));
    match driver {
        Driver::Binary => Outcome::of(driver, None, Err(Why::Binary)),
        Driver::Text => by_lines(None),
        Driver::Union => match union::merge(base, ours, theirs) {
            Ok(content) => Outcome::merged(driver, None, content),
            Err(reason) => by_lines(Some(Unfit::new(driver, reason))),
        },
        Driver::Json | Driver::Toml | Driver::Yaml => structure::merge(driver, base, ours, theirs),
    }
}
