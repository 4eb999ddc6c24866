//! Keeping both: what does not fit is kept beside what the branch has, and noted in the tree.

use super::version::Version;
use super::{Late, Merge, Notes, Settled};
use crate::tree::Missing;
use tenure_model::codec::Codec;
use tenure_model::limits::NAME_LEN_MAX;
use tenure_model::{Attr, Conflict, ConflictKind, Ino, Name, What};

/// Names that are tried for what is kept beside something.
const NAMES_MAX: u32 = 10_000;

/// What is known of a conflict where it is found: its kind, its path, and what the branch has.
type Met = (ConflictKind, Box<[u8]>, Ino);

impl Merge {
    /// Makes one of two versions of a file, or keeps both.
    pub(super) fn settle_late(
        &mut self,
        late: &Late,
        settled: &Settled,
        step: &mut Notes,
    ) -> Result<(), Missing> {
        let path = self.path_in(late.ours, None, step)?;
        let Settled::Merged { driver, pieces, size } = settled else {
            return self.keep_beside((late.kind, path, late.ours), &late.theirs, step);
        };
        let Some(mut attr) = self.draft.attr(late.ours)? else {
            return Ok(());
        };
        self.draft.put_content((late.ours, &mut attr), pieces, *size)?;
        (attr.mtime, attr.ctime) = (self.terms.time, self.terms.time);
        self.draft.put_attr(late.ours, &attr);
        if late.fits {
            step.tell(path, What::Merged(driver.clone()));
            return Ok(());
        }
        self.keep_beside((ConflictKind::Attributes, path, late.ours), &late.theirs, step)
    }

    /// Keeps a version of theirs beside what the branch has.
    fn keep_beside(&mut self, met: Met, theirs: &Version, step: &mut Notes) -> Result<(), Missing> {
        let Some((directory, name)) = self.place(met.2, step)? else {
            self.note_conflict(met, None, step);
            return Ok(());
        };
        let number = self.number(theirs.ino, step)?;
        let attr = Attr {
            nlink: 0,
            parent: Ino(0),
            ..theirs.attr
        };
        self.draft
            .take_inode((&self.theirs.branch, theirs.ino), number, &attr)?;
        let name = self.name_beside(directory, &name)?;
        self.name_file((directory, &name), number, step)?;
        self.note_beside(met, (number, name, directory), step)
    }

    /// Returns a free name that says whose version of something it is.
    pub(super) fn name_beside(&self, directory: Ino, name: &Name) -> Result<Name, Missing> {
        let mut number = 1;
        loop {
            let mut end = format!("~{}", self.terms.from);
            if number > 1 {
                end.push_str(&format!("~{number}"));
            }
            let begin = name.as_bytes();
            let begin = &begin[..begin.len().min(NAME_LEN_MAX - end.len().min(NAME_LEN_MAX - 1))];
            let beside = [begin, end.as_bytes()].concat();
            let parsed = Name::parse(&beside).unwrap_or_else(|_| name.clone());
            let is_free = self.draft.find(directory, parsed.as_bytes())?.is_none();
            if is_free || number >= NAMES_MAX {
                return Ok(parsed);
            }
            number += 1;
        }
    }

    /// Notes that something of theirs is kept beside what the branch has.
    pub(super) fn note_beside(
        &mut self,
        (kind, path, ours): Met,
        (theirs, name, directory): (Ino, Name, Ino),
        step: &mut Notes,
    ) -> Result<(), Missing> {
        let beside = self.path_in(directory, Some(name.as_bytes()), step)?;
        let conflict = Conflict {
            kind,
            path,
            beside: Some(beside),
            ours,
            theirs,
            place: None,
            from: self.terms.from.clone(),
        };
        self.note(conflict, step);
        Ok(())
    }

    /// Notes a conflict in which nothing of theirs is kept; `place` is where theirs has it.
    pub(super) fn note_conflict(
        &mut self,
        (kind, path, ours): Met,
        place: Option<Box<[u8]>>,
        step: &mut Notes,
    ) {
        let conflict = Conflict {
            kind,
            path,
            beside: None,
            ours,
            theirs: Ino(0),
            place,
            from: self.terms.from.clone(),
        };
        self.note(conflict, step);
    }

    /// Notes that something of theirs is there which the branch had removed.
    pub(super) fn note_theirs(
        &mut self,
        (kind, path): (ConflictKind, Box<[u8]>),
        theirs: Ino,
        step: &mut Notes,
    ) {
        let conflict = Conflict {
            kind,
            path,
            beside: None,
            ours: Ino(0),
            theirs,
            place: None,
            from: self.terms.from.clone(),
        };
        self.note(conflict, step);
    }

    fn note(&mut self, conflict: Conflict, step: &mut Notes) {
        // A number that no inode has, nor another conflict.
        let number = self.fresh(step);
        self.draft.put_conflict(number, Some(conflict.written()));
        step.conflicts += 1;
        step.tell(conflict.path, What::Conflicted(conflict.kind));
    }
}
