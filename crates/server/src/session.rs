//! Sessions: who is at this owner, and the end of those whose process has ended.
//!
//! Invariant: a session is durable before its number is given out, and numbers carry the epoch, so none is used twice.

use crate::drive::Inner;
use crate::order::Live;
use crate::place::NUMBER_BITS;
use crate::state::permit::because;
use std::collections::BTreeMap;
use std::time::Duration;
use tenure_model::{BranchId, Epoch, Record, Refusal, SessionId};
use tenure_wire::{Error, Opened, Who};

/// Times `session_ttl` after which a silent session ends also when nobody needs what it holds.
const SILENCE_MAX: u32 = 60;

/// Sessions of earlier epochs that have not spoken to this owner yet, and since when it has waited for them.
#[derive(Debug, Default)]
pub(crate) struct Silent(pub(crate) BTreeMap<SessionId, Duration>);

impl Silent {
    /// Notes that a session is still there.
    pub(crate) fn hear(&mut self, session: SessionId) {
        if !self.0.is_empty() {
            self.0.remove(&session);
        }
    }

    /// Returns the sessions that are not waited for any more, whoever needs what they hold.
    fn given_up(&self, now: Duration, session_ttl: Duration) -> Vec<SessionId> {
        let bound = session_ttl * SILENCE_MAX;
        self.0
            .keys()
            .copied()
            .filter(|session| self.is_over(*session, now, bound))
            .collect()
    }

    fn is_over(&self, session: SessionId, now: Duration, bound: Duration) -> bool {
        self.of(session, now, bound) == Silence::Over
    }

    /// Tells whether a session is silent, and for so long that it may lose what another needs.
    pub(crate) fn of(&self, session: SessionId, now: Duration, session_ttl: Duration) -> Silence {
        match self.0.get(&session) {
            None => Silence::None,
            Some(since) if now.saturating_sub(*since) >= session_ttl => Silence::Over,
            Some(_) => Silence::Lasts,
        }
    }
}

/// Whether a session of an earlier epoch has come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// It is there.
    None,
    /// Not yet.
    Lasts,
    /// Not in time.
    Over,
}

/// Returns who somebody is, in the words that a person who is refused reads.
pub(crate) fn words(who: &Who) -> String {
    format!(
        "{} on {} (process {}, {})",
        who.agent, who.host, who.pid, who.purpose
    )
}

impl Inner {
    pub(crate) fn open_session(&self, who: &Who) -> Result<Opened, Error> {
        self.end_silent_sessions()?;
        let time = self.options.clock.now();
        let session = self.with(|live| {
            live.sessions += 1;
            if live.sessions >> NUMBER_BITS != 0 {
                return Err(because(
                    "this owner has opened all sessions it can; end it and open the drive again",
                )
                .into());
            }
            Ok(SessionId(self.epoch.0 << NUMBER_BITS | live.sessions))
        })?;
        self.accept(|_| {
            let record = Record::SessionOpened {
                session,
                who: words(who),
                hosted: who.hosted,
                time,
            };
            Ok((record, ()))
        })?;
        Ok(Opened {
            session,
            epoch: self.epoch,
            tier: self.tier().to_owned(),
            notices: self.notices.clone(),
        })
    }

    pub(crate) fn close_session(&self, session: SessionId) -> Result<(), Error> {
        let (held, shared) = self.with(|live| {
            live.known(session)?;
            Ok((live.state.held_by(session), live.state.shared_by(session)))
        })?;
        for branch in held {
            self.accept(|_| Ok((Record::Returned { branch }, ())))?;
        }
        for branch in shared {
            self.leave(session, branch)?;
        }
        self.accept(|_| Ok((Record::SessionClosed { session }, ())))
    }

    /// Ends every session whose process has ended with the last owner, and starts to wait for the others.
    ///
    /// A silence counts from the end of the last owner: until then they may have spoken to that one (decision 0007).
    pub(crate) fn end_dead_sessions(&self) -> Result<(), Error> {
        let sealed = self.with(|live| Ok(live.journal()?.sealed_since()))?;
        let now = sealed.unwrap_or_else(|| self.options.clock.elapsed());
        let sessions = self.with(|live| Ok(live.state.sessions()))?;
        for (session, row) in sessions {
            if row.hosted {
                self.close_session(session)?;
            } else {
                self.with(|live| {
                    live.silent.0.insert(session, now);
                    Ok(())
                })?;
            }
        }
        self.begin_gathering()
    }

    /// Ends sessions that have not come back for so long that nobody waits for them.
    fn end_silent_sessions(&self) -> Result<(), Error> {
        let now = self.options.clock.elapsed();
        let over = self.with(|live| Ok(live.silent.given_up(now, self.options.session_ttl)))?;
        over.into_iter()
            .try_for_each(|session| self.close_session(session))
    }

    /// Ends every session of this process, when the drive is closed.
    pub(crate) fn end_hosted_sessions(&self) -> Result<(), Error> {
        let sessions = self.with(|live| Ok(live.state.sessions()))?;
        sessions
            .into_iter()
            .filter(|(_, row)| row.hosted)
            .try_for_each(|(session, _)| self.close_session(session))
    }

    pub(crate) fn give_back(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        let shares = self.with(|live| {
            live.known(session)?;
            Ok(live.state.shares(session, branch).is_ok())
        })?;
        if shares {
            return self.leave(session, branch);
        }
        self.accept(|live| {
            live.known(session)?;
            live.state
                .grant(branch)
                .filter(|grant| grant.session == session)
                .ok_or(Refusal::Stale)?;
            Ok((Record::Returned { branch }, ()))
        })
    }
}

impl Live {
    /// Refuses a session that is not open, and notes that it is still there.
    pub(crate) fn known(&mut self, session: SessionId) -> Result<crate::state::Session, Error> {
        let row = self.state.session(session).ok_or(Refusal::Stale)?;
        self.silent.hear(session);
        Ok(row)
    }
}

/// Returns the epoch in which a session was opened.
pub(crate) fn epoch_of(session: SessionId) -> Epoch {
    Epoch(session.0 >> NUMBER_BITS)
}
