//! Claims, seals and appends: who may write the journal, and what a takeover finds.
//!
//! The bucket is a set of names that are written once, by put-if-absent. A server claims the next epoch, re-reads that its
//! claim is the newest, and seals every older epoch in order: it reads the contiguous prefix and occupies its next name.
//! Then it appends under its own epoch, several puts in flight at once, and acknowledges in order what it has learned to
//! be durable. It may die after any of these steps, so epochs stay unsealed, without an owner, or with one that does not
//! know yet. It may be cloned at any step.
//!
//! A put in flight lands late or never, in any order. A server learns the fate of its put only by reading the name: a
//! good reply and a read back tell it the same, and any other reply tells it nothing. What tells two segments of one
//! name apart is a nonce that is drawn when the segment is first sent; sending it again sends the same bytes.
//!
//! A claim and a seal are one step each. Nothing is lost by that: a put of a claimant that died is a put of one that
//! is slow and dies later.
//!
//! It does not model time or reads (`grant`), nor the deletion of segments (`fold`).

use super::crew::{self, Crew, Members};
use super::explorer::{Law, Model, Report, explore};

/// How many servers there are, clones included.
const SERVERS: usize = 3;
/// The most epochs that a world may have.
const EPOCHS: usize = 4;
/// The most segments that an epoch may have; its seal may stand behind them.
const SEGMENTS: usize = 3;
/// How many puts an owner keeps in flight.
const WINDOW: u8 = 2;

/// What a wrong server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A claimant reads the prefix and does not occupy its next name.
    NoSeal,
    /// A claimant seals the epoch before its own, and not those before that.
    SealsOnlyThePreviousEpoch,
    /// A claimant takes the last name it finds for the end, and seals behind it, over a gap.
    SealsBehindAGap,
    /// An owner acknowledges what it has sent.
    AcknowledgesBeforeDurable,
    /// An owner acknowledges a segment whose predecessors it does not know to be durable.
    AcknowledgesOutOfOrder,
    /// An owner reports a put whose reply is lost as failed.
    TakesALostReplyForAFailure,
    /// What tells two segments of a name apart is part of a server's memory, so that a clone's are equal.
    DrawsTheNonceBeforeTheClone,
}

/// The world's bounds, and what its servers do wrong.
#[derive(Clone, Copy, Debug)]
pub struct Epochs {
    /// How many epochs may be claimed, the first included; at most 4.
    pub epochs: u8,
    /// How many segments an epoch may have; at most 3.
    pub segments: u8,
    /// How many times a server may be cloned.
    pub clones: u8,
    /// The planted fault.
    pub fault: Option<Fault>,
}

impl Epochs {
    /// Explores every interleaving within the bounds.
    pub fn explore(&self) -> Report {
        assert!(usize::from(self.epochs) <= EPOCHS && usize::from(self.segments) <= SEGMENTS);
        explore(self)
    }
}

/// What tells segments of one name apart. The lowest number free at that name is drawn.
type Nonce = u8;

/// The place of a name: an epoch, numbered from 0, and a place in it.
type Place = (u8, u8);

/// What stands at a name of the journal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    Free,
    Segment(Nonce),
    Seal,
}

/// What a server is doing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    /// Not running, or told that it is fenced: its memory is gone.
    Down,
    /// It claimed its epoch and has not re-read whether that is the newest.
    Claimed,
    /// It has sealed all epochs below this one.
    Sealing(u8),
    /// It appends to its epoch.
    Owner,
}

/// A server's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Server {
    phase: Phase,
    epoch: u8,
    /// How many segments it has sent.
    sent: u8,
    /// How many of them it knows to be durable, without a gap.
    durable: u8,
    /// What it sent, by name.
    nonces: [Nonce; SEGMENTS],
}

const DOWN: Server = Server {
    phase: Phase::Down,
    epoch: 0,
    sent: 0,
    durable: 0,
    nonces: [0; SEGMENTS],
};

impl Server {
    fn claimant_of(epoch: u8) -> Self {
        Self {
            phase: Phase::Claimed,
            epoch,
            ..DOWN
        }
    }

    fn owner_of(epoch: u8) -> Self {
        Self {
            phase: Phase::Owner,
            epoch,
            ..DOWN
        }
    }
}

/// What the witness saw happen that may not.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Seen {
    SealedEpochGrew,
    TwoAcknowledged,
    FailureHappened,
}

