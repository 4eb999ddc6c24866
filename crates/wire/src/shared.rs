//! What a session that shares a branch asks the owner, and what it is told.
//!
//! Each change is an *act*, with a number of its session: asked again, it is known by that and by its mark. Each question is a
//! *look*, whose answer is good once. A session *borrows* directories, does by itself what touches nothing else, and gives them back
//! when another needs them.

use crate::owner::Shared;
use tenure_model::codec::{Codec, put_varint};
use tenure_model::{
    ActId, Attr, Batch, BranchId, Digest, Ino, Kind, Lock, LockFamily, LockOwner, LockRange, Name, Op,
    SessionId, Timestamp,
};

/// A session, and the branch that it shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sharer {
    /// The session.
    pub session: SessionId,
    /// The branch.
    pub branch: BranchId,
}

/// A change that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// An op that brings no contents.
    Op(Op),
    /// Bytes for a file; the owner gives them their places.
    Write {
        /// The file.
        ino: Ino,
        /// Where they go.
        at: WriteAt,
        /// The bytes: at least one, and no more than a chunk has.
        bytes: Box<[u8]>,
        /// When.
        time: Timestamp,
    },
}

/// Where bytes go in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAt {
    /// Here.
    Offset(u64),
    /// Behind the last byte, whatever that is when the owner orders it.
    End,
}

impl Deed {
    /// Returns the digest by which it is known when it is asked for again.
    pub fn mark(&self) -> Digest {
        match self {
            Deed::Op(op) => Digest::of(&op.written()),
            Deed::Write { ino, at, bytes, time } => {
                let mut text = b"write".to_vec();
                put_varint(&mut text, ino.0);
                match at {
                    WriteAt::Offset(offset) => put_varint(&mut text, *offset),
                    WriteAt::End => text.push(0),
                }
                time.write(&mut text);
                text.extend_from_slice(&Digest::of(bytes).0);
                Digest::of(&text)
            }
        }
    }

    /// Returns how many bytes of memory it takes, about.
    pub fn weight(&self) -> usize {
        const OP: usize = 256;
        match self {
            Deed::Op(_) => OP,
            Deed::Write { bytes, .. } => OP + bytes.len(),
        }
    }
}

/// What an act has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// The act before it in the branch's order, if there was one since the branch is shared.
    pub behind: Option<ActId>,
    /// The inode that it is about, as it is then; none where that is gone again.
    pub inode: Option<(Ino, Attr)>,
}

/// A question about a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// An inode's attributes.
    Attr(Ino),
    /// What a name names.
    Lookup {
        /// The directory.
        parent: Ino,
        /// The name.
        name: Name,
    },
    /// Entries of a directory behind a cookie, some `len` bytes of them.
    List {
        /// The directory.
        parent: Ino,
        /// The cookie.
        after: u64,
        /// Bytes of names and what belongs to them.
        len: u32,
    },
    /// A symlink's target.
    Target(Ino),
    /// An extended attribute.
    Xattr {
        /// The inode.
        ino: Ino,
        /// The attribute's full name.
        name: Box<[u8]>,
    },
    /// The names of all extended attributes, each followed by a NUL.
    Xattrs(Ino),
    /// Bytes of a file, fewer only at its end.
    Read {
        /// The file.
        ino: Ino,
        /// The first byte.
        offset: u64,
        /// How many, at most as a chunk has.
        len: u32,
    },
    /// The next offset of data.
    NextData(Ino, u64),
    /// The next offset of a hole.
    NextHole(Ino, u64),
    /// What the branch holds in all.
    Totals,
}

/// What a look has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// An inode.
    Inode(Ino, Attr),
    /// Entries of a directory, in their order.
    Entries(Vec<Entry>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// An offset.
    Offset(u64),
    /// What the branch holds: inodes, and bytes that are not holes.
    Totals {
        /// Number of inodes.
        inodes: u64,
        /// Bytes of files that are not holes.
        bytes: u64,
    },
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the directory.
    pub cookie: u64,
    /// The inode that it names.
    pub ino: Ino,
    /// The kind of that inode.
    pub kind: Kind,
    /// Its name.
    pub name: Box<[u8]>,
}

