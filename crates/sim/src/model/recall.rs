//! One grant between an owner and one holder: granted, used, recalled, given back, revoked.
//!
//! The holder is a machine: a kernel that caches answers, and a daemon that gives them and keeps the log. A recall goes
//! in this order: the daemon *sweeps* the kernel (cached answers go, and what was stored through a mapping comes out), ships
//! its log, and gives the grant back by its number. The owner takes the give-back after the batches before it.
//!
//! Between an owner and a holder messages may overtake each other: a recall may come before the grant that it recalls.
//! Grants have numbers for that reason. A session acts for `session_ttl` after its last renewal; then its daemon drops the
//! kernel's answers and its read grant, and blocks. An owner may take a read grant from a silent session without a word; the
//! next renewal says so. To take a write grant it ends the session, whose work becomes a stray.
//!
//! A machine may be paused. When it runs again its kernel answers until its daemon has looked at the clock. It may be
//! cloned: both twins believe that they are the session. Only one of them is *connected* at a time. A twin that connects says
//! what it holds and what it has shipped, and the owner compares. It renews where it is connected, so the other one acts for
//! `session_ttl` at most.
//!
//! What the laws ask is promise 4, and that nothing which a program was told is done gets lost without the session's becoming a
//! stray. All others are one step here: they change the inode when nobody holds it (`turns` shows what they wait for).
//! Which grants conflict is `subtree`'s question; time and drift are as in `grant`.

use super::explorer::{Law, Model, Report, explore};

mod machine;
mod owner;

use machine::{Hold, Leaving, Machine, Phase};
use owner::{GRANTS, Owner, SESSION_TTL_MAX};

/// What a wrong owner, daemon or session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A daemon ships its log before it sweeps the kernel.
    ShipsBeforeSweeping,
    /// A daemon that gave an answer during a sweep does not sweep again.
    SweepsOnce,
    /// A daemon lets the kernel's requests wait while it sweeps.
    HoldsRequestsWhileSweeping,
    /// An owner takes a give-back before the batches that it follows.
    GiveBackOvertakesBatches,
    /// A give-back counts for whatever grant there is.
    GiveBackNamesNoGrant,
    /// A daemon pays no heed to the recall of a grant that it has not heard of.
    IgnoresEarlyRecalls,
    /// A daemon takes a grant that it has given back before it came.
    TakesLateGrants,
    /// An owner takes a grant from a silent session too early, without a margin for the clocks.
    NoMarginForSilence,
    /// A renewal does not say that the owner took the read grant from the session.
    RenewalDoesNotTell,
    /// A lease runs on a clock that stands still while the machine is paused.
    ClockStopsInSleep,
    /// An owner accepts batches of a session that it ended.
    NoGrantCheck,
    /// An owner does not compare what a connecting twin holds and has shipped.
    NoComparing,
}

/// The world's bounds, and what is done wrong.
#[derive(Clone, Copy, Debug)]
pub struct Recalls {
    /// How many changes may be made, by the session and by others.
    pub changes: u8,
    /// How many times the owner may grant; at most 2.
    pub grants: u8,
    /// Whether time passes. Without it nobody is silent, and a recall that hangs hangs for ever.
    pub time: bool,
    /// Whether the machine may be paused.
    pub pauses: bool,
    /// Whether the machine may be cloned.
    pub clones: bool,
    /// Whether a sweep waits for the requests that the daemon has not answered. A kernel may do either: it locks pages
    /// and directories while it asks.
    pub kernel_waits: bool,
    /// Whether a session gives a grant back that nobody recalls.
    pub idles: bool,
    /// The planted fault.
    pub fault: Option<Fault>,
}

