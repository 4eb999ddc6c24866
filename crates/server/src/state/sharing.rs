//! Branches that several sessions share: which, the latest acts and batches of each, and the last act of all.
//!
//! By the latest acts one that comes again is recognised, and by what each follows their order is found again when an owner is
//! lost. Invariant: what is remembered is what the journal's records say, and what the newest manifest remembers of those before.

use super::recent::Recent;
use super::{Grant, State, row};
use crate::vet::is_lent;
use std::collections::{BTreeMap, VecDeque};
use tenure_core::{Decision, Undecided};
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_option, put_varint};
use tenure_model::{Act, ActId, Batch, BranchId, Digest, Ino, Op, SessionId, limits};

/// Acts that are remembered of each session: all that may be asked again, in whatever order they came.
const MARKS_MAX: usize = 2 * limits::ACT_SPAN_MAX as usize;

/// An act that was put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Its number.
    pub(crate) number: u64,
    /// The digest of what was asked.
    pub(crate) digest: Digest,
    /// The act before it on the branch.
    pub(crate) behind: Option<ActId>,
}

/// A branch that is shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sharing {
    sessions: BTreeMap<SessionId, VecDeque<Mark>>,
    /// The latest batches of each session, from what its first one names as the one before it; none of a session that has come
    /// before there were any, to which nothing is lent.
    chains: BTreeMap<SessionId, Recent>,
    /// The last act on the branch since it is shared.
    pub(crate) last: Option<ActId>,
}

impl Sharing {
    #[cfg(test)]
    pub(super) fn of(session: SessionId, marks: impl IntoIterator<Item = Mark>, last: ActId) -> Self {
        Self {
            sessions: BTreeMap::from([(session, marks.into_iter().collect())]),
            chains: BTreeMap::new(),
            last: Some(last),
        }
    }

    #[cfg(test)]
    pub(super) fn with_chain(mut self, session: SessionId, chain: Recent) -> Self {
        self.chains.insert(session, chain);
        self
    }

    /// Returns the latest batches of a session.
    pub(super) fn chain(&self, session: SessionId) -> Option<&Recent> {
        self.chains.get(&session)
    }

    /// Returns where a session's batches are, as of one that holds a branch.
    pub(crate) fn grant(&self, session: SessionId) -> Option<Grant> {
        let (number, digest) = self.chains.get(&session)?.last()?;
        Some(Grant {
            session,
            number,
            digest,
        })
    }

    /// Returns who shares it.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.keys().copied()
    }

    /// Tells whether a session shares it.
    pub(crate) fn has(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Returns what is remembered of an act.
    pub(crate) fn mark(&self, id: ActId) -> Option<Mark> {
        let marks = self.sessions.get(&id.session)?;
        marks.iter().find(|mark| mark.number == id.number).copied()
    }

    /// Tells whether an act that a session was answered is in order: it is remembered, or so far behind one that is that it came
    /// before.
    pub(crate) fn has_act(&self, id: ActId) -> bool {
        self.mark(id).is_some() || self.is_long_past(id)
    }

    /// Tells whether an act was put in order, or refused, before others that are remembered.
    pub(crate) fn is_long_past(&self, id: ActId) -> bool {
        let marks = self.sessions.get(&id.session).into_iter().flatten();
        let last = marks.map(|mark| mark.number).max();
        last.is_some_and(|last| id.number + limits::ACT_SPAN_MAX <= last)
    }

    fn remember(&mut self, act: &Act) {
        let behind = self.last.replace(act.id);
        let Some(marks) = self.sessions.get_mut(&act.id.session) else {
            return;
        };
        marks.push_back(Mark {
            number: act.id.number,
            digest: act.mark,
            behind,
        });
        if marks.len() > MARKS_MAX {
            marks.pop_front();
        }
    }
}

impl Codec for Mark {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.number);
        out.extend_from_slice(&self.digest.0);
        put_option(out, self.behind.as_ref());
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            number: input.varint()?,
            digest: input.digest()?,
            behind: input.option()?,
        })
    }
}

