//! Forks, checkpoints and remounts: what is made keeps what it was made from, and nothing else changes it.

use super::{Line, Unknown, World};
use crate::check::{Broken, History, Verdict, broken, survey};
use std::collections::BTreeSet;
use tenure_model::record::Source;
use tenure_model::{BranchName, CheckpointName, Failure};
use tenure_wire::{CheckpointAsk, Error, ForkAsk, Owner};

/// Branches and checkpoints that there may be beside the one that is held.
const LINES_MAX: usize = 6;
/// Checkpoints of nothing, in worlds with many rows.
const ROWS: u32 = 80;

impl World {
    /// Begins with what a new drive holds.
    pub(super) fn begin_history(&mut self) -> Verdict<()> {
        self.life.machine.keep_power();
        let held = self.life.hold(&self.settings, &self.clock, "main");
        held.map_err(|error| Broken(format!("a new branch cannot be held: {error}")))?;
        let found = survey(self.life.branch());
        let found = found.map_err(|error| Broken(format!("a new branch cannot be read: {error}")))?;
        self.history = History::from(&found);
        Ok(())
    }

    /// Makes so many checkpoints, in some worlds, that the drive's own rows have many pages, of which a fold changes few.
    pub(super) fn make_many_rows(&mut self) -> Verdict<()> {
        self.rows = if self.owners.one_in(3) { ROWS } else { 0 };
        for number in 0..self.rows {
            let name = CheckpointName::parse(&row_name(number)).expect("a valid name");
            let held = BranchName::parse(&self.held).expect("the world makes valid names");
            let made = Owner::checkpoint(&*self.life.drive, &CheckpointAsk::new(held, name));
            made.map_err(|error| Broken(format!("a checkpoint cannot be made: {error}")))?;
        }
        Ok(())
    }

    /// Makes a branch or a checkpoint of what is held.
    pub(super) fn fork(&mut self, is_branch: bool) -> Verdict<()> {
        if self.lines.len() >= LINES_MAX || self.unknown.is_some() {
            return Ok(());
        }
        self.names_used += 1;
        let name = format!("line-{}", self.names_used);
        let held = BranchName::parse(&self.held).expect("the world makes valid names");
        let owner = &self.life.owner;
        let made = if is_branch {
            let id = owner.branches().map(|all| {
                let held = all.iter().find(|one| one.name == self.held);
                held.and_then(|one| one.branch)
                    .expect("the branch that is held is there")
            });
            let name = BranchName::parse(&name).expect("the world makes valid names");
            id.and_then(|id| owner.fork(&ForkAsk::new(Source::Branch(id), name)))
        } else {
            let name = CheckpointName::parse(&name).expect("the world makes valid names");
            owner.checkpoint(&CheckpointAsk::new(held, name))
        };
        let is_certain = made.is_ok();
        if let Err(error) = &made {
            self.failed(error)?;
            if !self.may_be_done(error) {
                return Ok(());
            }
        }
        self.trace
            .note(format_args!("  {name}, made for certain: {is_certain}"));
        self.unknown = Some(Unknown {
            name,
            is_branch,
            is_certain,
            history: self.history.clone(),
        });
        if is_certain { self.learn_line() } else { Ok(()) }
    }

    /// Looks whether a line that was made, or may have been, is there, and what is in it.
    pub(super) fn learn_line(&mut self) -> Verdict<()> {
        let Some(unknown) = self.unknown.take() else {
            return Ok(());
        };
        let name = unknown.name.clone();
        let all = self.life.owner.branches();
        let Some(all) = self.done(all)? else {
            self.unknown = Some(unknown);
            return Ok(());
        };
        if !all.iter().any(|one| one.name == name) {
            return if unknown.is_certain {
                broken(format!("{name} was made and is not there"))
            } else {
                Ok(())
            };
        }
        let found = self.look_at(&name);
        let Some(state) = self.done(found)? else {
            self.unknown = Some(unknown);
            return Ok(());
        };
        let judged = unknown.history.judge(&state);
        judged.map_err(|Broken(why)| Broken(format!("{name}: {why}")))?;
        let is_branch = unknown.is_branch;
        self.lines.insert(name, Line { is_branch, state });
        Ok(())
    }

    /// Reads all that a branch or checkpoint is.
    pub(super) fn look_at(&self, name: &str) -> Result<crate::check::Snapshot, Error> {
        let reader = self.life.look_at(&self.settings, &self.clock, name)?;
        let found = survey(&reader)?;
        reader.close()?;
        Ok(found)
    }

    pub(super) fn delete_line(&mut self) -> Verdict<()> {
        let Some(name) = self.some_line(|_| true) else {
            return Ok(());
        };
        if self.unknown.is_some() {
            return Ok(());
        }
        self.trace.note(format_args!("  {name}"));
        let parsed = BranchName::parse(&name).expect("the world makes valid names");
        let deleted = self.life.owner.delete_branch(&parsed);
        match deleted {
            Ok(()) => drop(self.lines.remove(&name)),
            Err(error) => {
                self.failed(&error)?;
                if self.may_be_done(&error) {
                    let line = self.lines.remove(&name).expect("it was chosen from them");
                    self.gone.insert(name, line);
                }
            }
        }
        Ok(())
    }

    /// Tells whether what failed may be done all the same.
    fn may_be_done(&self, error: &Error) -> bool {
        let waits = matches!(error, Error::Failed(Failure::Waits(_)));
        waits || self.told_of_loss || self.life.machine.is_off() || self.life.has_stopped()
    }