/// The bucket, the network, the servers, and a witness's notes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    claims: u8,
    clones: u8,
    names: [[Name; SEGMENTS + 1]; EPOCHS],
    /// The nonces of the segments on their way to each name, as a bit set.
    in_flight: [[u8; SEGMENTS]; EPOCHS],
    servers: [Server; SERVERS],
    /// The acknowledged segments.
    acknowledged: [[Option<Nonce>; SEGMENTS]; EPOCHS],
    /// The segments reported as failed, as a bit set.
    failed: [[u8; SEGMENTS]; EPOCHS],
    /// The end that the first claimant to pass an epoch found.
    ends: [Option<u8>; EPOCHS],
    seen: Option<Seen>,
}

impl Crew for State {
    type Server = Server;
    const DOWN: Server = DOWN;

    fn members(&mut self) -> Members<'_, Server> {
        Members {
            servers: &mut self.servers,
            claims: &mut self.claims,
            clones: &mut self.clones,
        }
    }
}

/// One thing that happens; a server is told by its epoch.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "a trace prints them")]
pub(crate) enum Step {
    Claims { epoch: u8 },
    ReReads { claimant: u8 },
    Seals { claimant: u8, epoch: u8 },
    Sends { place: Place, nonce: Nonce },
    Lands { place: Place, nonce: Nonce },
    Learns { place: Place, nonce: Nonce },
    ReportsFailed { place: Place, nonce: Nonce },
    Dies { epoch: u8 },
    IsCloned { epoch: u8 },
}

impl Model for Epochs {
    type State = State;
    type Step = Step;

    fn starts(&self) -> Vec<State> {
        let mut servers = [DOWN; SERVERS];
        servers[0] = Server::owner_of(0);
        let start = State {
            claims: 1,
            clones: 0,
            names: [[Name::Free; SEGMENTS + 1]; EPOCHS],
            in_flight: [[0; SEGMENTS]; EPOCHS],
            servers,
            acknowledged: [[None; SEGMENTS]; EPOCHS],
            failed: [[0; SEGMENTS]; EPOCHS],
            ends: [None; EPOCHS],
            seen: None,
        };
        vec![start]
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        let mut add = |(step, mut after): (Step, State)| {
            after.forget_the_irrelevant();
            next.push((step, after));
        };
        for (at, server) in crew::different(&state.servers) {
            match server.phase {
                Phase::Down => self.claim(state, at).into_iter().for_each(&mut add),
                Phase::Claimed => add(state.re_read(at)),
                Phase::Sealing(epoch) => add(self.seal(state, at, epoch)),
                Phase::Owner => {
                    self.send(state, at).into_iter().for_each(&mut add);
                    for segment in server.durable..server.sent {
                        self.learn(state, at, segment).into_iter().for_each(&mut add);
                    }
                    self.report_failed(state, at).into_iter().for_each(&mut add);
                }
            }
            if server.phase != Phase::Down {
                let epoch = server.epoch;
                add((Step::Dies { epoch }, state.without(at)));
                let twins = state.with_twin(at, state.clones < self.clones);
                twins
                    .into_iter()
                    .for_each(|after| add((Step::IsCloned { epoch }, after)));
            }
        }
        state.landings().for_each(&mut add);
    }

    fn laws(&self) -> Vec<Law<Self>> {
        vec![
            Law::always(
                "an acknowledged segment is where every takeover finds it",
                |_, s: &State| s.keeps_acknowledged(),
            ),
            Law::always(
                "two segments of one name are never both acknowledged",
                |_, s: &State| s.seen != Some(Seen::TwoAcknowledged),
            ),
            Law::always("a sealed epoch never grows", |_, s: &State| {
                s.seen != Some(Seen::SealedEpochGrew)
            }),
            Law::always("what was reported as failed did not happen", |_, s: &State| {
                s.seen != Some(Seen::FailureHappened)
            }),
            Law::sometimes(
                "segments of every epoch are acknowledged",
                |m: &Self, s: &State| {
                    let epochs = &s.acknowledged[..usize::from(m.epochs)];
                    epochs.iter().all(|segments| segments[0].is_some())
                },
            ),
            Law::sometimes(
                "a late segment lands behind a seal and counts for nothing",
                |_, s: &State| s.shows_a_late_segment(),
            ),
            Law::stays_possible(
                "the next claimant can take over and acknowledge",
                |m: &Self, s: &State| s.claims < m.epochs,
                |m: &Self, s: &State| s.acknowledged[usize::from(m.epochs) - 1][0].is_some(),
            ),
        ]
    }
}

