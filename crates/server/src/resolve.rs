//! Settling conflicts: what somebody has said is to be where a merge had kept two versions becomes so by a turn.
//!
//! The branch is changed by ops as anybody's is, so their rules hold. Invariant: nothing goes but what was said to.

use crate::drive::Inner;
use crate::state::permit::because;
use crate::turn::{Before, Goal};
use tenure_core::{Branch, Standing, Undecided};
use tenure_model::{AttrChange, ConflictKind, Ino, Name, Op, Refusal, RenameMode, Timestamp, Why, shown};
use tenure_wire::{Choice, Error, ResolveAsk, Turned, Who};

/// A path, where there is one.
type At = Option<Box<[u8]>>;

/// A name in a directory.
type Place = (Ino, Name);

/// A branch in which a conflict is settled.
struct Settling<'a> {
    inner: &'a Inner,
    branch: Branch,
    one: Standing,
    time: Timestamp,
}

impl Inner {
    pub(crate) fn resolve(&self, who: &Who, ask: &ResolveAsk) -> Result<Turned, Error> {
        let turned = self.turn(who, &ask.branch, "resolve", |before| {
            let Before { branch, .. } = before;
            let one = self.standing_at(branch, &ask.path)?;
            let mut settling = Settling {
                inner: self,
                branch: branch.clone(),
                one,
                time: self.options.clock.now(),
            };
            settling.settle(&ask.choice)?;
            Ok(Some(Goal {
                branch: settling.branch,
                inos: 0,
                why: Why::Resolved {
                    path: ask.path.clone(),
                },
            }))
        })?;
        turned.ok_or_else(|| because("nothing was changed").into())
    }

    /// Returns the first conflict at a path: as it was made, or where either side is now.
    fn standing_at(&self, branch: &Branch, path: &[u8]) -> Result<Standing, Error> {
        let is_at = |one: &Standing| {
            *one.conflict.path == *path
                || one.conflict.beside.as_deref() == Some(path)
                || one.ours.as_deref() == Some(path)
                || one.theirs.as_deref() == Some(path)
        };
        if let Some(one) = self.standing(branch)?.into_iter().find(is_at) {
            return Ok(one);
        }
        Err(because(&format!(
            "there is no conflict at {}; `tenure conflicts` lists those that there are",
            shown(path)
        ))
        .into())
    }
}

