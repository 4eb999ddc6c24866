//! Looks: questions about a shared branch, each answered from one state of it.

use crate::drive::Inner;
use crate::state::Open;
use std::cell::Cell;
use std::ops::ControlFlow;
use tenure_core::{Branch, Missing, Seek, Undecided};
use tenure_model::limits::CHUNK_LEN_MAX;
use tenure_model::{Extent, Failure, Ino, Piece, Refusal};
use tenure_wire::Error;
use tenure_wire::shared::{Entry, Look, Seen, Sharer};

/// Bytes of a listing that are told at once at most.
const LIST_LEN_MAX: u32 = 1 << 20;
/// Inodes that a name may stand for in turn while one looks, or states that are given back.
const TRIES_MAX: usize = 8;
/// Bytes that an entry takes besides its name, about.
const ENTRY_LEN: usize = 24;

impl Inner {
    pub(crate) fn look_at(&self, who: Sharer, look: &Look, asked: u64) -> Result<Seen, Error> {
        self.admitted(who)?;
        let mut about: Vec<Ino> = subject(look).into_iter().collect();
        for _ in 0..TRIES_MAX {
            let open = match self.shipped(who, &about, asked)? {
                Ok(open) => open,
                Err(asked) => {
                    self.tell_holders(who.branch)?;
                    return Err(Refusal::Elsewhere { asked }.into());
                }
            };
            let seen = match self.seen_in(&open.branch, look) {
                // What it was may have been given back since.
                Err(Error::Failed(Failure::Corrupt(_))) if self.is_another(who, open.version)? => continue,
                seen => seen?,
            };
            match self.is_seen_by_holder(who, &about, &seen)? {
                None => return Ok(seen),
                Some(ino) => about.push(ino),
            }
        }
        Err(Failure::DidNotHappen("the name stands for another inode all the time; try again".into()).into())
    }

    /// Returns the branch once whoever else holds what is looked at has shipped; else the number by which that was asked.
    fn shipped(&self, who: Sharer, about: &[Ino], asked: u64) -> Result<Result<Open, u64>, Error> {
        let now = self.options.clock.elapsed();
        self.with(|live| {
            let share = live.share(who)?;
            if let Some(asked) = share.have_shipped(who.session, about, (self.epoch, asked), now) {
                return Ok(Err(asked));
            }
            let is_anothers = |ino: &Ino| {
                let lent = share.cover.over(*ino);
                lent.is_some_and(|lent| lent.by != who.session)
            };
            if about.iter().any(is_anothers) {
                let last = live.journal()?.last();
                if let Some(member) = live.share(who)?.members.get_mut(&who.session) {
                    member.saw = Some(last);
                }
            }
            Ok(Ok(live.state.opened(who.branch).ok_or(Refusal::Stale)?))
        })
    }

    /// Tells whether a branch has changed since it was of some version.
    fn is_another(&self, who: Sharer, version: u64) -> Result<bool, Error> {
        let now = self.with(|live| Ok(live.state.opened(who.branch)))?;
        Ok(now.is_some_and(|now| now.version != version))
    }

    /// Returns the inode that was seen, if another session holds it and was not asked for it.
    fn is_seen_by_holder(&self, who: Sharer, about: &[Ino], seen: &Seen) -> Result<Option<Ino>, Error> {
        let Seen::Inode(ino, _) = seen else {
            return Ok(None);
        };
        if about.contains(ino) {
            return Ok(None);
        }
        self.with(|live| {
            let lent = live.share(who)?.cover.over(*ino);
            Ok(lent.filter(|lent| lent.by != who.session).map(|_| *ino))
        })
    }

    fn seen_in(&self, branch: &Branch, look: &Look) -> Result<Seen, Error> {
        let seen = match look {
            Look::Read { ino, offset, len } => {
                let bytes = self.bytes_of(branch, *ino, (*offset, *len));
                bytes.map(Seen::Bytes)
            }
            Look::Attr(_)
            | Look::Lookup { .. }
            | Look::List { .. }
            | Look::Target(_)
            | Look::Xattr { .. }
            | Look::Xattrs(_)
            | Look::NextData(..)
            | Look::NextHole(..)
            | Look::Totals => self.ask_undecided(|| seen(branch, look)),
        };
        self.work_on_pages();
        seen
    }

