//! Objects that were given up and are still there.

use std::collections::BTreeMap;
use tenure_model::{Failure, Seq};
use tenure_store::pack::PackName;

/// What is to be deleted: by which record it was given up, and how long it is.
#[derive(Debug, Default)]
pub(crate) struct Doomed(BTreeMap<PackName, (Seq, u64)>);

impl Doomed {
    /// Begins with what owners before have given up and left.
    pub(crate) fn left(objects: impl IntoIterator<Item = (PackName, Seq)>) -> Self {
        let objects = objects.into_iter();
        Self(objects.map(|(name, seq)| (name, (seq, 0))).collect())
    }

    /// Adds what was given up by a record, or by one before it.
    pub(super) fn add(&mut self, name: PackName, seq: Seq, len: u64) {
        self.0.insert(name, (seq, len));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many bytes are still there, as far as that is known.
    pub(super) fn bytes(&self) -> u64 {
        self.0.values().map(|(_, len)| len).sum()
    }

    /// Deletes what was given up by records up to one; what cannot be deleted stays.
    pub(super) fn delete(&mut self, reached: Seq, delete: impl Fn(PackName) -> Result<(), Failure>) {
        self.0
            .retain(|name, (seq, _)| *seq > reached || delete(*name).is_err());
    }
}
