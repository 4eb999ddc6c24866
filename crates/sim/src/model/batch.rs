//! Batches: what a session ships, replays to a new owner, and is told.
//!
//! A session makes batches, each naming the one before, and keeps them until they are acknowledged. It may send a batch
//! again and again; copies arrive late, in any order, at whichever owner there is by then. The owner orders a batch if it
//! carries the owner's epoch, if its session was not revoked, and if it names the session's last ordered batch. Others may
//! see what is ordered. It is acknowledged when it is durable. A takeover keeps what is durable and loses the rest.
//!
//! A session that learns of a takeover *reclaims*: it compares what it has seen with what was recovered, and only then
//! sends under the new epoch. It stops for good, and its work becomes a stray branch, if it was revoked, if the owner's
//! last batch of it is none of its own (a clone of it went ahead), or if unacknowledged work of it was made after it had
//! seen a batch of another session that is lost. The first two an owner tells it at any time, by refusing.
//!
//! The journal here is a list with a durable prefix (`epoch` shows that it is one), and a deposed owner is not in the
//! world: nothing that it orders becomes durable. What it showed to a session that has not reclaimed yet counts, however.
//!
//! It does not model what a batch changes: that is the core's.

use super::explorer::{Law, Model, Report, explore};

mod journal;
mod line;

use journal::{Item, Journal};
use line::{Batch, FOREIGN, LINES, Line, NUMBERS};

/// The most epochs that a world may have.
const EPOCHS: usize = 3;
/// What a wrong owner or session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An owner orders a batch of a lower epoch.
    NoEpochCheck,
    /// An owner orders a batch of a session that was revoked.
    NoGrantCheck,
    /// An owner looks at a batch's number only, not at what batch it follows.
    ChecksNumbersOnly,
    /// The first batch under a grant names no predecessor, also where the session had the grant before.
    BeginsAnewWithEachGrant,
    /// An owner acknowledges what is ordered.
    AcknowledgesBeforeDurable,
    /// A session reclaims without asking whether what it has seen was recovered.
    ForgetsWhatItHasSeen,
}

/// The world's bounds, and what is done wrong.
#[derive(Clone, Copy, Debug)]
pub struct Batches {
    /// How many owners follow each other; at most 3.
    pub epochs: u8,
    /// Whether the session may be cloned.
    pub clones: bool,
    /// Whether another session makes a batch that the first may see.
    pub others: bool,
    /// The planted fault.
    pub fault: Option<Fault>,
}

impl Batches {
    /// Explores every interleaving within the bounds.
    pub fn explore(&self) -> Report {
        assert!(usize::from(self.epochs) <= EPOCHS);
        explore(self)
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

/// What has become of a client.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Absent,
    Active,
    /// It was told that its authority is lost; its unacknowledged work is a stray.
    Stray,
}

/// A client's memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Client {
    phase: Phase,
    /// Under which epoch it sends.
    epoch: u8,
    made: u8,
    acknowledged: u8,
    /// Whether it has seen the other session's batch.
    has_seen: bool,
}

/// The journal, the clients, the network.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    epoch: u8,
    journal: Journal,
    clients: [Client; 3],
    /// How many batches the session had made when it was cloned.
    cloned_at: u8,
    /// How many batches the session had made when it gave its grant back and asked for it again; 0 if it never did.
    granted_at: u8,
    /// The batches made after their maker had seen the other session's batch.
    after_foreign: u8,
    /// The batches ever sent under each epoch: any of them may arrive at any time.
    in_flight: [u8; EPOCHS],
    /// In which epochs the other session's batch was ordered, and so could be seen.
    foreign_shown: u8,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "a trace prints them")]
pub(crate) enum Step {
    Makes(Batch),
    Sends { batch: Batch, epoch: u8 },
    Ordered { batch: Batch, epoch: u8 },
    SeesTheOther(Line),
    NextIsDurable,
    Acknowledged(Batch),
    TakenOver { epoch: u8 },
    Reclaims(Line),
    BecomesAStray(Line),
    GrantedAgain,
    Revoked,
    Cloned,
}

impl Model for Batches {
    type State = State;
    type Step = Step;

