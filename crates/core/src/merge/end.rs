//! The end of a merge: directories that are empty now go, inodes without an entry go, and the conflicts of the other line are taken over.

use super::version::Version;
use super::{Merge, Notes};
use crate::key::{Key, Named};
use crate::tree::Missing;
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use tenure_model::{ConflictKind, Ino, What};

/// The record of a conflict in theirs: its number, what it was in the base, and what it is.
#[derive(Clone)]
pub(super) struct Row {
    number: Ino,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
}

impl Merge {
    /// Removes the directories that theirs has removed, if nothing is in them; those below before those above.
    pub(super) fn remove_directories(&mut self) -> Result<(), Missing> {
        let mut is_progress = true;
        while std::mem::take(&mut is_progress) {
            for at in (0..self.notes.removed.len()).rev() {
                let ino = self.notes.removed[at];
                if self.step(|merge, step| merge.remove_directory(ino, step))? {
                    self.notes.removed.remove(at);
                    is_progress = true;
                }
            }
        }
        let left: BTreeSet<Ino> = self.notes.removed.iter().copied().collect();
        let mut above = BTreeSet::new();
        for ino in &left {
            above.extend(self.draft.attr(*ino)?.map(|attr| attr.parent));
        }
        let taken: BTreeSet<Ino> = self.notes.alias.values().copied().collect();
        while let Some(ino) = self.notes.removed.pop() {
            // Whoever keeps one keeps those above.
            if above.contains(&ino) || taken.contains(&ino) {
                continue;
            }
            let noted = self.step(|merge, step| {
                let path = merge.path_in(ino, None, step)?;
                merge.note_conflict((ConflictKind::DirectoryRemovedThere, path, ino), None, step);
                Ok(())
            });
            if noted.is_err() {
                self.notes.removed.push(ino);
            }
            noted?;
        }
        Ok(())
    }

    /// Removes a directory if it is empty; tells whether it is gone.
    fn remove_directory(&mut self, ino: Ino, step: &mut Notes) -> Result<bool, Missing> {
        let Some(attr) = self.draft.attr(ino)? else {
            return Ok(true);
        };
        let is_taken = self.notes.alias.values().any(|taken| *taken == ino);
        if attr.size > 0 || is_taken {
            return Ok(false);
        }
        let path = self.path_in(ino, None, step)?;
        let Some((directory, name)) = self.place(ino, step)? else {
            return Ok(false);
        };
        if let Some(found) = self.draft.find(directory, name.as_bytes())? {
            let time = self.terms.time;
            self.draft
                .remove_entry(directory, (found.cookie, true), Some(time))?;
        }
        self.draft.drop_inode(ino)?;
        step.tell(path, What::Removed);
        Ok(true)
    }

    /// Drops the inodes that have lost their last entry.
    pub(super) fn drop_unlinked(&mut self) -> Result<(), Missing> {
        while let Some(ino) = self.notes.unlinked.first().copied() {
            self.step(|merge, _| {
                if merge.draft.attr(ino)?.is_some_and(|attr| attr.nlink == 0) {
                    merge.draft.drop_inode(ino)?;
                }
                Ok(())
            })?;
            self.notes.unlinked.remove(&ino);
        }
        Ok(())
    }

    /// Gives directories that only theirs has changed the times that they have there.
    pub(super) fn settle_times(&mut self) -> Result<(), Missing> {
        while let Some(ino) = self.touched.last().copied() {
            self.step(|merge, _| merge.settle_times_of(ino))?;
            self.touched.pop();
        }
        Ok(())
    }

    fn settle_times_of(&mut self, ino: Ino) -> Result<(), Missing> {
        let (base, ours) = (
            Version::of(&mut self.base, ino)?,
            Version::of(&mut self.ours, ino)?,
        );
        let theirs = Version::of(&mut self.theirs, ino)?.filter(Version::is_directory);
        let (Some(base), Some(ours), Some(theirs)) = (base, ours, theirs) else {
            return Ok(());
        };
        let Some(mut attr) = self.draft.attr(ino)?.filter(|_| base.attr == ours.attr) else {
            return Ok(());
        };
        let there = theirs.attr;
        (attr.atime, attr.mtime, attr.ctime) = (there.atime, there.mtime, there.ctime);
        self.draft.put_attr(ino, &attr);
        Ok(())
    }

    /// Takes the conflicts that theirs has noted, and lets those go that it has settled.
    pub(super) fn take_conflicts(&mut self) -> Result<(), Missing> {
        if self.settled.is_none() {
            self.settled = Some(self.conflicts_of_theirs()?);
        }
        while let Some(row) = self.settled.as_ref().and_then(|rows| rows.last()).cloned() {
            self.step(|merge, _| {
                let is_there = merge.draft.has_conflict(row.number)?;
                let is_new = row.before.is_none() && !is_there;
                let is_settled = row.after.is_none() && is_there;
                if is_new || is_settled {
                    merge.draft.put_conflict(row.number, row.after);
                }
                Ok(())
            })?;
            self.settled.as_mut().map(Vec::pop);
        }
        Ok(())
    }

    fn conflicts_of_theirs(&self) -> Result<Vec<Row>, Missing> {
        let mut rows = Vec::new();
        let (before, after) = (&self.base.branch.tree, &self.theirs.branch.tree);
        let from = Key::conflict(Ino(0));
        before.diff(after, Bound::Included(&from), |key, before, after| {
            if let Some(Named::Conflict(number)) = Named::parse(key) {
                rows.push(Row {
                    number,
                    before: before.map(<[u8]>::to_vec),
                    after: after.map(<[u8]>::to_vec),
                });
            }
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }
}
