//! Manifests and the deletion of journal segments: which names may become free again.
//!
//! `epoch` shows that a journal whose names are written once is safe. Reclaim deletes segments, and a deleted name can be
//! written again: by a put that was in flight for a day, by a server that was paused, by a clone. And a claimant may read
//! while an older owner, which does not know yet, deletes what it reads. What keeps that safe:
//!
//! - The first segment of an epoch, its *opening*, says on which history the epoch stands. A claimant that reads an
//!   opening which does not stand on what it has just read starts over from the newest manifest. It does nothing else
//!   with what it read before its own opening is durable.
//! - A segment is deleted only when a durable manifest of a *later* epoch covers it; claims and seals never are.
//! - A segment counts as durable when its put has succeeded *and* a look after that finds no newer epoch.
//! - An owner that only reads looks as well, and asks both: that its own next name is free, and that no newer epoch is
//!   claimed. A name that is free may have been deleted, and a claim does not show what a clone has appended.
//!
//! A put in flight may land at any time, and again whenever its name is free. Deletions are late as well: they need no
//! server, only the manifest. It does not model several puts in flight at once (`epoch`).

use super::crew::{self, Crew, Members};
use super::explorer::{Law, Model, Report, explore};

mod history;
mod server;

use history::{EMPTY, EPOCHS, History, Nonce, Place, SEGMENTS, places};
use server::{DOWN, Phase, Server};

/// How many servers there are, clones included.
const SERVERS: usize = 3;
/// How many different segments may be sent to one name: by a server and by its clone.
const NONCES: usize = 2;

/// What a wrong server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An owner takes a put that succeeded for durable, without a look for a newer epoch.
    NoLookAfterThePut,
    /// An owner that only reads asks whether its next name is free, and not whether a newer epoch is claimed.
    LooksAtTheNameOnly,
    /// An owner that only reads asks whether a newer epoch is claimed, and not whether its next name is free.
    LooksForClaimsOnly,
    /// A claimant goes on over an opening that does not stand on what it read.
    NoCheckOfOpenings,
    /// Reclaim deletes what its manifest covers of its own epoch.
    DeletesItsOwnEpoch,
    /// Reclaim deletes seals with the segments before them.
    DeletesSeals,
    /// Reclaim deletes what a manifest will cover before that manifest is durable.
    DeletesBeforeTheManifest,
    /// A manifest holds a segment that was sent and is not known to be durable.
    FoldsWhatIsNotDurable,
}

/// The world's bounds, and what its servers do wrong.
#[derive(Clone, Copy, Debug)]
pub struct Folds {
    /// How many epochs may be claimed, the first included; at most 4.
    pub epochs: u8,
    /// How many segments an epoch may have, its opening included; at most 3.
    pub segments: u8,
    /// How many times a server may be cloned; at most once.
    pub clones: u8,
    /// The planted faults.
    pub faults: &'static [Fault],
}

impl Folds {
    /// Explores every interleaving within the bounds.
    pub fn explore(&self) -> Report {
        assert!(usize::from(self.epochs) <= EPOCHS && usize::from(self.segments) <= SEGMENTS);
        assert!(usize::from(self.clones) < NONCES);
        explore(self)
    }

    fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }
}

/// What stands at a name of the journal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    Free,
    Segment(Nonce),
    Seal,
}

/// The newest manifest: a history up to a place.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Manifest {
    end: Place,
    history: History,
}

/// What the witness saw happen that may not.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Seen {
    AcknowledgedLost,
    TwoAcknowledged,
}

/// The bucket, the network, the servers, and a witness's notes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    claims: u8,
    clones: u8,
    names: [[Name; SEGMENTS + 1]; EPOCHS],
    /// The nonces ever sent to each name, as a bit set: any of them may land when the name is free.
    in_flight: [[u8; SEGMENTS]; EPOCHS],
    /// On what each opening ever sent stands.
    openings: [[History; NONCES]; EPOCHS],
    manifest: Manifest,
    servers: [Server; SERVERS],
    acknowledged: History,
    /// The newest epoch that an owner opened, and on what.
    opened: (u8, History),
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
    ReadsManifest { claimant: u8 },
    Stops { claimant: u8 },
    Reads { claimant: u8, place: Place },
    Seals { claimant: u8, place: Place },
    StartsOver { claimant: u8, opening: Place },
    Sends { place: Place, nonce: Nonce },
    Lands { place: Place, nonce: Nonce },
    LearnsThatItStands { place: Place, nonce: Nonce },
    LearnsThatAnotherStands { place: Place, nonce: Nonce },
    Looks { place: Place, nonce: Nonce },
    Folds { end: Place },
    Deletes { place: Place },
    Dies { epoch: u8 },
    IsCloned { epoch: u8 },
}

