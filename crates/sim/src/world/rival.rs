//! Somebody else who wants the branch: he is refused while its holder is there, and gets it once that one is silent. Then
//! the holder comes back, and nothing of his counts any more.

use super::World;
use crate::check::{Broken, History, Verdict, broken, survey};
use crate::fault::Sessions;
use tenure_client::{Branch, Salvage};
use tenure_model::{AttrChange, Ino, Refusal};
use tenure_wire::{Access, Error};

impl World {
    /// Asks for the branch that is held: it is refused.
    pub(super) fn ask_for_held(&mut self) -> Verdict<()> {
        let asked = self
            .life
            .client(&self.settings, &self.clock, (&self.held, Access::Exclusive));
        match asked {
            Err(Error::Refused(Refusal::Held { .. })) => Ok(()),
            Err(error) => self.failed(&error),
            Ok(_) => broken(format!("{} is held by two", self.held)),
        }
    }

    /// The owner ends, the holder stands still, and another takes the branch from the next owner.
    pub(super) fn take_over(&mut self) -> Verdict<()> {
        if !self.life.is_elsewhere() || self.life.in_trouble || self.parked.is_some() {
            return Ok(());
        }
        self.note_batches();
        if !self.life.end_owner(Sessions::StayAway) {
            return self.recover_from_loss();
        }
        self.adopt()?;
        self.life.machine.keep_power();
        self.ask_for_held()?;
        let silent = self.life.set_aside();
        let held = self.life.hold(&self.settings, &self.clock, &self.held);
        held.map_err(|error| Broken(format!("the branch of a silent holder cannot be taken: {error}")))?;
        let found = survey(self.life.branch());
        let found = found.map_err(|error| Broken(format!("the branch cannot be read: {error}")))?;
        self.history.judge(&found)?;
        self.history = History::from(&found);
        self.touched.clear();
        self.shipped = (self.life.owner.ships(), 0);
        let silent = silent.expect("a branch was held");
        self.refuse_late(&silent)?;
        self.judge_stray(&silent)?;
        self.look(Ino::ROOT)
    }

    /// Lets a holder that has lost its branch go on: it is told, and nothing that it does is there.
    fn refuse_late(&mut self, silent: &Branch) -> Verdict<()> {
        let wanted = AttrChange {
            mode: Some(0o7),
            ..AttrChange::default()
        };
        let changed = silent.set_attr(Ino::ROOT, &wanted);
        self.trace
            .note(format_args!("  the silent one goes on: {:?}", changed.map(drop)));
        let synced = self.life.sync_of(silent, Branch::sync_all);
        self.trace.note(format_args!("  {synced:?}"));
        match (synced, silent.broken()) {
            (Ok(()), _) => broken("who has lost the branch is told that what he did is durable"),
            (Err(Error::Refused(Refusal::Stale)), Some(_)) => Ok(()),
            (Err(Error::Refused(Refusal::Stale)), None) => broken("who has lost the branch goes on"),
            (Err(error), _) => broken(format!("who has lost the branch is told: {error}")),
        }
    }

    /// Holds what a holder that has lost its branch had in the end against the stray of it.
    fn judge_stray(&self, silent: &Branch) -> Verdict<()> {
        let stray = match silent.salvage() {
            Some(Salvage::Done(Some(stray))) => stray,
            // Then all of it was in the branch.
            Some(Salvage::Done(None)) => return Ok(()),
            other => return broken(format!("who has lost the branch saves nothing: {other:?}")),
        };
        let read = |branch: &Branch| {
            survey(branch).map_err(|error| Broken(format!("the stray {stray} cannot be read: {error}")))
        };
        let kept = self.life.look_at(&self.settings, &self.clock, &stray);
        let kept = kept.map_err(|error| Broken(format!("there is no stray {stray}: {error}")))?;
        if read(&kept)? != read(silent)? {
            return broken(format!("the stray {stray} is not what its holder had"));
        }
        let deleted = self.life.delete_stray(&stray);
        deleted.map_err(|error| Broken(format!("the stray {stray} cannot be deleted: {error}")))
    }
}
