//! Lending: a branch whole to one session, or what a branch or checkpoint is now to anybody.
//!
//! Invariant: a grant and the inode numbers with it are durable before they are given out.

use crate::drive::Inner;
use crate::order::Live;
use crate::state::permit::because;
use crate::state::{Line, LineKind};
use tenure_core::Branch;
use tenure_model::{BranchId, Ino, InoRange, Record, Refusal, SessionId, limits};
use tenure_wire::{Access, Error, Lent, Shared};

impl Inner {
    pub(crate) fn lend(&self, session: SessionId, name: &str, access: Access) -> Result<Lent<Branch>, Error> {
        match access {
            Access::Exclusive => self.lend_exclusive(session, name),
            Access::Read => self.lend_read(session, name),
        }
    }

    fn lend_exclusive(&self, session: SessionId, name: &str) -> Result<Lent<Branch>, Error> {
        let id = self.with(|live| {
            live.known(session)?;
            let (id, line) = live.named(name)?;
            if line.kind != LineKind::Branch {
                return Err(Refusal::ReadOnly.into());
            }
            Ok(id)
        })?;
        self.end_silent_holder(session, id)?;
        let inos = self.accept(|live| {
            let inos = live.next_inos();
            // A holder that asks again has lost its connection, not its grant.
            let record = if live.state.grant(id).is_some_and(|grant| grant.session == session) {
                Record::InosLent {
                    session,
                    count: limits::INO_RANGE_LEN,
                }
            } else {
                Record::Granted {
                    session,
                    branch: id,
                    inos: limits::INO_RANGE_LEN,
                }
            };
            Ok((record, inos))
        })?;
        self.lent(session, id, Some(id), inos)
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

    /// Takes a branch from a holder of an earlier epoch that has not spoken for `session_ttl`.
    fn end_silent_holder(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        let now = self.options.clock.elapsed();
        let silent = self.with(|live| {
            let holder = live
                .state
                .grant(branch)
                .map(|grant| grant.session)
                .filter(|holder| *holder != session);
            Ok(holder.filter(|holder| live.silent.is_over(*holder, now, self.options.session_ttl)))
        })?;
        match silent {
            Some(holder) => {
                tracing::warn!(
                    session = holder.0,
                    "a session has not come back and loses what it held"
                );
                self.close_session(holder)
            }
            None => Ok(()),
        }
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

    /// Returns the numbers that the next record to lend some lends.
    fn next_inos(&self) -> InoRange {
        let next = self
            .state
            .head()
            .expect("a drive that is served has begun")
            .next_ino;
        InoRange {
            next,
            end: Ino(next.0 + limits::INO_RANGE_LEN),
        }
    }
}
