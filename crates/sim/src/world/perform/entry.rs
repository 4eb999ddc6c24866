//! Steps with entries and inodes.

use crate::check::{Change, Verdict, broken};
use crate::random;
use crate::workload::{EntryStep, InodeStep, Place};
use crate::world::World;
use tenure_model::{AttrChange, Ino, Kind, NewNode, RenameMode, XattrMode};

/// Owner and group of what is made.
const OWNER: (u32, u32) = (1, 2);

impl World {
    pub(super) fn change_entries(&mut self, step: &EntryStep) -> Verdict<()> {
        let branch = self.life.branch();
        match step {
            EntryStep::Create {
                at,
                kind,
                mode,
                is_named,
            } => self.create(at, *kind, *mode, *is_named),
            EntryStep::Link { ino, to } => {
                let linked = branch.link(*ino, to.0, &to.1);
                let change = Change::Link {
                    ino: *ino,
                    to: to.clone(),
                };
                self.changed(linked, |_| change).map(|_| ())
            }
            EntryStep::Unlink { at, drops } => {
                let unlinked = branch.unlink(at.0, &at.1);
                let orphan = unlinked.as_ref().ok().and_then(|outcome| outcome.orphan);
                self.changed(unlinked, |_| Change::Unlink { at: at.clone() })?;
                self.drop_orphan(orphan.filter(|_| *drops))
            }
            EntryStep::Rmdir { at } => {
                let removed = branch.rmdir(at.0, &at.1);
                let orphan = removed.as_ref().ok().and_then(|outcome| outcome.orphan);
                self.changed(removed, |_| Change::Rmdir { at: at.clone() })?;
                self.drop_orphan(orphan)
            }
            EntryStep::Rename { from, to, mode } => {
                let moved = branch.rename((from.0, &from.1), (to.0, &to.1), *mode);
                let orphan = moved.as_ref().ok().and_then(|outcome| outcome.orphan);
                let mode = self.with_whiteout(from, *mode);
                let change = Change::Rename {
                    from: from.clone(),
                    to: to.clone(),
                    mode,
                };
                self.changed(moved, |_| change)?;
                self.drop_orphan(orphan)
            }
        }
    }

    /// Returns the mode with the number of the whiteout that was left, if one was.
    fn with_whiteout(&self, from: &Place, mode: RenameMode) -> RenameMode {
        let left = self.life.branch().lookup(from.0, &from.1);
        match (mode, left) {
            (RenameMode::Whiteout(_), Ok((ino, _))) => RenameMode::Whiteout(ino),
            (mode, _) => mode,
        }
    }

    fn create(&mut self, at: &Place, kind: Kind, mode: u32, is_named: bool) -> Verdict<()> {
        let target: Box<[u8]> = if kind == Kind::Symlink {
            b"../target"[..].into()
        } else {
            Box::default()
        };
        let node = NewNode {
            kind,
            mode,
            umask: 0,
            uid: OWNER.0,
            gid: OWNER.1,
            rdev: 0,
            target: target.clone(),
        };
        let branch = self.life.branch();
        let made = if is_named {
            branch.create(at.0, &at.1, &node)
        } else {
            branch.create_unnamed(at.0, &node)
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
            kind,
            mode,
            owner: OWNER,
            target,
        };
        let ino = made.as_ref().ok().map(|(ino, _)| *ino);
        self.changed(made, change)?;
        ino.into_iter().for_each(|ino| self.touch(ino));
        Ok(())
    }

    fn drop_orphan(&mut self, orphan: Option<Ino>) -> Verdict<()> {
        let Some(ino) = orphan else { return Ok(()) };
        let dropped = self.life.branch().drop_orphan(ino);
        self.changed(dropped, |_| Change::Drop { ino }).map(|_| ())
    }

    pub(super) fn change_inode(&mut self, ino: Ino, step: &InodeStep) -> Verdict<()> {
        let branch = self.life.branch();
        let (outcome, change) = match step {
            InodeStep::SetMode(mode) => {
                let wanted = AttrChange {
                    mode: Some(*mode),
                    ..AttrChange::default()
                };
                let change = Change::SetMode { ino, mode: *mode };
                (branch.set_attr(ino, &wanted).map(drop), change)
            }
            InodeStep::SetOwner(uid, gid) => {
                let wanted = AttrChange {
                    uid: Some(*uid),
                    gid: Some(*gid),
                    ..AttrChange::default()
                };
                let owner = (*uid, *gid);
                let change = Change::SetOwner { ino, owner };
                (branch.set_attr(ino, &wanted).map(drop), change)
            }
            InodeStep::SetXattr { name, len, mode } => {
                let value = random::bytes(*len as u64, *len);
                let set = branch.set_xattr(ino, name.clone(), &value, *mode);
                let change = Change::SetXattr {
                    ino,
                    name: name.clone(),
                    value: value.into(),
                    mode: *mode,
                };
                (set, change)
            }
            InodeStep::RemoveXattr(name) => {
                let name = name.clone();
                let removed = branch.remove_xattr(ino, name.clone());
                (removed, Change::RemoveXattr { ino, name })
            }
            InodeStep::SetAcl { name, list } => {
                let set = branch.set_xattr(ino, name.clone(), list, XattrMode::Set);
                let change = Change::SetXattr {
                    ino,
                    name: name.clone(),
                    value: list.clone().into(),
                    mode: XattrMode::Set,
                };
                (set, change)
            }
            InodeStep::Drop => return self.drop_orphan(Some(ino)),
            InodeStep::Sync => return self.sync(ino),
            InodeStep::Look => return self.look(ino),
        };
        self.changed(outcome, |_| change).map(|_| ())
    }
}