impl Recalls {
    /// Explores every interleaving within the bounds.
    pub fn explore(&self) -> Report {
        assert!(usize::from(self.grants) < GRANTS);
        explore(self)
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// How long a session must be silent before the owner takes what it holds, by the quickest clock.
    fn silence(&self) -> u8 {
        if self.has(Fault::NoMarginForSilence) {
            1
        } else {
            SESSION_TTL_MAX
        }
    }

    /// Whether the clock of a machine moves while it is paused.
    fn counts(&self, machine: &Machine) -> bool {
        !machine.is_paused || !self.has(Fault::ClockStopsInSleep)
    }
}

/// The owner, the machine and its clone, and what is under way from the owner to the connected one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    owner: Owner,
    machines: [Machine; 2],
    /// How many changes were made; each has its number.
    changes: u8,
    /// Grants under way by number, each with the version that it shows.
    granting: [Option<(Hold, u8)>; GRANTS],
    /// Recalls under way, as a set of numbers.
    recalling: u8,
}

/// One thing that happens; a machine is 0, or 1 for the clone.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "a trace prints them")]
pub(crate) enum Step {
    TimePasses,
    Grants { number: u8, hold: Hold },
    HearsGrant { number: u8 },
    Recalls { number: u8 },
    HearsRecall { number: u8 },
    KernelAsks(usize),
    DaemonPrepares(usize),
    KernelIsAnswered(usize),
    Writes(usize),
    StoresThroughAMapping(usize),
    BeginsToSweep(usize),
    SweepReturns(usize),
    Ships(usize),
    BatchArrives,
    GivesBack(usize),
    GiveBackArrives { number: u8 },
    AnotherChanges,
    TakesTheReadGrant,
    EndsTheSession,
    Renews(usize),
    Pauses(usize),
    RunsAgain(usize),
    LooksAtItsClock(usize),
    Cloned,
    Connects(usize),
}

impl Model for Recalls {
    type State = State;
    type Step = Step;

    fn starts(&self) -> Vec<State> {
        vec![State {
            owner: Owner::NEW,
            machines: [Machine::NEW, Machine::ABSENT],
            changes: 0,
            granting: [None; GRANTS],
            recalling: 0,
        }]
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        next.extend(self.tick(state));
        self.owner_steps(state, next);
        for at in 0..state.machines.len() {
            let machine = &state.machines[at];
            if machine.phase != Phase::Active {
                continue;
            }
            if self.pauses {
                next.extend(state.pause_or_run(at));
            }
            if machine.is_paused {
                continue;
            }
            self.kernel_steps(state, at, next);
            if machine.has_not_looked {
                next.push(state.with(at, Step::LooksAtItsClock(at), Machine::look_at_clock));
                continue;
            }
            self.daemon_steps(state, at, next);
        }
        if self.clones && state.machines[1].phase == Phase::Absent && state.machines[0].phase == Phase::Active
        {
            let mut after = state.clone();
            after.machines[1] = after.machines[0];
            next.push((Step::Cloned, after));
        }
    }

    fn laws(&self) -> Vec<Law<Self>> {
        vec![
            Law::always("whoever may answer knows every change", |m: &Self, s: &State| {
                s.noticing().all(|at| m.is_fresh(s, &s.machines[at]))
            }),
            Law::always("a grant that is gone leaves nothing unshipped", |_, s: &State| {
                s.noticing().all(|at| {
                    let machine = &s.machines[at];
                    let is_left = machine.has_log || machine.kernel.is_dirty;
                    let is_sent = machine.sent.is_some();
                    let may_ship = machine.returning.is_some() || machine.holds == Hold::Write;
                    (!is_left || machine.holds == Hold::Write) && (!is_sent || may_ship)
                })
            }),
            Law::always("what others are answered lacks nothing", |_, s: &State| {
                let others_are_answered = s.owner.granted != Hold::Write;
                !others_are_answered
                    || s.owner.is_over
                    || s.noticing().all(|at| s.machines[at].sent.is_none())
            }),
            Law::always("two never hold what one changes", |_, s: &State| {
                let writes = |machine: &Machine| machine.holds == Hold::Write && machine.is_live();
                s.owner.granted == Hold::Write || !s.noticing().any(|at| writes(&s.machines[at]))
            }),
            Law::always(
                "nothing of a session that was ended is accepted",
                |_, s: &State| !s.owner.has_accepted_late,
            ),
            Law::always("a recall is under way until it is answered", |_, s: &State| {
                let (owner, machine) = (&s.owner, &s.machines[usize::from(s.owner.connected)]);
                let is_sent = s.recalling & 1 << owner.number != 0;
                let is_heard = machine.leaving != Leaving::No || machine.returning == Some(owner.number);
                !owner.is_recalled || machine.phase != Phase::Active || is_sent || is_heard
            }),
            Law::sometimes("a grant with changes is given back", |_, s: &State| {
                s.owner.granted == Hold::None && s.owner.last > 0 && !s.owner.is_over
            }),
            Law::sometimes("a session comes back and goes on", |m: &Self, s: &State| {
                let machine = &s.machines[0];
                let goes_on = s.owner.granted == Hold::Write && machine.is_live() && machine.has_log;
                !m.time || goes_on && machine.has_lapsed
            }),
            Law::sometimes("unshipped work becomes a stray", |m: &Self, s: &State| {
                !m.time || s.machines[0].phase == Phase::Stray && s.machines[0].has_log
            }),
            Law::stays_possible(
                "what is recalled comes back",
                |m: &Self, s: &State| !m.time && s.owner.is_recalled,
                |_, s: &State| s.owner.granted == Hold::None,
            ),
        ]
    }
}

