//! Two clients of one drive, each with a branch of its own: one acts, the other stands with what it has not synced, and
//! now and then they change places.

use super::{Line, World};
use crate::check::{Broken, History, Snapshot, Verdict, survey};
use std::collections::BTreeMap;
use tenure_client::Branch;
use tenure_model::{Ino, Timestamp};
use tenure_wire::Error;

/// The client that does not act now, and what is known of its branch.
pub(super) struct Parked {
    pub(super) name: String,
    client: Option<Branch>,
    history: History,
    touched: BTreeMap<Ino, Timestamp>,
}

impl World {
    /// Lets the other client act; where there is none, one comes and takes a branch that is free.
    pub(super) fn switch(&mut self) -> Verdict<()> {
        if self.parked.is_some() {
            self.change_places();
            self.trace.note(format_args!("  {}", self.held));
            return Ok(());
        }
        let free = self.some_line(|line| line.is_branch);
        let Some(name) = free.filter(|_| self.unknown.is_none() && !self.life.in_trouble) else {
            return Ok(());
        };
        self.trace.note(format_args!("  {name}"));
        let line = self.lines.remove(&name).expect("it was chosen from them");
        self.parked = Some(Parked {
            name,
            client: None,
            history: History::from(&line.state),
            touched: BTreeMap::new(),
        });
        self.change_places();
        let held = self.life.hold(&self.settings, &self.clock, &self.held);
        if self.done(held)?.is_none() {
            // The power has failed; whoever recovers finds both branches.
            self.life.must_end = true;
            return Ok(());
        }
        let found = survey(self.life.branch());
        match self.done(found)? {
            Some(found) => self.history.judge(&found),
            None => Ok(()),
        }
    }

    fn change_places(&mut self) {
        self.note_batches();
        let Some(parked) = &mut self.parked else { return };
        let acting = self.life.set_aside();
        self.life.take_up(parked.client.take());
        parked.client = acting;
        std::mem::swap(&mut self.held, &mut parked.name);
        std::mem::swap(&mut self.history, &mut parked.history);
        std::mem::swap(&mut self.touched, &mut parked.touched);
        self.shipped = (self.life.owner.ships(), self.history.changes());
    }

    /// Lets both clients go without a word.
    pub(super) fn let_go(&mut self) {
        self.life.let_go();
        if let Some(parked) = &mut self.parked {
            parked.client = None;
        }
    }

    /// Ends the client that stands in good order; tells whether it has ended.
    pub(super) fn close_parked(&mut self) -> Verdict<bool> {
        if self.parked.is_none() {
            return Ok(true);
        }
        self.change_places();
        let is_closed = self.close_branch()?;
        let state = self.history.snapshot();
        self.change_places();
        if is_closed {
            let parked = self.parked.take().expect("there is one");
            let is_branch = true;
            self.lines.insert(parked.name, Line { is_branch, state });
        }
        Ok(is_closed)
    }

    /// Judges what a crash has left of the branch of the client that stood; nobody holds it from here on.
    pub(super) fn judge_parked(&mut self) -> Verdict<()> {
        let Some(parked) = self.parked.take() else {
            return Ok(());
        };
        let acting = self.life.set_aside();
        let state = self.take_and_give_back(&parked.name);
        self.life.take_up(acting);
        let state =
            state.map_err(|error| Broken(format!("{} cannot be held again: {error}", parked.name)))?;
        let judged = parked.history.judge(&state);
        judged.map_err(|Broken(why)| Broken(format!("{}, which was held as well: {why}", parked.name)))?;
        let is_branch = true;
        self.lines.insert(parked.name, Line { is_branch, state });
        Ok(())
    }

    /// Holds a branch for as long as it takes to read all of it: then also a session that has ended holds it no more.
    fn take_and_give_back(&mut self, name: &str) -> Result<Snapshot, Error> {
        self.life.hold(&self.settings, &self.clock, name)?;
        let found = survey(self.life.branch())?;
        self.life.branch().close()?;
        Ok(found)
    }
}
