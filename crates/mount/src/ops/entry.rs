//! Names: looked up, made, linked, moved and removed.

use super::pending::Pending;
use super::{Served, answer, invalid, name};
use crate::kernel::{Entry, Opened, Request};
use tenure_client::{Error, Outcome};
use tenure_model::attr::MODE_BITS;
use tenure_model::{Attr, Ino, Kind, NewNode, Refusal, RenameMode};

const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;
const RENAME_WHITEOUT: u32 = 4;

impl Served {
    pub(super) fn lookup(&self, parent: Ino, bytes: &[u8], pending: &mut Pending) {
        let found = match name(bytes).and_then(|name| self.branch.lookup(parent, &name)) {
            Err(Error::Refused(Refusal::NotFound)) => Ok(None),
            found => found.map(Some),
        };
        answer(pending, found, |reply, found| match found {
            Some((ino, attr)) => reply.entry(&self.entry(ino, &attr)),
            None => reply.entry(&Entry::negative(self.settings.ttl)),
        });
    }

    pub(super) fn mknod(
        &self,
        request: &Request<'_>,
        name: &[u8],
        (mode, umask, rdev): (u32, u32, u32),
        pending: &mut Pending,
    ) {
        let kind = Kind::of(mode).filter(|kind| !matches!(kind, Kind::Directory | Kind::Symlink));
        let node = kind.map(|kind| NewNode {
            rdev,
            ..node(request, kind, mode, umask)
        });
        self.create(request, name, node.ok_or(invalid()), pending);
    }

    pub(super) fn mkdir(
        &self,
        request: &Request<'_>,
        name: &[u8],
        (mode, umask): (u32, u32),
        pending: &mut Pending,
    ) {
        self.create(
            request,
            name,
            Ok(node(request, Kind::Directory, mode, umask)),
            pending,
        );
    }

    pub(super) fn symlink(&self, request: &Request<'_>, name: &[u8], target: &[u8], pending: &mut Pending) {
        let node = NewNode {
            target: target.into(),
            ..node(request, Kind::Symlink, 0o777, 0)
        };
        self.create(request, name, Ok(node), pending);
    }

    fn create(
        &self,
        request: &Request<'_>,
        bytes: &[u8],
        node: Result<NewNode, Error>,
        pending: &mut Pending,
    ) {
        let made = node.and_then(|node| self.branch.create(Ino(request.nodeid), &name(bytes)?, &node));
        self.answer_entry(pending, made);
    }

    fn answer_entry(&self, pending: &mut Pending, made: Result<(Ino, Attr), Error>) {
        answer(pending, made, |reply, (ino, attr)| {
            reply.entry(&self.entry(ino, &attr))
        });
    }

    pub(super) fn tmpfile(&self, request: &Request<'_>, (mode, umask): (u32, u32), pending: &mut Pending) {
        let made = self
            .branch
            .create_unnamed(Ino(request.nodeid), &node(request, Kind::File, mode, umask));
        answer(pending, made, |reply, (ino, attr)| {
            let entry = self.entry(ino, &attr);
            // Of a shared branch the owner knows that it is open.
            self.known.orphan(ino);
            let opened = match &self.shared {
                None => Opened::default(),
                Some(_) => super::shared::opened(),
            };
            reply.create(&entry, opened);
        });
    }

    pub(super) fn link(&self, ino: Ino, parent: Ino, bytes: &[u8], pending: &mut Pending) {
        let linked = name(bytes).and_then(|name| self.branch.link(ino, parent, &name));
        self.answer_entry(
            pending,
            linked.map(|attr| {
                self.known.adopt(ino);
                (ino, attr)
            }),
        );
    }

    pub(super) fn unlink(&self, parent: Ino, bytes: &[u8], pending: &mut Pending) {
        self.answer_removed(
            pending,
            name(bytes).and_then(|name| self.branch.unlink(parent, &name)),
        );
    }

    pub(super) fn rmdir(&self, parent: Ino, bytes: &[u8], pending: &mut Pending) {
        self.answer_removed(
            pending,
            name(bytes).and_then(|name| self.branch.rmdir(parent, &name)),
        );
    }

    pub(super) fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: u32, pending: &mut Pending) {
        let mode = match flags {
            0 => Ok(RenameMode::Replace),
            RENAME_NOREPLACE => Ok(RenameMode::NoReplace),
            RENAME_EXCHANGE => Ok(RenameMode::Exchange),
            RENAME_WHITEOUT => Ok(RenameMode::Whiteout(Ino(0))),
            _ => Err(invalid()),
        };
        let renamed = mode.and_then(|mode| {
            self.branch
                .rename((from.0, &name(from.1)?), (to.0, &name(to.1)?), mode)
        });
        self.answer_removed(pending, renamed);
    }

    fn answer_removed(&self, pending: &mut Pending, removed: Result<Outcome, Error>) {
        answer(pending, removed, |reply, outcome| {
            self.unlinked(outcome.orphan);
            reply.ok();
        });
    }

    pub(super) fn readlink(&self, ino: Ino, pending: &mut Pending) {
        answer(pending, self.branch.target(ino), |reply, target| {
            reply.data(&target)
        });
    }
}

pub(super) fn node(request: &Request<'_>, kind: Kind, mode: u32, umask: u32) -> NewNode {
    NewNode {
        kind,
        mode: mode & MODE_BITS,
        umask,
        uid: request.uid,
        gid: request.gid,
        rdev: 0,
        target: Box::default(),
    }
}
