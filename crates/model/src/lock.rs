//! Locks of files between sessions: flock(2) and fcntl(2).

use crate::codec::{Codec, Malformed, Reader, malformed, put_varint};
use crate::id::{Ino, SessionId};

/// What a lock lets others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockKind {
    /// Others may have it too (`LOCK_SH`, `F_RDLCK`).
    Shared,
    /// Nobody else may have one (`LOCK_EX`, `F_WRLCK`).
    Exclusive,
}

/// Whether a lock is flock's or fcntl's: the two do not see each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockFamily {
    /// fcntl(2), of byte ranges, one for each process.
    Posix,
    /// flock(2), of whole files, one for each open file.
    Flock,
}

/// Who has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockOwner {
    /// The session.
    pub session: SessionId,
    /// Which of its processes or open files, by a number of its kernel.
    pub number: u64,
}

/// A range of bytes of a file: `first..=last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockRange {
    /// The first byte.
    pub first: u64,
    /// The last byte, not before the first.
    pub last: u64,
}

impl LockRange {
    /// Tells whether two ranges have a byte in common.
    pub fn meets(&self, other: &LockRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// A lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The file.
    pub ino: Ino,
    /// flock's or fcntl's.
    pub family: LockFamily,
    /// Who has it.
    pub owner: LockOwner,
    /// Of which bytes.
    pub range: LockRange,
    /// What it lets others do.
    pub kind: LockKind,
    /// The process that has it, as its own machine knows it (`F_GETLK`).
    pub pid: u32,
}

/// What came of asking for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// It is had.
    Taken,
    /// This one stands in the way.
    Blocked(Lock),
    /// It will be had once nothing stands in the way: who asked is told by his ticket.
    Queued,
    /// Who has what is wanted waits for what the asker has (`EDEADLK`).
    Deadlock,
}

impl Codec for Lock {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.ino.0);
        out.push(match self.family {
            LockFamily::Posix => 0,
            LockFamily::Flock => 1,
        });
        out.push(match self.kind {
            LockKind::Shared => 0,
            LockKind::Exclusive => 1,
        });
        let numbers = [
            self.owner.session.0,
            self.owner.number,
            self.range.first,
            self.range.last,
            u64::from(self.pid),
        ];
        numbers.into_iter().for_each(|number| put_varint(out, number));
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let ino = Ino(input.varint()?);
        let family = match input.byte()? {
            0 => LockFamily::Posix,
            1 => LockFamily::Flock,
            _ => return Err(malformed("lock")),
        };
        let kind = match input.byte()? {
            0 => LockKind::Shared,
            1 => LockKind::Exclusive,
            _ => return Err(malformed("lock")),
        };
        let owner = LockOwner {
            session: SessionId(input.varint()?),
            number: input.varint()?,
        };
        let range = LockRange {
            first: input.varint()?,
            last: input.varint()?,
        };
        if range.first > range.last {
            return Err(malformed("lock"));
        }
        Ok(Self {
            ino,
            family,
            owner,
            range,
            kind,
            pid: input.number()?,
        })
    }
}
