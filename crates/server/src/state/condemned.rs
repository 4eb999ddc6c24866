//! What was given up: objects of packs that no later record names.
//!
//! Invariant: what was condemned stays so, also when its object is gone: one that comes late is known for what it is.

use super::{State, row};
use tenure_model::{PackObject, Reclaimed, Seq};
use tenure_store::pack::PackName;

impl State {
    /// Tells whether an object of a pack was given up.
    pub(crate) fn is_condemned(&self, name: PackName) -> bool {
        self.row::<u64>(&row::condemned_key(object(name))).is_some()
    }

    /// Returns the objects that were given up, and each one's record.
    pub(crate) fn condemned(&self) -> Vec<(PackName, Seq)> {
        let all = self.all::<u64, _>(row::CONDEMNED_ONES, row::condemned_of);
        all.into_iter()
            .map(|(object, seq)| (name(object), Seq(seq)))
            .collect()
    }

    /// Returns how much was given up since the drive was made, if anything was.
    pub(crate) fn reclaimed(&self) -> Option<Reclaimed> {
        self.row(&row::reclaimed_key())
    }

    pub(super) fn condemn(&mut self, objects: &[PackObject]) {
        let seq = self.applied.0;
        for object in objects {
            let key = row::condemned_key(*object);
            if self.row::<u64>(&key).is_none() {
                self.put(&key, &seq);
            }
        }
    }

    pub(super) fn note_reclaimed(&mut self, reclaimed: Reclaimed) {
        let before = self.reclaimed();
        let all = before.map_or(reclaimed, |before| before.and(reclaimed));
        self.put(&row::reclaimed_key(), &all);
    }
}

/// Returns an object as records name it.
pub(crate) fn object(name: PackName) -> PackObject {
    PackObject {
        pack: name.number,
        tag: name.tag,
    }
}

fn name(object: PackObject) -> PackName {
    PackName {
        number: object.pack,
        tag: object.tag,
    }
}
