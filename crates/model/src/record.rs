//! What a drive's journal holds: accepted changes, in order.

use crate::batch::Batch;
use crate::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_list, put_option, put_varint};
use crate::id::{BranchId, Ino, SessionId};
use crate::mark::{Marking, Staging};
use crate::name::{BranchName, CheckpointName, RequestKey};
use crate::reclaim::{PackObject, Reclaimed};
use crate::shared::Act;
use crate::time::Timestamp;
use crate::turn::Turn;

/// One accepted change of a drive. Applying the same records in the same order gives the same drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The drive begins, with one branch.
    DriveCreated {
        /// Keys the hash of names in directories, so that nobody can make names collide.
        hash_key: [u8; 16],
        /// The first branch.
        branch: BranchName,
        /// Owner of the root directory.
        uid: u32,
        /// Group of the root directory.
        gid: u32,
        /// When.
        time: Timestamp,
    },
    /// A session is known from here on.
    SessionOpened {
        /// Its number.
        session: SessionId,
        /// Who it is, in words: agent, host, process.
        who: String,
        /// Whether it runs in the owner's own process and so ends with it.
        hosted: bool,
        /// When.
        time: Timestamp,
    },
    /// A session has ended; what it held is free.
    SessionClosed {
        /// Its number.
        session: SessionId,
    },
    /// A branch is lent whole to a session, with inode numbers for what it creates; inodes without an entry are
    /// dropped, because nobody can have one open.
    Granted {
        /// To whom.
        session: SessionId,
        /// Which branch.
        branch: BranchId,
        /// How many inode numbers, from the drive's next one on.
        inos: u64,
    },
    /// More inode numbers are lent to a session, from the drive's next one on.
    InosLent {
        /// To whom.
        session: SessionId,
        /// How many.
        count: u64,
    },
    /// A lent branch is given back or taken away; inodes that only the holder had open are dropped.
    Returned {
        /// Which branch.
        branch: BranchId,
    },
    /// A holder's changes.
    Batch(Batch),
    /// A branch begins as what another branch or a checkpoint is now.
    Forked {
        /// What it begins as.
        from: Source,
        /// Its name.
        name: BranchName,
        /// When.
        time: Timestamp,
        /// From when on it may go by itself; never where nothing is said.
        until: Option<Timestamp>,
        /// The word by which the request is known, if it has one.
        key: Option<RequestKey>,
        /// That it waits for a review, where it does.
        staged: Option<Staging>,
    },
    /// A branch is gone.
    BranchDeleted {
        /// Which.
        branch: BranchId,
    },
    /// A state of a branch has a name.
    CheckpointMade {
        /// Whose state.
        branch: BranchId,
        /// The name.
        name: CheckpointName,
        /// What it is for, in words.
        message: String,
        /// When.
        time: Timestamp,
        /// From when on it may go by itself; never where nothing is said.
        until: Option<Timestamp>,
        /// Who has it made.
        maker: Maker,
    },
    /// A checkpoint is gone.
    CheckpointDeleted {
        /// Which.
        name: CheckpointName,
    },
    /// A session shares a branch from here on, with inode numbers for what it creates.
    Joined {
        /// Who.
        session: SessionId,
        /// Which branch.
        branch: BranchId,
        /// How many inode numbers, from the drive's next one on.
        inos: u64,
    },
    /// A session shares a branch no longer.
    Left {
        /// Who.
        session: SessionId,
        /// Which branch.
        branch: BranchId,
    },
    /// One op of a session that shares a branch, as the owner has decided it.
    Act(Act),
    /// An inode of a shared branch is dropped: it has no entry, and no session has it open.
    Dropped {
        /// The branch.
        branch: BranchId,
        /// The inode.
        ino: Ino,
    },
    /// A branch is taken from its holder, whose session is over. What the branch is now is a stray as well: the session may still
    /// add what it had not shipped there, and nowhere else.
    Revoked {
        /// Which branch; it may be a stray itself.
        branch: BranchId,
        /// The stray's name.
        stray: BranchName,
        /// When.
        time: Timestamp,
    },
    /// A session that shares a branch is over, though parts of the branch may be lent to it: what the branch is now is a stray as
    /// well, to which it may add what it had not shipped, and nowhere else.
    Ousted {
        /// Who.
        session: SessionId,
        /// Which branch.
        branch: BranchId,
        /// The stray's name.
        stray: BranchName,
        /// When.
        time: Timestamp,
    },
    /// A branch becomes another state as a whole.
    Turned(Turn),
    /// A branch or checkpoint has another name from here on.
    Renamed {
        /// Which.
        line: BranchId,
        /// The new name.
        name: BranchName,
    },
    /// The owner makes checkpoints by itself as is said here from here on.
    Planned(Plan),
    /// Objects of packs are given up: no later record names what they alone hold, and they are deleted once no recovery reads them.
    Condemned(Vec<PackObject>),
    /// What nothing needs was looked for, and so much was given up.
    Reclaimed(Reclaimed),
    /// Something is said of a branch from here on: that it waits for a review, or is protected.
    Marked(Marking),
}

