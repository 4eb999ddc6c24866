//! Which inodes the kernel knows, and how often it was told of each.

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use tenure_model::Ino;

/// Counts of lookups that the kernel has not taken back.
#[derive(Default)]
pub(super) struct Known(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    lookups: FxHashMap<Ino, u64>,
    orphans: FxHashSet<Ino>,
}

impl Known {
    /// Counts one lookup.
    pub(super) fn add(&self, ino: Ino) {
        *self.0.lock().lookups.entry(ino).or_default() += 1;
    }

    /// Counts a lookup of each.
    pub(super) fn add_all(&self, inos: &[Ino]) {
        let mut counts = self.0.lock();
        for ino in inos {
            *counts.lookups.entry(*ino).or_default() += 1;
        }
    }

    /// Returns all that the kernel knows.
    pub(super) fn all(&self) -> Vec<Ino> {
        self.0.lock().lookups.keys().copied().collect()
    }

    /// Tells whether the kernel knows an inode.
    pub(super) fn has(&self, ino: Ino) -> bool {
        self.0.lock().lookups.contains_key(&ino)
    }

    /// Notes that an inode has no entry; false when the kernel does not know it.
    pub(super) fn orphan(&self, ino: Ino) -> bool {
        let mut counts = self.0.lock();
        let known = counts.lookups.contains_key(&ino);
        if known {
            counts.orphans.insert(ino);
        }
        known
    }

    /// Notes that an inode has an entry again.
    pub(super) fn adopt(&self, ino: Ino) {
        self.0.lock().orphans.remove(&ino);
    }

    /// Takes lookups back; true when an inode without entries is known no longer.
    pub(super) fn forget(&self, ino: Ino, lookups: u64) -> bool {
        let mut counts = self.0.lock();
        let Some(count) = counts.lookups.get_mut(&ino) else {
            return false;
        };
        *count = count.saturating_sub(lookups);
        if *count > 0 {
            return false;
        }
        counts.lookups.remove(&ino);
        counts.orphans.remove(&ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orphan_ends_with_its_last_lookup() {
        let known = Known::default();
        known.add(Ino(7));
        known.add_all(&[Ino(7), Ino(8)]);
        assert!(known.orphan(Ino(7)));
        assert!(!known.orphan(Ino(9)));
        assert!(!known.forget(Ino(7), 1));
        assert!(known.forget(Ino(7), 1));
        assert!(!known.forget(Ino(8), 1));
    }

    #[test]
    fn an_orphan_that_got_an_entry_stays() {
        let known = Known::default();
        known.add(Ino(7));
        assert!(known.orphan(Ino(7)));
        known.adopt(Ino(7));
        assert!(!known.forget(Ino(7), 1));
    }
}