impl Recalls {
    /// Whether a machine's answers, if it may give any, are those of the newest version.
    fn is_fresh(&self, state: &State, machine: &Machine) -> bool {
        let answers = machine.kernel.cached.is_some() || machine.holds != Hold::None && machine.is_live();
        let kernel_agrees =
            machine.kernel.is_dirty || machine.kernel.cached.is_none_or(|v| v == machine.local);
        !answers || machine.base == state.owner.version && kernel_agrees
    }

    /// Every clock moves. A daemon that runs looks at its clock before.
    fn tick(&self, state: &State) -> Option<(Step, State)> {
        let may = self.time && !state.machines.iter().any(|m| m.has_not_looked && !m.is_paused);
        may.then(|| {
            let mut after = state.clone();
            after.owner.silence = (after.owner.silence + 1).min(SESSION_TTL_MAX);
            for machine in &mut after.machines {
                if machine.phase == Phase::Active && self.counts(machine) {
                    machine.lease_age = (machine.lease_age + 1).min(SESSION_TTL_MAX);
                    if !machine.is_paused {
                        machine.drop_when_over();
                    }
                }
            }
            (Step::TimePasses, after)
        })
    }

    /// What the programs of a machine and its kernel do without the daemon, and how they are answered.
    fn kernel_steps(&self, state: &State, at: usize, next: &mut Vec<(Step, State)>) {
        let machine = &state.machines[at];
        let kernel = machine.kernel;
        if kernel.cached.is_none() && !kernel.asks {
            next.push(state.with(at, Step::KernelAsks(at), |m| m.kernel.asks = true));
        }
        let is_mapped = kernel.cached.is_some() && machine.holds == Hold::Write;
        if is_mapped && state.changes < self.changes {
            next.push(state.with_change(at, Step::StoresThroughAMapping(at), Machine::store));
        }
        if kernel.answer.is_some() {
            next.push(state.with(at, Step::KernelIsAnswered(at), Machine::deliver));
        }
    }

