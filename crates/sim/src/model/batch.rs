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

mod line;

use line::{Batch, FOREIGN, LINES, Line, NUMBERS};

/// The most epochs that a world may have.
const EPOCHS: usize = 3;
/// The most items in the journal: the session's and the other's batches, and a revocation.
const ITEMS: usize = 4;

/// What a wrong owner or session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An owner orders a batch of a lower epoch.
    NoEpochCheck,
    /// An owner orders a batch of a session that was revoked.
    NoGrantCheck,
    /// An owner looks at a batch's number only, not at what batch it follows.
    ChecksNumbersOnly,
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

/// What the journal holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Item {
    Batch(Batch),
    /// The session's grant was given to another.
    Revoke,
}

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
    items: [Option<Item>; ITEMS],
    length: u8,
    durable: u8,
    clients: [Client; 3],
    /// How many batches the session had made when it was cloned.
    cloned_at: u8,
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
            items: [None; ITEMS],
            length: 0,
            durable: 0,
            clients: [active, absent, other],
            cloned_at: 0,
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
        if !state.is_revoked() {
            next.push(state.order(Item::Revoke, Step::Revoked));
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
                    s.all_ordered(|at, batch| {
                        s.before(batch).is_none_or(|before| s.stands_before(at, before))
                    })
                },
            ),
            Law::always("a batch follows what its maker had seen", |_, s: &State| {
                let saw = |batch: Batch| s.after_foreign & batch.bit() != 0;
                s.all_ordered(|at, batch| !saw(batch) || s.stands_before(at, FOREIGN))
            }),
            Law::always("a batch is ordered once", |_, s: &State| {
                s.all_ordered(|at, batch| !s.stands_before(at, batch))
            }),
            Law::always(
                "no batch follows the revocation of its session",
                |_, s: &State| {
                    let revoked_before = |at: usize| s.items[..at].contains(&Some(Item::Revoke));
                    s.all_ordered(|at, batch| !batch.is_of_the_session() || !revoked_before(at))
                },
            ),
            Law::sometimes(
                "a batch of the first epoch is replayed and acknowledged in the last",
                |m: &Self, s: &State| {
                    let made_first = s.in_flight[0]
                        & Batch {
                            line: Line::Session,
                            number: 1,
                        }
                        .bit()
                        != 0;
                    let last = s.client(Line::Session);
                    made_first
                        && last.epoch + 1 == m.epochs
                        && last.acknowledged == NUMBERS
                        && s.length == NUMBERS
                },
            ),
            Law::sometimes("a clone's work becomes a stray", |m: &Self, s: &State| {
                !m.clones || s.client(Line::Clone).phase == Phase::Stray && !s.is_revoked()
            }),
            Law::stays_possible(
                "every client gets its answer: all its work acknowledged, or a stray",
                |_, _| true,
                |_, s: &State| {
                    s.clients
                        .iter()
                        .all(|c| c.phase != Phase::Active || c.acknowledged == c.made)
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
        let last = state.last_of(batch);
        let follows = if self.has(Fault::ChecksNumbersOnly) {
            batch.number == last.map_or(0, |last| last.number) + 1
        } else {
            state.before(batch) == last
        };
        epoch_is_right && is_granted && follows && !state.stands_before(usize::from(state.length), batch)
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
        let end = if self.has(Fault::AcknowledgesBeforeDurable) {
            state.length
        } else {
            state.durable
        };
        let is_done = if self.has(Fault::ChecksNumbersOnly) {
            let of_number = |item: &Option<Item>| match item {
                Some(Item::Batch(other)) => {
                    other.is_of_the_session() == batch.is_of_the_session() && other.number >= batch.number
                }
                Some(Item::Revoke) | None => false,
            };
            state.items[..usize::from(end)].iter().any(of_number)
        } else {
            state.stands_before(usize::from(end), state.named(batch))
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
        let foreign_is_lost = client.has_seen && !state.stands_before(usize::from(state.length), FOREIGN);
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
            after.length = state.durable;
            after.items[usize::from(state.durable)..].fill(None);
            if after.stands_before(usize::from(after.length), FOREIGN) {
                after.foreign_shown |= 1 << after.epoch;
            }
            (Step::TakenOver { epoch: after.epoch }, after)
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
        self.items.contains(&Some(Item::Revoke))
    }

    /// Whether `batch` is among the first `end` items.
    fn stands_before(&self, end: usize, batch: Batch) -> bool {
        self.items[..end].contains(&Some(Item::Batch(batch)))
    }

    fn ordered(&self) -> impl DoubleEndedIterator<Item = (usize, Batch)> + '_ {
        self.items.iter().enumerate().filter_map(|(at, item)| match item {
            Some(Item::Batch(batch)) => Some((at, *batch)),
            Some(Item::Revoke) | None => None,
        })
    }

    fn all_ordered(&self, holds: impl Fn(usize, Batch) -> bool) -> bool {
        self.ordered().all(|(at, batch)| holds(at, batch))
    }

    /// Returns the last ordered batch of the session that made `batch`.
    fn last_of(&self, batch: Batch) -> Option<Batch> {
        let mut of_one_session = self.ordered().map(|(_, other)| other).rev();
        of_one_session.find(|other| other.is_of_the_session() == batch.is_of_the_session())
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
        is_revoked || !self.last_of(mine).is_none_or(is_own)
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
        (client.made < most).then(|| {
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
            (
                Step::Sends {
                    batch,
                    epoch: client.epoch,
                },
                after,
            )
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
        after.items[usize::from(self.length)] = Some(item);
        after.length += 1;
        if item == Item::Batch(FOREIGN) {
            after.foreign_shown |= 1 << self.epoch;
        }
        (step, after)
    }

    fn make_durable(&self) -> Option<(Step, State)> {
        (self.durable < self.length).then(|| {
            let mut after = self.clone();
            after.durable += 1;
            (Step::NextIsDurable, after)
        })
    }

    fn keeps_acknowledged(&self) -> bool {
        LINES.iter().all(|&line| {
            (1..=self.client(line).acknowledged).all(|number| {
                self.stands_before(usize::from(self.durable), self.named(Batch { line, number }))
            })
        })
    }
}
