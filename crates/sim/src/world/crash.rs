//! Crashes, recoveries and faults that come and go.

use super::World;
use super::life::{Life, Started};
use crate::check::{Broken, History, Verdict, broken, survey};
use crate::fault::{After, Loss, Sessions};
use crate::random::Random;
use tenure_store::faulty::{Fault, Plan};
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::{Owner, ReclaimAsk};

/// Recoveries that may fail before one is left in peace.
const FAILED_RECOVERIES_MAX: u64 = 4;

pub(super) fn draw_loss(random: &mut Random) -> Loss {
    *random.pick(&[Loss::Before, Loss::Midway, Loss::Behind])
}

/// Draws when the power fails in a life.
pub(super) fn draw_after(random: &mut Random) -> After {
    if random.one_in(3) {
        After::JournalWrites(random.below(40))
    } else {
        After::Calls(random.below(400))
    }
}

impl World {
    /// Lets the power fail some time in this life, or not.
    pub(super) fn plan_loss(&mut self) {
        if self.faults.one_in(2) {
            let (after, loss) = (draw_after(&mut self.faults), draw_loss(&mut self.faults));
            self.life.machine.lose_power(after, loss);
        }
    }

    /// Does what follows from the step before: a crash, the end of a process, the end of faults.
    pub(super) fn look_after(&mut self) -> Verdict<()> {
        self.adopt()?;
        if std::mem::take(&mut self.has_new_owner) {
            // Faults are of the machine that has gone.
            self.life.in_trouble = false;
        }
        self.note_batches();
        if self.life.machine.is_off() {
            return self.recover_from_loss();
        }
        let has_stopped = self.life.has_stopped();
        let given_up = self.life.broken();
        if has_stopped || given_up.is_some() || self.life.must_end {
            self.trace
                .note(format_args!("  the process must end: {given_up:?}"));
            if !self.life.was_in_trouble {
                return broken(format!(
                    "the drive or its client stopped without a fault: {given_up:?}"
                ));
            }
            if let (false, Some(error)) = (has_stopped, given_up) {
                return broken(format!("the client gave up, and the drive goes on: {error}"));
            }
            return self.kill();
        }
        self.let_arrive()?;
        if self.life.is_durable() {
            self.history.synced_all();
        }
        if self.life.in_trouble && self.faults.one_in(8) {
            return self.end_trouble();
        }
        Ok(())
    }

    /// Lets a write arrive whose process has ended, some time after another process has taken over.
    fn let_arrive(&mut self) -> Verdict<()> {
        if self.late.is_none() || !self.faults.one_in(4) {
            return Ok(());
        }
        let late = self.late.take().expect("it was just there");
        let disk = self.life.memory.disk().expect("memory has a disk");
        match late.arrive(&*disk) {
            Ok(has_arrived) => self
                .trace
                .note(format_args!("{late:?} arrives late: {has_arrived}")),
            Err(failure) => self
                .trace
                .note(format_args!("a write does not arrive: {failure}")),
        }
        Ok(())
    }

    /// Begins a time in which calls fail.
    pub(super) fn begin_trouble(&mut self) {
        if self.life.in_trouble || self.settings.plant.is_some() {
            return;
        }
        self.life.in_trouble = true;
        self.life.was_in_trouble = true;
        match self.faults.below(5) {
            0 => {
                self.trace.note(format_args!("  outage"));
                self.life.faulty.set_outage(true);
            }
            1 => {
                let space = self.life.memory.disk().expect("memory has a disk").space();
                let space = space.expect("memory does not fail");
                let bound = space.total - space.free + self.faults.below(1 << 20);
                self.trace.note(format_args!("  no more than {bound} bytes"));
                self.life.memory.limit_space(Some(bound));
            }
            _ => {
                let plan = self.draw_plan();
                self.trace.note(format_args!("  {plan:?}"));
                self.life.faulty.set_plan(plan);
            }
        }
    }