impl Model for Folds {
    type State = State;
    type Step = Step;

    fn starts(&self) -> Vec<State> {
        let opened = EMPTY.with((0, 0), 0);
        let mut start = State {
            claims: 1,
            clones: 0,
            names: [[Name::Free; SEGMENTS + 1]; EPOCHS],
            in_flight: [[0; SEGMENTS]; EPOCHS],
            openings: [[EMPTY; NONCES]; EPOCHS],
            manifest: Manifest {
                end: (0, 0),
                history: EMPTY,
            },
            servers: [DOWN; SERVERS],
            acknowledged: opened,
            opened: (0, EMPTY),
            seen: None,
        };
        start.names[0][0] = Name::Segment(0);
        start.in_flight[0][0] = 1;
        start.servers[SERVERS - 1] = Server {
            phase: Phase::Owner,
            history: opened,
            next: 1,
            ..DOWN
        };
        vec![start]
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        let mut add = |(step, mut after): (Step, State)| {
            after.servers.sort_unstable();
            next.push((step, after));
        };
        for (at, server) in crew::different(&state.servers) {
            match server.phase {
                Phase::Down => self.claim(state, at).into_iter().for_each(&mut add),
                Phase::Claimed => add(state.read_manifest(at)),
                Phase::Reading(place) => add(self.read(state, at, place)),
                Phase::Owner => {
                    self.send(state, at).into_iter().for_each(&mut add);
                    self.learn(state, at).into_iter().for_each(&mut add);
                    self.fold(state, at).into_iter().for_each(&mut add);
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
        self.deletions(state).for_each(&mut add);
    }

    fn laws(&self) -> Vec<Law<Self>> {
        vec![
            Law::always(
                "every owner stands on all that was acknowledged before it",
                |_, s: &State| s.seen != Some(Seen::AcknowledgedLost),
            ),
            Law::always(
                "two segments of one place are never both acknowledged",
                |_, s: &State| s.seen != Some(Seen::TwoAcknowledged),
            ),
            Law::always(
                "an owner whose look is good knows all that is acknowledged",
                Self::looks_are_true,
            ),
            Law::always(
                "the bucket alone holds all that was acknowledged",
                |_, s: &State| s.bucket_holds_acknowledged(),
            ),
            Law::sometimes(
                "the last epoch acknowledges after segments were deleted",
                |m: &Self, s: &State| {
                    let before_last = usize::from(m.epochs) - 2;
                    s.acknowledged.get((m.epochs - 1, 1)).is_some() && s.names[before_last][0] == Name::Free
                },
            ),
            Law::sometimes("a put lands at a name that was deleted", |_, s: &State| {
                let [first, second, ..] = s.names[0];
                s.manifest.end.0 > 0 && first != Name::Free && second == Name::Free
            }),
            Law::stays_possible(
                "the next claimant can take over and acknowledge",
                |m: &Self, s: &State| s.claims < m.epochs,
                |m: &Self, s: &State| s.acknowledged.get((m.epochs - 1, 1)).is_some(),
            ),
        ]
    }
}

impl Folds {
    /// No idle owner may look now, find nothing, and yet not know what was acknowledged.
    fn looks_are_true(&self, state: &State) -> bool {
        let is_good = |server: &Server| {
            let name = state.names[usize::from(server.epoch)][usize::from(server.next)];
            let is_newest = server.epoch + 1 == state.claims || self.has(Fault::LooksAtTheNameOnly);
            is_newest && (name == Name::Free || self.has(Fault::LooksForClaimsOnly))
        };
        state.servers.iter().all(|server| {
            let is_idle = server.phase == Phase::Owner && server.next > 0 && server.sent.is_none();
            !is_idle || !is_good(server) || server.history.holds(state.acknowledged)
        })
    }

    fn claim(&self, state: &State, at: usize) -> Option<(Step, State)> {
        let epoch = state.claims;
        let after = state.with_claimant(at, Server::claimant_of(epoch), epoch < self.epochs)?;
        Some((Step::Claims { epoch }, after))
    }

    /// A claimant reads one name, and seals the epoch where the name is free.
    fn read(&self, state: &State, at: usize, place: Place) -> (Step, State) {
        let mut after = state.clone();
        let (epoch, segment) = (usize::from(place.0), usize::from(place.1));
        let claimant = state.servers[at].epoch;
        let server = &mut after.servers[at];
        let step = match state.names[epoch][segment] {
            Name::Segment(nonce) => {
                let stands_on = state.openings[epoch][usize::from(nonce)];
                let is_strange = segment == 0 && stands_on != server.history;
                if is_strange && !self.has(Fault::NoCheckOfOpenings) {
                    *server = Server::claimant_of(claimant);
                    return (
                        Step::StartsOver {
                            claimant,
                            opening: place,
                        },
                        after,
                    );
                }
                server.history = server.history.with(place, nonce);
                server.phase = Phase::Reading((place.0, place.1 + 1));
                return (Step::Reads { claimant, place }, after);
            }
            Name::Seal => Step::Reads { claimant, place },
            Name::Free => {
                after.names[epoch][segment] = Name::Seal;
                Step::Seals { claimant, place }
            }
        };
        server.phase = if place.0 + 1 == claimant {
            Phase::Owner
        } else {
            Phase::Reading((place.0 + 1, 0))
        };
        (step, after)
    }

    /// An owner sends its next segment; the first of its epoch is the opening.
    fn send(&self, state: &State, at: usize) -> Option<(Step, State)> {
        let server = state.servers[at];
        if server.sent.is_some() || server.next == self.segments {
            return None;
        }
        let place @ (epoch, segment) = (server.epoch, server.next);
        let in_flight = state.in_flight[usize::from(epoch)][usize::from(segment)];
        let nonce = in_flight.trailing_ones() as Nonce;
        let mut after = state.clone();
        after.servers[at].sent = Some(nonce);
        after.in_flight[usize::from(epoch)][usize::from(segment)] |= 1 << nonce;
        if segment == 0 {
            after.openings[usize::from(epoch)][usize::from(nonce)] = server.history;
        }
        Some((Step::Sends { place, nonce }, after))
    }

    /// An owner learns what stands at the name that it sent a segment to; if that is its own, it looks for a newer epoch.
    fn learn(&self, state: &State, at: usize) -> Option<(Step, State)> {
        let server = state.servers[at];
        let (place, nonce) = ((server.epoch, server.next), server.sent?);
        let mut after = state.clone();
        if server.stands {
            if server.epoch + 1 == state.claims {
                after.acknowledge(at, place, nonce);
            } else {
                after.servers[at] = DOWN;
            }
            return Some((Step::Looks { place, nonce }, after));
        }
        let found = state.names[usize::from(server.epoch)][usize::from(server.next)];
        match found {
            Name::Free => None,
            Name::Segment(found) if found == nonce => {
                if self.has(Fault::NoLookAfterThePut) {
                    after.acknowledge(at, place, nonce);
                } else {
                    after.servers[at].stands = true;
                }
                Some((Step::LearnsThatItStands { place, nonce }, after))
            }
            Name::Segment(_) | Name::Seal => {
                after.servers[at] = DOWN;
                Some((Step::LearnsThatAnotherStands { place, nonce }, after))
            }
        }
    }

    /// An owner that has opened its epoch puts a manifest of what it knows to be durable.
    fn fold(&self, state: &State, at: usize) -> Option<(Step, State)> {
        let server = state.servers[at];
        let mut manifest = Manifest {
            end: (server.epoch, server.next),
            history: server.history,
        };
        if let (true, Some(nonce)) = (self.has(Fault::FoldsWhatIsNotDurable), server.sent) {
            manifest.history = manifest.history.with(manifest.end, nonce);
            manifest.end.1 += 1;
        }
        (server.next > 0 && manifest.end > state.manifest.end).then(|| {
            let mut after = state.clone();
            after.manifest = manifest;
            (Step::Folds { end: manifest.end }, after)
        })
    }

    /// Whether reclaim may delete what stands at `place`.
    fn may_delete(&self, state: &State, place: Place) -> bool {
        let of_an_older_epoch = place.0 < state.manifest.end.0;
        let of_its_own = place < state.manifest.end && self.has(Fault::DeletesItsOwnEpoch);
        let is_opened = |server: &Server| server.phase == Phase::Owner && server.next > 0;
        let too_early = self.has(Fault::DeletesBeforeTheManifest)
            && state
                .servers
                .iter()
                .any(|server| is_opened(server) && place.0 < server.epoch);
        let is_kind = match state.names[usize::from(place.0)][usize::from(place.1)] {
            Name::Free => false,
            Name::Segment(_) => true,
            Name::Seal => self.has(Fault::DeletesSeals),
        };
        is_kind && (of_an_older_epoch || of_its_own || too_early)
    }

    /// Every deletion, each in its own step.
    fn deletions<'s>(&'s self, state: &'s State) -> impl Iterator<Item = (Step, State)> + 's {
        let names = (0..EPOCHS as u8).flat_map(|e| (0..=SEGMENTS as u8).map(move |s| (e, s)));
        names.filter(|&place| self.may_delete(state, place)).map(|place| {
            let mut after = state.clone();
            after.names[usize::from(place.0)][usize::from(place.1)] = Name::Free;
            (Step::Deletes { place }, after)
        })
    }
}

impl State {
    /// A claimant that is still the newest starts to read where the newest manifest ends. If that is in its own epoch, then a
    /// clone of it has gone ahead.
    fn read_manifest(&self, at: usize) -> (Step, State) {
        let mut after = self.clone();
        let claimant = self.servers[at].epoch;
        if claimant + 1 != self.claims || claimant == self.manifest.end.0 {
            after.servers[at] = DOWN;
            return (Step::Stops { claimant }, after);
        }
        after.servers[at].phase = Phase::Reading(self.manifest.end);
        after.servers[at].history = self.manifest.history;
        (Step::ReadsManifest { claimant }, after)
    }

    /// Every segment ever sent lands where its name is free.
    fn landings(&self) -> impl Iterator<Item = (Step, State)> + '_ {
        let free =
            |&(epoch, segment): &Place| self.names[usize::from(epoch)][usize::from(segment)] == Name::Free;
        places().filter(free).flat_map(move |place| {
            let (epoch, segment) = (usize::from(place.0), usize::from(place.1));
            let sent =
                (0..NONCES as Nonce).filter(move |nonce| self.in_flight[epoch][segment] & 1 << nonce != 0);
            sent.map(move |nonce| {
                let mut after = self.clone();
                after.names[epoch][segment] = Name::Segment(nonce);
                (Step::Lands { place, nonce }, after)
            })
        })
    }

    /// The newest manifest holds what was acknowledged before its end, and the names hold the rest.
    fn bucket_holds_acknowledged(&self) -> bool {
        let end = self.manifest.end;
        let stands = |place: Place| {
            let name = self.names[usize::from(place.0)][usize::from(place.1)];
            self.acknowledged
                .get(place)
                .is_none_or(|nonce| name == Name::Segment(nonce))
        };
        self.manifest.history.holds(self.acknowledged.before(end))
            && places().filter(|&place| place >= end).all(stands)
    }

    /// An owner takes its sent segment for durable, and acknowledges it.
    fn acknowledge(&mut self, at: usize, place: Place, nonce: Nonce) {
        let server = &mut self.servers[at];
        server.history = server.history.with(place, nonce);
        server.next += 1;
        server.sent = None;
        server.stands = false;
        let history = server.history;
        if self.acknowledged.get(place).is_some_and(|other| other != nonce) {
            self.seen = Some(Seen::TwoAcknowledged);
        }
        self.acknowledged = self.acknowledged.with(place, nonce);
        if place.1 == 0 && place.0 > self.opened.0 {
            self.opened = (place.0, history);
        }
        let (opened, stands_on) = self.opened;
        if !stands_on.holds(self.acknowledged.before((opened, 0))) {
            self.seen = Some(Seen::AcknowledgedLost);
        }
    }
}
