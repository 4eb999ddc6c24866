//! Strays: a branch is taken from its holder, and what that had not shipped may still come, into a branch beside it.
//!
//! One record ends the hold and the session, and copies the branch's root: the stray is what the branch was, and has its holder's
//! grant, so his batches follow on there as they would have in the branch. Invariant: what comes from a session that is over
//! changes nothing but its strays, and nobody is told that it is in the branch.

use crate::drive::Inner;
use crate::order::Live;
use crate::state::Session;
use crate::state::permit::because;
use tenure_model::{Batch, BranchId, BranchName, Record, Refusal, SessionId, Timestamp, limits};
use tenure_wire::Error;

/// Letters of a branch's name and of a host's that a stray's name takes.
const PART_LEN_MAX: usize = 36;

/// Names that are tried for a stray: others have these already.
const NAMES_MAX: u64 = 1000;

impl Inner {
    /// Takes a branch from whoever else holds or shares it, at once. What sharers have done is in the branch.
    pub(crate) fn take(&self, session: SessionId, name: &str) -> Result<(), Error> {
        let (branch, holder, sharers) = self.with(|live| {
            live.known(session)?;
            let (branch, _) = live.named(name)?;
            let holder = live.state.grant(branch).map(|grant| grant.session);
            Ok((branch, holder, live.sharers(branch)))
        })?;
        for other in sharers.into_iter().filter(|other| *other != session) {
            tracing::warn!(session = other.0, "what a session shares is taken from it");
            self.end_gone(other, branch)?;
        }
        match holder.filter(|holder| *holder != session) {
            Some(holder) => {
                tracing::warn!(session = holder.0, "what a session holds is taken from it");
                self.revoke(holder, branch)
            }
            None => Ok(()),
        }
    }

    /// Ends a session: each branch that it holds is free, and has a stray. A stray that waits for the session stays, unless it is what
    /// is `wanted`.
    pub(crate) fn revoke(&self, holder: SessionId, wanted: BranchId) -> Result<(), Error> {
        let time = self.options.clock.now();
        let held = self.with(|live| {
            let mut held = live.state.held_by(holder);
            held.retain(|line| *line == wanted || live.state.stray_of(*line, holder).is_none());
            Ok(held)
        })?;
        for branch in held {
            let revoked = self.accept(|live| {
                let grant = live.state.grant(branch);
                grant
                    .filter(|grant| grant.session == holder)
                    .ok_or(Refusal::Stale)?;
                let stray = live.stray_name(branch, holder)?;
                Ok((Record::Revoked { branch, stray, time }, ()))
            });
            match revoked {
                // It was given back just now.
                Err(Error::Refused(Refusal::Stale)) => {}
                revoked => revoked?,
            }
            self.forget_holder(branch);
        }
        Ok(())
    }

    /// Ends sessions that have lost something and bring nothing more: their strays stay where they hold anything.
    pub(crate) fn end_lost_sessions(&self) -> Result<(), Error> {
        let now = self.options.clock.now();
        let over = self.with(|live| {
            let sessions = live.state.sessions().into_iter();
            let over = sessions.filter(|(session, row)| row.is_over && live.waited_for(*session, now));
            Ok(over.map(|(session, _)| session).collect::<Vec<_>>())
        })?;
        over.into_iter().try_for_each(|session| self.end_session(session))
    }

    /// Returns the name of the line into which a batch of a session goes that is over.
    pub(crate) fn stray_for(&self, batch: &Batch) -> Result<String, Error> {
        self.with(|live| {
            live.lost(batch.session)?;
            let (line, _) = live.state.granted(batch).ok_or(Refusal::Stale)?;
            Ok(live.state.line(line).ok_or(Refusal::Stale)?.name)
        })
    }
}

impl Live {
    /// Refuses a session that is not over, and one that is forgotten; notes that it still says something.
    pub(crate) fn lost(&mut self, session: SessionId) -> Result<Session, Error> {
        let row = self.present(session)?;
        if row.is_over {
            Ok(row)
        } else {
            Err(Refusal::Stale.into())
        }
    }

    /// Tells whether a session that is over was waited for as long as one is.
    fn waited_for(&self, session: SessionId, now: Timestamp) -> bool {
        let made = self
            .state
            .held_by(session)
            .into_iter()
            .filter_map(|line| self.state.line(line))
            .map(|line| line.made.secs);
        let wait = i64::try_from(limits::STRAY_WAIT.as_secs()).unwrap_or(i64::MAX);
        made.max()
            .is_none_or(|made| now.secs.saturating_sub(made) >= wait)
    }

    /// Returns the name of the next stray: which branch it comes from, whose machine had that, and a number.
    pub(crate) fn stray_name(&self, branch: BranchId, holder: SessionId) -> Result<BranchName, Error> {
        let line = self.state.line(branch).ok_or(Refusal::Stale)?;
        let session = self.state.session(holder).ok_or(Refusal::Stale)?;
        let name = line.name.strip_prefix("stray-").unwrap_or(&line.name);
        let next = self
            .state
            .head()
            .expect("a drive that is served has begun")
            .next_line;
        let (name, host) = (part_of(name), part_of(&host_of(&session.who)));
        (next.0..next.0 + NAMES_MAX)
            .map(|number| format!("stray-{name}-{host}-{number}"))
            .find(|name| self.state.named(name).is_none())
            .and_then(|name| BranchName::parse(&name).ok())
            .ok_or_else(|| because("the drive has a branch of each name that a stray could have").into())
    }
}

/// Returns the machine in the words that say who a session is.
fn host_of(who: &str) -> String {
    let before = who.rsplit_once(" (process ").map_or("", |(before, _)| before);
    before.rsplit_once(" on ").map_or("", |(_, host)| host).to_owned()
}

/// Returns what a name may have of some text.
fn part_of(text: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let fitting: String = text.chars().take(PART_LEN_MAX).map(fit).collect();
    let trimmed = fitting.trim_matches('-');
    if trimmed.is_empty() {
        "x".to_owned()
    } else {
        trimmed.to_owned()
    }
}
