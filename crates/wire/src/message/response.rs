//! What is answered when a call was done.

use super::fields::{
    branch, branch_option, inos, many, optional_text, put_branch_option, put_inos, put_optional_text,
    put_text, put_texts, session, tag, texts,
};
use super::lent::{borrowed, put_borrowed};
use super::line;
use super::shared::{locked, put_locked};
use super::stand;
use crate::line::{BranchInfo, Created, Usage};
use crate::owner::{
    Delegation, Differences, Lease, Lent, MergeTold, Opened, Placed, Room, SESSION_TTL, Salvaged, SealedPack,
    Shared, Shipped, Standings, Status, Turned, Verified,
};
use crate::reclaim::{Placings, ReclaimTold};
use crate::review::Marked;
use crate::shared::{Borrowed, Heard, Next, Ordered, Seen};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_list, put_option, put_varint};
use tenure_model::record::Plan;
use tenure_model::{Address, Epoch, Ino, Locked, Timestamp};

/// What a call returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response<'a> {
    /// Nothing but that it was done.
    Done,
    /// A session.
    Opened(Opened),
    /// A branch; it is never shared across processes.
    Lent(Lent<Infallible>),
    /// Inode numbers.
    Inos(tenure_model::InoRange),
    /// Places of chunks, in the order of the chunks.
    Placed(Vec<Placed>),
    /// A durable batch.
    Shipped(Shipped),
    /// The bytes of a page, of a chunk's part, or what the hosting process has to say.
    Bytes(Cow<'a, [u8]>),
    /// What is free.
    Room(Room),
    /// A branch that was made or named.
    Created(Created),
    /// Branches and checkpoints.
    Branches(Vec<BranchInfo>),
    /// How the owner is.
    Status(Status),
    /// What is wrong, in sentences.
    Findings(Vec<String>),
    /// An act that has its place.
    Ordered(Ordered),
    /// What a look has found; bytes of a file are `Bytes`.
    Seen(Seen),
    /// What came of a question about locks.
    Locked(Locked),
    /// Tickets that have become locks, and what others need.
    Heard(Heard),
    /// Objects of a pack.
    Sealed(Vec<SealedPack>),
    /// A batch that is durable in a stray.
    Salvaged(Salvaged),
    /// What is lent.
    Delegations(Vec<Delegation>),
    /// What of a shared branch is lent; a branch is never shared across processes.
    Borrowed(Borrowed<Infallible>),
    /// How old the owner's proof is.
    Proven(Duration),
    /// What differs.
    Differences(Differences),
    /// A branch that has become another state.
    Turned(Turned),
    /// What has come of a merge.
    Merged(MergeTold),
    /// Conflicts.
    Standings(Standings),
    /// When the owner makes checkpoints by itself.
    Plan(Plan),
    /// What is needed of the bucket.
    Usage(Usage),
    /// What was given up, and what was not.
    Reclaimed(ReclaimTold),
    /// How often a session was given places.
    Placings(Placings),
    /// What a holder that stands still does next; a branch is never shared across processes.
    Next(Next<Infallible>),
    /// What is said of branches.
    Marks(Vec<Marked>),
}

impl<'a> Response<'a> {
    /// Returns the bytes that follow everything else.
    pub fn tail(&self) -> &[u8] {
        if let Response::Bytes(bytes) = self {
            bytes
        } else {
            &[]
        }
    }

    pub(super) fn write_head(&self, out: &mut Vec<u8>) {
        match self {
            Response::Done => out.push(1),
            Response::Opened(opened) => put(out, 2, opened),
            Response::Lent(lent) => put_lent(out, lent),
            Response::Inos(inos) => {
                out.push(4);
                put_inos(out, *inos);
            }
            Response::Placed(places) => {
                out.push(5);
                put_list(out, places);
            }
            Response::Shipped(Shipped { digest }) => {
                out.push(6);
                out.extend_from_slice(&digest.0);
            }
            Response::Bytes(_) => out.push(7),
            Response::Room(Room { total, free }) => {
                out.push(8);
                put_varint(out, *total);
                put_varint(out, *free);
            }
            Response::Created(created) => created.write_whole(out),
            Response::Branches(branches) => {
                out.push(10);
                put_list(out, branches);
            }
            Response::Status(status) => put(out, 11, status),
            Response::Findings(findings) => {
                out.push(12);
                put_texts(out, findings);
            }
            Response::Ordered(ordered) => put(out, 13, ordered),
            Response::Seen(seen) => put(out, 14, seen),
            Response::Locked(locked) => {
                out.push(15);
                put_locked(out, locked);
            }
            Response::Heard(heard) => put(out, 16, heard),
            Response::Sealed(packs) => {
                out.push(19);
                put_list(out, packs);
            }
            Response::Salvaged(Salvaged { digest, stray }) => {
                out.push(20);
                out.extend_from_slice(&digest.0);
                put_text(out, stray);
            }
            Response::Delegations(delegations) => {
                out.push(18);
                put_list(out, delegations);
            }
            Response::Borrowed(borrowed) => {
                out.push(21);
                put_borrowed(out, borrowed);
            }
            Response::Proven(age) => {
                out.push(22);
                put_varint(out, millis(*age));
            }
            Response::Differences(Differences { found, behind }) => {
                out.push(23);
                put_list(out, found);
                put_option(out, behind.map(|ino| ino.0).as_ref());
            }
            Response::Merged(told) => put_kind(out, 25, told),
            Response::Standings(standings) => put_kind(out, 26, standings),
            Response::Turned(Turned { before }) => {
                out.push(24);
                put_text(out, before);
            }
            Response::Plan(plan) => put(out, 29, plan),
            Response::Usage(usage) => put(out, 30, usage),
            Response::Reclaimed(told) => put(out, 40, told),
            Response::Placings(placings) => put(out, 41, placings),
            Response::Marks(marks) => {
                out.push(51);
                put_list(out, marks);
            }
            Response::Next(next) => {
                out.push(50);
                stand::put_next(out, next);
            }
        }
    }