impl Settling<'_> {
    fn settle(&mut self, choice: &Choice) -> Result<(), Error> {
        let (ours, theirs) = (self.one.ours.clone(), self.one.theirs.clone());
        match choice {
            Choice::Both => {}
            Choice::Ours => self.take_ours(theirs)?,
            Choice::Theirs => self.take_theirs(ours, theirs)?,
            Choice::Bytes(bytes) => self.take_bytes((ours, theirs), bytes)?,
        }
        let number = self.one.number;
        let branch = &mut self.branch;
        Ok(self.inner.loader.ask(|| branch.forget_conflict(number))?)
    }

    fn take_ours(&mut self, theirs: At) -> Result<(), Error> {
        match theirs {
            // What is there of theirs is what ours has removed, or lies beside what ours has.
            Some(path) => self.remove(&path),
            None if self.one.conflict.kind == ConflictKind::DirectoryRemovedHere => {
                match self.one.ours.clone() {
                    Some(path) => self.remove(&path),
                    None => Ok(()),
                }
            }
            None => Ok(()),
        }
    }

    fn take_theirs(&mut self, ours: At, theirs: At) -> Result<(), Error> {
        let conflict = self.one.conflict.clone();
        match conflict.kind {
            ConflictKind::RemovedThere | ConflictKind::DirectoryRemovedThere => match ours {
                Some(path) => self.remove(&path),
                None => Ok(()),
            },
            ConflictKind::Moved | ConflictKind::Loop => {
                let (Some(from), Some(to)) = (ours, conflict.place) else {
                    return Err(gone("what the branch had is gone"));
                };
                self.rename(&from, &to, RenameMode::NoReplace)
            }
            ConflictKind::RemovedHere | ConflictKind::DirectoryRemovedHere => Ok(()),
            ConflictKind::Content | ConflictKind::Added | ConflictKind::Attributes => match (ours, theirs) {
                (_, None) if conflict.theirs == Ino(0) => Err(gone(
                    "of a directory's mode, owner and attributes the other line's are not kept; set them by hand",
                )),
                (_, None) => Err(gone("what the other line had is gone")),
                (Some(to), Some(from)) => self.rename(&from, &to, RenameMode::Replace),
                (None, Some(from)) if *from == *conflict.path => Ok(()),
                (None, Some(from)) => self.rename(&from, &conflict.path, RenameMode::NoReplace),
            },
        }
    }

    fn take_bytes(&mut self, (ours, theirs): (At, At), bytes: &[u8]) -> Result<(), Error> {
        let there = ours.as_ref().or(theirs.as_ref());
        let path = there.ok_or_else(|| gone("what either side had is gone"))?.clone();
        let (directory, name) = self.place(&path)?;
        let ino = self.ask(|branch| branch.lookup(directory, &name))?;
        let pieces = self.inner.pieces_of(bytes)?;
        self.inner.filling.seal_chunks()?;
        let change = AttrChange {
            size: Some(0),
            ..AttrChange::default()
        };
        let time = self.time;
        self.change(&Op::SetAttr { ino, change, time })?;
        let (size, time) = (bytes.len() as u64, Some(self.time));
        self.change(&Op::Write {
            ino,
            pieces,
            size,
            time,
        })?;
        match (ours, theirs) {
            (Some(_), Some(beside)) => self.remove(&beside),
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }

    fn remove(&mut self, path: &[u8]) -> Result<(), Error> {
        let (parent, name) = self.place(path)?;
        let ino = self.ask(|branch| branch.lookup(parent, &name))?;
        let is_directory =
            self.ask(|branch| Ok(branch.attr(ino)?.is_some_and(|attr| attr.is_directory())))?;
        let time = self.time;
        let op = if is_directory {
            Op::Rmdir { parent, name, time }
        } else {
            Op::Unlink { parent, name, time }
        };
        match self.change(&op) {
            Err(Error::Refused(Refusal::NotEmpty)) => Err(because(&format!(
                "{} is a directory and not empty; remove what is in it by hand, then settle the conflict with `--both`",
                shown(path)
            ))
            .into()),
            done => done,
        }
    }

    fn rename(&mut self, from: &[u8], to: &[u8], mode: RenameMode) -> Result<(), Error> {
        let ((from_directory, name), (to_directory, new_name)) = (self.place(from)?, self.place(to)?);
        let op = Op::Rename {
            from: from_directory,
            name,
            to: to_directory,
            new_name,
            mode,
            time: self.time,
        };
        match self.change(&op) {
            Err(Error::Refused(refusal)) => Err(because(&format!(
                "{} cannot become {}: {refusal}; move it by hand, then settle the conflict with `--both`",
                shown(from),
                shown(to)
            ))
            .into()),
            done => done,
        }
    }

    /// Returns the directory and the name that a path ends in.
    fn place(&self, path: &[u8]) -> Result<Place, Error> {
        let mut names: Vec<Name> = Vec::new();
        for name in path.split(|byte| *byte == b'/') {
            names.push(Name::parse(name)?);
        }
        let last = names.pop().ok_or(Refusal::InvalidName)?;
        let mut directory = Ino::ROOT;
        for name in names {
            directory = self.ask(|branch| branch.lookup(directory, &name))?;
        }
        Ok((directory, last))
    }

    fn change(&mut self, op: &Op) -> Result<(), Error> {
        self.inner.loader.change(&mut self.branch, op)
    }

    /// Asks until no page is missing.
    fn ask<R>(&self, question: impl Fn(&Branch) -> Result<R, Undecided>) -> Result<R, Error> {
        self.inner.ask_undecided(|| question(&self.branch))
    }
}

/// Refuses what needs something that is gone.
fn gone(why: &str) -> Error {
    because(&format!(
        "{why}; put there what is to be, then settle the conflict with `--both`"
    ))
    .into()
}
