//! Grafting: what differs between two states at some paths is made so in another state, by ops as anybody's are.
//!
//! Invariant: nothing changes but what differs at those paths, and the directories above them that were not there; an inode keeps its
//! number where no other has it.

use crate::drive::Inner;
use crate::state::permit::because;
use std::collections::BTreeSet;
use tenure_core::{Branch, Diff, Undecided};
use tenure_model::{
    Attr, AttrChange, Difference, Ino, Kind, Name, NewNode, Op, Refusal, RenameMode, Side, Timestamp,
    XattrMode, XattrName, shown,
};
use tenure_wire::Error;

/// A state that becomes at some paths what another is.
pub(crate) struct Graft<'a> {
    inner: &'a Inner,
    pub(crate) branch: Branch,
    from: &'a Branch,
    time: Timestamp,
    /// The next number for an inode whose own another has, and how many were taken.
    next: Ino,
    pub(crate) taken: u64,
}

impl<'a> Graft<'a> {
    /// Begins with `branch`, which is to have what `from` has.
    pub(crate) fn new(inner: &'a Inner, branch: Branch, from: &'a Branch, next: Ino) -> Self {
        Self {
            inner,
            branch,
            from,
            time: inner.options.clock.now(),
            next,
            taken: 0,
        }
    }

    /// Makes it so at and below each of some paths.
    pub(crate) fn graft(&mut self, paths: &[Box<[u8]>]) -> Result<(), Error> {
        let mut left = Vec::new();
        for path in paths {
            left.extend(self.differences(path)?);
        }
        if left.is_empty() {
            return Err(because("nothing differs at these paths").into());
        }
        left.sort_by(|one: &Difference, other: &Difference| one.path.cmp(&other.path));
        left.dedup_by(|one, other| one.path == other.path);
        // What stands in the way of another goes first: so each is tried until none can be done any more.
        while !left.is_empty() {
            let count = left.len();
            let mut rest = Vec::new();
            let mut refused = None;
            for one in left {
                let before = (self.branch.clone(), self.taken);
                match self.make(&one) {
                    Ok(()) => {}
                    Err(Error::Refused(refusal)) => {
                        (self.branch, self.taken) = before;
                        refused = Some(refusal);
                        rest.push(one);
                    }
                    Err(failed) => return Err(failed),
                }
            }
            if let Some(refusal) = refused.filter(|_| rest.len() == count) {
                let path = shown(&rest[0].path);
                let why = format!(
                    "{path} cannot be taken by itself: {refusal}; take what it belongs to as well, or all"
                );
                return Err(because(&why).into());
            }
            left = rest;
        }
        Ok(())
    }

    fn differences(&self, path: &[u8]) -> Result<Vec<Difference>, Error> {
        let (mut all, mut behind) = (Vec::new(), Some(Ino(0)));
        while let Some(ino) = behind {
            let mut diff = Diff::new(self.branch.clone(), self.from.clone(), path, ino);
            self.inner.loader.ask(|| diff.go_on())?;
            let (found, next) = diff.answer();
            all.extend(found);
            behind = next;
        }
        Ok(all)
    }

    fn make(&mut self, one: &Difference) -> Result<(), Error> {
        if one.path.is_empty() {
            let side = one.after.as_ref().ok_or(Refusal::NotFound)?;
            return self.become_as(Ino::ROOT, side);
        }
        match (&one.before, &one.after) {
            (None, None) => Ok(()),
            (Some(before), None) => self.remove(&one.path, before),
            (None, Some(after)) => self.create(&one.path, after),
            (Some(before), Some(after)) => {
                if let Some(from) = &one.moved_from {
                    self.rename(from, &one.path)?;
                }
                if before.ino == after.ino {
                    return self.become_as(before.ino, after);
                }
                self.remove(&one.path, before)?;
                self.create(&one.path, after)
            }
        }
    }

    fn create(&mut self, path: &[u8], side: &Side) -> Result<(), Error> {
        let (parent, name) = self.place(path)?;
        let time = self.time;
        let is_known = |branch: &Branch| Ok(branch.attr(side.ino)?.is_some_and(|attr| attr.nlink > 0));
        if side.attr.nlink > 1 && !side.attr.is_directory() && self.ask(is_known)? {
            let ino = side.ino;
            return self.change(&Op::Link {
                ino,
                parent,
                name,
                time,
            });
        }
        let is_there = self.ask(|branch| Ok(branch.attr(side.ino)?.is_some()))?;
        let ino = match is_there {
            false => side.ino,
            true => {
                let ino = Ino(self.next.0 + self.taken);
                self.taken += 1;
                ino
            }
        };
        let attr = &side.attr;
        let node = NewNode {
            kind: attr.kind,
            mode: attr.mode,
            umask: 0,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev,
            target: side.target.clone(),
        };
        self.change(&Op::Create {
            parent,
            name,
            ino,
            node,
            time,
        })?;
        self.become_as(ino, side)
    }