    pub(super) fn read(kind: u8, input: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match kind {
            1 => Response::Done,
            2 => Response::Opened(Opened::read(input)?),
            3 => Response::Lent(lent(input, stored)?),
            4 => Response::Inos(inos(input)?),
            5 => Response::Placed(input.list()?),
            6 => Response::Shipped(Shipped {
                digest: input.digest()?,
            }),
            7 => Response::Bytes(input.take(input.remaining())?.into()),
            8 => Response::Room(Room {
                total: input.varint()?,
                free: input.varint()?,
            }),
            line::MADE => Response::Created(Created::read_made(input)?),
            line::FOUND => Response::Created(Created::read_found(input)?),
            10 => Response::Branches(input.list()?),
            11 => Response::Status(Status::read(input)?),
            12 => Response::Findings(texts(input)?),
            13 => Response::Ordered(Ordered::read(input)?),
            14 => Response::Seen(Seen::read(input)?),
            15 => Response::Locked(locked(input)?),
            16 => Response::Heard(Heard::read(input)?),
            17 => Response::Lent(lent(input, |_| Ok(Shared::Kept))?),
            19 => Response::Sealed(input.list()?),
            20 => Response::Salvaged(Salvaged {
                digest: input.digest()?,
                stray: input.text()?.to_owned(),
            }),
            18 => Response::Delegations(input.list()?),
            21 => Response::Borrowed(borrowed(input)?),
            22 => Response::Proven(Duration::from_millis(input.varint()?)),
            23 => Response::Differences(Differences {
                found: input.list()?,
                behind: input.option()?.map(Ino),
            }),
            24 => Response::Turned(Turned {
                before: input.text()?.to_owned(),
            }),
            25 => Response::Merged(MergeTold::read(input)?),
            26 => Response::Standings(Standings::read(input)?),
            29 => Response::Plan(Plan::read(input)?),
            30 => Response::Usage(Usage::read(input)?),
            40 => Response::Reclaimed(ReclaimTold::read(input)?),
            41 => Response::Placings(Placings::read(input)?),
            50 => Response::Next(stand::next(input)?),
            51 => Response::Marks(input.list()?),
            _ => return Err(malformed("response")),
        })
    }
}

fn put(out: &mut Vec<u8>, kind: u8, value: &impl Codec) {
    out.push(kind);
    value.write(out);
}

impl Codec for Opened {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.session.0);
        put_varint(out, self.epoch.0);
        put_text(out, &self.tier);
        put_texts(out, &self.notices);
        // Nothing stands for the usual: so it was before there was another.
        if self.session_ttl != SESSION_TTL {
            put_varint(out, millis(self.session_ttl).max(1));
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            session: session(input)?,
            epoch: Epoch(input.varint()?),
            tier: input.text()?.to_owned(),
            notices: texts(input)?,
            session_ttl: session_ttl(input)?,
        })
    }
}