/// When an owner makes checkpoints by itself, of each branch that has changed since the last one, and how long it keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How much time lies between two checkpoints of a branch at least, in seconds; 0 where none are made.
    pub every_secs: u64,
    /// How long each is kept, in seconds: after an hour one of each hour.
    pub keep_secs: u64,
}

impl Default for Plan {
    /// Returns the plan of a drive of which nothing was said.
    fn default() -> Self {
        Self {
            every_secs: 600,
            keep_secs: 24 * 60 * 60,
        }
    }
}

impl Codec for Plan {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.every_secs);
        put_varint(out, self.keep_secs);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            every_secs: input.varint()?,
            keep_secs: input.varint()?,
        })
    }
}

/// Who has a checkpoint made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// Somebody who asked for it.
    Asked,
    /// The owner, by itself.
    Owner,
}

/// What a branch can be forked from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A branch as it is now.
    Branch(BranchId),
    /// A checkpoint.
    Checkpoint(CheckpointName),
}

/// Tags of records that say more than those that were there first.
const FORKED_FOR: u8 = 19;
const CHECKPOINT_FOR: u8 = 20;
const RENAMED: u8 = 21;
const PLANNED: u8 = 22;
const CONDEMNED: u8 = 30;
const RECLAIMED: u8 = 31;
const MARKED: u8 = 40;
const FORKED_STAGED: u8 = 41;

impl Codec for Source {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Source::Branch(branch) => {
                out.push(0);
                put_varint(out, branch.0);
            }
            Source::Checkpoint(name) => {
                out.push(1);
                put_bytes(out, name.as_str().as_bytes());
            }
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        match input.byte()? {
            0 => Ok(Source::Branch(BranchId(input.varint()?))),
            1 => Ok(Source::Checkpoint(checkpoint_name(input)?)),
            _ => Err(malformed("source")),
        }
    }
}

