//! The bytes of what sessions that share a branch ask and are told.

use super::fields::{put_flag, session};
use super::{kind, lent};
use crate::owner::Hold;
use crate::shared::{
    Borrow, Brought, Deed, Entry, Kept, LockAsk, Look, Ordered, Place, Seen, Sharer, Stand, WriteAt, Yield,
};
use std::borrow::Cow;
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_list, put_option, put_varint};
use tenure_model::limits::CHUNK_LEN_MAX;
use tenure_model::{
    Attr, BranchId, Ino, Kind, Lock, LockFamily, LockOwner, LockRange, Locked, Name, Op, Timestamp,
};

/// What a session asks that shares a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask<'a> {
    /// `Owner::act`.
    Act {
        /// The act's number.
        number: u64,
        /// What is to be done.
        deed: Cow<'a, Deed>,
        /// Whether the session has the inode open then.
        hold: Hold,
    },
    /// `Owner::look`, with the number by which others were asked before, or 0.
    Look(Cow<'a, Look>, u64),
    /// `Owner::hold`.
    Hold(Ino),
    /// `Owner::let_go`.
    LetGo(Cow<'a, [Ino]>),
    /// `Owner::sync`.
    Sync,
    /// `Owner::lock`.
    Lock(LockAsk),
    /// `Owner::hear`.
    Hear,
    /// `Owner::rejoin`.
    Rejoin(Cow<'a, Brought>),
    /// `Owner::borrow`.
    Borrow(Borrow),
    /// `Owner::take_back`.
    TakeBack(Cow<'a, Yield>),
    /// `Owner::prolong`.
    Prolong,
    /// `Owner::stand`.
    Stand(Cow<'a, Stand>),
}

impl Ask<'_> {
    pub(super) fn kind(&self) -> kind::Kind {
        use kind::Kind;
        match self {
            Ask::Act { .. } => Kind::Act,
            Ask::Look(_, 0) => Kind::Look,
            Ask::Look(..) => Kind::LookAgain,
            Ask::Hold(_) => Kind::Hold,
            Ask::LetGo(_) => Kind::LetGo,
            Ask::Sync => Kind::Sync,
            Ask::Lock(_) => Kind::Lock,
            Ask::Hear => Kind::Hear,
            Ask::Rejoin(brought) if !brought.batches.is_empty() => Kind::Bring,
            Ask::Rejoin(brought) if brought.claims.is_empty() => Kind::Rejoin,
            Ask::Rejoin(_) => Kind::Reclaim,
            Ask::Borrow(_) => Kind::Borrow,
            Ask::TakeBack(_) => Kind::TakeBack,
            Ask::Prolong => Kind::Prolong,
            Ask::Stand(_) => Kind::Stand,
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Ask::Act { number, deed, hold } => {
                put_varint(out, *number);
                put_flag(out, *hold == Hold::Open);
                deed.write(out);
            }
            Ask::Look(look, 0) => look.write(out),
            Ask::Look(look, asked) => {
                put_varint(out, *asked);
                look.write(out);
            }
            Ask::Hold(ino) => ino.write(out),
            Ask::LetGo(inos) => put_list(out, inos),
            Ask::Sync | Ask::Hear | Ask::Prolong => {}
            Ask::Lock(ask) => ask.write(out),
            Ask::Rejoin(brought) => {
                if !brought.batches.is_empty() {
                    put_list(out, &brought.batches);
                    put_list(out, &brought.claims);
                } else if !brought.claims.is_empty() {
                    put_list(out, &brought.claims);
                }
                brought.write(out);
            }
            Ask::Borrow(ask) => ask.write(out),
            Ask::TakeBack(given) => given.write(out),
            Ask::Stand(stand) => stand.write(out),
        }
    }

    /// Reads what `kind` says it is, if that is one of these.
    pub(super) fn read(kind: kind::Kind, input: &mut Reader<'_>) -> Result<Self, Malformed> {
        use kind::Kind;
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the other kinds are no such questions"
        )]
        Ok(match kind {
            Kind::Act => {
                let (number, holds) = (input.varint()?, input.flag()?);
                let hold = if holds { Hold::Open } else { Hold::No };
                let deed = Cow::Owned(Deed::read(input)?);
                Ask::Act { number, deed, hold }
            }
            Kind::Look => Ask::Look(Cow::Owned(Look::read(input)?), 0),
            Kind::LookAgain => {
                let asked = lent::asked(input)?;
                Ask::Look(Cow::Owned(Look::read(input)?), asked)
            }
            Kind::Hold => Ask::Hold(Ino::read(input)?),
            Kind::LetGo => Ask::LetGo(input.list()?.into()),
            Kind::Sync => Ask::Sync,
            Kind::Lock => Ask::Lock(LockAsk::read(input)?),
            Kind::Hear => Ask::Hear,
            Kind::Rejoin => Ask::Rejoin(Cow::Owned(Brought::read(input)?)),
            Kind::Reclaim => Ask::Rejoin(Cow::Owned(Brought {
                claims: lent::claims(input)?,
                ..Brought::read(input)?
            })),
            Kind::Bring => Ask::Rejoin(Cow::Owned(Brought {
                batches: lent::batches(input)?,
                claims: input.list()?,
                ..Brought::read(input)?
            })),
            Kind::Borrow => Ask::Borrow(Borrow::read(input)?),
            Kind::TakeBack => Ask::TakeBack(Cow::Owned(Yield::read(input)?)),
            Kind::Prolong => Ask::Prolong,
            Kind::Stand => Ask::Stand(Cow::Owned(Stand::read(input)?)),
            _ => return Err(malformed("question of who shares a branch")),
        })
    }
}

impl Codec for Sharer {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.session.0);
        put_varint(out, self.branch.0);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            session: session(input)?,
            branch: BranchId(input.varint()?),
        })
    }
}

