//! Lending: a branch whole to one session, or what a branch or checkpoint is now to anybody.
//!
//! Invariant: a grant and the inode numbers with it are durable before they are given out. A grant that is asked for
//! again is the same grant, with the same numbers, as long as nothing was shipped under it.

use crate::drive::{Inner, Threads};
use crate::order::Live;
use crate::session::Silence;
use crate::state::permit::because;
use crate::state::{Grant, Line, LineKind};
use std::time::Duration;
use tenure_core::Branch;
use tenure_model::batch::chain_start;
use tenure_model::{BranchId, Ino, InoRange, Record, Refusal, SessionId, limits};
use tenure_wire::{Access, Error, Lent, Shared};

/// How often it is looked whether a silent holder has come back.
const SILENCE_REST: Duration = Duration::from_millis(50);

/// Ranges among which the one that came with a grant is looked for. A session that has shipped nothing under it has not
/// been lent more.
const LENT_MAX: usize = 1024;

impl Inner {
    pub(crate) fn lend(&self, session: SessionId, name: &str, access: Access) -> Result<Lent<Branch>, Error> {
        match access {
            Access::Exclusive => self.lend_exclusive(session, name),
            Access::Read => self.lend_read(session, name),
            Access::Shared => self.lend_shared(session, name),
        }
    }

    fn lend_shared(&self, session: SessionId, name: &str) -> Result<Lent<Branch>, Error> {
        let id = self.branch_of(session, name)?;
        self.end_silent_holder(session, id)?;
        self.join(session, id)
    }

    fn branch_of(&self, session: SessionId, name: &str) -> Result<BranchId, Error> {
        self.with(|live| {
            live.known(session)?;
            let (id, line) = live.named(name)?;
            if line.kind != LineKind::Branch {
                return Err(Refusal::ReadOnly.into());
            }
            Ok(id)
        })
    }

    fn lend_exclusive(&self, session: SessionId, name: &str) -> Result<Lent<Branch>, Error> {
        let id = self.branch_of(session, name)?;
        self.end_silent_sharers(id)?;
        self.end_silent_holder(session, id)?;
        let inos = match self.granted_before(session, id)? {
            Some(inos) => inos,
            None => self.grant(session, id)?,
        };
        self.lent(session, id, Some(id), inos)
    }

    fn grant(&self, session: SessionId, branch: BranchId) -> Result<InoRange, Error> {
        let granted = self.accept(|live| {
            let record = Record::Granted {
                session,
                branch,
                inos: limits::INO_RANGE_LEN,
            };
            Ok((record, live.next_inos()))
        });
        match granted {
            // The same request may have come twice, over two connections.
            Err(refused @ Error::Refused(Refusal::Held { .. })) => {
                self.granted_before(session, branch)?.ok_or(refused)
            }
            granted => granted,
        }
    }

    /// Returns what was lent with the grant that the session has already: it asks again because it has not heard so.
    fn granted_before(&self, session: SessionId, branch: BranchId) -> Result<Option<InoRange>, Error> {
        let inos = self.with(|live| match live.state.grant(branch) {
            Some(grant) if grant.session == session => live.lent_with(&grant, branch).map(Some),
            Some(_) | None => Ok(None),
        })?;
        if inos.is_some() {
            self.settle_all()?;
        }
        Ok(inos)
    }

    fn lend_read(&self, session: SessionId, name: &str) -> Result<Lent<Branch>, Error> {
        let (id, line) = self.with(|live| {
            live.known(session)?;
            live.named(name)
        })?;
        let branch = (line.kind == LineKind::Branch).then_some(id);
        self.lent(
            session,
            id,
            branch,
            InoRange {
                next: Ino(0),
                end: Ino(0),
            },
        )
    }

    pub(crate) fn lend_inos(&self, session: SessionId) -> Result<InoRange, Error> {
        self.accept(|live| {
            live.known(session)?;
            Ok((
                Record::InosLent {
                    session,
                    count: limits::INO_RANGE_LEN,
                },
                live.next_inos(),
            ))
        })
    }