impl Codec for Sharing {
    fn write(&self, out: &mut Vec<u8>) {
        put_option(out, self.last.as_ref());
        put_varint(out, self.sessions.len() as u64);
        for (session, marks) in &self.sessions {
            put_varint(out, session.0);
            put_varint(out, marks.len() as u64);
            marks.iter().for_each(|mark| mark.write(out));
        }
        // Without any nothing stands here: so it was before there were any.
        for (session, chain) in &self.chains {
            put_varint(out, session.0);
            chain.write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (last, count) = (input.option()?, input.number::<usize>()?);
        let mut sessions = BTreeMap::new();
        for _ in 0..count {
            let (session, marks) = (SessionId(input.varint()?), input.list::<Mark>()?);
            let is_behind = sessions
                .last_key_value()
                .is_none_or(|(before, _)| *before < session);
            if !is_behind || marks.len() > MARKS_MAX {
                return Err(malformed("sessions that share a branch"));
            }
            sessions.insert(session, marks.into());
        }
        let mut chains = BTreeMap::new();
        while !input.is_empty() {
            let (session, chain) = (SessionId(input.varint()?), Recent::read(input)?);
            let is_behind = chains
                .last_key_value()
                .is_none_or(|(before, _)| *before < session);
            if !is_behind || !sessions.contains_key(&session) || chain.last().is_none() {
                return Err(malformed("batches of sessions that share a branch"));
            }
            chains.insert(session, chain);
        }
        Ok(Self {
            sessions,
            chains,
            last,
        })
    }
}

/// The branches that are shared.
pub(super) type OfBranches = BTreeMap<BranchId, Sharing>;

impl State {
    /// Returns how a branch is shared, if it is.
    pub(crate) fn sharing(&self, branch: BranchId) -> Option<&Sharing> {
        self.shared.get(&branch)
    }

    /// Returns the branches that are shared.
    pub(crate) fn shared(&self) -> impl Iterator<Item = (BranchId, &Sharing)> {
        self.shared.iter().map(|(branch, sharing)| (*branch, sharing))
    }

    /// Returns the branches that a session shares.
    pub(crate) fn shared_by(&self, session: SessionId) -> Vec<BranchId> {
        let shared = self.shared().filter(|(_, sharing)| sharing.has(session));
        shared.map(|(branch, _)| branch).collect()
    }

    /// Tells whether an inode number was lent to a session.
    pub(crate) fn may_use(&self, session: SessionId, ino: Ino) -> bool {
        self.session(session).is_some_and(|row| is_lent(&row, ino))
    }

    /// Returns what an op would make of a branch that is in memory.
    pub(crate) fn decide(&self, branch: BranchId, op: &Op) -> Result<Decision, Undecided> {
        self.open[&branch].branch.decide(op)
    }

    /// Makes a change of a branch that was decided on it as it is.
    pub(crate) fn make(&mut self, branch: BranchId, decision: Decision) {
        self.changes += 1;
        let version = self.changes;
        let open = self.open.get_mut(&branch).expect("it was decided on");
        open.branch.apply(decision);
        open.version = version;
    }

    /// Lets a session share a branch; its batches begin behind `start`.
    pub(super) fn join(&mut self, branch: BranchId, session: SessionId, start: Digest) {
        let sharing = self.shared.entry(branch).or_default();
        sharing.sessions.insert(session, VecDeque::new());
        sharing.chains.insert(session, Recent::begun(start));
    }

    /// Remembers a batch of a session that shares a branch; tells whether it does.
    pub(super) fn remember_shipped(&mut self, batch: &Batch, digest: Digest) -> bool {
        let sharing = self.shared.get_mut(&batch.branch);
        let chain = sharing.and_then(|sharing| sharing.chains.get_mut(&batch.session));
        let shares = chain.is_some();
        if let Some(chain) = chain {
            chain.add(batch.number, digest);
        }
        shares
    }

    /// Lets a session share a branch no longer; returns its latest batches.
    pub(super) fn leave(&mut self, branch: BranchId, session: SessionId) -> Option<Recent> {
        let sharing = self.shared.get_mut(&branch)?;
        sharing.sessions.remove(&session);
        let chain = sharing.chains.remove(&session);
        if sharing.sessions.is_empty() {
            self.shared.remove(&branch);
        }
        chain
    }

    /// Remembers an act that was put in order.
    pub(crate) fn remember_act(&mut self, act: &Act) {
        if let Some(sharing) = self.shared.get_mut(&act.branch) {
            sharing.remember(act);
        }
    }

    /// Writes into the rows which branches are shared, and how.
    pub(super) fn put_shared(&mut self) {
        let known = self.all::<Sharing, _>(row::SHARINGS, |key| BranchId(row::number_of(key)));
        for (branch, _) in known {
            self.remove(&row::sharing_key(branch));
        }
        for (branch, sharing) in self.shared.clone() {
            self.put(&row::sharing_key(branch), &sharing);
        }
    }

    /// Takes from the rows which branches are shared, and how.
    pub(super) fn take_shared(&mut self) {
        let rows = self.all::<Sharing, _>(row::SHARINGS, |key| BranchId(row::number_of(key)));
        self.shared = rows.into_iter().collect();
    }
}