    fn draw_plan(&mut self) -> Plan {
        let all = [
            Fault::Refuse,
            Fault::NoSpace,
            Fault::LoseRequest,
            Fault::LoseReply,
            Fault::ClaimExists,
            Fault::ShortRead,
            Fault::WrongBody,
        ];
        let first = self.faults.below(all.len() as u64) as usize;
        let kinds = &all[first..=first + self.faults.below((all.len() - first) as u64) as usize];
        if self.faults.one_in(3) {
            let fault = *self.faults.pick(kinds);
            return Plan::none().at(self.faults.below(60), fault);
        }
        let one_in = 2 << self.faults.below(6);
        Plan::none().at_random(self.faults.next(), one_in, kinds)
    }

    fn clear_faults(&mut self) {
        self.life.faulty.set_plan(Plan::none());
        self.life.faulty.set_outage(false);
        self.life.memory.limit_space(None);
        self.life.in_trouble = false;
    }

    /// Ends the faults: from here on everything works again, unless the drive has said that it stopped.
    fn end_trouble(&mut self) -> Verdict<()> {
        self.trace.note(format_args!("the faults are over"));
        self.clear_faults();
        self.sync_all()?;
        self.look_after()
    }

    /// Goes on with the owner that has inherited the drive meanwhile, if one has.
    pub(super) fn adopt(&mut self) -> Verdict<()> {
        match self.life.adopt() {
            Err(error) => broken(format!("the next owner cannot open the drive: {error}")),
            Ok(None) => Ok(()),
            Ok(Some(late)) => {
                self.late = late;
                self.has_new_owner = true;
                self.counts.crashes += 1;
                self.refuse_losses()
            }
        }
    }

    /// The owner's process ends, and its machine goes on. A client in another process goes on as well, mostly.
    pub(super) fn kill(&mut self) -> Verdict<()> {
        if self.life.end_owner(Sessions::ComeBack) {
            return self.look_after();
        }
        self.counts.crashes += 1;
        let memory = self.life.memory.copy();
        self.recover_from(memory)
    }

    /// The machine ends.
    pub(super) fn lose_power(&mut self) -> Verdict<()> {
        self.life.machine.turn_off();
        self.recover_from_loss()
    }

    pub(super) fn recover_from_loss(&mut self) -> Verdict<()> {
        let memory = self.life.memory.clone();
        let memory = self.image(&memory);
        self.recover_from(memory)
    }

    /// Returns what a crash leaves: of the machine mostly, sometimes only of the process.
    fn image(&mut self, memory: &MemoryBucket) -> MemoryBucket {
        self.counts.crashes += 1;
        if self.faults.one_in(4) {
            self.trace.note(format_args!("the process ends"));
            self.late = self.life.machine.late();
            return memory.copy();
        }
        self.late = None;
        let seed = self.faults.next();
        self.trace.note(format_args!("the power fails"));
        memory.after_power_loss(seed)
    }

    /// Opens what a crash has left, and judges it.
    fn recover_from(&mut self, memory: MemoryBucket) -> Verdict<()> {
        self.touched.clear();
        self.recover(memory)
    }

    /// Opens what is left, though that may fail and crash as well, and judges it.
    pub(super) fn recover(&mut self, mut memory: MemoryBucket) -> Verdict<()> {
        self.note_batches();
        self.let_go();
        let mut failed = 0;
        loop {
            let may_fail = failed < FAILED_RECOVERIES_MAX && self.settings.plant.is_none();
            if self.try_recovery(memory.clone(), may_fail)? {
                self.life.machine.keep_power();
                self.judge_parked()?;
                self.plan_loss();
                self.shipped = (self.life.owner.ships(), self.history.changes());
                self.has_new_owner = false;
                return Ok(());
            }
            failed += 1;
            memory = self.image(&memory);
        }
    }

