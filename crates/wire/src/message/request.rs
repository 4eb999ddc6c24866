//! What can be asked: the calls of [`Owner`](crate::Owner), and one that goes to the process that hosts it.

use super::fields::{branch, branch_name, many, put_flag, put_text, session, tag};
use super::kind::Kind;
use super::shared::Ask;
use crate::line::{CheckpointAsk, ForkAsk};
use crate::owner::{Access, Chunk, DiffAsk, MergeAsk, Placed, ResolveAsk, RestoreAsk, Unsettled, Who};
use crate::reclaim::{Placings, ReclaimAsk};
use crate::review::{AcceptAsk, MarkAsk};
use crate::shared::Sharer;
use std::borrow::Cow;
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_list, put_varint};
use tenure_model::record::Plan;
use tenure_model::{Address, Batch, BranchId, BranchName, Digest, Ino, PackNumber, SessionId};

/// A call with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// `Owner::open`.
    Open(Who),
    /// `Owner::close`.
    Close(SessionId),
    /// `Owner::renew`.
    Renew(SessionId),
    /// `Owner::lend`.
    Lend {
        /// To whom.
        session: SessionId,
        /// The branch or checkpoint.
        name: &'a str,
        /// How much of it.
        access: Access,
    },
    /// `Owner::lend_inos`.
    LendInos(SessionId),
    /// `Owner::give_back`.
    GiveBack {
        /// By whom.
        session: SessionId,
        /// What.
        branch: BranchId,
    },
    /// `Owner::place`.
    Place {
        /// For whom.
        session: SessionId,
        /// What.
        chunks: Vec<Chunk<'a>>,
    },
    /// `Owner::secure`.
    Secure {
        /// For whom.
        session: SessionId,
        /// What.
        places: Vec<Placed>,
    },
    /// `Owner::ship`.
    Ship(Batch),
    /// `Owner::order`.
    Order(Batch),
    /// `Owner::page`.
    Page(Address),
    /// `Owner::read`.
    Read {
        /// The chunk.
        at: Address,
        /// The first byte.
        start: u32,
        /// How many.
        len: u32,
    },
    /// `Owner::sealed`.
    Sealed(PackNumber),
    /// `Owner::part`.
    Part {
        /// The number of the pack.
        pack: PackNumber,
        /// Which of its objects.
        tag: [u8; 8],
        /// The first byte.
        offset: u64,
        /// How many.
        len: u32,
    },
    /// `Owner::room`.
    Room,
    /// `Owner::fork`.
    Fork(Cow<'a, ForkAsk>),
    /// `Owner::checkpoint`.
    Checkpoint(Cow<'a, CheckpointAsk>),
    /// `Owner::rename`.
    Rename {
        /// The branch or checkpoint.
        name: &'a str,
        /// The new name.
        to: BranchName,
    },
    /// `Owner::set_plan`.
    SetPlan(Plan),
    /// `Owner::plan`.
    Plan,
    /// `Owner::usage`.
    Usage,
    /// `Owner::reclaim`.
    Reclaim(ReclaimAsk),
    /// `Owner::forgo`.
    Forgo {
        /// Whose.
        session: SessionId,
        /// What the owner has said before.
        said: Placings,
    },
    /// `Owner::delete_branch`.
    DeleteBranch(BranchName),
    /// `Owner::have_shipped`.
    HaveShipped(BranchName),
    /// `Owner::mark`.
    Mark(Who, BranchName, MarkAsk),
    /// `Owner::marks`.
    Marks,
    /// `Owner::accept`.
    Accept(Who, Cow<'a, AcceptAsk>),
    /// `Owner::branches`.
    Branches,
    /// `Owner::status`.
    Status,
    /// `Owner::fold`.
    Fold,
    /// `Owner::check`.
    Check {
        /// Whether every byte is read.
        deep: bool,
    },
    /// `Owner::salvage`.
    Salvage(Batch),
    /// `Owner::take`.
    Take {
        /// For whom.
        session: SessionId,
        /// The branch.
        name: &'a str,
    },
    /// `Owner::delegations`.
    Delegations,
    /// `Owner::diff`.
    Diff(Cow<'a, DiffAsk>),
    /// `Owner::contents`.
    Contents {
        /// The branch or checkpoint.
        name: &'a str,
        /// The file.
        ino: Ino,
        /// The first byte.
        offset: u64,
        /// How many at most.
        len: u32,
    },
    /// `Owner::undo`.
    Undo {
        /// Who asks.
        who: Who,
        /// The branch.
        branch: BranchName,
        /// The branch or checkpoint from which it goes on.
        to: &'a str,
    },
    /// `Owner::merge`.
    Merge(Who, Cow<'a, MergeAsk>),
    /// `Owner::conflicts`.
    Conflicts {
        /// The branch or checkpoint.
        name: &'a str,
        /// The number behind which to go on.
        behind: Ino,
    },
    /// `Owner::resolve`.
    Resolve(Who, Cow<'a, ResolveAsk>),
    /// `Owner::restore`.
    Restore(Who, Cow<'a, RestoreAsk>),
    /// A word to the process that hosts the owner, about its mounts.
    Control {
        /// What it should do or tell.
        verb: &'a str,
        /// What the verb needs, as that process reads it.
        arguments: &'a [u8],
    },
    /// What a session asks that shares a branch.
    Shared(Sharer, Ask<'a>),
}

impl<'a> Request<'a> {
    /// Returns its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Request::Open(_) => Kind::Open,
            Request::Close(_) => Kind::Close,
            Request::Renew(_) => Kind::Renew,
            Request::Lend { .. } => Kind::Lend,
            Request::LendInos(_) => Kind::LendInos,
            Request::GiveBack { .. } => Kind::GiveBack,
            Request::Place { .. } => Kind::Place,
            Request::Secure { .. } => Kind::Secure,
            Request::Ship(_) => Kind::Ship,
            Request::Order(_) => Kind::Order,
            Request::Page(_) => Kind::Page,
            Request::Read { .. } => Kind::Read,
            Request::Sealed(_) => Kind::Sealed,
            Request::Part { .. } => Kind::Part,
            Request::Room => Kind::Room,
            Request::Fork(ask) if ask.is_plain() => Kind::Fork,
            Request::Fork(ask) if ask.staged.is_some() => Kind::ForkStaged,
            Request::Fork(_) => Kind::ForkFor,
            Request::Checkpoint(ask) if ask.is_plain() => Kind::Checkpoint,
            Request::Checkpoint(_) => Kind::CheckpointFor,
            Request::Rename { .. } => Kind::Rename,
            Request::SetPlan(_) => Kind::SetPlan,
            Request::Plan => Kind::Plan,
            Request::Usage => Kind::Usage,
            Request::Reclaim(_) => Kind::ReclaimRoom,
            Request::Forgo { .. } => Kind::Forgo,
            Request::DeleteBranch(_) => Kind::DeleteBranch,
            Request::HaveShipped(_) => Kind::HaveShipped,
            Request::Mark(..) => Kind::Mark,
            Request::Marks => Kind::Marks,
            Request::Accept(..) => Kind::Accept,
            Request::Branches => Kind::Branches,
            Request::Status => Kind::Status,
            Request::Fold => Kind::Fold,
            Request::Check { .. } => Kind::Check,
            Request::Control { .. } => Kind::Control,
            Request::Shared(_, ask) => ask.kind(),
            Request::Salvage(_) => Kind::Salvage,
            Request::Take { .. } => Kind::Take,
            Request::Delegations => Kind::Delegations,
            Request::Diff(_) => Kind::Diff,
            Request::Contents { .. } => Kind::Contents,
            Request::Undo { .. } => Kind::Undo,
            Request::Merge(_, ask) if ask.unsettled == Unsettled::Taken => Kind::MergeUnsettled,
            Request::Merge(..) => Kind::Merge,
            Request::Conflicts { .. } => Kind::Conflicts,
            Request::Resolve(..) => Kind::Resolve,
            Request::Restore(..) => Kind::Restore,
        }
    }

    /// Returns the contents of the chunks that it carries, which follow everything else.
    pub fn tail(&self) -> impl Iterator<Item = &'a [u8]> + Clone + '_ {
        let chunks = if let Request::Place { chunks, .. } = self {
            &chunks[..]
        } else {
            &[]
        };
        chunks.iter().map(|chunk| chunk.bytes)
    }

    pub(super) fn write_head(&self, out: &mut Vec<u8>) {
        out.push(self.kind() as u8);
        match self {
            Request::Open(who) => who.write(out),
            Request::Close(session) | Request::Renew(session) | Request::LendInos(session) => {
                put_varint(out, session.0);
            }
            Request::Lend {
                session,
                name,
                access,
            } => {
                put_varint(out, session.0);
                put_text(out, name);
                out.push(match access {
                    Access::Exclusive => 0,
                    Access::Read => 1,
                    Access::Shared => 2,
                });
            }
            Request::GiveBack { session, branch } => {
                put_varint(out, session.0);
                put_varint(out, branch.0);
            }
            Request::Place { session, chunks } => put_place(out, *session, chunks),
            Request::Secure { session, places } => {
                put_varint(out, session.0);
                put_list(out, places);
            }
            Request::Ship(batch) | Request::Order(batch) | Request::Salvage(batch) => batch.write(out),
            Request::Take { session, name } => {
                put_varint(out, session.0);
                put_text(out, name);
            }
            Request::Page(at) => at.write(out),
            Request::Read { at, start, len } => {
                at.write(out);
                put_varint(out, u64::from(*start));
                put_varint(out, u64::from(*len));
            }
            Request::Sealed(pack) => put_varint(out, pack.0),
            Request::Part {
                pack,
                tag,
                offset,
                len,
            } => {
                put_varint(out, pack.0);
                out.extend_from_slice(tag);
                put_varint(out, *offset);
                put_varint(out, u64::from(*len));
            }
            Request::Reclaim(ask) => ask.write(out),
            Request::Forgo { session, said } => put_forgo(out, *session, said),
            Request::Room
            | Request::Usage
            | Request::Plan
            | Request::Branches
            | Request::Status
            | Request::Fold
            | Request::Marks
            | Request::Delegations => {}
            Request::Mark(who, branch, mark) => put_mark(out, who, branch, mark),
            Request::Accept(who, ask) => put_both(out, who, &**ask),
            Request::Fork(ask) => ask.write(out),
            Request::Checkpoint(ask) => ask.write(out),
            Request::Rename { name, to } => [name, to.as_str()].iter().for_each(|name| put_text(out, name)),
            Request::SetPlan(plan) => plan.write(out),
            Request::DeleteBranch(name) | Request::HaveShipped(name) => put_text(out, name.as_str()),
            Request::Diff(ask) => ask.write(out),
            Request::Contents {
                name,
                ino,
                offset,
                len,
            } => put_named(out, name, [ino.0, *offset, u64::from(*len)]),
            Request::Undo { who, branch, to } => put_asked(out, who, [branch.as_str(), to]),
            Request::Merge(who, ask) => put_both(out, who, &**ask),
            Request::Conflicts { name, behind } => put_named(out, name, [behind.0]),
            Request::Resolve(who, ask) => put_both(out, who, &**ask),
            Request::Restore(who, ask) => put_both(out, who, &**ask),
            Request::Check { deep } => put_flag(out, *deep),
            Request::Control { verb, arguments } => {
                put_text(out, verb);
                put_bytes(out, arguments);
            }
            Request::Shared(who, ask) => {
                who.write(out);
                ask.write(out);
            }
        }
    }

    pub(super) fn read(input: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match Kind::read(input)? {
            Kind::Open => Request::Open(Who::read(input)?),
            Kind::Close => Request::Close(session(input)?),
            Kind::Renew => Request::Renew(session(input)?),
            Kind::Lend => Request::Lend {
                session: session(input)?,
                name: input.text()?,
                access: access(input)?,
            },
            Kind::LendInos => Request::LendInos(session(input)?),
            Kind::GiveBack => Request::GiveBack {
                session: session(input)?,
                branch: branch(input)?,
            },
            Kind::Place => read_place(input)?,
            Kind::Secure => Request::Secure {
                session: session(input)?,
                places: input.list()?,
            },
            Kind::Ship => Request::Ship(Batch::read(input)?),
            Kind::Order => Request::Order(Batch::read(input)?),
            Kind::Page => Request::Page(Address::read(input)?),
            Kind::Read => Request::Read {
                at: Address::read(input)?,
                start: input.number()?,
                len: input.number()?,
            },
            Kind::Sealed => Request::Sealed(PackNumber(input.varint()?)),
            Kind::Part => read_part(input)?,
            Kind::Room => Request::Room,
            Kind::Fork => Request::Fork(Cow::Owned(ForkAsk::read_plain(input)?)),
            Kind::ForkFor => Request::Fork(Cow::Owned(ForkAsk::read(input)?)),
            Kind::ForkStaged => Request::Fork(Cow::Owned(ForkAsk::read_staged(input)?)),
            Kind::Checkpoint => Request::Checkpoint(Cow::Owned(CheckpointAsk::read_plain(input)?)),
            Kind::CheckpointFor => Request::Checkpoint(Cow::Owned(CheckpointAsk::read(input)?)),
            Kind::Rename => Request::Rename {
                name: input.text()?,
                to: branch_name(input)?,
            },
            Kind::SetPlan => Request::SetPlan(Plan::read(input)?),
            Kind::Plan => Request::Plan,
            kind @ (Kind::Usage | Kind::ReclaimRoom | Kind::Forgo) => about_room(kind, input)?,
            Kind::DeleteBranch => Request::DeleteBranch(branch_name(input)?),
            Kind::HaveShipped => Request::HaveShipped(branch_name(input)?),
            Kind::Mark => Request::Mark(Who::read(input)?, branch_name(input)?, MarkAsk::read(input)?),
            Kind::Marks => Request::Marks,
            Kind::Accept => Request::Accept(Who::read(input)?, Cow::Owned(AcceptAsk::read(input)?)),
            Kind::Branches => Request::Branches,
            Kind::Status => Request::Status,
            Kind::Fold => Request::Fold,
            Kind::Check => Request::Check { deep: input.flag()? },
            Kind::Control => Request::Control {
                verb: input.text()?,
                arguments: input.bytes()?,
            },
            kind @ (Kind::Act
            | Kind::Look
            | Kind::Hold
            | Kind::LetGo
            | Kind::Sync
            | Kind::Lock
            | Kind::Hear
            | Kind::Rejoin
            | Kind::Borrow
            | Kind::TakeBack
            | Kind::Prolong
            | Kind::LookAgain
            | Kind::Reclaim
            | Kind::Bring
            | Kind::Stand) => Request::Shared(Sharer::read(input)?, Ask::read(kind, input)?),
            Kind::Salvage => Request::Salvage(Batch::read(input)?),
            Kind::Take => Request::Take {
                session: session(input)?,
                name: input.text()?,
            },
            Kind::Delegations => Request::Delegations,
            Kind::Diff => Request::Diff(Cow::Owned(DiffAsk::read(input)?)),
            Kind::Contents => read_contents(input)?,
            Kind::Undo => read_undo(input)?,
            Kind::Merge => Request::Merge(Who::read(input)?, Cow::Owned(MergeAsk::read(input)?)),
            Kind::MergeUnsettled => read_merge_unsettled(input)?,
            Kind::Conflicts => Request::Conflicts {
                name: input.text()?,
                behind: Ino(input.varint()?),
            },
            Kind::Resolve => Request::Resolve(Who::read(input)?, Cow::Owned(ResolveAsk::read(input)?)),
            Kind::Restore => Request::Restore(Who::read(input)?, Cow::Owned(RestoreAsk::read(input)?)),
        })
    }
}

impl Codec for DiffAsk {
    fn write(&self, out: &mut Vec<u8>) {
        put_text(out, &self.before);
        put_text(out, &self.after);
        put_bytes(out, &self.below);
        put_varint(out, self.behind.0);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            before: input.text()?.to_owned(),
            after: input.text()?.to_owned(),
            below: input.bytes()?.into(),
            behind: Ino(input.varint()?),
        })
    }
}

fn read_part<'a>(input: &mut Reader<'a>) -> Result<Request<'a>, Malformed> {
    Ok(Request::Part {
        pack: PackNumber(input.varint()?),
        tag: tag(input)?,
        offset: input.varint()?,
        len: input.number()?,
    })
}

