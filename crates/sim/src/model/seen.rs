//! What a session has seen before it was durable, when the owner dies.
//!
//! A change is visible once it is ordered and acknowledged once it is durable. So a session may see what is lost with the
//! owner, and go on from there. It replays its own unacknowledged batches to the next owner, and so do the others. Each
//! batch names the batches of others that its maker had seen and did not know to be durable, by their digests. A new owner orders
//! it behind those. It keeps it waiting while the session that made them may still bring them; if that one has
//! come without them, or is over, the waiting batch and what follows it become a stray.
//!
//! A session that comes to a new owner drops what it has cached. What it sees afterwards is what that owner has ordered. A sync
//! covers all that its session has seen: its own work, and that of others.
//!
//! Copies of batches that arrive late, and what chains them, are `batch`'s; here a batch is ordered in the step in which it
//! arrives. The journal is a list with a durable prefix.

use super::explorer::{Law, Model, Report, explore};

mod history;

use history::{Batch, Journal, NUMBERS};

/// Two sessions, and a clone of the first.
const LINES: usize = 3;
const CLONE: usize = 2;
/// The most epochs that a world may have.
const EPOCHS: usize = 3;

/// What a wrong owner or session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A batch does not say what its maker had seen, or the owner does not ask.
    ForgetsWhatWasSeen,
    /// A session whose batch names what was not recovered is a stray at once, though others may still bring it.
    JudgesAtOnce,
    /// A batch names others' batches by session and number.
    NamesNumbersOnly,
    /// A sync waits for its session's own batches.
    SyncCoversOwnWork,
    /// A session keeps what it has cached over a takeover.
    KeepsItsCaches,
    /// A new owner answers those who look before the others have brought what they had.
    AnswersBeforeAllCame,
}

/// The world's bounds, and what is done wrong.
#[derive(Clone, Copy, Debug)]
pub struct Sights {
    /// How many owners follow each other; at most 3.
    pub epochs: u8,
    /// How many batches each session may make; at most 2.
    pub batches: [u8; 2],
    /// Whether the first session may be cloned.
    pub clones: bool,
    /// The planted fault.
    pub fault: Option<Fault>,
}

impl Sights {
    /// Explores every interleaving within the bounds.
    pub fn explore(&self) -> Report {
        assert!(usize::from(self.epochs) <= EPOCHS);
        explore(self)
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

/// What has become of a session's machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Absent,
    Active,
    /// It will never speak again.
    Dead,
    Stray,
}

/// A session's memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Session {
    phase: Phase,
    epoch: u8,
    made: u8,
    acknowledged: u8,
    /// The batches of others that it has seen, as a set.
    seen: u8,
    /// What it had seen when it made each of its batches.
    behind: [u8; NUMBERS],
    /// What it was told is lost when it became a stray.
    mourns: u8,
}

/// The sessions and the journal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    epoch: u8,
    journal: Journal,
    sessions: [Session; LINES],
    /// Which sessions were ended for their silence.
    over: [bool; 2],
    /// How many batches the first session had made when it was cloned.
    cloned_at: u8,
    /// What was ever ordered in each epoch, and so could be seen.
    shown: [u8; EPOCHS],
    /// What a sync that returned had promised.
    synced: u8,
    /// The witness's note: how much the last owner found.
    recovered: u8,
    /// The witness's note: whether somebody was not shown what others had seen and is not lost.
    went_back: bool,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "a trace prints them")]
pub(crate) enum Step {
    Makes { line: usize, number: u8 },
    Ordered(Batch),
    Sees { line: usize, batch: Batch },
    LooksAndMisses { line: usize },
    NextIsDurable,
    Acknowledged { line: usize, number: u8 },
    Syncs { line: usize },
    TakenOver { epoch: u8 },
    Comes { line: usize },
    BecomesAStray { line: usize },
    Dies { line: usize },
    IsOver { session: usize },
    Cloned,
}

impl Model for Sights {
    type State = State;
    type Step = Step;

