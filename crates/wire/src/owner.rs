//! The calls that the owner of a drive answers.
//!
//! Invariant: what an `Owner` acknowledges as durable is as durable as its tier says, and every change that it
//! accepted before is durable too.

use crate::line::{BranchInfo, CheckpointAsk, Created, ForkAsk, Usage};
use crate::reclaim::{Placings, ReclaimAsk, ReclaimTold};
use crate::review::{AcceptAsk, MarkAsk, Marked};
use crate::shared::{
    Borrow, Borrowed, Brought, Deed, Heard, LockAsk, Look, Next, Ordered, Seen, Sharer, Stand, Yield,
};
use std::collections::BTreeMap;
use std::time::Duration;
use tenure_model::record::Plan;
use tenure_model::{
    Address, Attr, Batch, BranchId, BranchName, ChunkPlace, Conflict, Difference, Digest, Epoch, Failure,
    FileOutcome, Ino, InoRange, Locked, PackNumber, Refusal, SessionId, Timestamp,
};
use thiserror::Error;

/// Why a call was not done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// A rule says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The world failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl Error {
    /// Returns the Linux error number that a program sees.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Refused(refusal) => refusal.errno(),
            Error::Failed(failure) => failure.errno(),
        }
    }
}

/// Begins what a check says of something that is no fault.
pub const NOTE: &str = "note: ";
/// Stands in what a check says of something that it could not look at: nothing is known to be wrong with that.
pub const UNSEEN: &str = "cannot be looked at now: ";

/// Returns what tells a drive from every other, also from one of its name in another bucket: a digest of the number that was
/// drawn when it was made.
pub fn identity(hash_key: &[u8; 16]) -> Digest {
    Digest::of(&[b"identity", &hash_key[..]].concat())
}

/// Called once with the outcome, from any thread.
pub type Done<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

/// Who opens a session, in words that help a person who is refused because of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The agent or user.
    pub agent: String,
    /// The machine.
    pub host: String,
    /// The process on that machine.
    pub pid: u32,
    /// What it is for, such as `mount at /home/me/work`.
    pub purpose: String,
    /// Whether it runs in the owner's own process and so ends with it.
    pub hosted: bool,
}

/// How long a session may usually say nothing before another may have what it holds: a machine that is busy, or a network
/// that loses what is sent, still says something in that time; who waits for a machine that is lost waits no longer.
pub const SESSION_TTL: Duration = Duration::from_secs(5);

/// A session that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its number.
    pub session: SessionId,
    /// The epoch of the owner.
    pub epoch: Epoch,
    /// The tier of the drive: `folder`, `bucket` or `memory`.
    pub tier: String,
    /// What the owner found when it took the drive over and a person should know, in sentences.
    pub notices: Vec<String>,
    /// How long the session may say nothing before another may have what it holds.
    pub session_ttl: Duration,
}

/// How much of a branch is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The branch whole, to change it.
    Exclusive,
    /// What it is now, to read it; it does not change any more for this session.
    Read,
    /// The branch together with other sessions: the owner is asked for everything, but for what it lends of it.
    Shared,
}

/// A branch that was lent, or whose state may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lent<B> {
    /// The branch; none for a checkpoint.
    pub branch: Option<BranchId>,
    /// Keys the hash of names in directories.
    pub hash_key: [u8; 16],
    /// Numbers for what is created.
    pub inos: InoRange,
    /// The branch itself.
    pub state: Shared<B>,
}

/// A branch as it goes from one room to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shared<B> {
    /// In one process: the branch, sharing its pages.
    Here(B),
    /// Elsewhere: the address of its root page, how many inodes it has and how many bytes.
    Stored {
        /// Its root page.
        root: Address,
        /// Number of inodes.
        inodes: u64,
        /// Bytes of files that are not holes.
        bytes: u64,
    },
    /// Nowhere but at its owner.
    Kept,
}

/// A chunk to place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The digest of its bytes.
    pub digest: Digest,
    /// Its bytes, at least one.
    pub bytes: &'a [u8],
}

/// A chunk that has its place in a pack, but is not durable before a batch that names it is.
pub type Placed = ChunkPlace;

/// An object of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedPack {
    /// What its name has behind the number.
    pub tag: [u8; 8],
    /// Its length.
    pub len: u64,
}

/// A batch that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Digest of the batch, which the next one names as the one before it.
    pub digest: Digest,
}

/// A batch of a session that is over, which is durable in a stray.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// Digest of the batch, which the next one names as the one before it.
    pub digest: Digest,
    /// The stray's name.
    pub stray: String,
}