fn read_contents<'a>(input: &mut Reader<'a>) -> Result<Request<'a>, Malformed> {
    Ok(Request::Contents {
        name: input.text()?,
        ino: Ino(input.varint()?),
        offset: input.varint()?,
        len: input.number()?,
    })
}

fn read_undo<'a>(input: &mut Reader<'a>) -> Result<Request<'a>, Malformed> {
    Ok(Request::Undo {
        who: Who::read(input)?,
        branch: branch_name(input)?,
        to: input.text()?,
    })
}

fn access(input: &mut Reader<'_>) -> Result<Access, Malformed> {
    match input.byte()? {
        0 => Ok(Access::Exclusive),
        1 => Ok(Access::Read),
        2 => Ok(Access::Shared),
        _ => Err(malformed("access")),
    }
}

fn put_mark(out: &mut Vec<u8>, who: &Who, branch: &BranchName, mark: &MarkAsk) {
    put_asked(out, who, [branch.as_str()]);
    mark.write(out);
}

/// Writes who asks, and what.
fn put_both(out: &mut Vec<u8>, who: &Who, what: &impl Codec) {
    who.write(out);
    what.write(out);
}

/// Writes a name, and numbers.
fn put_named<const N: usize>(out: &mut Vec<u8>, name: &str, numbers: [u64; N]) {
    put_text(out, name);
    numbers.into_iter().for_each(|number| put_varint(out, number));
}

