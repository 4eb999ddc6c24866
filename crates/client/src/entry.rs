//! Names and inodes: what is looked up, listed, made, moved and removed.

use crate::branch::{Branch, Inner, State};
use std::cell::Cell;
use std::ops::ControlFlow;
use tenure_core::{DirEntry, Outcome, Undecided};
use tenure_model::{Attr, AttrChange, Ino, Name, NewNode, Op, Refusal, RenameMode, XattrMode, XattrName};
use tenure_wire::Error;

impl State {
    /// Returns an inode's attributes as its user sees them: with what is staged.
    pub(crate) fn attr(&self, ino: Ino) -> Result<Attr, Undecided> {
        let attr = self.branch.attr(ino)?.ok_or(Refusal::NotFound)?;
        Ok(self.with_stage(ino, attr))
    }

    fn with_stage(&self, ino: Ino, mut attr: Attr) -> Attr {
        if let Some(file) = self.stage.file(ino) {
            attr.size = attr.size.max(file.end());
            attr.allocated = (attr.allocated + file.len()).min(attr.size.max(attr.allocated));
            if let Some(time) = file.time {
                attr.mtime = time;
                attr.ctime = attr.ctime.max(time);
            }
        }
        attr
    }

    fn outcome(&self, outcome: Outcome) -> Outcome {
        let inode = outcome.inode.map(|(ino, attr)| (ino, self.with_stage(ino, attr)));
        Outcome { inode, ..outcome }
    }
}

impl Branch {
    /// Returns an inode's attributes.
    pub fn attr(&self, ino: Ino) -> Result<Attr, Error> {
        self.inner.read(|state| state.attr(ino))
    }

    /// Returns the inode that a name names, and its attributes.
    pub fn lookup(&self, parent: Ino, name: &Name) -> Result<(Ino, Attr), Error> {
        self.inner.read(|state| {
            let ino = state.branch.lookup(parent, name)?;
            Ok((ino, state.attr(ino)?))
        })
    }

    /// Returns the inode that a name names.
    pub(crate) fn find(&self, parent: Ino, name: &Name) -> Result<Ino, Error> {
        self.inner.read(|state| state.branch.lookup(parent, name))
    }

    /// Returns the directory above a directory.
    pub fn parent(&self, ino: Ino) -> Result<Ino, Error> {
        Ok(self.attr(ino)?.parent)
    }