    fn daemon_steps(&self, state: &State, at: usize, next: &mut Vec<(Step, State)>) {
        let machine = &state.machines[at];
        let kernel = machine.kernel;
        let may_answer = match machine.leaving {
            Leaving::No => true,
            Leaving::Sweeping { .. } => !self.has(Fault::HoldsRequestsWhileSweeping),
            Leaving::Swept => false,
        };
        if machine.may_read() && may_answer && kernel.asks && kernel.answer.is_none() {
            next.push(state.with(at, Step::DaemonPrepares(at), Machine::prepare));
        }
        if machine.may_write() && machine.leaving == Leaving::No && state.changes < self.changes {
            next.push(state.with_change(at, Step::Writes(at), Machine::write));
        }
        if self.idles && machine.holds != Hold::None && machine.leaving == Leaving::No {
            next.push(state.with(at, Step::BeginsToSweep(at), |m| self.begin_to_leave(m)));
        }
        let can_return = !self.kernel_waits || !kernel.asks;
        if let Leaving::Sweeping { answered } = machine.leaving
            && can_return
        {
            let again = (answered || kernel.answer.is_some()) && !self.has(Fault::SweepsOnce);
            let sweep_returns = |m: &mut Machine| {
                if again {
                    m.sweep()
                } else {
                    m.leaving = Leaving::Swept
                }
            };
            next.push(state.with(at, Step::SweepReturns(at), sweep_returns));
        }
        if !state.is_connected(at) {
            next.extend(self.connect(state, at));
            return;
        }
        if machine.has_log && machine.sent.is_none() && machine.holds == Hold::Write {
            next.push(state.with(at, Step::Ships(at), Machine::ship));
        }
        let is_shipped = !machine.has_log || self.has(Fault::ShipsBeforeSweeping);
        if machine.leaving == Leaving::Swept && is_shipped && machine.returning.is_none() {
            next.push(state.with(at, Step::GivesBack(at), Machine::give_back));
        }
        next.push(self.renew(state, at));
    }

    fn begin_to_leave(&self, machine: &mut Machine) {
        if self.has(Fault::ShipsBeforeSweeping) && machine.has_log && machine.sent.is_none() {
            machine.ship();
        }
        machine.sweep();
    }

    fn renew(&self, state: &State, at: usize) -> (Step, State) {
        let mut after = state.clone();
        let (machine, owner) = (&mut after.machines[at], &mut after.owner);
        if owner.is_over {
            machine.become_stray();
        } else {
            machine.lease_age = 0;
            owner.silence = 0;
            let took = std::mem::take(&mut owner.took);
            if took > 0 && !self.has(Fault::RenewalDoesNotTell) {
                machine.lose_reads(took);
            }
        }
        (Step::Renews(at), after)
    }

    /// A machine that is not the connected one connects in its place.
    fn connect(&self, state: &State, at: usize) -> Option<(Step, State)> {
        let mut after = state.clone();
        let machine = &mut after.machines[at];
        let owner = &mut after.owner;
        if owner.is_over || !self.has(Fault::NoComparing) && !owner.agrees_with(machine) {
            machine.become_stray();
            return Some((Step::Connects(at), after));
        }
        owner.connected = at as u8;
        owner.settle_with(machine);
        after.granting = [None; GRANTS];
        after.recalling = if owner.is_recalled { 1 << owner.number } else { 0 };
        Some((Step::Connects(at), after))
    }
}

impl State {
    fn is_connected(&self, at: usize) -> bool {
        usize::from(self.owner.connected) == at
    }

    /// The machines that run, have looked at their clocks, and are connected: those that promise 4 is about.
    fn noticing(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.machines.len()).filter(|&at| {
            let machine = &self.machines[at];
            let runs = machine.phase == Phase::Active && !machine.is_paused && !machine.has_not_looked;
            runs && self.is_connected(at)
        })
    }

    fn with(&self, at: usize, step: Step, does: impl FnOnce(&mut Machine)) -> (Step, State) {
        let mut after = self.clone();
        does(&mut after.machines[at]);
        (step, after)
    }

    fn with_change(&self, at: usize, step: Step, does: impl FnOnce(&mut Machine, u8)) -> (Step, State) {
        let mut after = self.clone();
        after.changes += 1;
        does(&mut after.machines[at], after.changes);
        (step, after)
    }

    fn pause_or_run(&self, at: usize) -> Option<(Step, State)> {
        let machine = &self.machines[at];
        if !machine.is_paused {
            return Some(self.with(at, Step::Pauses(at), |m| m.is_paused = true));
        }
        Some(self.with(at, Step::RunsAgain(at), |m| {
            m.is_paused = false;
            m.has_not_looked = true;
        }))
    }
}