    /// Makes what waits durable, so that it can be told from what was never done; tells whether that went well.
    fn settle_lines(&mut self) -> Verdict<bool> {
        let is_certain = self.unknown.as_ref().is_none_or(|unknown| unknown.is_certain);
        if is_certain && self.gone.is_empty() {
            return Ok(true);
        }
        let folded = self.life.owner.fold();
        Ok(self.done(folded)?.is_some())
    }

    pub(super) fn some_line(&mut self, may: impl Fn(&Line) -> bool) -> Option<String> {
        let names: Vec<_> = self
            .lines
            .iter()
            .filter(|(_, line)| may(line))
            .map(|(name, _)| name)
            .collect();
        (!names.is_empty()).then(|| (*self.workload.pick(&names)).clone())
    }

    /// Looks at one line that nobody holds: it is what it was.
    pub(super) fn inspect_one(&mut self) -> Verdict<()> {
        match self.some_line(|_| true) {
            Some(name) => self.inspect(&name),
            None => Ok(()),
        }
    }

    fn inspect(&mut self, name: &str) -> Verdict<()> {
        self.trace.note(format_args!("  {name}"));
        let found = self.look_at(name);
        let Some(found) = self.done(found)? else {
            return Ok(());
        };
        let expected = History::from(&self.lines[name].state);
        expected
            .judge(&found)
            .map_err(|Broken(why)| Broken(format!("{name} is not what it was: {why}")))
    }

    /// Checks that all lines are there that should be, and some of them whole.
    pub(super) fn check_lines(&mut self) -> Verdict<()> {
        if !self.settle_lines()? {
            return Ok(());
        }
        self.learn_line()?;
        let all = self.life.owner.branches();
        let Some(all) = self.done(all)? else { return Ok(()) };
        // What the owner makes by itself nobody has asked for.
        let asked_for = all.into_iter().filter(|one| !one.is_automatic);
        let there: BTreeSet<String> = asked_for.map(|one| one.name).collect();
        for (name, line) in std::mem::take(&mut self.gone) {
            if there.contains(&name) {
                self.lines.insert(name, line);
            }
        }
        let mut expected: BTreeSet<String> = self.lines.keys().cloned().collect();
        expected.insert(self.held.clone());
        expected.extend((0..self.rows).map(row_name));
        expected.extend(self.parked.as_ref().map(|parked| parked.name.clone()));
        if let Some(missing) = expected.difference(&there).next() {
            return broken(format!("{missing} is gone"));
        }
        let is_unknown = |name: &String| self.unknown.as_ref().is_some_and(|unknown| unknown.name == *name);
        if let Some(extra) = there.difference(&expected).find(|name| !is_unknown(name)) {
            return broken(format!("{extra} is there and was never made, or was deleted"));
        }
        for name in self.lines.keys().cloned().collect::<Vec<_>>() {
            if self.faults.one_in(3) {
                self.inspect(&name)?;
            }
        }
        Ok(())
    }

    /// Gives the branch back, and takes it or another one.
    pub(super) fn remount(&mut self) -> Verdict<()> {
        if !self.close_branch()? {
            return Ok(());
        }
        let other = self.some_line(|line| line.is_branch);
        if let Some(name) = other.filter(|_| self.unknown.is_none() && self.workload.one_in(2)) {
            let state = self.history.snapshot();
            let line = self.lines.remove(&name).expect("it was chosen from them");
            let left = std::mem::replace(&mut self.held, name);
            self.history = History::from(&line.state);
            self.touched.clear();
            self.lines.insert(
                left,
                Line {
                    is_branch: true,
                    state,
                },
            );
        }
        self.trace.note(format_args!("  {}", self.held));
        self.hold_again()
    }

    /// Gives the branch back; tells whether that was done.
    pub(super) fn close_branch(&mut self) -> Verdict<bool> {
        let closed = self.life.sync(tenure_client::Branch::close);
        let is_closed = self.done(closed)?.is_some();
        if is_closed {
            self.history.synced_all();
            self.history = History::from(&self.history.snapshot());
        } else if !self.life.machine.is_off() {
            // Without its session it is of no use: the process ends.
            self.life.must_end = true;
        }
        Ok(is_closed)
    }

    fn hold_again(&mut self) -> Verdict<()> {
        let held = self.life.hold(&self.settings, &self.clock, &self.held);
        if self.done(held)?.is_none() {
            self.life.must_end = true;
            return Ok(());
        }
        let found = survey(self.life.branch());
        match self.done(found)? {
            Some(found) => self.history.judge(&found),
            None => Ok(()),
        }
    }

    /// Closes the drive in good order and opens it again.
    pub(super) fn reopen(&mut self) -> Verdict<()> {
        if !self.close_parked()? || !self.close_branch()? {
            return Ok(());
        }
        self.life.let_go();
        let closed = self.life.drive.close();
        let is_closed = self.done(closed)?.is_some();
        self.trace.note(format_args!("  closed: {is_closed}"));
        let memory = self.life.memory.copy();
        if self.life.machine.is_off() {
            return self.recover_from_loss();
        }
        self.life.machine.turn_off();
        self.recover(memory)
    }

    /// Holds the drive's invariants and every byte against what is stored.
    pub(super) fn check_drive(&mut self) -> Verdict<()> {
        if self.life.in_trouble {
            return Ok(());
        }
        let checked = self.life.owner.check(true);
        match self.done(checked)? {
            Some(faults) if !faults.is_empty() && !self.life.machine.is_off() => {
                broken(format!("the drive is not whole: {}", faults.join("; ")))
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn row_name(number: u32) -> String {
    format!("row-{number}")
}
