//! What differs between two branches or checkpoints, and what is in a file of one: asked by whoever may see the drive, without a
//! session.

use crate::drive::Inner;
use crate::state::permit::because;
use tenure_core::{Branch, Diff};
use tenure_model::Ino;
use tenure_wire::{DiffAsk, Differences, Error};

impl Inner {
    pub(crate) fn diff(&self, ask: &DiffAsk) -> Result<Differences, Error> {
        let (before, after) = (self.state_of(&ask.before)?, self.state_of(&ask.after)?);
        let mut diff = Diff::new(before, after, &ask.below, ask.behind);
        self.loader.ask(|| diff.go_on())?;
        self.work_on_pages();
        let (found, behind) = diff.answer();
        Ok(Differences { found, behind })
    }

    pub(crate) fn contents(&self, name: &str, ino: Ino, range: (u64, u32)) -> Result<Vec<u8>, Error> {
        let branch = self.state_of(name)?;
        let bytes = self.bytes_of(&branch, ino, range);
        self.work_on_pages();
        bytes
    }

    /// Returns a branch or checkpoint as it is now, with all that is known to have been done to it.
    pub(crate) fn state_of(&self, name: &str) -> Result<Branch, Error> {
        let (id, _) = self.with(|live| live.named(name))?;
        self.gathered(id)?;
        self.with(|live| {
            let open = live.state.opened(id);
            Ok(open.ok_or_else(|| because("it was deleted just now"))?.branch)
        })
    }
}