/// A branch that is lent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// The branch.
    pub branch: BranchId,
    /// Its name.
    pub name: String,
    /// Who holds it.
    pub session: SessionId,
    /// The same in words: agent, host, process and what for.
    pub who: String,
    /// When that session was opened.
    pub since: Timestamp,
    /// How long it lasts; none when it ends with the owner's process.
    pub lease: Option<Lease>,
    /// How many of its directories are lent to that session, where it shares the branch.
    pub directories: u64,
}

/// A hold that lasts as long as its session says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// For how long the session has said nothing.
    pub silence: Duration,
    /// After how much silence another may have what it holds.
    pub length: Duration,
}

/// What is free and used, for `statfs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes that the bucket can hold in all.
    pub total: u64,
    /// Bytes that are free.
    pub free: u64,
}

/// Which two states are compared, and what of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffAsk {
    /// The branch or checkpoint before.
    pub before: String,
    /// The branch or checkpoint after.
    pub after: String,
    /// The path at and below which differences are told; everything where it is empty.
    pub below: Box<[u8]>,
    /// The inode behind which to go on; `Ino(0)` at the beginning.
    pub behind: Ino,
}

/// What was found to differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differences {
    /// Differences, in no order that means anything.
    pub found: Vec<Difference>,
    /// The inode behind which there may be more.
    pub behind: Option<Ino>,
}

/// A branch that has become another state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turned {
    /// The checkpoint of what it was before.
    pub before: String,
}

/// What is merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeAsk {
    /// The branch or checkpoint that is merged.
    pub from: String,
    /// The branch that takes it in.
    pub into: BranchName,
    /// The branch or checkpoint that both have become of, where the drive does not know.
    pub base: Option<String>,
    /// Whether it is only told what would become of each file.
    pub is_dry: bool,
    /// What becomes of conflicts that nobody has settled in what is merged.
    pub unsettled: Unsettled,
}

impl MergeAsk {
    /// Asks for a merge of what has no conflicts.
    pub fn new(from: &str, into: BranchName) -> Self {
        Self {
            from: from.to_owned(),
            into,
            base: None,
            is_dry: false,
            unsettled: Unsettled::Refused,
        }
    }
}

/// What becomes of conflicts that nobody has settled in what is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsettled {
    /// There is no merge.
    Refused,
    /// They are conflicts of the branch that takes them in, too.
    Taken,
}

/// What has come of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeTold {
    /// The checkpoint of what the branch was before; none where nothing was done.
    pub before: Option<String>,
    /// What has become of each file that the other line had changed; conflicts first.
    pub files: Vec<FileOutcome>,
    /// How many more there are.
    pub more: u64,
    /// How many conflicts it has made.
    pub conflicts: u64,
}

/// A conflict as it stands in a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its number.
    pub number: Ino,
    /// What it was when it was made.
    pub conflict: Conflict,
    /// Where what the branch had is now; none where it is nowhere.
    pub ours: Option<Box<[u8]>>,
    /// Where what the other line had is now; none where it is nowhere.
    pub theirs: Option<Box<[u8]>>,
}

/// Conflicts of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standings {
    /// Conflicts, by number.
    pub found: Vec<Standing>,
    /// The number behind which there may be more.
    pub behind: Option<Ino>,
}

/// What is to be where a merge has kept two versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// What the branch had.
    Ours,
    /// What the other line had.
    Theirs,
    /// Both, as they are.
    Both,
    /// These bytes.
    Bytes(Vec<u8>),
}

/// Which conflict is settled, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolveAsk {
    /// The branch.
    pub branch: BranchName,
    /// Where it is: the path of the conflict, or of what either side had, as it is now.
    pub path: Box<[u8]>,
    /// What is to be.
    pub choice: Choice,
}

/// What is restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreAsk {
    /// The branch.
    pub branch: BranchName,
    /// What is at and below this path.
    pub path: Box<[u8]>,
    /// The branch or checkpoint in which it is as it shall be.
    pub from: String,
}

/// How an owner is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The drive's name.
    pub drive: String,
    /// The epoch of the owner.
    pub epoch: Epoch,
    /// The tier of the drive.
    pub tier: String,
    /// Bytes of records since the last manifest.
    pub journal_bytes: u64,
    /// Requests to the bucket so far, by kind.
    pub requests: BTreeMap<String, u64>,
    /// Bytes of pages in memory.
    pub page_bytes: u64,
    /// The process that owns the drive.
    pub pid: u32,
    /// What went wrong and still is, in a sentence.
    pub trouble: Option<String>,
    /// How far a deep check is that runs now.
    pub verified: Option<Verified>,
}

