//! What the world of `grant` is made of: the journal's length and contents, servers and sessions, and the ages of what they
//! know.

use super::Step;
use crate::model::crew::{Crew, Members};

/// How many servers there are, clones included.
pub(super) const SERVERS: usize = 3;
/// How many sessions want the one grant.
pub(super) const SESSIONS: usize = 2;
/// How long an owner answers after its last proof, in ticks of a perfect clock.
pub(super) const OWNER_TTL: u8 = 2;
/// How long a session acts after its last renewal.
pub(super) const SESSION_TTL: u8 = 2;
/// How many ticks too early or too late a timer may run out.
pub(super) const DRIFT: u8 = 1;
/// From this age on every permission is over and every wait is done.
pub(super) const AGE_MAX: u8 = 3;

/// What a server is doing. Epochs are numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    /// Not running, or told that it is fenced.
    Down,
    /// It claimed its epoch.
    Claimed,
    /// It re-read that its claim is the newest.
    Newest,
    /// It found or made every older epoch sealed, and knows the history.
    Sealed,
    /// Its opening is durable, if openings are asked for. It answers nothing yet.
    Open,
    /// It outwaited the older owners.
    Serving,
}

/// A server's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Server {
    pub(super) phase: Phase,
    pub(super) epoch: u8,
    /// How long the journal is, as far as it knows.
    pub(super) length: u8,
    /// The newest value that it knows.
    pub(super) value: u8,
    /// Who holds the grant, as far as it knows.
    pub(super) holder: Option<u8>,
    /// How long ago its last proof was sent.
    pub(super) proof_age: u8,
    /// How long ago it began to wait.
    pub(super) wait_age: u8,
    /// For how long it has not heard of the holder.
    pub(super) silence: u8,
    /// Whether the good reply to a look is on its way (only where the proof wrongly counts from there).
    pub(super) awaits_look: bool,
    /// The witness's note: how long ago a value newer than this server's was first acknowledged by another.
    pub(super) behind: Option<u8>,
}

pub(super) const DOWN: Server = Server {
    phase: Phase::Down,
    epoch: 0,
    length: 0,
    value: 0,
    holder: None,
    proof_age: 0,
    wait_age: 0,
    silence: 0,
    awaits_look: false,
    behind: None,
};

impl Server {
    /// A fresh process that has claimed an epoch.
    pub(super) fn claimant_of(epoch: u8) -> Self {
        Self {
            phase: Phase::Claimed,
            epoch,
            ..DOWN
        }
    }
}

/// A session's memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Session {
    /// Whether it was granted, and was not told otherwise.
    pub(super) holds: bool,
    /// How long ago its last renewal was sent.
    pub(super) lease_age: u8,
    /// Whether the reply to a renewal is on its way (only where the lease wrongly counts from there).
    pub(super) awaits_renewal: bool,
}

impl Session {
    /// A session that holds nothing.
    const NEW: Self = Self {
        holds: false,
        lease_age: 0,
        awaits_renewal: false,
    };
    /// A session that was just granted.
    pub(super) const GRANTED: Self = Self {
        holds: true,
        ..Self::NEW
    };
}

/// The journal, the servers, the sessions, and a witness's notes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(super) claims: u8,
    pub(super) clones: u8,
    /// The epochs below this one are sealed.
    pub(super) sealed: u8,
    /// How many segments the journal has.
    pub(super) length: u8,
    /// The newest durable value.
    pub(super) value: u8,
    /// The durable holder of the grant.
    pub(super) holder: Option<u8>,
    pub(super) servers: [Server; SERVERS],
    pub(super) sessions: [Session; SESSIONS],
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

impl State {
    /// Returns the world with one owner, which serves, and no grants.
    pub(super) fn first() -> Self {
        let mut servers = [DOWN; SERVERS];
        servers[SERVERS - 1] = Server {
            phase: Phase::Serving,
            wait_age: AGE_MAX,
            ..DOWN
        };
        let (claims, sessions) = (1, [Session::NEW; SESSIONS]);
        Self {
            claims,
            clones: 0,
            sealed: 0,
            length: 0,
            value: 0,
            holder: None,
            servers,
            sessions,
        }
    }

    /// The next name of an owner is free unless its epoch is sealed or its twin has appended.
    pub(super) fn next_name_is_free(&self, at: usize) -> bool {
        self.servers[at].epoch >= self.sealed && self.servers[at].length == self.length
    }

    /// A claimant re-reads whether its claim is the newest. That is a look.
    pub(super) fn re_read(&self, at: usize) -> (Step, State) {
        let claimant = self.servers[at].epoch;
        let mut after = self.clone();
        after.servers[at] = if claimant + 1 == self.claims {
            Server {
                phase: Phase::Newest,
                proof_age: 0,
                ..self.servers[at]
            }
        } else {
            DOWN
        };
        (Step::ReReads { claimant }, after)
    }

    pub(super) fn hear_of_renewal(&self, session: u8) -> Option<(Step, State)> {
        let s = usize::from(session);
        self.sessions[s].awaits_renewal.then(|| {
            let mut after = self.clone();
            after.sessions[s].awaits_renewal = false;
            after.sessions[s].lease_age = 0;
            (Step::HearsOfItsRenewal { session }, after)
        })
    }

    pub(super) fn one_tick_later(&self) -> State {
        let mut after = self.clone();
        let tick = |age: &mut u8| *age = (*age + 1).min(AGE_MAX);
        for server in after
            .servers
            .iter_mut()
            .filter(|server| server.phase != Phase::Down)
        {
            tick(&mut server.proof_age);
            tick(&mut server.wait_age);
            tick(&mut server.silence);
            server.behind.iter_mut().for_each(tick);
        }
        for session in &mut after.sessions {
            tick(&mut session.lease_age);
        }
        after
    }
}