    /// Asks until no page is missing.
    pub(crate) fn ask_undecided<R>(
        &self,
        mut question: impl FnMut() -> Result<R, Undecided>,
    ) -> Result<R, Error> {
        let refused = Cell::new(None);
        let answer = self.loader.ask(|| match question() {
            Ok(answer) => Ok(Some(answer)),
            Err(Undecided::Missing(missing)) => Err(missing),
            Err(Undecided::Refused(refusal)) => {
                refused.set(Some(refusal));
                Ok(None)
            }
        })?;
        match (answer, refused.take()) {
            (Some(answer), _) => Ok(answer),
            (None, refusal) => Err(refusal.unwrap_or(Refusal::InvalidArgument).into()),
        }
    }

    /// Returns at most `len` bytes of a file from `offset` on.
    pub(crate) fn bytes_of(
        &self,
        branch: &Branch,
        ino: Ino,
        (offset, len): (u64, u32),
    ) -> Result<Vec<u8>, Error> {
        if len as usize > CHUNK_LEN_MAX {
            return Err(Refusal::InvalidArgument.into());
        }
        let (end, pieces) = self.ask_undecided(|| {
            let size = branch.attr(ino)?.ok_or(Refusal::NotFound)?.size;
            let end = size.min(offset.saturating_add(u64::from(len))).max(offset);
            Ok((end, branch.pieces(ino, offset, end)?))
        })?;
        let mut bytes = vec![0; (end - offset) as usize];
        tenure_core::fill(&pieces, offset, &mut bytes, |piece: &Piece, into| {
            match &piece.extent {
                Extent::Inline(bytes) => {
                    into.copy_from_slice(bytes);
                    Ok(())
                }
                Extent::Chunk { at, start, .. } => self.packs.read_into(*at, *start, into),
            }
        })?;
        Ok(bytes)
    }
}

/// Returns the inode that a look is about, in the first place.
fn subject(look: &Look) -> Option<Ino> {
    match look {
        Look::Attr(ino)
        | Look::Target(ino)
        | Look::Xattr { ino, .. }
        | Look::Xattrs(ino)
        | Look::Read { ino, .. }
        | Look::NextData(ino, _)
        | Look::NextHole(ino, _) => Some(*ino),
        Look::Lookup { parent, .. } | Look::List { parent, .. } => Some(*parent),
        Look::Totals => None,
    }
}

fn seen(branch: &Branch, look: &Look) -> Result<Seen, Undecided> {
    let inode = |ino| Ok(Seen::Inode(ino, branch.attr(ino)?.ok_or(Refusal::NotFound)?));
    match look {
        Look::Attr(ino) => inode(*ino),
        Look::Lookup { parent, name } => inode(branch.lookup(*parent, name)?),
        Look::List { parent, after, len } => Ok(Seen::Entries(entries(branch, *parent, (*after, *len))?)),
        Look::Target(ino) => Ok(Seen::Bytes(branch.target(*ino)?.into())),
        Look::Xattr { ino, name } => Ok(Seen::Bytes(branch.xattr(*ino, name)?.into())),
        Look::Xattrs(ino) => {
            let mut names = Vec::new();
            branch.xattrs(*ino, |name| {
                names.extend_from_slice(name);
                names.push(0);
            })?;
            Ok(Seen::Bytes(names))
        }
        Look::NextData(ino, offset) => Ok(Seen::Offset(branch.seek(*ino, *offset, Seek::Data)?)),
        Look::NextHole(ino, offset) => Ok(Seen::Offset(branch.seek(*ino, *offset, Seek::Hole)?)),
        Look::Totals => {
            let totals = branch.totals();
            Ok(Seen::Totals {
                inodes: totals.inodes,
                bytes: totals.bytes,
            })
        }
        Look::Read { .. } => Err(Refusal::InvalidArgument.into()),
    }
}

fn entries(branch: &Branch, parent: Ino, (after, len): (u64, u32)) -> Result<Vec<Entry>, Missing> {
    let mut entries = Vec::new();
    let mut left = len.min(LIST_LEN_MAX) as usize;
    branch.list(parent, after, |entry| {
        entries.push(Entry {
            cookie: entry.cookie,
            ino: entry.ino,
            kind: entry.kind,
            name: entry.name.into(),
        });
        left = left.saturating_sub(ENTRY_LEN + entry.name.len());
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(entries)
}