    fn starts(&self) -> Vec<State> {
        let active = Session {
            phase: Phase::Active,
            epoch: 0,
            made: 0,
            acknowledged: 0,
            seen: 0,
            behind: [0; NUMBERS],
            mourns: 0,
        };
        let absent = Session {
            phase: Phase::Absent,
            ..active
        };
        vec![State {
            epoch: 0,
            journal: Journal::EMPTY,
            sessions: [active, active, absent],
            over: [false; 2],
            cloned_at: 0,
            shown: [0; EPOCHS],
            synced: 0,
            recovered: 0,
            went_back: false,
        }]
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        for line in 0..LINES {
            let session = &state.sessions[line];
            if session.phase != Phase::Active {
                continue;
            }
            next.extend(self.make(state, line));
            next.extend(Batch::all().filter_map(|batch| state.see(line, batch)));
            if session.epoch == state.epoch {
                next.extend(self.order_or_refuse(state, line));
                next.extend(state.acknowledge(line));
                next.extend(self.sync(state, line));
                next.extend(self.look(state, line));
            } else {
                next.push(self.come(state, line));
            }
            if !self.clones {
                next.push(state.with(Step::Dies { line }, |s| s.sessions[line].phase = Phase::Dead));
            }
        }
        if state.journal.durable < state.journal.length {
            next.push(state.with(Step::NextIsDurable, |s| s.journal.durable += 1));
        }
        if state.epoch + 1 < self.epochs {
            next.push(state.with(
                Step::TakenOver {
                    epoch: state.epoch + 1,
                },
                |s| {
                    s.epoch += 1;
                    s.journal.recover();
                    s.recovered = s.journal.length;
                    s.shown[usize::from(s.epoch)] = s.journal.set(s.journal.length);
                },
            ));
        }
        next.extend((0..2).filter_map(|session| state.end(session)));
        let first = &state.sessions[0];
        if self.clones && first.phase == Phase::Active && state.sessions[CLONE].phase == Phase::Absent {
            next.push(state.with(Step::Cloned, |s| {
                s.sessions[CLONE] = s.sessions[0];
                s.cloned_at = s.sessions[0].made;
            }));
        }
    }

    fn laws(&self) -> Vec<Law<Self>> {
        vec![
            Law::always("what was acknowledged is durable for ever", |_, s: &State| {
                let durable = s.journal.set(s.journal.durable);
                (0..LINES).all(|line| s.acknowledged(line) & !durable == 0)
            }),
            Law::always("what a sync covered is durable for ever", |_, s: &State| {
                s.synced & !s.journal.set(s.journal.durable) == 0
            }),
            Law::always("a batch follows what its maker had seen", |_, s: &State| {
                s.journal
                    .all(|at, batch| s.behind(batch) & !s.journal.set(at) == 0)
            }),
            Law::always(
                "nobody's work becomes a stray for what is there",
                |_, s: &State| {
                    let ordered = s.journal.set(s.journal.length);
                    s.sessions.iter().all(|session| session.mourns & ordered == 0)
                },
            ),
            Law::always("what a session has cached is at its owner", |_, s: &State| {
                // What a deposed owner still shows, it shows to those who have not come yet.
                let ordered = s.journal.set(s.journal.length);
                s.active()
                    .all(|session| session.epoch < s.epoch || session.seen & !ordered == 0)
            }),
            // A clone comes in the place of its twin, without its twin's work.
            Law::always("nobody looks into the past", |m: &Self, s: &State| {
                m.clones || !s.went_back
            }),
            Law::sometimes(
                "what was lost with the owner comes back in its order",
                |m: &Self, s: &State| {
                    let [first, second] = [0, 1].map(|at| s.journal.at(at));
                    let is_replayed = [first, second]
                        .iter()
                        .flatten()
                        .all(|b| s.shown[0] & b.bit() != 0);
                    let follows = matches!((first, second), (Some(a), Some(b)) if s.behind(b) & a.bit() != 0);
                    m.clones || s.epoch > 0 && s.recovered == 0 && is_replayed && follows
                },
            ),
            Law::sometimes(
                "work after what is lost becomes a stray",
                |m: &Self, s: &State| {
                    m.clones || s.sessions[1].mourns != 0 && s.sessions[0].phase == Phase::Dead
                },
            ),
            Law::stays_possible(
                "every session gets its answer: all its work acknowledged, or a stray",
                |_, _| true,
                |_, s: &State| s.active().all(|session| session.acknowledged == session.made),
            ),
        ]
    }
}

