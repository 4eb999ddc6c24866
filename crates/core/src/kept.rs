//! What a state keeps of the one before it for those who have it open, though it has no place for it.

use crate::branch::Branch;
use crate::key::Key;
use crate::tree::Missing;
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use tenure_model::Ino;
use tenure_model::codec::Codec;

impl Branch {
    /// Returns the branch with those inodes of `before` that it lacks and some have open, each without an entry. No directory is
    /// kept: who only stands in one has nothing open.
    pub fn with_kept(&self, before: &Branch, open: &BTreeSet<Ino>) -> Result<Branch, Missing> {
        let mut kept = self.clone();
        for ino in open {
            if self.attr(*ino)?.is_none() {
                kept.keep(before, *ino)?;
            }
        }
        Ok(kept)
    }

    fn keep(&mut self, before: &Branch, ino: Ino) -> Result<(), Missing> {
        let Some(mut attr) = before.attr(ino)?.filter(|attr| !attr.is_directory()) else {
            return Ok(());
        };
        let mut rows = Vec::new();
        let ranges = [
            (Key::attr(ino), Key::entries_end(ino)),
            (Key::extent(ino, 0), Key::extents_end(ino)),
        ];
        for (from, to) in ranges {
            let (from, to) = (Bound::Included(&*from), Bound::Excluded(&*to));
            before.tree.scan(from, to, |key, value| {
                rows.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })?;
        }
        for (key, value) in rows {
            self.tree.insert(&key, &value)?;
        }
        attr.nlink = 0;
        attr.parent = Ino(0);
        self.tree.insert(&Key::attr(ino), &attr.written())?;
        self.tree.insert(&Key::orphan(ino), &[])?;
        self.totals.inodes += 1;
        self.totals.bytes += attr.allocated;
        Ok(())
    }
}
