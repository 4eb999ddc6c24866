//! Who waits for whom: ops that need what others hold, in two directories.
//!
//! A session does an op by itself where it holds what the op touches. Otherwise the op goes to the owner, which recalls
//! what stands in its way, does it, and may grant with the answer. Ops that touch the same directory take turns in the
//! order of their coming, and nothing is granted past one that waits.
//!
//! While an op waits, the kernel that asked for it keeps the op's directories locked, and no sweep of them returns. So a
//! give-back must not need that lock: the names that the kernel caches expire, or are made invalid all at once. And a
//! session gives back what its own waiting op counts on.
//!
//! *Hysteresis*: a holder keeps what it may change for a while after it was granted, whoever asks. One who only looks does not
//! end the grant: the holder ships what it has, and the owner answers.
//!
//! Time passes only when nothing that is due is left to do: messages and disks are quick beside it. No session is silent
//! here (`recall` takes from those), and what an op does to the directories is `subtree`'s.

use super::explorer::{Law, Model, Report, explore};

/// How many directories and sessions there are.
const COUNT: usize = 2;
/// For how long a holder keeps a grant after it was given, in ticks.
const KEEPING: u8 = 1;
/// The longest wait that is told apart.
const WAIT_MAX: u8 = 3;

/// What a wrong owner or session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A session gives nothing back that its own waiting op touches, be it that the sweep needs the kernel's lock.
    GivesBackAfterItsOp,
    /// An owner grants past an op that waits.
    GrantsPastWaiters,
    /// An owner does ops as they become possible, not in the order of their coming.
    DoesWhatIsPossible,
    /// A holder keeps its grant for a while after it last used it.
    KeepsWhatIsInUse,
    /// One who looks ends the grant of one who changes, at once.
    LooksEndGrants,
}

/// What is done wrong. The world is always the same.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// The planted fault.
    pub fault: Option<Fault>,
}

impl Turns {
    /// Explores every interleaving.
    pub fn explore(&self) -> Report {
        explore(self)
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

/// What a session holds of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Hold {
    None,
    Read,
    Write,
}

/// What a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Look(usize),
    Change(usize),
    /// From one directory to the other.
    Rename,
}

impl Op {
    const ALL: [Self; 5] = [
        Self::Look(0),
        Self::Look(1),
        Self::Change(0),
        Self::Change(1),
        Self::Rename,
    ];

    fn touches(self, dir: usize) -> bool {
        match self {
            Self::Look(at) | Self::Change(at) => at == dir,
            Self::Rename => true,
        }
    }

    /// What a session must hold to do it by itself.
    fn needs(self) -> Hold {
        match self {
            Self::Look(_) => Hold::Read,
            Self::Change(_) | Self::Rename => Hold::Write,
        }
    }

    fn meets(self, other: Self) -> bool {
        (0..COUNT).any(|dir| self.touches(dir) && other.touches(dir))
    }
}

/// An op that waits at the owner.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Waiting {
    op: Op,
    /// For how long, in ticks.
    age: u8,
    /// How many times another, who came later, was preferred.
    passed: u8,
}

/// What a session holds, and what it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Session {
    holds: [Hold; COUNT],
    /// How long ago each was granted.
    ages: [u8; COUNT],
    recalled: [bool; COUNT],
    waiting: Option<Waiting>,
    /// The witness's note: whether a grant ended because somebody looked.
    lost_to_a_look: bool,
}

/// The sessions, and whose turn it is where both wait.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    sessions: [Session; COUNT],
    first: usize,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "a trace prints them")]
pub(crate) enum Step {
    TimePasses,
    Asks { session: usize, op: Op },
    Uses { session: usize, dir: usize },
    Recalls { session: usize, dir: usize },
    GivesBack { session: usize, dir: usize },
    Done { session: usize, op: Op, granted: Hold },
}

impl Model for Turns {
    type State = State;
    type Step = Step;

    fn starts(&self) -> Vec<State> {
        let session = Session {
            holds: [Hold::None; COUNT],
            ages: [KEEPING; COUNT],
            recalled: [false; COUNT],
            waiting: None,
            lost_to_a_look: false,
        };
        vec![State {
            sessions: [session; COUNT],
            first: 0,
        }]
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        let begun = next.len();
        for at in 0..COUNT {
            self.due(state, at, next);
        }
        if next.len() == begun {
            next.extend(state.tick());
        }
        for at in 0..COUNT {
            next.extend(Op::ALL.iter().filter_map(|op| state.ask(at, *op)));
            if self.has(Fault::KeepsWhatIsInUse) {
                next.extend((0..COUNT).filter_map(|dir| state.use_again(at, dir)));
            }
        }
    }

    fn laws(&self) -> Vec<Law<Self>> {
        vec![
            Law::always("one who changes is alone", |_, s: &State| {
                let [a, b] = s.sessions;
                (0..COUNT).all(|dir| {
                    let together = (a.holds[dir].min(b.holds[dir]), a.holds[dir].max(b.holds[dir]));
                    together.0 == Hold::None || together.1 == Hold::Read
                })
            }),
            Law::always("nobody waits longer than a holder may keep", |_, s: &State| {
                s.waiting().all(|waiting| waiting.age <= KEEPING)
            }),
            Law::always("nobody is passed over twice", |_, s: &State| {
                s.waiting().all(|waiting| waiting.passed < 2)
            }),
            Law::always("one who looks ends no grant to change", |_, s: &State| {
                !s.sessions.iter().any(|session| session.lost_to_a_look)
            }),
            Law::sometimes("both wait, each for what the other holds", |_, s: &State| {
                let [a, b] = s.sessions;
                let waits = |one: &Session, other: &Session| {
                    one.waiting.is_some_and(|w| w.op == Op::Rename) && other.holds.contains(&Hold::Write)
                };
                waits(&a, &b) && waits(&b, &a)
            }),
            Law::stays_possible(
                "whoever asks is answered",
                |_, _| true,
                |_, s: &State| s.waiting().next().is_none(),
            ),
        ]
    }
}

