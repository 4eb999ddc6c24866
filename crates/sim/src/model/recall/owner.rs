//! The owner in the world of `recall`, and what others do there.

use super::machine::{FORGETFUL, Hold, Leaving, Machine, Phase};
use super::{Fault, Recalls, State, Step};

/// Numbers of grants, which begin with 1.
pub(super) const GRANTS: usize = 3;
/// How old a lease can be by the slowest clock, and how long a silence must be by the quickest: `session_ttl` of two ticks and
/// a margin of one.
pub(super) const SESSION_TTL_MAX: u8 = 3;

/// What the owner knows.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    pub(super) version: u8,
    /// What the session holds.
    pub(super) granted: Hold,
    /// The number of the last grant.
    pub(super) number: u8,
    pub(super) is_recalled: bool,
    /// The last batch that it accepted of the session.
    pub(super) last: u8,
    /// For how long it has not heard a renewal.
    pub(super) silence: u8,
    /// The number of the read grant that it took from the silent session and has not told it of; 0 if there is none.
    pub(super) took: u8,
    /// Whether it ended the session.
    pub(super) is_over: bool,
    /// Which machine is the session's.
    pub(super) connected: u8,
    /// The witness's note: whether it accepted a batch of the session after it had ended it.
    pub(super) has_accepted_late: bool,
}

impl Owner {
    pub(super) const NEW: Self = Self {
        version: 0,
        granted: Hold::None,
        number: 0,
        is_recalled: false,
        last: 0,
        silence: 0,
        took: 0,
        is_over: false,
        connected: 0,
        has_accepted_late: false,
    };

    /// Whether what a connecting machine says is what this owner knows of its session.
    pub(super) fn agrees_with(&self, machine: &Machine) -> bool {
        let is_last = machine.shipped == self.last || machine.sent == Some(self.last);
        let holds_write = machine.holds == Hold::Write || machine.returning.is_some();
        let has_work = machine.has_log || machine.sent.is_some() || machine.kernel.is_dirty;
        let still_holds = self.granted == Hold::Write && self.number == machine.number;
        is_last && (!holds_write || still_holds || !has_work)
    }

    /// What the two do not both know of is over.
    pub(super) fn settle_with(&mut self, machine: &mut Machine) {
        if machine.sent == Some(self.last) {
            machine.hear_of_batch(self.last);
        }
        let is_same = self.granted == machine.holds && self.number == machine.number;
        let is_returned = machine.returning == Some(self.number) && self.granted != Hold::None;
        if !is_returned {
            machine.returning = None;
        }
        if !is_same && !is_returned {
            (self.granted, self.is_recalled) = (Hold::None, false);
        }
        if !is_same {
            machine.kernel = FORGETFUL;
            (machine.holds, machine.leaving) = (Hold::None, Leaving::No);
            machine.number = self.number;
        }
    }
}

