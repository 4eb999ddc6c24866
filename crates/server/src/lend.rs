//! Lending: a branch whole to one session, or what a branch or checkpoint is now to anybody.
//!
//! Invariant: a grant and the inode numbers with it are durable before they are given out. A grant that is asked for
//! again is the same grant, with the same numbers, as long as nothing was shipped under it.

use crate::drive::{Inner, Threads};
use crate::order::Live;
use crate::state::permit::because;
use crate::state::{Grant, Line};
use std::collections::BTreeMap;
use std::time::Duration;
use tenure_core::Branch;
use tenure_model::batch::chain_start;
use tenure_model::{BranchId, Ino, InoRange, Record, Refusal, SessionId, limits};
use tenure_wire::{Access, Delegation, Error, Lease, Lent, Shared};

/// How often it is looked whether a silent holder is heard.
const LISTEN_REST: Duration = Duration::from_millis(50);

/// The part of `session_ttl` by which a lease is longer: a thousand times what the clocks of two machines differ by meanwhile.
const LEASE_MARGIN: u32 = 20;

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
        self.end_silent_holder(id, Some(session))?;
        self.join(session, id)
    }

    fn branch_of(&self, session: SessionId, name: &str) -> Result<BranchId, Error> {
        self.with(|live| {
            live.known(session)?;
            let (id, line) = live.named(name)?;
            if !line.kind.is_branch() {
                return Err(Refusal::ReadOnly.into());
            }
            Ok(id)
        })
    }

    fn lend_exclusive(&self, session: SessionId, name: &str) -> Result<Lent<Branch>, Error> {
        let id = self.branch_of(session, name)?;
        self.end_silent_sharers(id)?;
        self.end_silent_holder(id, Some(session))?;
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
        let branch = line.kind.is_branch().then_some(id);
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
            if inos.next == inos.end {
                // The line may be another soon, or gone, and is read as it is now.
                self.holds.read_line(session, line, &open.branch);
            }
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
    pub(crate) fn stored(&self, branch: &Branch) -> Result<Shared<Branch>, Error> {
        let totals = branch.totals();
        let root = self.store_pages(branch.tree())?;
        Ok(Shared::Stored {
            root,
            inodes: totals.inodes,
            bytes: totals.bytes,
        })
    }

    /// Takes a branch from a holder of whom nothing was heard for as long as a lease lasts.
    pub(crate) fn end_silent_holder(&self, branch: BranchId, asking: Option<SessionId>) -> Result<(), Error> {
        let holder = |live: &Live| {
            let grant = live.state.grant(branch);
            let holder = grant.map(|grant| grant.session);
            holder
                .into_iter()
                .filter(|holder| Some(*holder) != asking)
                .collect()
        };
        self.silent_among(holder)?
            .into_iter()
            .try_for_each(|holder| self.revoke(holder, branch))
    }

    /// Returns those of some sessions of which nothing was heard for as long as a lease lasts.
    ///
    /// An owner that has not run for a while itself would take everybody for silent: so who seems to be is listened for first, in
    /// the last moments of his lease or behind it.
    pub(crate) fn silent_among(
        &self,
        sessions: impl Fn(&Live) -> Vec<SessionId>,
    ) -> Result<Vec<SessionId>, Error> {
        let lease = self.lease();
        let mut before: Option<BTreeMap<SessionId, Duration>> = None;
        for left in (0..=self.listens()).rev() {
            let is_silent = |session: &SessionId, silence: &Duration| {
                let was = before.as_ref().map(|before| before.get(session));
                let is_heard = was.is_some_and(|was| was.is_none_or(|was| silence < was));
                !is_heard && *silence + LISTEN_REST * left >= lease
            };
            let silent: BTreeMap<_, _> = self.with(|live| {
                let all = sessions(live).into_iter();
                let known = all.filter_map(|session| Some((session, live.heard.silence(session)?)));
                Ok(known
                    .filter(|(session, silence)| is_silent(session, silence))
                    .collect())
            })?;
            if left == 0 || silent.is_empty() {
                for session in silent.keys() {
                    tracing::warn!(
                        session = session.0,
                        "a session is silent and loses what another needs"
                    );
                }
                return Ok(silent.into_keys().collect());
            }
            before = Some(silent);
            std::thread::sleep(LISTEN_REST);
        }
        Ok(Vec::new())
    }

    /// Returns what is lent to sessions that are not over.
    pub(crate) fn delegations(&self) -> Result<Vec<Delegation>, Error> {
        self.with(|live| {
            let mut all = Vec::new();
            for (branch, line) in live.state.lines() {
                let holder = live.state.grant(branch).map(|grant| grant.session);
                let sharers = live.state.sharing(branch).into_iter();
                let sharers = sharers.flat_map(|sharing| sharing.sessions());
                let borrowed = |session| live.shares.borrowed(branch, session);
                for session in holder.into_iter().chain(sharers) {
                    let row = live.state.session(session);
                    let Some(row) = row.filter(|row| !row.is_over) else {
                        continue;
                    };
                    all.push(Delegation {
                        branch,
                        name: line.name.clone(),
                        session,
                        who: row.who,
                        since: row.opened,
                        lease: live.heard.silence(session).map(|silence| Lease {
                            silence,
                            length: self.lease(),
                        }),
                        directories: borrowed(session),
                    });
                }
            }
            all.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(all)
        })
    }

    /// As [`Inner::end_silent_holder`], of every branch.
    pub(crate) fn end_silent_holders(&self) -> Result<(), Error> {
        let delegations = self.delegations()?;
        delegations.into_iter().try_for_each(|lent| {
            self.end_silent_sharers(lent.branch)?;
            self.end_silent_holder(lent.branch, None)
        })
    }

    /// Returns for how long a session must be silent to lose what another needs: its time, and what clocks may differ by.
    pub(crate) fn lease(&self) -> Duration {
        let ttl = self.options.session_ttl;
        ttl + ttl / LEASE_MARGIN
    }

    /// Returns how often it is listened for a holder who seems to be silent: for longer than renewals are apart.
    fn listens(&self) -> u32 {
        match self.options.threads {
            Threads::Started => {
                let listening = self.options.session_ttl / 4;
                u32::try_from(listening.as_millis() / LISTEN_REST.as_millis()).unwrap_or(u32::MAX)
            }
            Threads::None => 0,
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
                .filter(|(id, line)| !self.state.is_bare(*id, line))
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