impl Sights {
    /// The owner orders a session's next batch, keeps it waiting, or says that it never will be.
    fn order_or_refuse(&self, state: &State, line: usize) -> Option<(Step, State)> {
        let session = &state.sessions[line];
        if state.is_refused(line) {
            return Some(state.stray(line, 0));
        }
        let number = state.journal.count(Batch { line, number: 1 }) + 1;
        if number > session.made {
            return None;
        }
        let batch = state.named(Batch { line, number });
        let missing = self.missing(state, batch);
        if missing == 0 {
            return Some(state.with(Step::Ordered(batch), |s| {
                s.journal.order(batch);
                s.shown[usize::from(s.epoch)] |= batch.bit();
            }));
        }
        let lost = state.lost(missing);
        (lost != 0).then(|| state.stray(line, lost))
    }

    /// Returns what a batch follows and the owner has not ordered.
    fn missing(&self, state: &State, batch: Batch) -> u8 {
        let missing = state.behind(batch) & !state.journal.set(state.journal.length);
        match self.fault {
            Some(Fault::ForgetsWhatWasSeen) => 0,
            Some(Fault::NamesNumbersOnly) => Batch::all()
                .filter(|other| missing & other.bit() != 0 && state.journal.count(*other) < other.number)
                .fold(0, |set, other| set | other.bit()),
            _ => missing,
        }
    }

    /// A session comes to the new owner with what it has not heard to be durable.
    fn come(&self, state: &State, line: usize) -> (Step, State) {
        let session = &state.sessions[line];
        let unanswered = (session.acknowledged + 1..=session.made).map(|number| Batch { line, number });
        let missing = unanswered.fold(0, |set, batch| set | self.missing(state, state.named(batch)));
        if state.is_refused(line) {
            return state.stray(line, 0);
        }
        if self.has(Fault::JudgesAtOnce) && missing != 0 {
            return state.stray(line, missing);
        }
        state.with(Step::Comes { line }, |s| {
            let ordered = s.journal.set(s.journal.length);
            s.sessions[line].epoch = s.epoch;
            if !self.has(Fault::KeepsItsCaches) {
                s.sessions[line].seen &= ordered;
            }
        })
    }

    fn make(&self, state: &State, line: usize) -> Option<(Step, State)> {
        let made = state.sessions[line].made;
        (made < self.batches[line % 2]).then(|| {
            let number = made + 1;
            state.with(Step::Makes { line, number }, |s| {
                let session = &mut s.sessions[line];
                session.behind[usize::from(made)] = session.seen;
                session.made = number;
            })
        })
    }

    /// A session looks. A new owner answers when every session has brought what it had, or is over.
    fn look(&self, state: &State, line: usize) -> Option<(Step, State)> {
        let missed =
            state.shown.iter().fold(0, |set, shown| set | shown) & !state.journal.set(state.journal.length);
        let is_over = |session: usize| state.over[session] || state.has_brought(session);
        let answers = (0..2).all(is_over) || self.has(Fault::AnswersBeforeAllCame);
        (answers && missed & !state.lost(missed) != 0)
            .then(|| state.with(Step::LooksAndMisses { line }, |s| s.went_back = true))
    }

    fn sync(&self, state: &State, line: usize) -> Option<(Step, State)> {
        let session = &state.sessions[line];
        let is_durable = session.seen & !state.journal.set(state.journal.durable) == 0;
        let may = session.acknowledged == session.made && (is_durable || self.has(Fault::SyncCoversOwnWork));
        let covered = state.synced | session.seen | state.acknowledged(line);
        (may && covered != state.synced).then(|| state.with(Step::Syncs { line }, |s| s.synced = covered))
    }
}

impl State {
    fn active(&self) -> impl Iterator<Item = &Session> {
        self.sessions
            .iter()
            .filter(|session| session.phase == Phase::Active)
    }

    /// What a clone made before it was cloned, the session made.
    fn named(&self, batch: Batch) -> Batch {
        let is_older = batch.line == CLONE && batch.number <= self.cloned_at;
        let line = if is_older { 0 } else { batch.line };
        Batch { line, ..batch }
    }