impl Codec for WriteAt {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            WriteAt::Offset(offset) => {
                out.push(0);
                put_varint(out, *offset);
            }
            WriteAt::End => out.push(1),
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        match input.byte()? {
            0 => Ok(WriteAt::Offset(input.varint()?)),
            1 => Ok(WriteAt::End),
            _ => Err(malformed("place of a write")),
        }
    }
}

impl Codec for Deed {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Deed::Op(op) => {
                out.push(0);
                op.write(out);
            }
            Deed::Write { ino, at, bytes, time } => {
                out.push(1);
                ino.write(out);
                at.write(out);
                time.write(out);
                put_bytes(out, bytes);
            }
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        match input.byte()? {
            0 => Ok(Deed::Op(Op::read(input)?)),
            1 => {
                let (ino, at, time) = (Ino::read(input)?, WriteAt::read(input)?, Timestamp::read(input)?);
                let bytes = input.bytes()?;
                if bytes.is_empty() || bytes.len() > CHUNK_LEN_MAX {
                    return Err(malformed("bytes of a write"));
                }
                Ok(Deed::Write {
                    ino,
                    at,
                    bytes: bytes.into(),
                    time,
                })
            }
            _ => Err(malformed("deed")),
        }
    }
}

impl Codec for Look {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Look::Attr(ino) => numbers(out, 0, [ino.0]),
            Look::Lookup { parent, name } => {
                numbers(out, 1, [parent.0]);
                name.write(out);
            }
            Look::List { parent, after, len } => numbers(out, 2, [parent.0, *after, u64::from(*len)]),
            Look::Target(ino) => numbers(out, 3, [ino.0]),
            Look::Xattr { ino, name } => {
                numbers(out, 4, [ino.0]);
                put_bytes(out, name);
            }
            Look::Xattrs(ino) => numbers(out, 5, [ino.0]),
            Look::Read { ino, offset, len } => numbers(out, 6, [ino.0, *offset, u64::from(*len)]),
            Look::NextData(ino, offset) => numbers(out, 7, [ino.0, *offset]),
            Look::NextHole(ino, offset) => numbers(out, 8, [ino.0, *offset]),
            Look::Totals => out.push(9),
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match input.byte()? {
            0 => Look::Attr(Ino::read(input)?),
            1 => Look::Lookup {
                parent: Ino::read(input)?,
                name: Name::read(input)?,
            },
            2 => Look::List {
                parent: Ino::read(input)?,
                after: input.varint()?,
                len: input.number()?,
            },
            3 => Look::Target(Ino::read(input)?),
            4 => Look::Xattr {
                ino: Ino::read(input)?,
                name: input.bytes()?.into(),
            },
            5 => Look::Xattrs(Ino::read(input)?),
            6 => Look::Read {
                ino: Ino::read(input)?,
                offset: input.varint()?,
                len: input.number()?,
            },
            7 => Look::NextData(Ino::read(input)?, input.varint()?),
            8 => Look::NextHole(Ino::read(input)?, input.varint()?),
            9 => Look::Totals,
            _ => return Err(malformed("look")),
        })
    }
}

impl Codec for Seen {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Seen::Inode(ino, attr) => {
                numbers(out, 0, [ino.0]);
                attr.write(out);
            }
            Seen::Entries(entries) => {
                out.push(1);
                put_list(out, entries);
            }
            Seen::Bytes(bytes) => {
                out.push(2);
                put_bytes(out, bytes);
            }
            Seen::Offset(offset) => numbers(out, 3, [*offset]),
            Seen::Totals { inodes, bytes } => numbers(out, 4, [*inodes, *bytes]),
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match input.byte()? {
            0 => Seen::Inode(Ino::read(input)?, Attr::read(input)?),
            1 => Seen::Entries(input.list()?),
            2 => Seen::Bytes(input.bytes()?.to_vec()),
            3 => Seen::Offset(input.varint()?),
            4 => Seen::Totals {
                inodes: input.varint()?,
                bytes: input.varint()?,
            },
            _ => return Err(malformed("what was seen")),
        })
    }
}