/// Writes who asks, and names.
fn put_asked<const N: usize>(out: &mut Vec<u8>, who: &Who, names: [&str; N]) {
    who.write(out);
    names.into_iter().for_each(|name| put_text(out, name));
}

fn put_place(out: &mut Vec<u8>, session: SessionId, chunks: &[Chunk<'_>]) {
    put_varint(out, session.0);
    put_varint(out, chunks.len() as u64);
    for chunk in chunks {
        out.extend_from_slice(&chunk.digest.0);
        put_varint(out, chunk.bytes.len() as u64);
    }
}

fn read_place<'a>(input: &mut Reader<'a>) -> Result<Request<'a>, Malformed> {
    let session = session(input)?;
    let heads: Vec<(Digest, usize)> = many(input, |input| Ok((input.digest()?, input.number()?)))?;
    let chunk = |(digest, len)| {
        Ok(Chunk {
            digest,
            bytes: input.take(len)?,
        })
    };
    let chunks = heads.into_iter().map(chunk).collect::<Result<_, Malformed>>()?;
    Ok(Request::Place { session, chunks })
}

fn put_forgo(out: &mut Vec<u8>, session: SessionId, said: &Placings) {
    put_varint(out, session.0);
    said.write(out);
}

/// Reads what is asked about the room that a drive takes.
fn read_merge_unsettled<'a>(input: &mut Reader<'_>) -> Result<Request<'a>, Malformed> {
    let (who, ask) = (Who::read(input)?, MergeAsk::read(input)?);
    let unsettled = Unsettled::Taken;
    Ok(Request::Merge(who, Cow::Owned(MergeAsk { unsettled, ..ask })))
}

fn about_room<'a>(kind: Kind, input: &mut Reader<'_>) -> Result<Request<'a>, Malformed> {
    Ok(if kind == Kind::ReclaimRoom {
        Request::Reclaim(ReclaimAsk::read(input)?)
    } else if kind == Kind::Forgo {
        Request::Forgo {
            session: session(input)?,
            said: Placings::read(input)?,
        }
    } else {
        Request::Usage
    })
}