    /// Returns what the maker of a batch had seen.
    fn behind(&self, batch: Batch) -> u8 {
        self.sessions[batch.line].behind[usize::from(batch.number) - 1]
    }

    fn acknowledged(&self, line: usize) -> u8 {
        let numbers = 1..=self.sessions[line].acknowledged;
        numbers.fold(0, |set, number| set | self.named(Batch { line, number }).bit())
    }

    /// Whether the owner orders nothing more of a line: its session is over, or a clone of it went ahead.
    fn is_refused(&self, line: usize) -> bool {
        let first = Batch { line, number: 1 };
        let is_own = |last: Batch| {
            self.named(Batch { line, ..last }) == last && last.number <= self.sessions[line].made
        };
        self.over[first.session()] || !self.journal.last_of(first).is_none_or(is_own)
    }

    /// Returns those of some batches that nobody can bring any more.
    fn lost(&self, missing: u8) -> u8 {
        let is_lost =
            |batch: &Batch| self.over[batch.session()] || self.journal.count(*batch) >= batch.number;
        let all = Batch::all().filter(|batch| missing & batch.bit() != 0);
        all.filter(is_lost).fold(0, |set, batch| set | batch.bit())
    }

    /// A session is told that the owner will order nothing more of it. If it mourns, nobody goes on in its place.
    fn stray(&self, line: usize, mourns: u8) -> (Step, State) {
        self.with(Step::BecomesAStray { line }, |s| {
            s.sessions[line].phase = Phase::Stray;
            s.sessions[line].mourns = mourns;
            s.over[Batch { line, number: 1 }.session()] |= mourns != 0;
        })
    }

    fn with(&self, step: Step, does: impl FnOnce(&mut Self)) -> (Step, Self) {
        let mut after = self.clone();
        does(&mut after);
        (step, after)
    }

    /// A session sees a batch of another that the owner which it listens to has ordered.
    fn see(&self, line: usize, batch: Batch) -> Option<(Step, State)> {
        let session = &self.sessions[line];
        let is_foreign = batch.session() != (Batch { line, ..batch }).session();
        let is_shown = self.shown[usize::from(session.epoch)] & batch.bit() != 0;
        let may = is_foreign && is_shown && session.seen & batch.bit() == 0;
        may.then(|| {
            self.with(Step::Sees { line, batch }, |s| {
                s.sessions[line].seen |= batch.bit()
            })
        })
    }

    fn acknowledge(&self, line: usize) -> Option<(Step, State)> {
        let session = &self.sessions[line];
        let number = session.acknowledged + 1;
        let batch = self.named(Batch { line, number });
        let may = number <= session.made && self.journal.set(self.journal.durable) & batch.bit() != 0;
        may.then(|| {
            self.with(Step::Acknowledged { line, number }, |s| {
                s.sessions[line].acknowledged = number
            })
        })
    }

    /// The lines of a session that are there.
    fn active_lines(&self, session: usize) -> impl Iterator<Item = usize> {
        let lines = (0..LINES).filter(move |&line| (Batch { line, number: 1 }).session() == session);
        lines.filter(|&line| self.sessions[line].phase == Phase::Active)
    }

    /// Whether a session has come to this owner, and all that it was told is ordered is so again.
    fn has_brought(&self, session: usize) -> bool {
        let ordered = self.journal.set(self.journal.length);
        let shown = self.shown.iter().fold(0, |set, shown| set | shown);
        self.active_lines(session).any(|line| {
            let made = (1..=self.sessions[line].made).map(|number| self.named(Batch { line, number }));
            let all = made.fold(0, |set, batch| set | batch.bit());
            self.sessions[line].epoch == self.epoch && all & shown & !ordered == 0
        })
    }

    /// The owner ends a session that has not come to it.
    fn end(&self, session: usize) -> Option<(Step, State)> {
        let has_come = self
            .active_lines(session)
            .any(|line| self.sessions[line].epoch == self.epoch);
        (!has_come && !self.over[session])
            .then(|| self.with(Step::IsOver { session }, |s| s.over[session] = true))
    }
}