impl Codec for Record {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Record::DriveCreated {
                hash_key,
                branch,
                uid,
                gid,
                time,
            } => put_drive(out, (hash_key, branch), (*uid, *gid), *time),
            Record::SessionOpened {
                session,
                who,
                hosted,
                time,
            } => {
                out.push(2);
                put_varint(out, session.0);
                put_bytes(out, who.as_bytes());
                out.push(u8::from(*hosted));
                time.write(out);
            }
            Record::SessionClosed { session } => put_numbers(out, 3, [session.0]),
            Record::Granted {
                session,
                branch,
                inos,
            } => put_numbers(out, 4, [session.0, branch.0, *inos]),
            Record::InosLent { session, count } => put_numbers(out, 5, [session.0, *count]),
            Record::Returned { branch } => put_numbers(out, 6, [branch.0]),
            Record::Batch(batch) => put_value(out, 7, batch),
            Record::Forked { .. } => self.put_fork(out),
            Record::BranchDeleted { branch } => put_numbers(out, 9, [branch.0]),
            Record::CheckpointMade {
                branch,
                name,
                message,
                time,
                until,
                maker,
            } => put_checkpoint(out, *branch, (name, message), *time, (until.as_ref(), *maker)),
            Record::CheckpointDeleted { name } => {
                out.push(11);
                put_bytes(out, name.as_str().as_bytes());
            }
            Record::Joined {
                session,
                branch,
                inos,
            } => put_numbers(out, 12, [session.0, branch.0, *inos]),
            Record::Left { session, branch } => put_numbers(out, 13, [session.0, branch.0]),
            Record::Act(act) => put_value(out, 14, act),
            Record::Dropped { branch, ino } => put_numbers(out, 15, [branch.0, ino.0]),
            Record::Revoked { branch, stray, time } => {
                out.push(16);
                put_varint(out, branch.0);
                put_bytes(out, stray.as_str().as_bytes());
                time.write(out);
            }
            Record::Ousted {
                session,
                branch,
                stray,
                time,
            } => {
                put_numbers(out, 17, [session.0, branch.0]);
                put_bytes(out, stray.as_str().as_bytes());
                time.write(out);
            }
            Record::Turned(turn) => put_value(out, 18, turn),
            Record::Renamed { line, name } => {
                put_numbers(out, RENAMED, [line.0]);
                put_bytes(out, name.as_str().as_bytes());
            }
            Record::Planned(plan) => put_value(out, PLANNED, plan),
            Record::Condemned(objects) => {
                out.push(CONDEMNED);
                put_list(out, objects);
            }
            Record::Reclaimed(reclaimed) => put_value(out, RECLAIMED, reclaimed),
            Record::Marked(marking) => put_value(out, MARKED, marking),
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match input.byte()? {
            1 => drive_created(input)?,
            2 => Record::SessionOpened {
                session: SessionId(input.varint()?),
                who: input.text()?.to_owned(),
                hosted: input.flag()?,
                time: Timestamp::read(input)?,
            },
            3 => Record::SessionClosed {
                session: SessionId(input.varint()?),
            },
            4 => Record::Granted {
                session: SessionId(input.varint()?),
                branch: BranchId(input.varint()?),
                inos: input.varint()?,
            },
            5 => Record::InosLent {
                session: SessionId(input.varint()?),
                count: input.varint()?,
            },
            6 => Record::Returned {
                branch: BranchId(input.varint()?),
            },
            7 => Record::Batch(Batch::read(input)?),
            8 => Record::Forked {
                from: Source::read(input)?,
                name: branch_name(input)?,
                time: Timestamp::read(input)?,
                until: None,
                key: None,
                staged: None,
            },
            FORKED_FOR => forked_for(input)?,
            FORKED_STAGED => forked_staged(input)?,
            9 => Record::BranchDeleted {
                branch: BranchId(input.varint()?),
            },
            10 => Record::CheckpointMade {
                branch: BranchId(input.varint()?),
                name: checkpoint_name(input)?,
                message: input.text()?.to_owned(),
                time: Timestamp::read(input)?,
                until: None,
                maker: Maker::Asked,
            },
            CHECKPOINT_FOR => checkpoint_for(input)?,
            RENAMED => Record::Renamed {
                line: BranchId(input.varint()?),
                name: branch_name(input)?,
            },
            PLANNED => Record::Planned(Plan::read(input)?),
            CONDEMNED => Record::Condemned(input.list()?),
            RECLAIMED => Record::Reclaimed(Reclaimed::read(input)?),
            MARKED => Record::Marked(Marking::read(input)?),
            11 => Record::CheckpointDeleted {
                name: checkpoint_name(input)?,
            },
            12 => Record::Joined {
                session: SessionId(input.varint()?),
                branch: BranchId(input.varint()?),
                inos: input.varint()?,
            },
            13 => Record::Left {
                session: SessionId(input.varint()?),
                branch: BranchId(input.varint()?),
            },
            14 => Record::Act(Act::read(input)?),
            15 => Record::Dropped {
                branch: BranchId(input.varint()?),
                ino: Ino(input.varint()?),
            },
            // 12 to 15 are kept for shared branches.
            16 => Record::Revoked {
                branch: BranchId(input.varint()?),
                stray: branch_name(input)?,
                time: Timestamp::read(input)?,
            },
            17 => Record::Ousted {
                session: SessionId(input.varint()?),
                branch: BranchId(input.varint()?),
                stray: branch_name(input)?,
                time: Timestamp::read(input)?,
            },
            18 => Record::Turned(Turn::read(input)?),
            _ => return Err(malformed("record")),
        })
    }
}