    /// Lets an inode have the content and attributes that another has in the other state.
    fn become_as(&mut self, ino: Ino, side: &Side) -> Result<(), Error> {
        let (attr, time) = (&side.attr, self.time);
        if attr.kind == Kind::File {
            let from = self.from;
            let pieces = self.inner.loader.ask(|| from.pieces(side.ino, 0, attr.size))?;
            let size = Some(0);
            let change = AttrChange {
                size,
                ..AttrChange::default()
            };
            self.change(&Op::SetAttr { ino, change, time })?;
            self.change(&Op::Write {
                ino,
                pieces,
                size: attr.size,
                time: Some(time),
            })?;
        }
        let change = AttrChange {
            mode: (attr.kind != Kind::Symlink).then_some(attr.mode),
            uid: Some(attr.uid),
            gid: Some(attr.gid),
            size: None,
            atime: Some(attr.atime),
            mtime: Some(attr.mtime),
        };
        self.change(&Op::SetAttr { ino, change, time })?;
        // A change of owner takes capabilities away, so they come after it.
        self.take_xattrs(ino, side.ino)
    }

    fn take_xattrs(&mut self, ino: Ino, from: Ino) -> Result<(), Error> {
        let names = |branch: &Branch, ino| {
            let mut names = BTreeSet::new();
            branch.xattrs(ino, |name| {
                names.insert(name.to_vec());
            })?;
            Ok(names)
        };
        let wanted = self.ask_there(|branch| names(branch, from))?;
        let there = self.ask(|branch| names(branch, ino))?;
        let time = self.time;
        for name in there.difference(&wanted) {
            let name = XattrName::parse(name)?;
            self.change(&Op::RemoveXattr { ino, name, time })?;
        }
        for name in &wanted {
            let value = self.ask_there(|branch| branch.xattr(from, name))?;
            let (name, mode) = (XattrName::parse(name)?, XattrMode::Set);
            self.change(&Op::SetXattr {
                ino,
                name,
                value,
                mode,
                time,
            })?;
        }
        Ok(())
    }

    fn remove(&mut self, path: &[u8], side: &Side) -> Result<(), Error> {
        let (parent, name) = self.place(path)?;
        let time = self.time;
        if side.attr.is_directory() {
            return self.change(&Op::Rmdir { parent, name, time });
        }
        self.change(&Op::Unlink { parent, name, time })?;
        let attr: Option<Attr> = self.ask(|branch| Ok(branch.attr(side.ino)?))?;
        match attr.filter(|attr| attr.nlink == 0) {
            Some(_) => self.change(&Op::Drop { ino: side.ino }),
            None => Ok(()),
        }
    }

    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), Error> {
        let ((from, name), (to, new_name)) = (self.place(from)?, self.place(to)?);
        self.change(&Op::Rename {
            from,
            name,
            to,
            new_name,
            mode: RenameMode::NoReplace,
            time: self.time,
        })
    }

    /// Returns the directory and the name that a path ends in; directories above it are made as they are there.
    fn place(&mut self, path: &[u8]) -> Result<(Ino, Name), Error> {
        let mut names = Vec::new();
        for name in path.split(|byte| *byte == b'/') {
            names.push(Name::parse(name)?);
        }
        let last = names.pop().ok_or(Refusal::InvalidName)?;
        let (mut directory, mut there, mut above) = (Ino::ROOT, Ino::ROOT, Vec::new());
        for name in names {
            if !above.is_empty() {
                above.push(b'/');
            }
            above.extend_from_slice(name.as_bytes());
            there = self
                .ask_there(|branch| branch.lookup(there, &name))
                .unwrap_or(Ino(0));
            directory = match self.ask(|branch| branch.lookup(directory, &name)) {
                Err(Error::Refused(Refusal::NotFound)) if there != Ino(0) => {
                    let attr =
                        self.ask_there(|branch| Ok(branch.attr(there)?.ok_or(Refusal::NotFound)?))?;
                    let target = Box::default();
                    self.create(
                        &above.clone(),
                        &Side {
                            ino: there,
                            attr,
                            target,
                        },
                    )?;
                    self.ask(|branch| branch.lookup(directory, &name))?
                }
                found => found?,
            };
        }
        Ok((directory, last))
    }

    fn change(&mut self, op: &Op) -> Result<(), Error> {
        self.inner.loader.change(&mut self.branch, op)
    }

    fn ask<R>(&self, question: impl Fn(&Branch) -> Result<R, Undecided>) -> Result<R, Error> {
        self.inner.ask_undecided(|| question(&self.branch))
    }

    fn ask_there<R>(&self, question: impl Fn(&Branch) -> Result<R, Undecided>) -> Result<R, Error> {
        self.inner.ask_undecided(|| question(self.from))
    }
}
