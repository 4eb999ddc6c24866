//! Performing a step: the call is made, and its answer is held against the reference.

use super::World;
use crate::check::{Change, Content, Verdict, broken};
use crate::random;
use crate::workload::Step;
use bytes::Bytes;
use std::sync::mpsc;
use std::time::Duration;
use tenure_client::Branch;
use tenure_model::{AttrChange, Failure, Ino, Kind, NewNode, Refusal, XattrName};
use tenure_wire::Error;

/// Bytes that are read at once.
const READ_LEN: u64 = 1 << 20;
/// How long an idle world is idle.
const IDLE: Duration = Duration::from_secs(3600);

impl World {
    /// Makes a step happen.
    pub(super) fn perform(&mut self, step: &Step) -> Verdict<()> {
        self.trace.note(format_args!("{step:?}"));
        match step {
            Step::Create { .. } | Step::Link { .. } | Step::Unlink { .. } | Step::Rmdir { .. } | Step::Rename { .. } => {
                self.change_entries(step)
            }
            Step::SetMode { .. }
            | Step::SetOwner { .. }
            | Step::SetXattr { .. }
            | Step::RemoveXattr { .. }
            | Step::Drop { .. } => self.change_inode(step),
            Step::Write { .. }
            | Step::Append { .. }
            | Step::Resize { .. }
            | Step::Punch { .. }
            | Step::Collapse { .. }
            | Step::Insert { .. }
            | Step::Copy { .. } => self.change_content(step),
            Step::Sync { ino } => self.sync(*ino),
            Step::SyncAll => self.sync_all().map(|_| ()),
            Step::Read { ino, offset, len } => self.read(*ino, *offset, *len),
            Step::Look { ino } => self.look(*ino),
            Step::Compare => self.compare(),
            Step::Pass { time } => {
                self.clock.pass(*time);
                self.life.branch().step();
                Ok(())
            }
            Step::Jump { secs } => {
                self.clock.jump(*secs);
                Ok(())
            }
            Step::Idle => self.idle(),
            Step::Fork => self.fork(true),
            Step::Checkpoint => self.fork(false),
            Step::Delete => self.delete_line(),
            Step::Inspect => self.inspect_one(),
            Step::Remount => self.remount(),
            Step::Reopen => self.reopen(),
            Step::Fold => {
                let folded = self.life.owner.fold();
                self.done(folded).map(|_| ())
            }
            Step::Check => self.check_drive(),
            Step::Kill => self.kill(),
            Step::LosePower => self.lose_power(),
            Step::Trouble => {
                self.begin_trouble();
                Ok(())
            }
        }
    }