    /// Tries to open the drive and to take the branch again; tells whether it could.
    fn try_recovery(&mut self, memory: MemoryBucket, may_fail: bool) -> Verdict<bool> {
        let started = Started::new(memory, self.settings.plant, &self.trace);
        let (machine, faulty) = (started.machine.clone(), started.faulty.clone());
        let mut may_err = false;
        match self.faults.below(6) {
            0 | 1 if may_fail => {
                let after = After::Calls(self.faults.below(120));
                machine.lose_power(after, draw_loss(&mut self.faults));
            }
            2 if may_fail => {
                let faults = [
                    Fault::Refuse,
                    Fault::NoSpace,
                    Fault::LoseRequest,
                    Fault::LoseReply,
                    Fault::ClaimExists,
                    Fault::ShortRead,
                    Fault::WrongBody,
                ];
                let fault = *self.faults.pick(&faults);
                faulty.set_plan(Plan::none().at(self.faults.below(60), fault));
                may_err = true;
            }
            _ => {}
        }
        let around = (&self.settings, &self.clock, &self.trace);
        let opened = Life::open(started, around, &mut self.faults);
        faulty.set_plan(Plan::none());
        match opened {
            Ok(life) => {
                self.life = life;
                self.life.was_in_trouble = may_err;
            }
            Err(error) if machine.is_off() || may_err => {
                self.trace.note(format_args!("  the recovery failed: {error}"));
                return Ok(false);
            }
            Err(error) => return broken(format!("the drive cannot be opened: {error}")),
        }
        let judged = self
            .reclaim_first(may_fail, may_err)
            .and_then(|()| self.judge_recovery());
        // A power loss in the middle explains whatever came after it.
        if self.life.machine.is_off() {
            Ok(false)
        } else {
            judged.map(|()| true)
        }
    }

    /// Lets an owner give back what nothing needs before it does anything else, sometimes; it may be killed meanwhile.
    fn reclaim_first(&mut self, may_fail: bool, may_err: bool) -> Verdict<()> {
        if !self.owners.one_in(2) {
            return Ok(());
        }
        if may_fail && self.owners.one_in(2) {
            let after = After::Calls(self.owners.below(60));
            self.life.machine.lose_power(after, draw_loss(&mut self.owners));
        }
        let ask = ReclaimAsk {
            is_full: true,
            ..ReclaimAsk::default()
        };
        let reclaimed = Owner::reclaim(&*self.life.drive, ask);
        self.trace.note(format_args!(
            "  given back first: {:?}",
            reclaimed.as_ref().map(|told| told.freed)
        ));
        match reclaimed {
            Err(error) if !may_err => broken(format!("an owner that begins cannot reclaim: {error}")),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn refuse_losses(&self) -> Verdict<()> {
        let notices = self.life.drive.notices();
        self.trace.note(format_args!("opened: {notices:?}"));
        match notices.iter().find(|notice| notice.contains("lost")) {
            Some(lost) => broken(format!("the drive says that it has lost something: {lost}")),
            None => Ok(()),
        }
    }

    fn judge_recovery(&mut self) -> Verdict<()> {
        self.refuse_losses()?;
        let held = self.life.hold(&self.settings, &self.clock, &self.held);
        held.map_err(|error| Broken(format!("the branch cannot be held again: {error}")))?;
        let found = survey(self.life.branch());
        let found = found.map_err(|error| Broken(format!("the branch cannot be read again: {error}")))?;
        self.history.judge(&found)?;
        self.check_lines()?;
        self.check_drive()?;
        if !self.life.machine.is_off() {
            self.history = History::from(&found);
        }
        Ok(())
    }

    /// Ends the world in peace: nothing is in the way any more, so everything that is there must be found again.
    pub(super) fn end(&mut self) -> Verdict<()> {
        self.trace.note(format_args!("the end"));
        if self.life.in_trouble {
            self.end_trouble()?;
        }
        self.life.machine.keep_power();
        self.perform(&crate::workload::Step::Compare)?;
        self.perform(&crate::workload::Step::Reopen)?;
        self.life.machine.keep_power();
        self.perform(&crate::workload::Step::Compare)
    }
}