/// What is asked about locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockAsk {
    /// To have one; with a ticket, to wait for it.
    Take {
        /// Which.
        lock: Lock,
        /// By what `hear` names it once it is had.
        ticket: Option<u64>,
    },
    /// What stands in the way of one.
    Test(Lock),
    /// To give back what an owner has in a range.
    GiveBack {
        /// The file.
        ino: Ino,
        /// flock's or fcntl's.
        family: LockFamily,
        /// Who has it.
        owner: LockOwner,
        /// Of which bytes.
        range: LockRange,
    },
    /// To wait no longer.
    Forget {
        /// By what it was asked for.
        ticket: u64,
    },
}

/// What is asked when a directory is to be lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Borrow {
    /// Which.
    pub directory: Ino,
    /// Which state of the branch the session has a copy of; none where it has none.
    pub copy: Option<u64>,
    /// Whether all that the session has done is shipped, so that it can take the branch as it is for its copy.
    pub is_shipped: bool,
}

/// What has come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Borrowed<B> {
    /// It is not lent; the session asks no more for a while.
    No,
    /// The session's copy is too old: it ships what it has done, does nothing meanwhile, and asks again.
    Behind,
    /// It is lent.
    Lent(Loan<B>),
}

/// What is lent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loan<B> {
    /// The number of the loan: later ones have higher numbers.
    pub number: u64,
    /// The directory, and others below it.
    pub parts: Vec<Part>,
    /// The branch as it is, and which state that is, where the session's copy was too old.
    pub copy: Option<(u64, Shared<B>)>,
    /// Number and digest of the last batch that the owner has of the session.
    pub behind: (u64, Digest),
}

/// A directory that is lent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which.
    pub directory: Ino,
    /// The inodes that come with it: no directories, and none that has an entry elsewhere.
    pub inodes: Vec<Ino>,
}

/// What a session is told without having asked for it at that time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Tickets that have become locks.
    pub tickets: Vec<u64>,
    /// What others need.
    pub demands: Vec<Demand>,
}

/// What another session needs that is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Its number: who answers it has shipped all that was done before it was heard.
    pub number: u64,
    /// The directory.
    pub directory: Ino,
    /// The loan with which the session has it; 0 of what the session has made.
    pub loan: u64,
    /// What is needed of it.
    pub need: Need,
}

/// What is needed of a directory that is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// That what was done there is shipped, because somebody looks.
    Ship,
    /// That it is given back.
    Return,
}

/// What a holder says that was asked to stand still, because its branch becomes another state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stand {
    /// It changes nothing, and all that it has done is shipped and durable.
    Still {
        /// Number and digest of its last batch.
        behind: (u64, Digest),
        /// The inodes that somebody may have open there; none where it has said so before.
        known: Option<Vec<Ino>>,
    },
    /// It goes on from what the branch is.
    Gone,
}

/// What a holder that stands still does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<B> {
    /// It stands still, and asks again.
    Stay,
    /// The same, and says once more what somebody may have open.
    Tell,
    /// It goes on: the branch is what it was.
    GoOn,
    /// The branch has become another state: the holder takes that, and goes on.
    Became {
        /// What its next batch names as the one before it.
        behind: Digest,
        /// The branch.
        state: Shared<B>,
    },
}

/// What a session gives back, once it has shipped all that it has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Yield {
    /// Up to which number it has answered what was needed of it.
    pub answered: u64,
    /// The last loan that it has heard of, be it by a demand alone: a directory that was lent later is not given back.
    pub loan: u64,
    /// The directories that it gives back.
    pub directories: Vec<Ino>,
    /// What it has open in them.
    pub open: Vec<Ino>,
}

/// A directory that was lent by an owner before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Which.
    pub directory: Ino,
    /// Inodes that come with it and have no entry any more.
    pub orphans: Vec<Ino>,
}

/// An act that a session has not heard to be durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its number.
    pub number: u64,
    /// Where the owner before had ordered it; none where that was not answered.
    pub place: Option<Place>,
    /// What it does.
    pub deed: Deed,
}

/// A place in a branch's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The act before.
    pub behind: Option<ActId>,
}

/// What a session brings to an owner that is new to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Inodes that it has open.
    pub open: Vec<Ino>,
    /// Locks that it has.
    pub locks: Vec<Lock>,
    /// Acts that may be lost with the owner before, in the order of their numbers.
    pub acts: Vec<Kept>,
    /// Directories that are lent to it.
    pub claims: Vec<Claim>,
    /// What it has done there and may be lost with the owner before, in the order of its chain: with the bytes of chunks that may be lost
    /// as well.
    pub batches: Vec<Batch>,
}
