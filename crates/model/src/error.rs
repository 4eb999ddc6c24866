//! Refusals (a rule says no) and failures (the world failed). A bug is neither: it panics.

use crate::extent::Address;
use thiserror::Error;

/// Why a rule says no. Deterministic: the same request in the same state is refused again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No such entry or inode.
    #[error("no such file or directory")]
    NotFound,
    /// The entry is there already.
    #[error("the file exists")]
    Exists,
    /// A directory was needed.
    #[error("not a directory")]
    NotDirectory,
    /// Something other than a directory was needed.
    #[error("is a directory")]
    IsDirectory,
    /// The directory still has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The name is longer than 255 bytes.
    #[error("the name is longer than 255 bytes")]
    NameTooLong,
    /// The name holds `/` or NUL, is empty, or is `.` or `..`.
    #[error("the name is not valid")]
    InvalidName,
    /// An argument makes no sense for this operation.
    #[error("invalid argument")]
    InvalidArgument,
    /// The inode has as many links as it may have.
    #[error("too many links")]
    TooManyLinks,
    /// The file would be larger than a file can be.
    #[error("the file is too large")]
    TooLarge,
    /// There is no space left in the bucket.
    #[error("no space left in the bucket")]
    NoSpace,
    /// The caller may not do this at all.
    #[error("the operation is not permitted")]
    NotPermitted,
    /// The mode or the ACL denies it.
    #[error("permission denied")]
    AccessDenied,
    /// The branch is mounted read-only, or is a checkpoint.
    #[error("the file system is read-only")]
    ReadOnly,
    /// There is no such extended attribute.
    #[error("no such attribute")]
    NoAttribute,
    /// A value does not fit where it should go.
    #[error("out of range")]
    Range,
    /// The operation is not supported on this kind of file.
    #[error("the operation is not supported")]
    NotSupported,
    /// No data or hole beyond the offset.
    #[error("no such offset")]
    NoSuchOffset,
    /// The holder lost its authority; nothing more is accepted from it.
    #[error("this mount lost its authority over the branch")]
    Stale,
    /// Another session holds what was asked for.
    #[error("{by} holds it")]
    Held {
        /// Who holds it: agent, host and process, in words.
        by: String,
    },
    /// The drive does not have a chunk that is named: who has its bytes sends them again.
    #[error("the drive does not have chunk {} of pack {}; send it again", at.digest, at.pack)]
    NoChunk {
        /// Where it should be.
        at: Address,
    },
    /// This owner has not heard yet what the session brings from the one before: it says so first, and asks again.
    #[error("the owner of the drive is another one, which the session has told nothing yet")]
    Unjoined,
    /// Another session may answer this, because part of a shared branch is lent to it. It was asked to ship, or to give that back;
    /// who is refused asks again soon, with this number.
    #[error("part of the branch is lent to another session, which was asked for it")]
    Elsewhere {
        /// By what that is known which was asked of it.
        asked: u64,
    },
    /// A rule that has no errno of its own, in words: what, where and what to do.
    #[error("{0}")]
    Because(String),
}

impl Refusal {
    /// Returns the Linux error number (`asm-generic/errno.h`) that says this.
    pub fn errno(&self) -> i32 {
        match self {
            Refusal::NotPermitted => 1,
            Refusal::NotFound => 2,
            Refusal::NoChunk { .. } | Refusal::Unjoined | Refusal::Elsewhere { .. } => 5,
            Refusal::NoSuchOffset => 6,
            Refusal::AccessDenied => 13,
            Refusal::Held { .. } => 16,
            Refusal::Exists => 17,
            Refusal::NotDirectory => 20,
            Refusal::IsDirectory => 21,
            Refusal::InvalidArgument | Refusal::InvalidName | Refusal::Because(_) => 22,
            Refusal::TooLarge => 27,
            Refusal::NoSpace => 28,
            Refusal::ReadOnly => 30,
            Refusal::TooManyLinks => 31,
            Refusal::Range => 34,
            Refusal::NameTooLong => 36,
            Refusal::NotEmpty => 39,
            Refusal::NoAttribute => 61,
            Refusal::NotSupported => 95,
            Refusal::Stale => 116,
        }
    }
}

/// How the world failed. Which of the two it is decides what the caller may do next.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// It certainly did not happen.
    #[error("{0}")]
    DidNotHappen(String),
    /// It may have happened; reading back or a receipt tells.
    #[error("it is unknown whether it happened: {0}")]
    Unknown(String),
    /// It was accepted and has its place in the order, but is not durable yet; that is tried again.
    #[error("it was accepted and is not durable yet: {0}")]
    Waits(String),
    /// There is no space left; nothing happened.
    #[error("no space left: {0}")]
    NoSpace(String),
    /// Bytes are not what they were: an object is missing, short or altered. The text names it.
    #[error("corrupt: {0}")]
    Corrupt(String),
    /// What is stored was written by a newer program; nothing is wrong with it. The text names it.
    #[error("{0}")]
    Newer(String),
    /// This process owns the drive no longer, because of a newer epoch or of a lock that has gone; it has stopped for good.
    #[error("this process does not own the drive any more: {0}")]
    Fenced(String),
}

/// What ends the words of every [`Failure::Newer`]: by that a sentence that only brings such words is known.
pub const USE_NEWER: &str = "use a newer tenure";

impl Failure {
    /// Says of `what`, such as an object and its version, that a newer program has written it.
    pub fn newer(what: impl std::fmt::Display) -> Self {
        Failure::Newer(format!("{what}, which this program cannot read: {USE_NEWER}"))
    }

    /// Returns the Linux error number that a program sees.
    pub fn errno(&self) -> i32 {
        match self {
            Failure::NoSpace(_) => 28,
            Failure::Fenced(_) => 116,
            Failure::DidNotHappen(_)
            | Failure::Unknown(_)
            | Failure::Waits(_)
            | Failure::Corrupt(_)
            | Failure::Newer(_) => 5,
        }
    }
}