impl Codec for Entry {
    fn write(&self, out: &mut Vec<u8>) {
        let numbers = [self.cookie, self.ino.0, u64::from(self.kind as u32)];
        numbers.into_iter().for_each(|number| put_varint(out, number));
        put_bytes(out, &self.name);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            cookie: input.varint()?,
            ino: Ino::read(input)?,
            kind: kind(input)?,
            name: input.bytes()?.into(),
        })
    }
}

fn kind(input: &mut Reader<'_>) -> Result<Kind, Malformed> {
    let number: u32 = input.number()?;
    let kind = Kind::of(number).filter(|kind| *kind as u32 == number);
    kind.ok_or(malformed("kind of an inode"))
}

impl Codec for LockAsk {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            LockAsk::Take { lock, ticket } => {
                out.push(0);
                lock.write(out);
                put_option(out, ticket.as_ref());
            }
            LockAsk::Test(lock) => {
                out.push(1);
                lock.write(out);
            }
            LockAsk::GiveBack {
                ino,
                family,
                owner,
                range,
            } => {
                out.push(2);
                as_lock(*ino, *family, *owner, *range).write(out);
            }
            LockAsk::Forget { ticket } => numbers(out, 3, [*ticket]),
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match input.byte()? {
            0 => LockAsk::Take {
                lock: Lock::read(input)?,
                ticket: input.option()?,
            },
            1 => LockAsk::Test(Lock::read(input)?),
            2 => {
                let lock = Lock::read(input)?;
                if as_lock(lock.ino, lock.family, lock.owner, lock.range) != lock {
                    return Err(malformed("range of locks"));
                }
                LockAsk::GiveBack {
                    ino: lock.ino,
                    family: lock.family,
                    owner: lock.owner,
                    range: lock.range,
                }
            }
            3 => LockAsk::Forget {
                ticket: input.varint()?,
            },
            _ => return Err(malformed("question about locks")),
        })
    }
}

/// Returns what is given back, in the form of a lock.
fn as_lock(ino: Ino, family: LockFamily, owner: LockOwner, range: LockRange) -> Lock {
    Lock {
        ino,
        family,
        owner,
        range,
        kind: tenure_model::LockKind::Shared,
        pid: 0,
    }
}

pub(super) fn put_locked(out: &mut Vec<u8>, locked: &Locked) {
    match locked {
        Locked::Taken => out.push(0),
        Locked::Blocked(lock) => {
            out.push(1);
            lock.write(out);
        }
        Locked::Queued => out.push(2),
        Locked::Deadlock => out.push(3),
    }
}

pub(super) fn locked(input: &mut Reader<'_>) -> Result<Locked, Malformed> {
    Ok(match input.byte()? {
        0 => Locked::Taken,
        1 => Locked::Blocked(Lock::read(input)?),
        2 => Locked::Queued,
        3 => Locked::Deadlock,
        _ => return Err(malformed("answer about a lock")),
    })
}

impl Codec for Ordered {
    fn write(&self, out: &mut Vec<u8>) {
        put_option(out, self.behind.as_ref());
        put_flag(out, self.inode.is_some());
        if let Some((ino, attr)) = &self.inode {
            ino.write(out);
            attr.write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let behind = input.option()?;
        let inode = if input.flag()? {
            Some((Ino::read(input)?, Attr::read(input)?))
        } else {
            None
        };
        Ok(Self { behind, inode })
    }
}

impl Codec for Place {
    fn write(&self, out: &mut Vec<u8>) {
        put_option(out, self.behind.as_ref());
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            behind: input.option()?,
        })
    }
}

impl Codec for Kept {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.number);
        put_option(out, self.place.as_ref());
        self.deed.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            number: input.varint()?,
            place: input.option()?,
            deed: Deed::read(input)?,
        })
    }
}

/// Without what is lent and what was done there, which stand before it where there is any.
impl Codec for Brought {
    fn write(&self, out: &mut Vec<u8>) {
        put_list(out, &self.open);
        put_list(out, &self.locks);
        put_list(out, &self.acts);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            open: input.list()?,
            locks: input.list()?,
            acts: input.list()?,
            claims: Vec::new(),
            batches: Vec::new(),
        })
    }
}

fn numbers<const N: usize>(out: &mut Vec<u8>, kind: u8, numbers: [u64; N]) {
    out.push(kind);
    numbers.into_iter().for_each(|number| put_varint(out, number));
}
