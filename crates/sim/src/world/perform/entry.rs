//! Steps with entries and inodes.

use crate::check::{Change, Verdict, broken};
use crate::program;
use crate::workload::{EntryStep, InodeStep};
use crate::world::World;
use tenure_model::Ino;

impl World {
    pub(super) fn change_entries(&mut self, step: &EntryStep) -> Verdict<()> {
        let (outcome, change) = program::change_entries(self.life.branch(), step);
        let answered = outcome.as_ref().ok();
        let (orphan, new) = match step {
            EntryStep::Create { .. } => (None, answered.and_then(|outcome| outcome.inode)),
            EntryStep::Unlink { drops, .. } => (
                answered.and_then(|outcome| outcome.orphan).filter(|_| *drops),
                None,
            ),
            EntryStep::Link { .. } | EntryStep::Rmdir { .. } | EntryStep::Rename { .. } => {
                (answered.and_then(|outcome| outcome.orphan), None)
            }
        };
        let new = new.map(|(ino, _)| ino);
        if let Some(ino) = new.filter(|ino| self.history.names().inodes.contains_key(ino)) {
            return broken(format!("inode number {ino} was used before"));
        }
        self.changed(outcome, change)?;
        new.into_iter().for_each(|ino| self.touch(ino));
        self.drop_orphan(orphan)
    }

    fn drop_orphan(&mut self, orphan: Option<Ino>) -> Verdict<()> {
        let Some(ino) = orphan else { return Ok(()) };
        let dropped = self.life.branch().drop_orphan(ino);
        self.changed(dropped, Change::Drop { ino }).map(|_| ())
    }

    pub(super) fn change_inode(&mut self, ino: Ino, step: &InodeStep) -> Verdict<()> {
        if let Some((outcome, change)) = program::change_inode(self.life.branch(), ino, step) {
            return self.changed(outcome, change).map(|_| ());
        }
        match step {
            InodeStep::Drop => self.drop_orphan(Some(ino)),
            InodeStep::Sync => self.sync(ino),
            InodeStep::Look
            | InodeStep::SetMode(_)
            | InodeStep::SetOwner(..)
            | InodeStep::SetXattr { .. }
            | InodeStep::SetAcl { .. }
            | InodeStep::RemoveXattr(_) => self.look(ino),
        }
    }
}