impl Epochs {
    /// A fresh process claims the next epoch.
    fn claim(&self, state: &State, at: usize) -> Option<(Step, State)> {
        let epoch = state.claims;
        let after = state.with_claimant(at, Server::claimant_of(epoch), epoch < self.epochs)?;
        Some((Step::Claims { epoch }, after))
    }

    /// A claimant reads the contiguous prefix of `epoch` and occupies its next name.
    fn seal(&self, state: &State, at: usize, epoch: u8) -> (Step, State) {
        let mut after = state.clone();
        let claimant = state.servers[at].epoch;
        let end = self.end_of(&state.names[usize::from(epoch)]);
        let seals = match self.fault {
            Some(Fault::NoSeal) => false,
            Some(Fault::SealsOnlyThePreviousEpoch) => epoch + 1 == claimant,
            _ => true,
        };
        let name = &mut after.names[usize::from(epoch)][end];
        if *name == Name::Free && seals {
            *name = Name::Seal;
        }
        after.witness_end(epoch, end);
        after.servers[at] = if epoch + 1 == claimant {
            Server::owner_of(claimant)
        } else {
            let phase = Phase::Sealing(epoch + 1);
            Server {
                phase,
                ..state.servers[at]
            }
        };
        (Step::Seals { claimant, epoch }, after)
    }

    /// Returns the place of the name that ends an epoch: its first that holds no segment.
    fn end_of(&self, names: &[Name; SEGMENTS + 1]) -> usize {
        let is_segment = |name: &Name| matches!(name, Name::Segment(_));
        match self.fault {
            Some(Fault::SealsBehindAGap) if !names.contains(&Name::Seal) => {
                names.iter().rposition(is_segment).map_or(0, |last| last + 1)
            }
            _ => names
                .iter()
                .position(|name| !is_segment(name))
                .expect("the last name holds no segment"),
        }
    }

    /// An owner sends its next segment.
    fn send(&self, state: &State, at: usize) -> Option<(Step, State)> {
        let server = state.servers[at];
        if server.sent == self.segments || server.sent - server.durable == WINDOW {
            return None;
        }
        let place @ (epoch, segment) = (server.epoch, server.sent);
        let nonce = state.draw(place);
        let mut after = state.clone();
        after.servers[at].nonces[usize::from(segment)] = nonce;
        after.servers[at].sent += 1;
        after.in_flight[usize::from(epoch)][usize::from(segment)] |= 1 << nonce;
        if self.fault == Some(Fault::AcknowledgesBeforeDurable) {
            after.acknowledge(place, nonce);
        }
        Some((Step::Sends { place, nonce }, after))
    }

    /// An owner learns what stands at a name that it sent a segment to.
    fn learn(&self, state: &State, at: usize, segment: u8) -> Option<(Step, State)> {
        let server = state.servers[at];
        let out_of_order = segment != server.durable;
        if out_of_order && self.fault != Some(Fault::AcknowledgesOutOfOrder) {
            return None; // It may know, and it may not use it yet.
        }
        let (place, nonce) = ((server.epoch, segment), server.nonces[usize::from(segment)]);
        let is_mine = match state.names[usize::from(server.epoch)][usize::from(segment)] {
            Name::Free => return None,
            Name::Segment(found) => found == nonce || self.fault == Some(Fault::DrawsTheNonceBeforeTheClone),
            Name::Seal => false,
        };
        let mut after = state.clone();
        if !is_mine {
            after.servers[at] = DOWN;
            return Some((Step::Learns { place, nonce }, after));
        }
        after.acknowledge(place, nonce);
        if !out_of_order {
            after.servers[at].durable += 1;
        }
        Some((Step::Learns { place, nonce }, after))
    }

    /// A wrong owner tells its client that its last segment failed, and gives the name to another.
    fn report_failed(&self, state: &State, at: usize) -> Option<(Step, State)> {
        let server = state.servers[at];
        if self.fault != Some(Fault::TakesALostReplyForAFailure) || server.sent == server.durable {
            return None;
        }
        let place @ (epoch, segment) = (server.epoch, server.sent - 1);
        let nonce = server.nonces[usize::from(segment)];
        let mut after = state.clone();
        after.servers[at].sent -= 1;
        after.failed[usize::from(epoch)][usize::from(segment)] |= 1 << nonce;
        Some((Step::ReportsFailed { place, nonce }, after))
    }
}

