//! Reads, grants and takeovers in time: who may answer, and until when.
//!
//! An owner proves itself by a durable append, or by a look. For `owner_ttl` after the *sending* of its last proof it
//! answers reads, renewals and grants without asking anybody. So an owner that was deposed goes on answering for a while,
//! and a new owner has to outwait it: it answers nothing before `owner_ttl` and a margin for the clocks have passed since it
//! found the older epochs sealed. A session acts on its grant for `session_ttl` after the sending of its last renewal;
//! an owner gives the grant to another when the session was silent for that and the margin.
//!
//! Time is a step that moves every clock by one tick. Clocks drift: a timer of n ticks may run out up to `DRIFT` ticks too
//! early or too late. The model takes, for each timer, the bound that allows more: one who may act, acts as long as a
//! slow clock lets it; one who waits, waits as short as a quick clock makes it. Requests and replies take no time here
//! for the same reason: what a delay could change is that a permission ends earlier.
//!
//! A put is one step and its fate is known at once (`epoch` shows what stands behind that). A server may die at any step.
//! A cloned owner can append nothing once its twin has appended, but it may answer old state until it next looks; what
//! the laws ask there is that it does look, in time.
//!
//! It does not model the contents of what is granted (`batch`).

use super::crew::{self, Crew};
use super::explorer::{Law, Model, Report, explore};

mod world;

use world::{AGE_MAX, DOWN, DRIFT, OWNER_TTL, Phase, SESSION_TTL, SESSIONS, Server, Session, State};

/// What a wrong server or session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A new owner answers at once.
    NoWait,
    /// A new owner waits for the ttl by its own clock, without a margin for the drift of both.
    NoMargin,
    /// A new owner waits, but counts from its claim and not from the seal.
    WaitsFromTheClaim,
    /// A new owner counts the silence of a session from its opening, not from when the old owner can no longer renew.
    CountsSilenceFromTheOpening,
    /// An owner revokes a silent session's grant after the ttl, without a margin.
    NoMarginForSessions,
    /// An owner's proof counts from the reply, not from the sending.
    ProofFromTheReply,
    /// A session's lease counts from the reply.
    LeaseFromTheReply,
    /// A grant is used before it is durable.
    GrantNotDurable,
    /// A look asks whether a newer epoch was claimed, not whether the owner's own next name is still free.
    LooksOnlyForClaims,
}

/// The world's bounds, and what its servers do wrong.
#[derive(Clone, Copy, Debug)]
pub struct Grants {
    /// How many epochs may be claimed, the first included.
    pub epochs: u8,
    /// How many segments may be appended after the first opening; the later openings count.
    pub segments: u8,
    /// How many times an owner may be cloned.
    pub clones: u8,
    /// Whether a claimant re-reads that its claim is the newest.
    pub re_reads: bool,
    /// Whether an owner answers only after its opening is durable. One that does neither takes its claim for a proof.
    pub opens: bool,
    /// The planted fault.
    pub fault: Option<Fault>,
}

impl Grants {
    /// Explores every interleaving within the bounds.
    pub fn explore(&self) -> Report {
        explore(self)
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Whether an owner whose last proof is so old may still answer, by the slowest clock.
    fn owner_may_answer(&self, server: &Server) -> bool {
        server.phase == Phase::Serving && server.proof_age < OWNER_TTL + DRIFT
    }

    /// Whether a session may still act on its grant, by the slowest clock.
    fn session_may_act(&self, session: &Session) -> bool {
        session.holds && session.lease_age < SESSION_TTL + DRIFT
    }

    /// Returns how old a takeover must be before the new owner answers, by the quickest clock.
    ///
    /// By its own clock that is the ttl and a margin of twice the drift: the old owner's clock may be slow and its own quick.
    fn wait(&self) -> u8 {
        match self.fault {
            Some(Fault::NoWait) => 0,
            Some(Fault::NoMargin) => OWNER_TTL - DRIFT,
            _ => OWNER_TTL + DRIFT,
        }
    }

    /// Returns how long a session must be silent before its grant is given to another, by the quickest clock.
    fn silence(&self) -> u8 {
        if self.has(Fault::NoMarginForSessions) {
            SESSION_TTL - DRIFT
        } else {
            SESSION_TTL + DRIFT
        }
    }
}

/// One thing that happens; a server is told by its epoch.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "a trace prints them")]
pub(crate) enum Step {
    TimePasses,
    Claims { epoch: u8 },
    ReReads { claimant: u8 },
    Seals { claimant: u8 },
    Opens { owner: u8 },
    Serves { owner: u8 },
    Looks { owner: u8 },
    HearsOfItsLook { owner: u8 },
    WritesAndAcknowledges { owner: u8 },
    Grants { owner: u8, session: u8 },
    Renews { owner: u8, session: u8 },
    HearsOfItsRenewal { session: u8 },
    Dies { epoch: u8 },
    IsCloned { epoch: u8 },
}

impl Model for Grants {
    type State = State;
    type Step = Step;