    /// Visits the entries behind a cookie, from an empty `list` again whenever a page was missing. Attributes come along as
    /// far as they are asked for and few pages are missing for them: those of many entries may lie far apart.
    pub fn list<L>(
        &self,
        parent: Ino,
        after: u64,
        with_attrs: bool,
        list: impl Fn() -> L,
        visit: impl Fn(&mut L, DirEntry<'_>, Option<&Attr>) -> ControlFlow<()>,
    ) -> Result<L, Error> {
        /// Pages that one call loads for attributes.
        const LOADS_MAX: u32 = 16;
        let loads = Cell::new(0);
        self.inner.noted.note(parent, 0, 1);
        self.inner.read(|state| {
            let mut listed = list();
            let mut failed = None;
            state.branch.list(parent, after, |entry| {
                let attr = match with_attrs.then(|| state.attr(entry.ino)).transpose() {
                    Err(Undecided::Missing(_)) if loads.get() == LOADS_MAX => None,
                    Ok(attr) => attr,
                    Err(undecided) => {
                        failed = Some(undecided);
                        return ControlFlow::Break(());
                    }
                };
                visit(&mut listed, entry, attr.as_ref())
            })?;
            loads.set(loads.get() + u32::from(failed.is_some()));
            failed.map_or(Ok(listed), Err)
        })
    }

    /// Returns a symlink's target.
    pub fn target(&self, ino: Ino) -> Result<Box<[u8]>, Error> {
        self.inner.read(|state| state.branch.target(ino))
    }

    /// Makes an inode with an entry.
    pub fn create(&self, parent: Ino, name: &Name, node: &NewNode) -> Result<(Ino, Attr), Error> {
        self.inner.make(|ino| Op::Create {
            parent,
            name: name.clone(),
            ino,
            node: node.clone(),
            time: self.inner.now(),
        })
    }

    /// Makes a file without an entry.
    pub fn create_unnamed(&self, parent: Ino, node: &NewNode) -> Result<(Ino, Attr), Error> {
        self.inner.make(|ino| Op::CreateUnnamed {
            parent,
            ino,
            node: node.clone(),
            time: self.inner.now(),
        })
    }

    /// Makes another entry for an inode.
    pub fn link(&self, ino: Ino, parent: Ino, name: &Name) -> Result<Attr, Error> {
        let op = Op::Link {
            ino,
            parent,
            name: name.clone(),
            time: self.inner.now(),
        };
        self.inner.change(&op, |state, outcome| {
            state.note_name(ino);
            state
                .outcome(outcome)
                .inode
                .expect("a link answers with its inode")
                .1
        })
    }

    /// Removes an entry that names no directory; tells which inode has no entry any more.
    pub fn unlink(&self, parent: Ino, name: &Name) -> Result<Outcome, Error> {
        let op = Op::Unlink {
            parent,
            name: name.clone(),
            time: self.inner.now(),
        };
        self.inner.change(&op, |_, outcome| outcome)
    }

    /// Removes an empty directory; tells which inode has no entry any more.
    pub fn rmdir(&self, parent: Ino, name: &Name) -> Result<Outcome, Error> {
        let op = Op::Rmdir {
            parent,
            name: name.clone(),
            time: self.inner.now(),
        };
        self.inner.change(&op, |_, outcome| outcome)
    }

    /// Moves an entry; tells which inode has no entry any more. `Whiteout` takes any number: the right one is put here.
    pub fn rename(
        &self,
        (from, name): (Ino, &Name),
        (to, new_name): (Ino, &Name),
        mode: RenameMode,
    ) -> Result<Outcome, Error> {
        let inner = &self.inner;
        let rename = |mode| Op::Rename {
            from,
            name: name.clone(),
            to,
            new_name: new_name.clone(),
            mode,
            time: inner.now(),
        };
        let note = |state: &mut State, outcome: Outcome| {
            if let Some((ino, _)) = outcome.inode {
                state.note_name(ino);
            }
            if mode == RenameMode::Exchange {
                state.note_exchanged(from, name);
            }
            outcome
        };
        match mode {
            RenameMode::Whiteout(_) => inner.make_with(|ino| rename(RenameMode::Whiteout(ino)), note),
            RenameMode::Replace | RenameMode::NoReplace | RenameMode::Exchange => {
                inner.change(&rename(mode), note)
            }
        }
    }

    /// Changes attributes; a new size cuts what is staged as well.
    pub fn set_attr(&self, ino: Ino, change: &AttrChange) -> Result<Attr, Error> {
        if change.size.is_some_and(|size| size > 0) {
            self.inner.settle(ino)?;
        }
        let op = Op::SetAttr {
            ino,
            change: *change,
            time: self.inner.now(),
        };
        let and = |state: &mut State, outcome| {
            // From here on the tree says what the times are, not the write before.
            if let Some(file) = state.stage.file_mut(ino)
                && (change.mtime.is_some() || change.size.is_some())
            {
                file.time = None;
            }
            state
                .outcome(outcome)
                .inode
                .expect("a change of attributes answers with its inode")
                .1
        };
        match change.size {
            Some(0) => self.inner.change_and_discard(ino, &op, and),
            Some(_) | None => self.inner.change(&op, and),
        }
    }

    /// Returns an extended attribute.
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Box<[u8]>, Error> {
        self.inner.read(|state| state.branch.xattr(ino, name))
    }

    /// Returns the names of an inode's extended attributes, each followed by a NUL.
    pub fn xattrs(&self, ino: Ino) -> Result<Vec<u8>, Error> {
        self.inner.read(|state| {
            let mut names = Vec::new();
            state.branch.xattrs(ino, |name| {
                names.extend_from_slice(name);
                names.push(0);
            })?;
            Ok(names)
        })
    }

    /// Sets an extended attribute.
    pub fn set_xattr(&self, ino: Ino, name: XattrName, value: &[u8], mode: XattrMode) -> Result<(), Error> {
        let op = Op::SetXattr {
            ino,
            name,
            value: value.into(),
            mode,
            time: self.inner.now(),
        };
        self.inner.change(&op, |_, _| ())
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(&self, ino: Ino, name: XattrName) -> Result<(), Error> {
        let op = Op::RemoveXattr {
            ino,
            name,
            time: self.inner.now(),
        };
        self.inner.change(&op, |_, _| ())
    }

    /// Forgets an inode that has no entry and that nobody has open any more.
    pub fn drop_orphan(&self, ino: Ino) -> Result<(), Error> {
        self.inner.drop_orphan(ino)
    }
}

impl State {
    /// Notes that an inode got a name: bytes of it that are staged go out with that name, or before it.
    fn note_name(&mut self, ino: Ino) {
        if self.stage.file(ino).is_some() {
            self.log.named.insert(ino);
        }
    }

    /// Notes the inode that an exchange has put where the other one was.
    fn note_exchanged(&mut self, parent: Ino, name: &Name) {
        match self.branch.lookup(parent, name) {
            Ok(ino) => self.note_name(ino),
            // Its page has just gone from memory: any of them may be the one.
            Err(_) => self.log.named.extend(self.stage.files()),
        }
    }
}

impl Inner {
    pub(crate) fn drop_orphan(&self, ino: Ino) -> Result<(), Error> {
        self.change_and_discard(ino, &Op::Drop { ino }, |_, _| ())
    }

    fn make(&self, op: impl Fn(Ino) -> Op) -> Result<(Ino, Attr), Error> {
        self.make_with(op, |_, outcome| {
            outcome.inode.expect("a new inode is answered with")
        })
    }

    fn make_with<R>(
        &self,
        op: impl Fn(Ino) -> Op,
        and: impl Fn(&mut State, Outcome) -> R,
    ) -> Result<R, Error> {
        loop {
            let made = self.change_with(
                |state| {
                    Inner::take_ino(state)
                        .map(&op)
                        .ok_or(Error::Refused(Refusal::NoSpace))
                },
                &and,
            );
            match made {
                Err(Error::Refused(Refusal::NoSpace)) if self.used_up_inos() => self.lend_inos()?,
                made => return made,
            }
        }
    }

    fn used_up_inos(&self) -> bool {
        let state = self.state.read();
        state.broken.is_none() && state.inos.next == state.inos.end
    }
}