    fn starts(&self) -> Vec<State> {
        let active = Client {
            phase: Phase::Active,
            epoch: 0,
            made: 0,
            acknowledged: 0,
            has_seen: false,
        };
        let absent = Client {
            phase: Phase::Absent,
            ..active
        };
        let other = if self.others { active } else { absent };
        vec![State {
            epoch: 0,
            journal: Journal::EMPTY,
            clients: [active, absent, other],
            cloned_at: 0,
            granted_at: 0,
            after_foreign: 0,
            in_flight: [0; EPOCHS],
            foreign_shown: 0,
        }]
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        for line in LINES {
            if state.client(line).phase == Phase::Active {
                next.extend(state.make(line));
                next.extend(state.send(line));
                next.extend(state.see(line));
                next.extend(self.acknowledge(state, line));
                next.extend(self.reclaim(state, line));
                next.extend(state.refuse(line));
            }
        }
        for epoch in 0..self.epochs {
            for batch in Batch::all() {
                if state.in_flight[usize::from(epoch)] & batch.bit() != 0 && self.accepts(state, batch, epoch)
                {
                    next.push(state.order(Item::Batch(batch), Step::Ordered { batch, epoch }));
                }
            }
        }
        next.extend(state.make_durable());
        next.extend(self.take_over(state));
        next.extend(self.grant_again(state));
        if !state.is_revoked() {
            next.push(state.order(Item::Revoked, Step::Revoked));
        }
        next.extend(self.clone_session(state));
    }

    fn laws(&self) -> Vec<Law<Self>> {
        vec![
            Law::always("what was acknowledged is durable for ever", |_, s: &State| {
                s.keeps_acknowledged()
            }),
            Law::always(
                "a batch follows the batch that its maker made before it",
                |_, s: &State| {
                    let stands = |at, before| s.journal.has_before(at, Item::Batch(before));
                    s.journal
                        .all(|at, batch| s.before(batch).is_none_or(|before| stands(at, before)))
                },
            ),
            Law::always("a batch follows what its maker had seen", |_, s: &State| {
                let saw = |batch: Batch| s.after_foreign & batch.bit() != 0;
                s.journal
                    .all(|at, batch| !saw(batch) || s.journal.has_before(at, Item::Batch(FOREIGN)))
            }),
            Law::always("a batch is ordered once", |_, s: &State| {
                s.journal
                    .all(|at, batch| !s.journal.has_before(at, Item::Batch(batch)))
            }),
            Law::always(
                "no batch follows the revocation of its session",
                |_, s: &State| {
                    let is_revoked = |at| s.journal.has_before(at, Item::Revoked);
                    s.journal
                        .all(|at, batch| !batch.is_of_the_session() || !is_revoked(at))
                },
            ),
            Law::sometimes(
                "what was first sent in the first epoch is acknowledged in the last",
                |m: &Self, s: &State| {
                    let first = Batch {
                        line: Line::Session,
                        number: 1,
                    };
                    s.in_flight[0] & first.bit() != 0 && s.shows_a_late_answer(m.epochs - 1)
                },
            ),
            Law::sometimes("a clone's work becomes a stray", |m: &Self, s: &State| {
                !m.clones || s.client(Line::Clone).phase == Phase::Stray && !s.is_revoked()
            }),
            Law::sometimes("a session goes on under a second grant", |m: &Self, s: &State| {
                m.clones || s.granted_at > 0 && s.client(Line::Session).acknowledged > s.granted_at
            }),
            Law::stays_possible(
                "every client gets its answer: all its work acknowledged, or a stray",
                |_, _| true,
                |_, s: &State| {
                    let is_done = |client: &Client| client.acknowledged == client.made;
                    s.clients
                        .iter()
                        .all(|client| client.phase != Phase::Active || is_done(client))
                },
            ),
        ]
    }
}

impl Batches {
    /// Whether the owner orders a batch that arrives under `epoch`.
    fn accepts(&self, state: &State, batch: Batch, epoch: u8) -> bool {
        let epoch_is_right = epoch == state.epoch || self.has(Fault::NoEpochCheck);
        let is_granted = !batch.is_of_the_session() || !state.is_revoked() || self.has(Fault::NoGrantCheck);
        let last = state.journal.last_of(batch);
        let follows = match self.fault {
            Some(Fault::ChecksNumbersOnly) => batch.number == last.map_or(0, |last| last.number) + 1,
            Some(Fault::BeginsAnewWithEachGrant) => {
                let is_first = state.granted_at > 0 && batch.number == state.granted_at + 1;
                let before = state.before(batch).filter(|_| !is_first);
                before == state.journal.last_of_the_grant(batch)
            }
            _ => state.before(batch) == last,
        };
        epoch_is_right && is_granted && follows
    }