    /// Judges the answer of a call that must succeed, unless faults are about; tells whether it did.
    pub(super) fn done<T>(&mut self, outcome: Result<T, Error>) -> Verdict<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.failed(&error).map(|()| None),
        }
    }

    /// Judges a failure: it has to have a reason.
    pub(super) fn failed(&mut self, error: &Error) -> Verdict<()> {
        self.trace.note(format_args!("  {error}"));
        self.counts.failures += 1;
        let life = &self.life;
        if life.machine.is_off() || life.in_trouble {
            let is_named = |why: &str| why.contains("drives/") || why.contains("pack");
            return match error {
                Error::Failed(Failure::Corrupt(why)) if !is_named(why) => {
                    broken(format!("bytes are said to be corrupt, and not which: {why}"))
                }
                Error::Refused(refusal) if *refusal != Refusal::NoSpace => {
                    broken(format!("a fault is answered by a refusal: {refusal}"))
                }
                Error::Failed(_) | Error::Refused(_) => Ok(()),
            };
        }
        if life.was_in_trouble && life.has_stopped() {
            return Ok(());
        }
        broken(format!("a call failed, and there was no fault: {error}"))
    }

    /// Holds the answer to a change of names against the reference; tells whether it was made.
    fn changed<T>(&mut self, outcome: Result<T, Error>, change: impl FnOnce(Option<&T>) -> Change) -> Verdict<bool> {
        match outcome {
            Ok(value) => match self.history.change(change(Some(&value))) {
                Ok(()) => Ok(true),
                Err(refusal) => broken(format!("it was done, and should be refused: {refusal}")),
            },
            Err(Error::Refused(refusal)) => self.refused(&refusal, &change(None)).map(|()| false),
            Err(error) => self.failed(&error).map(|()| false),
        }
    }

    fn refused(&mut self, refusal: &Refusal, change: &Change) -> Verdict<()> {
        self.trace.note(format_args!("  refused: {refusal}"));
        match self.history.names().decide(change) {
            Err(expected) if expected == *refusal => Ok(()),
            Err(expected) => broken(format!("it was refused with \"{refusal}\" instead of \"{expected}\"")),
            Ok(()) if *refusal == Refusal::NoSpace && self.life.in_trouble => Ok(()),
            Ok(()) => broken(format!("it was refused with \"{refusal}\" and should be done")),
        }
    }

    fn change_entries(&mut self, step: &Step) -> Verdict<()> {
        let branch = self.life.branch();
        match step {
            Step::Create { .. } => self.create(step),
            Step::Link { ino, to } => {
                let linked = branch.link(*ino, to.0, &to.1);
                let change = Change::Link { ino: *ino, to: to.clone() };
                self.changed(linked, |_| change).map(|_| ())
            }
            Step::Unlink { at, drops } => {
                let unlinked = branch.unlink(at.0, &at.1);
                let orphan = unlinked.as_ref().ok().and_then(|outcome| outcome.orphan);
                self.changed(unlinked, |_| Change::Unlink { at: at.clone() })?;
                self.drop_orphan(orphan.filter(|_| *drops))
            }
            Step::Rmdir { at } => {
                let removed = branch.rmdir(at.0, &at.1);
                let orphan = removed.as_ref().ok().and_then(|outcome| outcome.orphan);
                self.changed(removed, |_| Change::Rmdir { at: at.clone() })?;
                self.drop_orphan(orphan)
            }
            Step::Rename { from, to, mode } => {
                let moved = branch.rename((from.0, &from.1), (to.0, &to.1), *mode);
                let orphan = moved.as_ref().ok().and_then(|outcome| outcome.orphan);
                let change = Change::Rename {
                    from: from.clone(),
                    to: to.clone(),
                    mode: *mode,
                };
                self.changed(moved, |_| change)?;
                self.drop_orphan(orphan)
            }
            _ => unreachable!("the caller has looked"),
        }
    }

    fn create(&mut self, step: &Step) -> Verdict<()> {
        let Step::Create { at, kind, mode, is_named } = step else {
            unreachable!("the caller has looked")
        };
        let target: Box<[u8]> = if *kind == Kind::Symlink { b"../target"[..].into() } else { Box::default() };
        let node = NewNode {
            kind: *kind,
            mode: *mode,
            umask: 0,
            uid: 1,
            gid: 2,
            rdev: 0,
            target: target.clone(),
        };
        let branch = self.life.branch();
        let made = match is_named {
            true => branch.create(at.0, &at.1, &node),
            false => branch.create_unnamed(at.0, &node),
        };
        if let Ok((ino, _)) = &made
            && self.history.names().inodes.contains_key(ino)
        {
            return broken(format!("inode number {ino} was used before"));
        }
        let change = |made: Option<&(Ino, _)>| Change::Create {
            at: is_named.then(|| at.clone()),
            parent: at.0,
            ino: made.map_or(Ino(0), |(ino, _)| *ino),
            kind: *kind,
            mode: *mode,
            owner: (1, 2),
            target,
        };
        self.changed(made, change).map(|_| ())
    }

    fn drop_orphan(&mut self, orphan: Option<Ino>) -> Verdict<()> {
        let Some(ino) = orphan else { return Ok(()) };
        let dropped = self.life.branch().drop_orphan(ino);
        self.changed(dropped, |_| Change::Drop { ino }).map(|_| ())
    }

    fn change_inode(&mut self, step: &Step) -> Verdict<()> {
        let branch = self.life.branch();
        let (outcome, change) = match step {
            Step::SetMode { ino, mode } => {
                let wanted = AttrChange {
                    mode: Some(*mode),
                    ..AttrChange::default()
                };
                let change = Change::SetMode { ino: *ino, mode: *mode };
                (branch.set_attr(*ino, &wanted).map(drop), change)
            }
            Step::SetOwner { ino, owner } => {
                let wanted = AttrChange {
                    uid: Some(owner.0),
                    gid: Some(owner.1),
                    ..AttrChange::default()
                };
                let change = Change::SetOwner { ino: *ino, owner: *owner };
                (branch.set_attr(*ino, &wanted).map(drop), change)
            }
            Step::SetXattr { ino, name, len, mode } => {
                let value = random::bytes(*len as u64, *len);
                let change = Change::SetXattr {
                    ino: *ino,
                    name: name.clone(),
                    value: value.clone().into(),
                    mode: *mode,
                };
                (branch.set_xattr(*ino, name.clone(), &value, *mode), change)
            }
            Step::RemoveXattr { ino, name } => {
                let change = Change::RemoveXattr { ino: *ino, name: name.clone() };
                (branch.remove_xattr(*ino, name.clone()), change)
            }
            Step::Drop { ino } => return self.drop_orphan(Some(*ino)),
            _ => unreachable!("the caller has looked"),
        };
        self.changed(outcome, |_| change).map(|_| ())
    }

    fn change_content(&mut self, step: &Step) -> Verdict<()> {
        if self.life.branch().is_stage_full() {
            self.life.branch().step();
        }
        let branch = self.life.branch();
        match step {
            Step::Write { ino, offset, len, seed } => {
                let bytes = random::bytes(*seed, *len);
                let written = branch.write(*ino, *offset, Bytes::from(bytes.clone()));
                if self.done(written)?.is_some() {
                    self.history.write(*ino, |content| content.write(*offset, &bytes));
                }
                Ok(())
            }
            Step::Append { ino, len, seed } => {
                let bytes = random::bytes(*seed, *len);
                let appended = branch.append(*ino, Bytes::from(bytes.clone()));
                let size = self.content(*ino).size();
                match self.done(appended)? {
                    Some(offset) if offset != size => broken(format!("it was appended at {offset} instead of {size}")),
                    Some(offset) => {
                        self.history.write(*ino, |content| content.write(offset, &bytes));
                        Ok(())
                    }
                    None => Ok(()),
                }
            }
            Step::Resize { ino, size } => {
                let wanted = AttrChange {
                    size: Some(*size),
                    ..AttrChange::default()
                };
                let resized = branch.set_attr(*ino, &wanted).map(drop);
                self.cut(resized, *ino, Ok(()), |content| content.resize(*size))
            }
            Step::Punch { ino, offset, len } => {
                let punched = branch.punch(*ino, *offset, *len);
                self.cut(punched, *ino, Ok(()), |content| content.punch(*offset, *len))
            }
            Step::Collapse { ino, offset, len } => {
                let collapsed = branch.collapse(*ino, *offset, *len);
                let is_within = offset + len < self.content(*ino).size();
                self.cut(collapsed, *ino, when(is_within), |content| content.collapse(*offset, *len))
            }
            Step::Insert { ino, offset, len } => {
                let inserted = branch.insert(*ino, *offset, *len);
                let is_within = *offset < self.content(*ino).size();
                self.cut(inserted, *ino, when(is_within), |content| content.insert(*offset, *len))
            }
            Step::Copy { from, to, len } => self.copy(*from, *to, *len),
            _ => unreachable!("the caller has looked"),
        }
    }

    fn copy(&mut self, from: (Ino, u64), to: (Ino, u64), len: u64) -> Verdict<()> {
        let copied = self.life.branch().copy(from, to, len);
        let bytes = self.content(from.0).read(from.1, len);
        let len = bytes.len() as u64;
        if copied.as_ref().is_ok_and(|copied| *copied != len) {
            return broken(format!("{copied:?} bytes were copied instead of {len}"));
        }
        if len == 0 {
            return self.done(copied).map(|_| ());
        }
        let overlaps = from.0 == to.0 && from.1 < to.1 + len && to.1 < from.1 + len;
        self.cut(copied.map(|_| ()), to.0, when(!overlaps), |content| content.write(to.1, &bytes))
    }

    /// Holds the answer to a change of bytes that has its place in the log against the reference.
    fn cut(
        &mut self,
        outcome: Result<(), Error>,
        ino: Ino,
        expected: Result<(), Refusal>,
        cut: impl FnOnce(&mut Content),
    ) -> Verdict<()> {
        match (outcome, expected) {
            (Ok(()), Ok(())) => match self.history.cut(ino, cut) {
                Ok(()) => Ok(()),
                Err(refusal) => broken(format!("it was done, and should be refused: {refusal}")),
            },
            (Ok(()), Err(expected)) => broken(format!("it was done, and should be refused: {expected}")),
            (Err(Error::Refused(refusal)), Err(expected)) if refusal == expected => Ok(()),
            (Err(Error::Refused(refusal)), _) => self.refused(&refusal, &Change::Cut { ino }),
            (Err(error), _) => self.failed(&error),
        }
    }

    pub(super) fn content(&self, ino: Ino) -> &Content {
        self.history.content(ino).expect("the workload asks only for files")
    }

    fn sync(&mut self, ino: Ino) -> Verdict<()> {
        let synced = self.life.sync(|branch: &Branch| {
            let (send, receive) = mpsc::channel();
            branch.sync(ino, Box::new(move |synced| drop(send.send(synced))));
            receive.try_recv().expect("without threads a sync is answered at once")
        });
        if self.done(synced)?.is_some() {
            self.trace.note(format_args!("  acknowledged"));
            self.counts.syncs += 1;
            self.history.synced(ino);
        }
        Ok(())
    }

    /// Syncs everything; tells whether it was acknowledged.
    pub(super) fn sync_all(&mut self) -> Verdict<bool> {
        let synced = self.life.sync(Branch::sync_all);
        let is_synced = self.done(synced)?.is_some();
        if is_synced {
            self.trace.note(format_args!("  acknowledged"));
            self.counts.syncs += 1;
            self.history.synced_all();
        }
        Ok(is_synced)
    }

    fn read(&mut self, ino: Ino, offset: u64, len: usize) -> Verdict<()> {
        let mut bytes = Vec::new();
        let read = self.life.branch().read(ino, offset, len, &mut bytes);
        if self.done(read)?.is_some() && bytes != self.content(ino).read(offset, len as u64) {
            return broken(format!("what is read from inode {ino} at {offset} is not what was written"));
        }
        Ok(())
    }

    /// Compares all that an inode says with what it should say.
    fn look(&mut self, ino: Ino) -> Verdict<()> {
        let Some(inode) = self.history.names().inodes.get(&ino).cloned() else { return Ok(()) };
        let branch = self.life.branch();
        let attr = branch.attr(ino);
        let mut xattrs = Vec::new();
        let listed = branch.xattrs(ino).map(|names| {
            let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            xattrs.extend(names.map(|name| (XattrName::parse(name), branch.xattr(ino, name))));
        });
        let entries = match inode.kind {
            Kind::Directory => crate::check::entries(branch, ino),
            _ => Ok(Vec::new()),
        };
        let Some(attr) = self.done(attr)? else { return Ok(()) };
        let size = match inode.kind {
            Kind::File => self.content(ino).size(),
            Kind::Directory => inode.entries.len() as u64,
            _ => inode.target.len() as u64,
        };
        let said = (attr.kind, attr.mode, attr.nlink, attr.uid, attr.gid, attr.size);
        let expected = (inode.kind, inode.mode, inode.nlink, inode.uid, inode.gid, size);
        if said != expected {
            return broken(format!("inode {ino} says that it is {said:?} and is {expected:?}"));
        }
        if self.done(listed)?.is_some() {
            for (name, value) in &xattrs {
                let Some(value) = self.done(value.clone())? else { continue };
                let expected = name.as_ref().ok().and_then(|name| inode.xattrs.get(name));
                if expected != Some(&value) {
                    return broken(format!("attribute {name:?} of inode {ino} is wrong"));
                }
            }
            if xattrs.len() != inode.xattrs.len() {
                return broken(format!("inode {ino} lists {} attributes", xattrs.len()));
            }
        }
        if let Some(entries) = self.done(entries)? {
            let listed = entries.into_iter().map(|(name, ino, _)| (name, ino)).collect();
            if inode.entries != listed {
                return broken(format!("directory {ino} lists {listed:?} and has {:?}", inode.entries));
            }
        }
        Ok(())
    }

    /// Compares everything that there is.
    fn compare(&mut self) -> Verdict<()> {
        let inodes: Vec<_> = self.history.names().inodes.iter().map(|(ino, inode)| (*ino, inode.kind)).collect();
        let totals = self.life.branch().totals();
        if totals.inodes != inodes.len() as u64 {
            return broken(format!("the branch says that it has {} inodes and has {}", totals.inodes, inodes.len()));
        }
        for (ino, kind) in inodes {
            self.look(ino)?;
            if kind == Kind::File {
                for (start, end) in self.content(ino).data() {
                    let mut at = start.saturating_sub(10);
                    while at < end {
                        let len = READ_LEN.min(end + 10 - at);
                        self.read(ino, at, len as usize)?;
                        at += len;
                    }
                }
            }
        }
        Ok(())
    }

    /// Lets nothing happen for long: then nothing is asked of the bucket.
    fn idle(&mut self) -> Verdict<()> {
        if self.life.in_trouble || !self.sync_all()? {
            return Ok(());
        }
        let before = self.life.machine.calls();
        for _ in 0..10 {
            self.clock.pass(IDLE);
            self.life.branch().step();
        }
        match self.life.machine.calls() - before {
            0 => Ok(()),
            calls => broken(format!("an idle drive asked {calls} things of its bucket")),
        }
    }
}

fn when(may: bool) -> Result<(), Refusal> {
    if may { Ok(()) } else { Err(Refusal::InvalidArgument) }
}
