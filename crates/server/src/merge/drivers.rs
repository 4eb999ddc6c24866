//! Which driver a file has that both sides have changed, and what that makes of it.
//!
//! A file `.tenureattributes` of the branch may name one for the files below it; it can name no command. Invariant: whatever a driver does with
//! contents that anybody has written, the merge goes on: where it makes nothing of them, both are kept.

use crate::drive::Inner;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tenure_core::Branch;
use tenure_merge::{Attributes, Outcome, choose, merge};
use tenure_model::{Ino, Name, Refusal};
use tenure_wire::Error;

/// The file of a directory that names drivers for what is below it.
const ATTRIBUTES: &[u8] = b".tenureattributes";

/// What was read of a branch that names drivers: the file of each directory that was asked about, by its path.
#[derive(Default)]
pub(super) struct Named(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

/// The contents of a file on both sides, and before.
pub(super) struct Contents<'a> {
    pub(super) base: Option<&'a [u8]>,
    pub(super) ours: &'a [u8],
    pub(super) theirs: &'a [u8],
}

/// Returns what a driver makes of a file, and which; none where both are to be kept.
pub(super) fn driven(
    path: &[u8],
    attributes: &Attributes,
    contents: &Contents<'_>,
) -> Option<(String, Vec<u8>)> {
    let Contents { base, ours, theirs } = *contents;
    let all: Vec<&[u8]> = base.into_iter().chain([ours, theirs]).collect();
    let driver = choose(path, attributes, &all);
    let outcome = catch_unwind(AssertUnwindSafe(|| merge(driver, base, ours, theirs)));
    let outcome = outcome.inspect_err(|_| {
        tracing::error!(
            driver = driver.name(),
            "a driver has failed; both versions are kept"
        )
    });
    match outcome.ok()? {
        Outcome::Conflict(_) => None,
        Outcome::Merged(merged) => {
            let by = merged.by.name();
            let by = match merged.unfit {
                Some(unfit) => format!("{by} ({}: {})", unfit.driver.name(), unfit.reason),
                None => by.to_owned(),
            };
            Some((by, merged.content))
        }
    }
}

impl Inner {
    /// Returns what the directories above a path say of drivers.
    pub(super) fn attributes(
        &self,
        named: &mut Named,
        branch: &Branch,
        path: &[u8],
    ) -> Result<Attributes, Error> {
        let mut attributes = Attributes::default();
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let directories = std::iter::once(0).chain(ends.map(|(at, _)| at));
        for end in directories {
            let directory = &path[..end];
            if !named.0.contains_key(directory) {
                let text = self.attributes_in(branch, directory)?;
                named.0.insert(directory.to_vec(), text);
            }
            if let Some(Some(text)) = named.0.get(directory) {
                attributes.add(directory, text);
            }
        }
        Ok(attributes)
    }

    fn attributes_in(&self, branch: &Branch, directory: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let names = directory
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty());
        let mut at = Ino::ROOT;
        for name in names.chain([ATTRIBUTES]) {
            let name = Name::parse(name)?;
            match self.ask_undecided(|| branch.lookup(at, &name)) {
                Ok(found) => at = found,
                Err(Error::Refused(Refusal::NotFound | Refusal::NotDirectory)) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        self.whole_file(branch, at)
    }
}
