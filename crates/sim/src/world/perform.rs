//! Performing a step: the call is made, and its answer is held against the reference.

mod content;
mod entry;
mod look;

use super::World;
use crate::check::{Change, Verdict, broken};
use crate::workload::Step;
use std::sync::mpsc;
use std::time::Duration;
use tenure_client::Branch;
use tenure_model::{Failure, Ino, Refusal};
use tenure_wire::{Error, Owner, ReclaimAsk};

/// How long an idle world is idle at once, and how often.
const IDLE: Duration = Duration::from_secs(3600);
const IDLE_TIMES: u32 = 10;

impl World {
    /// Makes a step happen.
    pub(super) fn perform(&mut self, step: &Step) -> Verdict<()> {
        self.trace.note(format_args!("{step:?}"));
        self.told_of_loss = false;
        // A client that is there says so all the time, however long it has nothing else to say.
        self.life.owner.hear(self.life.branch().session());
        match step {
            Step::Entry(step) => self.change_entries(step),
            Step::Inode(ino, step) => self.change_inode(*ino, step),
            Step::Content(ino, step) => self.change_content(*ino, step),
            Step::SyncAll => self.sync_all().map(|_| ()),
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
            Step::Switch => self.switch(),
            Step::Ask => self.ask_for_held(),
            Step::TakeOver => self.take_over(),
            Step::Fold => {
                let folded = self.life.owner.fold();
                self.done(folded)?;
                // A quarter of what is in a pack is little in these worlds.
                let ask = ReclaimAsk {
                    is_full: true,
                    ..ReclaimAsk::default()
                };
                let reclaimed = self.life.owner.reclaim(ask);
                let freed = self.done(reclaimed)?.map(|told| told.freed);
                self.trace.note(format_args!("  given back: {freed:?}"));
                Ok(())
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
        self.adopt()?;
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.failed(&error).map(|()| None),
        }
    }

    /// Judges a failure: it has to have a reason.
    pub(super) fn failed(&mut self, error: &Error) -> Verdict<()> {
        self.trace.note(format_args!("  {error}"));
        self.counts.failures += 1;
        self.adopt()?;
        self.told_of_loss = self.life.owner.take_told_of_loss();
        if self.told_of_loss {
            return Ok(());
        }
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
    fn changed<T>(&mut self, outcome: Result<T, Error>, change: Change) -> Verdict<bool> {
        match outcome {
            Ok(_) => match self.history.change(change) {
                Ok(()) => Ok(true),
                Err(refusal) => broken(format!("it was done, and should be refused: {refusal}")),
            },
            Err(Error::Refused(refusal)) => self.refused(&refusal, &change).map(|()| false),
            Err(error @ Error::Failed(_)) => self.failed(&error).map(|()| false),
        }
    }

    /// Holds a refusal of a change against the reference.
    fn refused(&mut self, refusal: &Refusal, change: &Change) -> Verdict<()> {
        self.trace.note(format_args!("  refused: {refusal}"));
        match self.history.names().decide(change) {
            Err(expected) if expected == *refusal => Ok(()),
            Err(expected) => broken(format!(
                "it was refused with \"{refusal}\" instead of \"{expected}\""
            )),
            Ok(()) if *refusal == Refusal::NoSpace && self.life.in_trouble => Ok(()),
            Ok(()) => broken(format!("it was refused with \"{refusal}\" and should be done")),
        }
    }

    fn sync(&mut self, ino: Ino) -> Verdict<()> {
        let synced = self.life.sync(|branch: &Branch| {
            let (send, receive) = mpsc::channel();
            branch.sync(ino, Box::new(move |synced| drop(send.send(synced))));
            receive
                .try_recv()
                .expect("without threads a sync is answered at once")
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

    /// Lets nothing happen for long: then nothing is asked of the bucket.
    fn idle(&mut self) -> Verdict<()> {
        if self.life.in_trouble || !self.sync_all()? {
            return Ok(());
        }
        let before = self.life.machine.calls();
        for _ in 0..IDLE_TIMES {
            self.clock.pass(IDLE);
            self.life.branch().step();
        }
        match self.life.machine.calls() - before {
            0 => Ok(()),
            calls => broken(format!("an idle drive asked {calls} things of its bucket")),
        }
    }
}