/// How far a check is that reads every byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Packs that it has read.
    pub packs: u64,
    /// Packs that there are.
    pub of: u64,
    /// Bytes that it has read.
    pub bytes: u64,
}

/// Whether a session has an inode open once an act is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It has.
    Open,
    /// As before.
    No,
}

fn shares_nothing() -> Error {
    Refusal::Because("this owner shares no branches".into()).into()
}

/// The owner of one drive, as its clients see it.
pub trait Owner<B>: Send + Sync {
    /// Opens a session; durable before anything that it does.
    fn open(&self, who: &Who) -> Result<Opened, Error>;

    /// Hears that a session's client is still there, though it has nothing else to say. Refuses a session that is over, and one
    /// for whose [`Owner::rejoin`] others wait. It asks the bucket for nothing.
    fn renew(&self, session: SessionId) -> Result<(), Error>;

    /// Returns what tells the drive from every other ([`identity`]), where others have to ask.
    fn identity(&self) -> Result<Option<Digest>, Error> {
        // An owner that is asked in its own process is the one that was opened.
        Ok(None)
    }

    /// Ends a session and takes back what it holds.
    fn close(&self, session: SessionId) -> Result<(), Error>;

    /// Lends a branch whole, or shows a branch or checkpoint as it is now; durable before it returns. A holder that has said
    /// nothing for as long as its lease lasts loses the branch by that, as by [`Owner::take`]. A session that asks
    /// again for what it holds, and has shipped nothing yet, gets the same numbers again.
    fn lend(&self, session: SessionId, name: &str, access: Access) -> Result<Lent<B>, Error>;

    /// Lends more inode numbers. Asked twice it lends twice: numbers that nobody has heard of are never used.
    fn lend_inos(&self, session: SessionId) -> Result<InoRange, Error>;

    /// Takes a lent branch back. Everything that was shipped is kept.
    fn give_back(&self, session: SessionId, branch: BranchId) -> Result<(), Error>;