    /// A client is told that its oldest unacknowledged batch is durable.
    fn acknowledge(&self, state: &State, line: Line) -> Option<(Step, State)> {
        let client = state.client(line);
        let batch = Batch {
            line,
            number: client.acknowledged + 1,
        };
        if client.acknowledged == client.made || client.epoch != state.epoch {
            return None;
        }
        let journal = &state.journal;
        let acknowledges_all = self.has(Fault::AcknowledgesBeforeDurable);
        let end = if acknowledges_all {
            journal.length
        } else {
            journal.durable
        };
        let is_done = if self.has(Fault::ChecksNumbersOnly) {
            journal.has_number(end, batch)
        } else {
            journal.has_before(end, Item::Batch(state.named(batch)))
        };
        is_done.then(|| {
            let mut after = state.clone();
            after.client_mut(line).acknowledged += 1;
            (Step::Acknowledged(batch), after)
        })
    }

    /// A client that learns of a takeover compares its memory with what was recovered.
    fn reclaim(&self, state: &State, line: Line) -> Option<(Step, State)> {
        let client = state.client(line);
        if client.epoch == state.epoch {
            return None;
        }
        let is_refused = state.is_refused(line);
        let foreign_is_lost = client.has_seen && !state.journal.has_foreign();
        let unacknowledged = (client.acknowledged + 1..=client.made).map(|number| Batch { line, number });
        let work_is_lost = foreign_is_lost
            && unacknowledged
                .map(|batch| state.named(batch))
                .any(|b| state.after_foreign & b.bit() != 0);
        let mut after = state.clone();
        let client = after.client_mut(line);
        if is_refused || work_is_lost && !self.has(Fault::ForgetsWhatItHasSeen) {
            client.phase = Phase::Stray;
            return Some((Step::BecomesAStray(line), after));
        }
        client.epoch = state.epoch;
        client.has_seen &= !foreign_is_lost;
        Some((Step::Reclaims(line), after))
    }

    /// A new owner recovers what is durable.
    fn take_over(&self, state: &State) -> Option<(Step, State)> {
        (state.epoch + 1 < self.epochs).then(|| {
            let mut after = state.clone();
            after.epoch += 1;
            after.journal.recover();
            if after.journal.has_foreign() {
                after.foreign_shown |= 1 << after.epoch;
            }
            if !after.journal.has(Item::Granted) {
                after.granted_at = 0;
            }
            (Step::TakenOver { epoch: after.epoch }, after)
        })
    }

    /// The session, all of whose work is acknowledged, gives its grant back and gets it again.
    fn grant_again(&self, state: &State) -> Option<(Step, State)> {
        let session = state.client(Line::Session);
        let is_done = session.phase == Phase::Active && session.acknowledged == session.made;
        let may = is_done && session.made > 0 && session.epoch == state.epoch && !state.is_revoked();
        (may && !self.clones && state.granted_at == 0).then(|| {
            let (step, mut after) = state.order(Item::Granted, Step::GrantedAgain);
            after.granted_at = session.made;
            (step, after)
        })
    }

    fn clone_session(&self, state: &State) -> Option<(Step, State)> {
        let session = state.client(Line::Session);
        let can = self.clones && state.client(Line::Clone).phase == Phase::Absent;
        (can && session.phase == Phase::Active).then(|| {
            let mut after = state.clone();
            *after.client_mut(Line::Clone) = *session;
            after.cloned_at = session.made;
            (Step::Cloned, after)
        })
    }
}

impl State {
    fn client(&self, line: Line) -> &Client {
        &self.clients[line as usize]
    }

    fn client_mut(&mut self, line: Line) -> &mut Client {
        &mut self.clients[line as usize]
    }

    /// What a clone made before it was cloned, the session made.
    fn named(&self, batch: Batch) -> Batch {
        if batch.line == Line::Clone && batch.number <= self.cloned_at {
            Batch {
                line: Line::Session,
                ..batch
            }
        } else {
            batch
        }
    }