impl Turns {
    /// What is due at session `at`: nothing of it waits for time.
    fn due(&self, state: &State, at: usize, next: &mut Vec<(Step, State)>) {
        let session = &state.sessions[at];
        for dir in (0..COUNT).filter(|&dir| session.recalled[dir]) {
            let is_locked = session.waiting.is_some_and(|waiting| waiting.op.touches(dir));
            if !is_locked || !self.has(Fault::GivesBackAfterItsOp) {
                let mut after = state.clone();
                let session = &mut after.sessions[at];
                (session.holds[dir], session.recalled[dir]) = (Hold::None, false);
                next.push((Step::GivesBack { session: at, dir }, after));
            }
        }
        let Some(waiting) = session.waiting else {
            return;
        };
        let other = 1 - at;
        let in_the_way: Vec<usize> = (0..COUNT)
            .filter(|&dir| {
                waiting.op.touches(dir) && self.is_in_the_way(state.sessions[other].holds[dir], waiting.op)
            })
            .collect();
        for &dir in &in_the_way {
            let holder = &state.sessions[other];
            let may_keep = holder.holds[dir] == Hold::Write && holder.ages[dir] < KEEPING;
            if !holder.recalled[dir] && !may_keep {
                let mut after = state.clone();
                let holder = &mut after.sessions[other];
                holder.recalled[dir] = true;
                holder.lost_to_a_look |= holder.holds[dir] == Hold::Write && waiting.op.needs() == Hold::Read;
                next.push((Step::Recalls { session: other, dir }, after));
            }
        }
        let later = state.sessions[other]
            .waiting
            .filter(|other| other.op.meets(waiting.op));
        let is_next = later.is_none() || state.first == at || self.has(Fault::DoesWhatIsPossible);
        if in_the_way.is_empty() && is_next {
            self.finish(state, at, waiting.op, next);
        }
    }

    /// Whether a hold of another must go before the op is done. For a look, a holder ships what it has, and keeps its grant.
    fn is_in_the_way(&self, hold: Hold, op: Op) -> bool {
        match op.needs() {
            Hold::Write => hold != Hold::None,
            Hold::Read | Hold::None => hold == Hold::Write && self.has(Fault::LooksEndGrants),
        }
    }

    /// The op is done. With the answer its session gets what the op needs, or nothing.
    fn finish(&self, state: &State, at: usize, op: Op, next: &mut Vec<(Step, State)>) {
        let other = &state.sessions[1 - at];
        for granted in [Hold::None, op.needs()] {
            let mut after = state.clone();
            let session = &mut after.sessions[at];
            session.waiting = None;
            let mut is_past = state.first != at && other.waiting.is_some_and(|waiting| waiting.op.meets(op));
            for dir in (0..COUNT).filter(|&dir| op.touches(dir)) {
                let is_wanted = other.waiting.is_some_and(|waiting| waiting.op.touches(dir));
                let is_free = other.holds[dir] == Hold::None
                    || granted == Hold::Read && other.holds[dir] == Hold::Read && !other.recalled[dir];
                if is_free
                    && session.holds[dir] < granted
                    && (!is_wanted || self.has(Fault::GrantsPastWaiters))
                {
                    (session.holds[dir], session.ages[dir]) = (granted, 0);
                    is_past |= is_wanted;
                }
            }
            after.first = 1 - at;
            if let Some(waiting) = &mut after.sessions[1 - at].waiting
                && is_past
            {
                waiting.passed = (waiting.passed + 1).min(2);
            }
            next.push((
                Step::Done {
                    session: at,
                    op,
                    granted,
                },
                after,
            ));
        }
    }
}

impl State {
    fn waiting(&self) -> impl Iterator<Item = Waiting> + '_ {
        self.sessions.iter().filter_map(|session| session.waiting)
    }

    /// A program asks for an op that its session cannot do by itself.
    fn ask(&self, at: usize, op: Op) -> Option<(Step, State)> {
        let session = &self.sessions[at];
        // What is recalled is used no more.
        let has = |dir: usize| session.holds[dir] >= op.needs() && !session.recalled[dir];
        let is_local = (0..COUNT).all(|dir| !op.touches(dir) || has(dir));
        (session.waiting.is_none() && !is_local).then(|| {
            let mut after = self.clone();
            after.sessions[at].waiting = Some(Waiting {
                op,
                age: 0,
                passed: 0,
            });
            if self.sessions[1 - at].waiting.is_none() {
                after.first = at;
            }
            (Step::Asks { session: at, op }, after)
        })
    }

    /// A holder uses its grant, which wrongly counts as if it were granted now.
    fn use_again(&self, at: usize, dir: usize) -> Option<(Step, State)> {
        let session = &self.sessions[at];
        let can = session.holds[dir] == Hold::Write && !session.recalled[dir] && session.ages[dir] > 0;
        can.then(|| {
            let mut after = self.clone();
            after.sessions[at].ages[dir] = 0;
            (Step::Uses { session: at, dir }, after)
        })
    }

    fn tick(&self) -> Option<(Step, State)> {
        let mut after = self.clone();
        for session in &mut after.sessions {
            for age in &mut session.ages {
                *age = (*age + 1).min(KEEPING);
            }
            if let Some(waiting) = &mut session.waiting {
                waiting.age = (waiting.age + 1).min(WAIT_MAX);
            }
        }
        (after != *self).then_some((Step::TimePasses, after))
    }
}