impl Recalls {
    /// What the owner does, and what comes to it.
    pub(super) fn owner_steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        let owner = &state.owner;
        next.extend(
            [Hold::Read, Hold::Write]
                .map(|hold| self.grant(state, hold))
                .into_iter()
                .flatten(),
        );
        if owner.granted != Hold::None && !owner.is_recalled {
            let mut after = state.clone();
            after.owner.is_recalled = true;
            after.recalling |= 1 << owner.number;
            next.push((Step::Recalls { number: owner.number }, after));
        }
        if owner.granted == Hold::None && state.changes < self.changes {
            let mut after = state.clone();
            after.changes += 1;
            after.owner.version = after.changes;
            next.push((Step::AnotherChanges, after));
        }
        if owner.is_recalled && owner.silence >= self.silence() {
            next.push(state.with_grant_taken());
        }
        let machine = &state.machines[usize::from(owner.connected)];
        if machine.phase == Phase::Active && !machine.is_paused {
            next.extend(self.take_batch(state, machine));
            next.extend(self.take_give_back(state, machine));
            if !machine.has_not_looked {
                self.hear(state, machine, next);
            }
        }
    }

    /// The owner grants, if the session holds nothing, or reads and wants to write.
    fn grant(&self, state: &State, hold: Hold) -> Option<(Step, State)> {
        let owner = &state.owner;
        let is_upgrade = owner.granted == Hold::Read && hold == Hold::Write && !owner.is_recalled;
        let may = !owner.is_over && owner.number < self.grants && (owner.granted == Hold::None || is_upgrade);
        may.then(|| {
            let mut after = state.clone();
            after.owner.number += 1;
            let number = after.owner.number;
            (after.owner.granted, after.owner.is_recalled) = (hold, false);
            after.granting[usize::from(number)] = Some((hold, owner.version));
            (Step::Grants { number, hold }, after)
        })
    }

    /// The connected machine hears of a grant or a recall, in any order.
    fn hear(&self, state: &State, machine: &Machine, next: &mut Vec<(Step, State)>) {
        let at = usize::from(state.owner.connected);
        for number in 1..=self.grants {
            if let Some((hold, version)) = state.granting[usize::from(number)] {
                let (step, mut after) = state.with(at, Step::HearsGrant { number }, |m| {
                    if number > m.number || self.has(Fault::TakesLateGrants) {
                        m.take(number, hold, version);
                    }
                });
                after.granting[usize::from(number)] = None;
                next.push((step, after));
            }
            if state.recalling & 1 << number != 0 {
                // An answer under way goes first; the numbers of grants are few.
                if number > machine.number && machine.returning.is_some() {
                    continue;
                }
                let (step, mut after) =
                    state.with(at, Step::HearsRecall { number }, |m| self.hear_recall(m, number));
                after.recalling &= !(1 << number);
                next.push((step, after));
            }
        }
    }

    /// A recall is for everything up to its number, also for what has not come yet or is gone already.
    fn hear_recall(&self, machine: &mut Machine, number: u8) {
        let is_early = number > machine.number;
        if is_early && self.has(Fault::IgnoresEarlyRecalls) || number < machine.number {
            return;
        }
        machine.number = number;
        if machine.holds == Hold::None {
            machine.returning = Some(number);
        } else if machine.leaving == Leaving::No {
            self.begin_to_leave(machine);
        }
    }

    /// A batch arrives. One of a session that does not hold what it changes is refused, and the session told.
    fn take_batch(&self, state: &State, machine: &Machine) -> Option<(Step, State)> {
        let version = machine.sent?;
        let at = usize::from(state.owner.connected);
        let is_granted = state.owner.granted == Hold::Write && !state.owner.is_over;
        if !is_granted && !self.has(Fault::NoGrantCheck) {
            return Some(state.with(at, Step::BatchArrives, Machine::become_stray));
        }
        let (step, mut after) = state.with(at, Step::BatchArrives, |m| m.hear_of_batch(version));
        (after.owner.version, after.owner.last) = (version, version);
        after.owner.has_accepted_late |= !is_granted;
        Some((step, after))
    }

    fn take_give_back(&self, state: &State, machine: &Machine) -> Option<(Step, State)> {
        let number = machine.returning?;
        let may = machine.sent.is_none() || self.has(Fault::GiveBackOvertakesBatches);
        may.then(|| {
            let at = usize::from(state.owner.connected);
            let (step, mut after) = state.with(at, Step::GiveBackArrives { number }, |m| m.returning = None);
            if number == after.owner.number || self.has(Fault::GiveBackNamesNoGrant) {
                (after.owner.granted, after.owner.is_recalled) = (Hold::None, false);
            }
            (step, after)
        })
    }
}

impl State {
    /// The owner takes what a silent session holds: a read grant alone, or all and for good.
    fn with_grant_taken(&self) -> (Step, State) {
        let mut after = self.clone();
        let reads = after.owner.granted == Hold::Read;
        (after.owner.granted, after.owner.is_recalled) = (Hold::None, false);
        if reads {
            after.owner.took = after.owner.number;
            return (Step::TakesTheReadGrant, after);
        }
        after.owner.is_over = true;
        (Step::EndsTheSession, after)
    }
}
