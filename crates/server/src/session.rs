//! Sessions: who is at this owner, when it has heard of them last, and their end.
//!
//! A session that says nothing loses what it holds when somebody else asks for that (`crate::lend`), and not before.
//! Invariant: a session is durable before anything that it does, and numbers carry the epoch, so none is used twice.

use crate::drive::Inner;
use crate::order::Live;
use crate::place::NUMBER_BITS;
use crate::state::Session;
use crate::state::permit::because;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{BranchId, Clock, Epoch, Record, Refusal, SessionId};
use tenure_wire::{Error, Opened, Who};

/// Times `session_ttl` after which a silent session that holds nothing ends: nobody needs it to.
const SILENCE_MAX: u32 = 60;

/// When this owner has heard of each session whose end nobody would tell it, by its own clock: those of other processes.
pub(crate) struct Heard {
    clock: Arc<dyn Clock>,
    last: BTreeMap<SessionId, Duration>,
}

impl Heard {
    pub(crate) fn by(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            last: BTreeMap::new(),
        }
    }

    /// Notes that a session is still there.
    fn hear(&mut self, session: SessionId) {
        self.last.insert(session, self.clock.elapsed());
    }

    /// Returns for how long nothing was heard of a session; none of one that ends with this process.
    pub(crate) fn silence(&self, session: SessionId) -> Option<Duration> {
        let last = self.last.get(&session)?;
        Some(self.clock.elapsed().saturating_sub(*last))
    }

    /// Returns the sessions of which nothing was heard for so long.
    fn silent_for(&self, bound: Duration) -> Vec<SessionId> {
        let sessions = self.last.keys().copied();
        sessions
            .filter(|session| self.silence(*session) >= Some(bound))
            .collect()
    }
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
        self.tend_unthreaded();
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
        // What it asks for next need not wait for two puts, one after the other: that is durable only behind this.
        self.accept_soon(|_| {
            let record = Record::SessionOpened {
                session,
                who: words(who),
                hosted: who.hosted,
                time,
            };
            Ok((record, ()))
        })?;
        self.renew_session(session)?;
        Ok(Opened {
            session,
            epoch: self.epoch,
            tier: self.tier().to_owned(),
            notices: self.notices.clone(),
            session_ttl: self.options.session_ttl,
        })
    }

    /// Notes that a session is still there; one that is waited for learns that it is.
    pub(crate) fn renew_session(&self, session: SessionId) -> Result<(), Error> {
        self.with(|live| {
            live.known(session)?;
            live.is_not_awaited(session)
        })
    }

    pub(crate) fn close_session(&self, session: SessionId) -> Result<(), Error> {
        let (held, shared) = self.with(|live| {
            live.state.session(session).ok_or(Refusal::Stale)?;
            Ok((live.state.held_by(session), live.shared_by(session)))
        })?;
        for branch in held {
            match self.take_back(session, branch) {
                // It was given back just now.
                Err(Error::Refused(Refusal::Stale)) => {}
                taken => taken?,
            }
        }
        for branch in shared {
            self.leave(session, branch)?;
        }
        self.accept(|_| Ok((Record::SessionClosed { session }, ())))?;
        self.holds.end(session);
        self.with(|live| {
            live.heard.last.remove(&session);
            Ok(())
        })
    }

    /// Ends every session whose process has ended with the last owner.
    ///
    /// Of the others, silence counts from the end of the last owner: until then they may have spoken to that one (decision 0007).
    pub(crate) fn end_dead_sessions(&self) -> Result<(), Error> {
        let sealed = self.with(|live| Ok(live.journal()?.sealed_since()))?;
        let now = sealed.unwrap_or_else(|| self.options.clock.elapsed());
        let sessions = self.with(|live| Ok(live.state.sessions()))?;
        for (session, row) in sessions {
            if row.hosted {
                self.close_session(session)?;
            } else {
                self.with(|live| {
                    live.heard.last.insert(session, now);
                    Ok(())
                })?;
            }
        }
        self.begin_gathering()
    }

    /// Ends sessions that hold nothing and have long been silent. One that holds something may sleep as long as it likes.
    fn end_silent_sessions(&self) -> Result<(), Error> {
        self.end_lost_sessions()?;
        let bound = self.options.session_ttl * SILENCE_MAX;
        let over = self.with(|live| {
            let silent = live.heard.silent_for(bound).into_iter();
            let is_idle = |session: &SessionId| {
                live.state.held_by(*session).is_empty() && !Inner::borrows(live, *session)
            };
            let idle = silent.filter(is_idle);
            Ok(idle.collect::<Vec<_>>())
        })?;
        over.into_iter().try_for_each(|session| self.end_session(session))
    }

    /// Ends a session that may have ended before, in a record whose outcome nobody heard.
    pub(crate) fn end_session(&self, session: SessionId) -> Result<(), Error> {
        match self.close_session(session) {
            Err(Error::Refused(Refusal::Stale)) => self.with(|live| {
                live.heard.last.remove(&session);
                Ok(())
            }),
            closed => closed,
        }
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
            Ok(live.sharers(branch).contains(&session))
        })?;
        if shares {
            return self.leave(session, branch);
        }
        self.renew_session(session)?;
        self.take_back(session, branch)?;
        self.work_on_returned();
        Ok(())
    }

    fn take_back(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        let until = self.accept(|live| {
            live.state
                .grant(branch)
                .filter(|grant| grant.session == session)
                .ok_or(Refusal::Stale)?;
            let line = live.state.line(branch);
            Ok((Record::Returned { branch }, line.and_then(|line| line.until)))
        })?;
        self.forget_holder(branch);
        self.work_on_passing_lines(until);
        Ok(())
    }
}

impl Live {
    /// Refuses a session that is not open, and notes that it is still there.
    pub(crate) fn known(&mut self, session: SessionId) -> Result<Session, Error> {
        let row = self.present(session)?;
        if row.is_over {
            Err(Refusal::Stale.into())
        } else {
            Ok(row)
        }
    }

    /// As [`Live::known`], also for a session that is over and may bring what it had not shipped.
    pub(crate) fn present(&mut self, session: SessionId) -> Result<Session, Error> {
        let row = self.state.session(session).ok_or(Refusal::Stale)?;
        if !row.hosted {
            self.heard.hear(session);
        }
        Ok(row)
    }
}

/// Returns the epoch in which a session was opened.
pub(crate) fn epoch_of(session: SessionId) -> Epoch {
    Epoch(session.0 >> NUMBER_BITS)
}