/// Returns the place of every name that a segment may be sent to.
fn places() -> impl Iterator<Item = Place> {
    (0..EPOCHS as u8).flat_map(|epoch| (0..SEGMENTS as u8).map(move |segment| (epoch, segment)))
}

impl State {
    /// A claimant re-reads whether its claim is the newest, and gives up if it is not.
    fn re_read(&self, at: usize) -> (Step, State) {
        let claimant = self.servers[at].epoch;
        let mut after = self.clone();
        if claimant + 1 == self.claims {
            after.servers[at].phase = Phase::Sealing(0);
        } else {
            after.servers[at] = DOWN;
        }
        (Step::ReReads { claimant }, after)
    }

    /// Every put in flight lands: its name is free, or it would have been forgotten.
    fn landings(&self) -> impl Iterator<Item = (Step, State)> + '_ {
        places().flat_map(move |place| {
            let (e, s) = (usize::from(place.0), usize::from(place.1));
            let nonces = (0..8).filter(move |nonce| self.in_flight[e][s] & 1 << nonce != 0);
            nonces.map(move |nonce| {
                let mut after = self.clone();
                after.names[e][s] = Name::Segment(nonce);
                (Step::Lands { place, nonce }, after)
            })
        })
    }

    /// Draws a nonce that no segment of this name has.
    fn draw(&self, (epoch, segment): Place) -> Nonce {
        let (e, s) = (usize::from(epoch), usize::from(segment));
        let was_sent = |server: &Server, nonce| {
            let is_past = server.phase == Phase::Owner && server.epoch == epoch && server.sent > segment;
            is_past && server.nonces[s] == nonce
        };
        let is_used = |nonce: Nonce| {
            (self.in_flight[e][s] | self.failed[e][s]) & 1 << nonce != 0
                || self.names[e][s] == Name::Segment(nonce)
                || self.acknowledged[e][s] == Some(nonce)
                || self.servers.iter().any(|server| was_sent(server, nonce))
        };
        let mut nonces = 0..8;
        nonces
            .find(|&nonce| !is_used(nonce))
            .expect("few segments are sent to one name")
    }

    fn acknowledge(&mut self, (epoch, segment): Place, nonce: Nonce) {
        let acknowledged = &mut self.acknowledged[usize::from(epoch)][usize::from(segment)];
        if acknowledged.is_some_and(|other| other != nonce) {
            self.seen = Some(Seen::TwoAcknowledged);
        }
        *acknowledged = Some(nonce);
    }

    /// Notes which end a claimant found: all must find the same.
    fn witness_end(&mut self, epoch: u8, end: usize) {
        let e = usize::from(epoch);
        let found = Some(end as u8);
        if self.ends[e].is_some() && self.ends[e] != found {
            self.seen = Some(Seen::SealedEpochGrew);
        }
        self.ends[e] = found;
        let failed = |segment: usize| match self.names[e][segment] {
            Name::Segment(nonce) => self.failed[e][segment] & 1 << nonce != 0,
            Name::Free | Name::Seal => false,
        };
        if (0..end).any(failed) {
            self.seen = Some(Seen::FailureHappened);
        }
    }

    /// Every acknowledged segment stands at its name, or may still come there; once its epoch was passed, before the end.
    fn keeps_acknowledged(&self) -> bool {
        places().all(|(epoch, segment)| {
            let (e, s) = (usize::from(epoch), usize::from(segment));
            let Some(nonce) = self.acknowledged[e][s] else {
                return true;
            };
            let is_kept = matches!(self.names[e][s], Name::Free) || self.names[e][s] == Name::Segment(nonce);
            is_kept && self.ends[e].is_none_or(|end| segment < end)
        })
    }

    /// Whether a segment stands behind the seal of its epoch.
    fn shows_a_late_segment(&self) -> bool {
        let is_late = |pair: &[Name]| pair[0] == Name::Seal && pair[1] != Name::Free;
        self.names.iter().any(|names| names.windows(2).any(is_late))
    }

    /// Makes states equal that cannot be told apart: the order of servers, and puts that can no longer land.
    fn forget_the_irrelevant(&mut self) {
        self.servers.sort_unstable();
        for (names, in_flight) in self.names.iter().zip(&mut self.in_flight) {
            for (name, in_flight) in names.iter().zip(in_flight) {
                if *name != Name::Free {
                    *in_flight = 0;
                }
            }
        }
    }
}