    fn lent(
        &self,
        session: SessionId,
        line: BranchId,
        branch: Option<BranchId>,
        inos: InoRange,
    ) -> Result<Lent<Branch>, Error> {
        let (hosted, hash_key, open) = self.with(|live| {
            let hosted = live.known(session)?.hosted;
            let head = live.state.head().expect("a drive that is served has begun");
            let open = live
                .state
                .opened(line)
                .ok_or_else(|| because("it was deleted just now"))?;
            Ok((hosted, head.hash_key, open.branch))
        })?;
        let state = if hosted {
            Shared::Here(open)
        } else {
            self.stored(&open)?
        };
        Ok(Lent {
            branch,
            hash_key,
            inos,
            state,
        })
    }

    /// Writes a branch's pages, so that another process can load them.
    fn stored(&self, branch: &Branch) -> Result<Shared<Branch>, Error> {
        let totals = branch.totals();
        let root = self.store_pages(branch.tree())?;
        Ok(Shared::Stored {
            root,
            inodes: totals.inodes,
            bytes: totals.bytes,
        })
    }

    /// Takes a branch from a holder of an earlier epoch that has not spoken for `session_ttl`. One that may still come
    /// back is waited for: then it is there, or it is gone.
    fn end_silent_holder(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        let ttl = self.options.session_ttl;
        for _ in 0..=ttl.as_millis() / SILENCE_REST.as_millis() {
            match self.holder_beside(session, branch)? {
                Some((holder, Silence::Over)) => {
                    tracing::warn!(
                        session = holder.0,
                        "a session has not come back and loses what it held"
                    );
                    return self.close_session(holder);
                }
                Some((_, Silence::Lasts)) if self.options.threads == Threads::Started => {
                    std::thread::sleep(SILENCE_REST);
                }
                Some((_, Silence::Lasts | Silence::None)) | None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Returns who else holds a branch, and whether this owner has heard of them.
    fn holder_beside(
        &self,
        session: SessionId,
        branch: BranchId,
    ) -> Result<Option<(SessionId, Silence)>, Error> {
        let now = self.options.clock.elapsed();
        self.with(|live| {
            let grant = live.state.grant(branch).filter(|grant| grant.session != session);
            Ok(grant.map(|grant| {
                let silence = live.silent.of(grant.session, now, self.options.session_ttl);
                (grant.session, silence)
            }))
        })
    }
}

impl Live {
    /// Returns the branch or checkpoint of a name, or refuses with what is there.
    pub(crate) fn named(&self, name: &str) -> Result<(BranchId, Line), Error> {
        self.state.named(name).ok_or_else(|| {
            let known: Vec<_> = self
                .state
                .lines()
                .into_iter()
                .map(|(_, line)| line.name)
                .take(8)
                .collect();
            because(&format!(
                "the drive has no branch or checkpoint {name}; it has {}",
                known.join(", ")
            ))
            .into()
        })
    }

    /// Returns the numbers that were lent with a grant: those with which its chain of batches begins.
    fn lent_with(&mut self, grant: &Grant, branch: BranchId) -> Result<InoRange, Error> {
        if grant.number > 0 {
            return Err(
                because("this session holds the branch and has changed it; it cannot begin again").into(),
            );
        }
        let row = self.known(grant.session)?;
        let firsts = row.inos.iter().rev().flat_map(|lent| {
            let count = (lent.0.end.0 - lent.0.next.0) / limits::INO_RANGE_LEN;
            (0..count)
                .rev()
                .map(|before| lent.0.next.0 + before * limits::INO_RANGE_LEN)
        });
        firsts
            .take(LENT_MAX)
            .map(Ino)
            .find(|first| chain_start(grant.session, branch, *first) == grant.digest)
            .map(range_from)
            .ok_or_else(|| because("this session holds the branch under a grant that it must know").into())
    }

    /// Returns the numbers that the next record to lend some lends.
    pub(crate) fn next_inos(&self) -> InoRange {
        let head = self.state.head();
        range_from(head.expect("a drive that is served has begun").next_ino)
    }
}

fn range_from(next: Ino) -> InoRange {
    InoRange {
        next,
        end: Ino(next.0 + limits::INO_RANGE_LEN),
    }
}