    fn starts(&self) -> Vec<State> {
        vec![State::first()]
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        let mut add = |(step, mut after): (Step, State)| {
            after.servers.sort_unstable();
            next.push((step, after));
        };
        add((Step::TimePasses, state.one_tick_later()));
        for (at, server) in crew::different(&state.servers) {
            match server.phase {
                Phase::Down => self.claim(state, at).into_iter().for_each(&mut add),
                Phase::Claimed if self.re_reads => add(state.re_read(at)),
                Phase::Claimed | Phase::Newest => add(self.seal(state, at)),
                Phase::Sealed => self.open(state, at).into_iter().for_each(&mut add),
                Phase::Open => {
                    self.serve(state, at).into_iter().for_each(&mut add);
                    self.look(state, at).into_iter().for_each(&mut add);
                }
                Phase::Serving => self.business(state, at).into_iter().flatten().for_each(&mut add),
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
        for session in 0..SESSIONS as u8 {
            state.hear_of_renewal(session).into_iter().for_each(&mut add);
        }
    }

    fn laws(&self) -> Vec<Law<Self>> {
        vec![
            Law::always(
                "an owner that may answer knows all that is acknowledged",
                Self::answers_are_fresh,
            ),
            Law::always(
                "owners of two epochs never may answer at one time",
                Self::one_epoch_answers,
            ),
            Law::always("two sessions never may act on one grant", Self::one_session_acts),
            Law::sometimes("an owner answers after it was deposed", |m: &Self, s: &State| {
                s.servers
                    .iter()
                    .any(|server| server.epoch < s.sealed && m.owner_may_answer(server))
            }),
            Law::sometimes(
                "the last owner takes the grant from a silent session",
                |m: &Self, s: &State| {
                    let last = |server: &Server| server.epoch + 1 == m.epochs && m.owner_may_answer(server);
                    s.sessions.iter().all(|session| session.holds) && s.servers.iter().any(last)
                },
            ),
            Law::stays_possible(
                "the next claimant can serve",
                |m: &Self, s: &State| s.claims < m.epochs && s.length + m.epochs - s.claims <= m.segments,
                |m: &Self, s: &State| {
                    let serves = |server: &Server| server.phase == Phase::Serving;
                    s.servers
                        .iter()
                        .any(|server| server.epoch + 1 == m.epochs && serves(server))
                },
            ),
        ]
    }
}

impl Grants {
    /// No owner that may answer is behind what another has acknowledged.
    ///
    /// A clone may be, until its next look: for as long as one proof counts.
    fn answers_are_fresh(&self, state: &State) -> bool {
        let too_late = if self.clones == 0 { 0 } else { OWNER_TTL + DRIFT };
        let is_stale = |server: &Server| server.behind.is_some_and(|age| age >= too_late);
        !state
            .servers
            .iter()
            .any(|server| is_stale(server) && self.owner_may_answer(server))
    }

    fn one_epoch_answers(&self, state: &State) -> bool {
        let mut answering = state
            .servers
            .iter()
            .filter(|server| self.owner_may_answer(server));
        let first = answering.next().map(|server| server.epoch);
        answering.all(|server| Some(server.epoch) == first)
    }

    /// At most one session may act. A clone of the owner may renew what its twin revoked, until it looks; `batch` shows that
    /// nothing comes of it.
    fn one_session_acts(&self, state: &State) -> bool {
        let acting = state
            .sessions
            .iter()
            .filter(|session| self.session_may_act(session));
        self.clones > 0 || acting.count() < 2
    }
}

impl Grants {
    fn claim(&self, state: &State, at: usize) -> Option<(Step, State)> {
        let epoch = state.claims;
        let after = state.with_claimant(at, Server::claimant_of(epoch), epoch < self.epochs)?;
        Some((Step::Claims { epoch }, after))
    }

    /// A claimant seals all older epochs and reads the history.
    fn seal(&self, state: &State, at: usize) -> (Step, State) {
        let claimant = state.servers[at].epoch;
        let mut after = state.clone();
        let server = &mut after.servers[at];
        after.sealed = after.sealed.max(server.epoch);
        server.phase = Phase::Sealed;
        (server.length, server.value, server.holder) = (state.length, state.value, state.holder);
        if !self.has(Fault::WaitsFromTheClaim) {
            server.wait_age = 0;
        }
        (Step::Seals { claimant }, after)
    }

    /// An owner appends its opening.
    fn open(&self, state: &State, at: usize) -> Option<(Step, State)> {
        let mut after = if self.opens {
            self.append(state, at)?
        } else {
            state.clone()
        };
        if after.servers[at].phase == Phase::Sealed {
            after.servers[at].phase = Phase::Open;
            after.servers[at].silence = 0;
        }
        let owner = state.servers[at].epoch;
        Some((Step::Opens { owner }, after))
    }

    /// An owner that has waited begins to answer.
    fn serve(&self, state: &State, at: usize) -> Option<(Step, State)> {
        (state.servers[at].wait_age >= self.wait()).then(|| {
            let mut after = state.clone();
            after.servers[at].phase = Phase::Serving;
            after.servers[at].wait_age = AGE_MAX;
            if !self.re_reads && !self.opens {
                after.servers[at].proof_age = 0;
            }
            if !self.has(Fault::CountsSilenceFromTheOpening) {
                after.servers[at].silence = 0;
            }
            let owner = state.servers[at].epoch;
            (Step::Serves { owner }, after)
        })
    }

    /// Appends one segment: the owner proves itself, or learns that its next name is occupied and stops.
    ///
    /// Returns nothing where the world's journal is full.
    fn append(&self, state: &State, at: usize) -> Option<State> {
        let mut after = state.clone();
        if !state.next_name_is_free(at) {
            after.servers[at] = DOWN;
            return Some(after);
        }
        (state.length < self.segments).then(|| {
            after.length += 1;
            after.servers[at].length += 1;
            after.servers[at].proof_age = 0;
            after
        })
    }

    /// An owner looks whether it still is one.
    fn look(&self, state: &State, at: usize) -> Option<(Step, State)> {
        let server = state.servers[at];
        let still = if self.has(Fault::LooksOnlyForClaims) {
            server.epoch + 1 == state.claims
        } else {
            state.next_name_is_free(at)
        };
        let mut after = state.clone();
        if server.awaits_look {
            after.servers[at].awaits_look = false;
            after.servers[at].proof_age = 0;
            return Some((Step::HearsOfItsLook { owner: server.epoch }, after));
        }
        if !still {
            after.servers[at] = DOWN;
        } else if self.has(Fault::ProofFromTheReply) {
            after.servers[at].awaits_look = true;
        } else {
            after.servers[at].proof_age = 0;
        }
        (after != *state).then_some((Step::Looks { owner: server.epoch }, after))
    }

    /// What a serving owner does: it looks, writes, grants and renews.
    fn business(&self, state: &State, at: usize) -> [Option<(Step, State)>; 2 + 2 * SESSIONS] {
        [
            self.look(state, at),
            self.write(state, at),
            self.grant(state, at, 0),
            self.grant(state, at, 1),
            self.renew(state, at, 0),
            self.renew(state, at, 1),
        ]
    }

    /// An owner writes a value and acknowledges it. All others that know the history are then behind.
    fn write(&self, state: &State, at: usize) -> Option<(Step, State)> {
        let owner = state.servers[at].epoch;
        let mut after = self.append(state, at)?;
        if after.servers[at].phase == Phase::Serving {
            after.value += 1;
            after.servers[at].value = after.value;
            for other in &mut after.servers {
                let is_behind = other.phase >= Phase::Sealed && other.value < after.value;
                if is_behind && other.behind.is_none() {
                    other.behind = Some(0);
                }
            }
        }
        Some((Step::WritesAndAcknowledges { owner }, after))
    }

    /// An owner gives the grant to a session, if nobody holds it or its holder was silent for long enough.
    fn grant(&self, state: &State, at: usize, session: u8) -> Option<(Step, State)> {
        let server = state.servers[at];
        let is_free = match server.holder {
            None => true,
            Some(holder) => holder != session && server.silence >= self.silence(),
        };
        let may = is_free && (!self.has(Fault::GrantNotDurable) || self.owner_may_answer(&server));
        let mut after = match (may, self.fault) {
            (false, _) => return None,
            (true, Some(Fault::GrantNotDurable)) => state.clone(),
            (true, _) => self.append(state, at)?,
        };
        if after.servers[at].phase == Phase::Serving {
            if !self.has(Fault::GrantNotDurable) {
                after.holder = Some(session);
            }
            after.servers[at].holder = Some(session);
            after.servers[at].silence = 0;
            after.sessions[usize::from(session)] = Session::GRANTED;
        }
        let owner = server.epoch;
        Some((Step::Grants { owner, session }, after))
    }

    /// An owner renews the holder's lease, without asking anybody.
    fn renew(&self, state: &State, at: usize, session: u8) -> Option<(Step, State)> {
        let (server, s) = (state.servers[at], usize::from(session));
        let holds = server.holder == Some(session) && state.sessions[s].holds;
        if !holds || !self.owner_may_answer(&server) {
            return None;
        }
        let mut after = state.clone();
        after.servers[at].silence = 0;
        if self.has(Fault::LeaseFromTheReply) {
            after.sessions[s].awaits_renewal = true;
        } else {
            after.sessions[s].lease_age = 0;
        }
        let owner = server.epoch;
        (after != *state).then_some((Step::Renews { owner, session }, after))
    }
}