fn session_ttl(input: &mut Reader<'_>) -> Result<Duration, Malformed> {
    if input.is_empty() {
        return Ok(SESSION_TTL);
    }
    match Duration::from_millis(input.varint()?) {
        Duration::ZERO | SESSION_TTL => Err(malformed("time of a session")),
        other => Ok(other),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn put_kind(out: &mut Vec<u8>, kind: u8, what: &impl Codec) {
    out.push(kind);
    what.write(out);
}

fn put_lent(out: &mut Vec<u8>, lent: &Lent<Infallible>) {
    out.push(match &lent.state {
        Shared::Stored { .. } => 3,
        Shared::Kept => 17,
        Shared::Here(never) => match *never {},
    });
    put_branch_option(out, lent.branch);
    out.extend_from_slice(&lent.hash_key);
    put_inos(out, lent.inos);
    put_stored(out, &lent.state);
}

/// Writes where a branch is stored, if it is.
pub(super) fn put_stored(out: &mut Vec<u8>, state: &Shared<Infallible>) {
    if let Shared::Stored { root, inodes, bytes } = state {
        root.write(out);
        put_varint(out, *inodes);
        put_varint(out, *bytes);
    }
}

fn lent(
    input: &mut Reader<'_>,
    state: impl Fn(&mut Reader<'_>) -> Result<Shared<Infallible>, Malformed>,
) -> Result<Lent<Infallible>, Malformed> {
    Ok(Lent {
        branch: branch_option(input)?,
        hash_key: input.take(16)?.try_into().expect("16 bytes were taken"),
        inos: inos(input)?,
        state: state(input)?,
    })
}

pub(super) fn stored(input: &mut Reader<'_>) -> Result<Shared<Infallible>, Malformed> {
    Ok(Shared::Stored {
        root: Address::read(input)?,
        inodes: input.varint()?,
        bytes: input.varint()?,
    })
}

impl Codec for SealedPack {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.tag);
        put_varint(out, self.len);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tag: tag(input)?,
            len: input.varint()?,
        })
    }
}

impl Codec for Delegation {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.branch.0);
        put_text(out, &self.name);
        put_varint(out, self.session.0);
        put_text(out, &self.who);
        self.since.write(out);
        let flags = [
            (self.lease.is_some(), HAS_LEASE),
            (self.directories > 0, HAS_DIRECTORIES),
        ];
        out.push(flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum());
        if let Some(lease) = &self.lease {
            lease.write(out);
        }
        if self.directories > 0 {
            put_varint(out, self.directories);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (branch, name) = (branch(input)?, input.text()?.to_owned());
        let (session, who) = (session(input)?, input.text()?.to_owned());
        let (since, flags) = (Timestamp::read(input)?, input.byte()?);
        if flags & !(HAS_LEASE | HAS_DIRECTORIES) != 0 {
            return Err(malformed("flags of what is lent"));
        }
        let lease = match flags & HAS_LEASE {
            0 => None,
            _ => Some(Lease::read(input)?),
        };
        let directories = match flags & HAS_DIRECTORIES {
            0 => 0,
            _ => input.varint()?,
        };
        if (directories == 0) != (flags & HAS_DIRECTORIES == 0) {
            return Err(malformed("number of directories that are lent"));
        }
        Ok(Self {
            branch,
            name,
            session,
            who,
            since,
            lease,
            directories,
        })
    }
}

/// Flags of what is lent.
const HAS_LEASE: u8 = 1;
const HAS_DIRECTORIES: u8 = 2;

impl Codec for Lease {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, millis(self.silence));
        put_varint(out, millis(self.length));
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            silence: Duration::from_millis(input.varint()?),
            length: Duration::from_millis(input.varint()?),
        })
    }
}

impl Codec for Status {
    fn write(&self, out: &mut Vec<u8>) {
        put_text(out, &self.drive);
        put_varint(out, self.epoch.0);
        put_text(out, &self.tier);
        put_varint(out, self.journal_bytes);
        put_varint(out, self.requests.len() as u64);
        for (kind, count) in &self.requests {
            put_text(out, kind);
            put_varint(out, *count);
        }
        put_varint(out, self.page_bytes);
        put_varint(out, u64::from(self.pid));
        put_optional_text(out, self.trouble.as_deref());
        // Without a deep check nothing stands here: so it was before there was one to tell of.
        if let Some(verified) = self.verified {
            put_varint(out, verified.packs);
            put_varint(out, verified.of);
            put_varint(out, verified.bytes);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (drive, epoch) = (input.text()?.to_owned(), Epoch(input.varint()?));
        let (tier, journal_bytes) = (input.text()?.to_owned(), input.varint()?);
        let counts = many(input, |input| Ok((input.text()?.to_owned(), input.varint()?)))?;
        if !counts.is_sorted_by(|(one, _), (other, _)| one < other) {
            return Err(malformed("counts by kind"));
        }
        Ok(Self {
            drive,
            epoch,
            tier,
            journal_bytes,
            requests: counts.into_iter().collect::<BTreeMap<_, _>>(),
            page_bytes: input.varint()?,
            pid: input.number()?,
            trouble: optional_text(input)?,
            verified: verified(input)?,
        })
    }
}

fn verified(input: &mut Reader<'_>) -> Result<Option<Verified>, Malformed> {
    if input.remaining() == 0 {
        return Ok(None);
    }
    Ok(Some(Verified {
        packs: input.varint()?,
        of: input.varint()?,
        bytes: input.varint()?,
    }))
}