impl Record {
    fn put_fork(&self, out: &mut Vec<u8>) {
        let Record::Forked {
            from,
            name,
            time,
            until,
            key,
            staged,
        } = self
        else {
            return;
        };
        let is_plain = until.is_none() && key.is_none() && staged.is_none();
        out.push(match staged {
            Some(_) => FORKED_STAGED,
            None if is_plain => 8,
            None => FORKED_FOR,
        });
        from.write(out);
        put_bytes(out, name.as_str().as_bytes());
        time.write(out);
        if !is_plain {
            put_option(out, until.as_ref());
            put_option(out, key.as_ref());
        }
        if let Some(staged) = staged {
            staged.write(out);
        }
    }
}

fn put_numbers<const N: usize>(out: &mut Vec<u8>, tag: u8, numbers: [u64; N]) {
    out.push(tag);
    numbers.into_iter().for_each(|number| put_varint(out, number));
}

fn put_value(out: &mut Vec<u8>, tag: u8, value: &impl Codec) {
    out.push(tag);
    value.write(out);
}

fn put_drive(
    out: &mut Vec<u8>,
    (hash_key, branch): (&[u8; 16], &BranchName),
    (uid, gid): (u32, u32),
    time: Timestamp,
) {
    out.push(1);
    out.extend_from_slice(hash_key);
    put_bytes(out, branch.as_str().as_bytes());
    put_varint(out, u64::from(uid));
    put_varint(out, u64::from(gid));
    time.write(out);
}

fn put_checkpoint(
    out: &mut Vec<u8>,
    branch: BranchId,
    (name, message): (&CheckpointName, &str),
    time: Timestamp,
    (until, maker): (Option<&Timestamp>, Maker),
) {
    let is_plain = until.is_none() && maker == Maker::Asked;
    out.push(if is_plain { 10 } else { CHECKPOINT_FOR });
    put_varint(out, branch.0);
    put_bytes(out, name.as_str().as_bytes());
    put_bytes(out, message.as_bytes());
    time.write(out);
    if !is_plain {
        put_option(out, until);
        out.push(u8::from(maker == Maker::Owner));
    }
}

fn drive_created(input: &mut Reader<'_>) -> Result<Record, Malformed> {
    Ok(Record::DriveCreated {
        hash_key: input.take(16)?.try_into().expect("16 bytes were taken"),
        branch: branch_name(input)?,
        uid: input.number()?,
        gid: input.number()?,
        time: Timestamp::read(input)?,
    })
}

fn forked_for(input: &mut Reader<'_>) -> Result<Record, Malformed> {
    let record = forked(input, |_| Ok(None))?;
    if let Record::Forked {
        until: None,
        key: None,
        ..
    } = &record
    {
        return Err(malformed("fork for a time or by a key"));
    }
    Ok(record)
}

fn forked_staged(input: &mut Reader<'_>) -> Result<Record, Malformed> {
    forked(input, |input| Ok(Some(Staging::read(input)?)))
}

fn forked(
    input: &mut Reader<'_>,
    staged: impl FnOnce(&mut Reader<'_>) -> Result<Option<Staging>, Malformed>,
) -> Result<Record, Malformed> {
    Ok(Record::Forked {
        from: Source::read(input)?,
        name: branch_name(input)?,
        time: Timestamp::read(input)?,
        until: input.option()?,
        key: input.option()?,
        staged: staged(input)?,
    })
}

fn checkpoint_for(input: &mut Reader<'_>) -> Result<Record, Malformed> {
    let branch = BranchId(input.varint()?);
    let (name, message) = (checkpoint_name(input)?, input.text()?.to_owned());
    let (time, until) = (Timestamp::read(input)?, input.option()?);
    let maker = if input.flag()? { Maker::Owner } else { Maker::Asked };
    if until.is_none() && maker == Maker::Asked {
        return Err(malformed("checkpoint for a time or by the owner"));
    }
    Ok(Record::CheckpointMade {
        branch,
        name,
        message,
        time,
        until,
        maker,
    })
}

fn branch_name(input: &mut Reader<'_>) -> Result<BranchName, Malformed> {
    BranchName::parse(input.text()?).map_err(|_| malformed("branch name"))
}

fn checkpoint_name(input: &mut Reader<'_>) -> Result<CheckpointName, Malformed> {
    CheckpointName::parse(input.text()?).map_err(|_| malformed("checkpoint name"))
}

/// The root directory's number is never lent: the first that is lent follows it.
pub const FIRST_LENT_INO: Ino = Ino(16);