    /// Gives chunks their places in a pack. They become durable with the batch that names them, or before.
    fn place(&self, session: SessionId, chunks: &[Chunk<'_>]) -> Result<Vec<Placed>, Error>;

    /// Makes chunks durable that have their places, before anything names them: so nothing that follows waits for them. Refuses
    /// those that were lost with an owner that had them in memory alone: they have no places any more.
    fn secure(&self, session: SessionId, places: &[Placed]) -> Result<(), Error>;

    /// Accepts a batch and makes it durable, its chunks first. One of the latest batches that comes again is told again
    /// that it is durable. A holder in this process passes the branch as it is
    /// after the batch, and the owner takes it as it is; for any other it decides each op again.
    fn ship(&self, batch: Batch, after: Option<B>, done: Done<Shipped>);

    /// Does what a session that shares a branch asks, and puts it in the order of all: from then on everybody sees it, and with the
    /// next sync it is durable. What was done already under its number is not done again. With `Hold::Open` the session has the
    /// inode open from then on.
    fn act(&self, who: Sharer, number: u64, deed: &Deed, hold: Hold) -> Result<Ordered, Error> {
        let _ = (who, number, deed, hold);
        Err(shares_nothing())
    }

    /// Accepts a batch of what is lent to a session that shares its branch, and puts it in the order of all, as an act: from then on
    /// everybody sees it, and with the next sync it is durable.
    fn order(&self, batch: &Batch) -> Result<Shipped, Error> {
        let _ = batch;
        Err(shares_nothing())
    }

    /// Answers a question about a shared branch as it is now. Where what it is about is lent to another session, that is asked to
    /// ship, and the question is refused with a number; it is answered when it comes again with that, once the other has shipped.
    fn look(&self, who: Sharer, look: &Look, asked: u64) -> Result<Seen, Error> {
        let _ = (who, look, asked);
        Err(shares_nothing())
    }

    /// Lends a directory of a shared branch to a session, which then decides by itself what touches nothing else, and ships it as a
    /// holder does; unless another has it, or needs it, or has changed something there just now. All that has shown in it is durable.
    fn borrow(&self, who: Sharer, ask: &Borrow) -> Result<Borrowed<B>, Error> {
        let _ = (who, ask);
        Err(shares_nothing())
    }

    /// Takes directories back that were lent, and hears what was shipped because others have asked for it.
    fn take_back(&self, who: Sharer, given: &Yield) -> Result<(), Error> {
        let _ = (who, given);
        Err(shares_nothing())
    }

    /// Hears that a session is there to which directories are lent, and returns how old the owner's proof is that it owns the drive:
    /// so much less than its time may the session rely on what is lent to it.
    fn prolong(&self, who: Sharer) -> Result<Duration, Error> {
        let _ = who;
        Err(shares_nothing())
    }

    /// Lets a session have an inode open: it stays while it is, also without an entry. Returns its attributes.
    fn hold(&self, who: Sharer, ino: Ino) -> Result<Attr, Error> {
        let _ = (who, ino);
        Err(shares_nothing())
    }

    /// Hears that a session has inodes open no longer.
    fn let_go(&self, who: Sharer, inos: &[Ino]) -> Result<(), Error> {
        let _ = (who, inos);
        Err(shares_nothing())
    }

    /// Makes everything durable that a session which shares a branch has done or seen.
    fn sync(&self, who: Sharer) -> Result<(), Error> {
        let _ = who;
        Err(shares_nothing())
    }

    /// Takes, waits for, tests or gives back locks of files of a shared branch.
    fn lock(&self, who: Sharer, ask: &LockAsk) -> Result<Locked, Error> {
        let _ = (who, ask);
        Err(shares_nothing())
    }

    /// Tells a session which of its tickets for locks have become locks, and what others need that is lent to it, as soon as there
    /// is anything; a session that asks again is told nothing for the time before. One that holds its branch whole is told that the
    /// root is needed when it is to stand still ([`Owner::stand`]).
    fn hear(&self, who: Sharer, told: Done<Heard>) {
        let _ = who;
        told(Err(shares_nothing()));
    }

    /// Hears that a holder stands still, as it was asked to because its branch becomes another state, and tells it what to do next. It
    /// asks again, at any owner, until it is told to go on.
    fn stand(&self, who: Sharer, stand: &Stand) -> Result<Next<B>, Error> {
        let _ = (who, stand);
        Err(shares_nothing())
    }

    /// Has whoever holds or shares a branch ship all that was done there before this was asked.
    fn have_shipped(&self, branch: &BranchName) -> Result<(), Error> {
        let _ = branch;
        Err(shares_nothing())
    }

    /// Takes up a session that shared a branch with an owner before this one, with what it brings. What it asks is answered
    /// once all others have come, or are waited for no longer.
    fn rejoin(&self, who: Sharer, brought: &Brought) -> Result<(), Error> {
        let _ = (who, brought);
        Err(shares_nothing())
    }

    /// Accepts a batch that a session which is over had not shipped, as [`Owner::ship`] would have, into the stray of the branch
    /// that it names: in the branch it is not.
    fn salvage(&self, batch: Batch, after: Option<B>, done: Done<Salvaged>);

    /// Takes a branch from whoever else holds it, at once: that session is over, and what it had not shipped becomes a stray.
    fn take(&self, session: SessionId, name: &str) -> Result<(), Error>;

    /// Returns what is lent, by name.
    fn delegations(&self) -> Result<Vec<Delegation>, Error>;

    /// Returns a page's bytes.
    fn page(&self, at: Address) -> Result<Vec<u8>, Error>;

    /// Fills `out` from a chunk's bytes, beginning with its byte `start`.
    fn read(&self, at: Address, start: u32, out: &mut [u8]) -> Result<(), Error>;

    /// Returns the objects of a pack's number, in which a client reads by itself what is near what it needs; none while the
    /// pack is filled.
    fn sealed(&self, pack: PackNumber) -> Result<Vec<SealedPack>, Error> {
        // An owner that shows no packs is asked for each page and chunk.
        let _ = pack;
        Ok(Vec::new())
    }

    /// Returns `len` bytes of a pack's object from `offset` on, as they stand in the bucket: who asks verifies them.
    fn part(&self, pack: PackNumber, tag: [u8; 8], offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        let _ = (pack, tag, offset, len);
        Err(Refusal::NotSupported.into())
    }

    /// Returns what is free.
    fn room(&self) -> Result<Room, Error>;

    /// Makes a branch from a branch or checkpoint as it is now; durable before it returns. One that is asked for by a key once more
    /// is the same one; another request by that key is refused.
    fn fork(&self, ask: &ForkAsk) -> Result<Created, Error>;

    /// Names the state of a branch; durable before it returns.
    fn checkpoint(&self, ask: &CheckpointAsk) -> Result<Created, Error>;

    /// Gives a branch or checkpoint another name; who holds it goes on. Durable before it returns.
    fn rename(&self, name: &str, to: &BranchName) -> Result<(), Error>;

    /// Has the owner make checkpoints by itself as `plan` says from now on; durable before it returns.
    fn set_plan(&self, plan: Plan) -> Result<(), Error>;

    /// Returns when the owner makes checkpoints by itself.
    fn plan(&self) -> Result<Plan, Error>;

    /// Deletes a branch that nobody holds, or a checkpoint.
    fn delete_branch(&self, name: &BranchName) -> Result<(), Error>;

    /// Returns what differs between two branches or checkpoints as they are now, as much as can be told at once. Who goes on
    /// with a branch that has changed meanwhile hears of it as it is then.
    fn diff(&self, ask: &DiffAsk) -> Result<Differences, Error>;

    /// Returns at most `len` bytes of a file of a branch or checkpoint as it is now, from `offset` on; none behind its end.
    fn contents(&self, name: &str, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>, Error>;

    /// Lets a branch go on from what a branch or checkpoint is, its own or another's; durable before it returns. What it was is a checkpoint. Whoever
    /// holds it stands still meanwhile, and of those who share it all is had back before.
    fn undo(&self, who: &Who, branch: &BranchName, to: &str) -> Result<Turned, Error>;

    /// Merges a branch or checkpoint into a branch, and tells what has become of each file; durable before it returns. Refused
    /// where the drive does not know what both have become of. What does not fit is kept on both sides.
    fn merge(&self, who: &Who, ask: &MergeAsk) -> Result<MergeTold, Error>;

    /// Returns the conflicts that stand in a branch or checkpoint, behind a number.
    fn conflicts(&self, name: &str, behind: Ino) -> Result<Standings, Error>;

    /// Settles a conflict; durable before it returns.
    fn resolve(&self, who: &Who, ask: &ResolveAsk) -> Result<Turned, Error>;

    /// Lets what is at a path of a branch be what a branch or checkpoint has there; durable before it returns. All else stays as it
    /// is, and what the branch was is a checkpoint. Holders are dealt with as by [`Owner::undo`].
    fn restore(&self, who: &Who, ask: &RestoreAsk) -> Result<Turned, Error> {
        let _ = (who, ask);
        Err(Refusal::NotSupported.into())
    }

    /// Says something of a branch from now on, or nothing any more: that it waits for a review, or takes changes only by one; durable
    /// before it returns.
    fn mark(&self, who: &Who, branch: &BranchName, mark: &MarkAsk) -> Result<(), Error> {
        let _ = (who, branch, mark);
        Err(Refusal::NotSupported.into())
    }

    /// Returns what is said of branches, by name.
    fn marks(&self) -> Result<Vec<Marked>, Error> {
        Err(Refusal::NotSupported.into())
    }

    /// Merges what a branch that waits for a review has changed, or what of it is at some paths, into the branch for which it was
    /// staged; durable before it returns. Refused where anything would conflict.
    fn accept(&self, who: &Who, ask: &AcceptAsk) -> Result<MergeTold, Error> {
        let _ = (who, ask);
        Err(Refusal::NotSupported.into())
    }

    /// Returns every branch and checkpoint, by name.
    fn branches(&self) -> Result<Vec<BranchInfo>, Error>;

    /// Returns how the owner is.
    fn status(&self) -> Result<Status, Error>;

    /// Returns what branches and checkpoints need of the bucket: every page is written for it, and looked at.
    fn usage(&self) -> Result<Usage, Error>;

    /// Gives up what nothing needs, and deletes it once no recovery reads it. Refused while another asks the same.
    fn reclaim(&self, ask: ReclaimAsk) -> Result<ReclaimTold, Error>;

    /// Says that a session will name nothing any more of what was placed for it the first so many times, where the owner's epoch is
    /// `said`'s; returns how often something was placed by now. Until then it is kept for the session.
    fn forgo(&self, session: SessionId, said: Placings) -> Result<Placings, Error>;

    /// Writes every page and a manifest, so that older segments may go.
    fn fold(&self) -> Result<(), Error>;

    /// Holds the drive's invariants against what is stored, with `deep` every byte of it; returns what is wrong, and behind
    /// [`NOTE`] what harms nothing. Where [`UNSEEN`] stands in a sentence, it is not known whether anything is wrong.
    fn check(&self, deep: bool) -> Result<Vec<String>, Error>;
}