    /// Returns the batch that this one names as its predecessor.
    fn before(&self, batch: Batch) -> Option<Batch> {
        (batch.number > 1).then(|| {
            self.named(Batch {
                number: batch.number - 1,
                ..batch
            })
        })
    }

    fn is_revoked(&self) -> bool {
        self.journal.has(Item::Revoked)
    }

    /// Whether the owner will order nothing more of this client: its session is revoked, or a clone of it went ahead.
    fn is_refused(&self, line: Line) -> bool {
        let mine = Batch { line, number: 1 };
        let made = 1..=self.client(line).made;
        let is_own = |last: Batch| {
            made.clone()
                .any(|number| self.named(Batch { line, number }) == last)
        };
        let is_revoked = mine.is_of_the_session() && self.is_revoked();
        is_revoked || !self.journal.last_of(mine).is_none_or(is_own)
    }

    /// The owner tells a client why it orders nothing more of it.
    fn refuse(&self, line: Line) -> Option<(Step, State)> {
        (self.client(line).epoch == self.epoch && self.is_refused(line)).then(|| {
            let mut after = self.clone();
            after.client_mut(line).phase = Phase::Stray;
            (Step::BecomesAStray(line), after)
        })
    }

    fn make(&self, line: Line) -> Option<(Step, State)> {
        let most = if line == Line::Other { 1 } else { NUMBERS };
        let client = self.client(line);
        // It goes on under a second grant once that is durable.
        let waits = self.granted_at == client.made && client.made > 0 && line != Line::Other;
        let may = !waits || self.journal.has_before(self.journal.durable, Item::Granted);
        (may && client.made < most).then(|| {
            let batch = Batch {
                line,
                number: client.made + 1,
            };
            let mut after = self.clone();
            after.client_mut(line).made += 1;
            if client.has_seen {
                after.after_foreign |= batch.bit();
            }
            (Step::Makes(batch), after)
        })
    }

    /// A client sends its unacknowledged batches, each in its own step.
    fn send(&self, line: Line) -> Vec<(Step, State)> {
        let client = *self.client(line);
        let batches =
            (client.acknowledged + 1..=client.made).map(|number| self.named(Batch { line, number }));
        let unsent = batches.filter(|batch| self.in_flight[usize::from(client.epoch)] & batch.bit() == 0);
        let sent = unsent.map(|batch| {
            let mut after = self.clone();
            after.in_flight[usize::from(client.epoch)] |= batch.bit();
            let epoch = client.epoch;
            (Step::Sends { batch, epoch }, after)
        });
        sent.collect()
    }

    /// A client sees the other session's batch, which the owner of its epoch has ordered.
    fn see(&self, line: Line) -> Option<(Step, State)> {
        let client = self.client(line);
        let is_shown = self.foreign_shown & 1 << client.epoch != 0;
        (line != Line::Other && is_shown && !client.has_seen).then(|| {
            let mut after = self.clone();
            after.client_mut(line).has_seen = true;
            (Step::SeesTheOther(line), after)
        })
    }

    fn order(&self, item: Item, step: Step) -> (Step, State) {
        let mut after = self.clone();
        after.journal.order(item);
        if item == Item::Batch(FOREIGN) {
            after.foreign_shown |= 1 << self.epoch;
        }
        (step, after)
    }

    fn make_durable(&self) -> Option<(Step, State)> {
        (self.journal.durable < self.journal.length).then(|| {
            let mut after = self.clone();
            after.journal.durable += 1;
            (Step::NextIsDurable, after)
        })
    }

    /// Whether the session's whole work is acknowledged in `epoch`, and nobody else's.
    fn shows_a_late_answer(&self, epoch: u8) -> bool {
        let session = self.client(Line::Session);
        session.epoch == epoch && session.acknowledged == NUMBERS && self.journal.length == NUMBERS
    }

    fn keeps_acknowledged(&self) -> bool {
        let is_durable = |batch| {
            self.journal
                .has_before(self.journal.durable, Item::Batch(self.named(batch)))
        };
        LINES.iter().all(|&line| {
            let mut numbers = 1..=self.client(line).acknowledged;
            numbers.all(|number| is_durable(Batch { line, number }))
        })
    }
}
