//! What a mount says of itself in `.tenure/status`, and whoever asks it.

use crate::error::Told;
use crate::mounts;
use crate::output;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tenure_model::counted;
use tenure_store::CacheUsage;

/// The directory in which a mount says how it is, which is in no listing.
pub(crate) const HIDDEN: &str = ".tenure";
/// Where a mount says how it is.
pub(crate) const INSIDE: &str = ".tenure/status";

/// The longest that a mount waits for its owner to say how it is.
pub(crate) const OWNER_ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long a mount may take to say how it is when all are asked: it may wait for its owner.
pub(crate) const ANSWER_MAX: Duration = OWNER_ANSWER_MAX.saturating_add(Duration::from_secs(1));

/// What a mount says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    /// The version of the program that serves it.
    pub(crate) version: String,
    /// The drive.
    pub(crate) drive: String,
    /// The branch or checkpoint.
    pub(crate) branch: String,
    /// The directory that it is mounted on.
    #[serde(serialize_with = "lossily")]
    pub(crate) dir: PathBuf,
    /// The same with escapes, where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dir_escaped: Option<String>,
    /// Whether nothing can be changed.
    pub(crate) read_only: bool,
    /// Whether the branch is shared with other sessions.
    #[serde(default)]
    pub(crate) shared: bool,
    /// Whether the branch changes only by accepted reviews.
    #[serde(default)]
    pub(crate) protected: bool,
    /// The branch into which this one is accepted, where it waits for a review.
    #[serde(default)]
    pub(crate) staged_for: Option<String>,
    /// The process that serves it.
    pub(crate) pid: u32,
    /// The process that owns the drive; the same where the mount hosts it.
    pub(crate) owner_pid: Option<u32>,
    /// The servers that were named, where the drive is reached through them.
    #[serde(default)]
    pub(crate) server: Option<String>,
    /// Where a sync must be before it is acknowledged.
    pub(crate) tier: String,
    /// The drive's epoch.
    pub(crate) epoch: u64,
    /// The session that holds the branch.
    pub(crate) session: u64,
    /// What is lent: the branch whole, or nothing.
    pub(crate) delegation: String,
    /// What is not durable yet.
    pub(crate) unsynced: Unsynced,
    /// The longest time between a change and its durability when nobody syncs, in milliseconds.
    pub(crate) lag_max_ms: u64,
    /// Inodes of the branch.
    pub(crate) inodes: u64,
    /// Bytes of files that are not holes.
    pub(crate) bytes: u64,
    /// Bytes of the tree's pages in memory.
    pub(crate) page_bytes: u64,
    /// Bytes of records since the last manifest.
    pub(crate) journal_bytes: u64,
    /// Requests of the kernel so far, by kind.
    pub(crate) requests: BTreeMap<String, u64>,
    /// Requests to the bucket so far, by kind.
    pub(crate) bucket_requests: BTreeMap<String, u64>,
    /// What is kept on this machine of what was read, where the bucket is elsewhere.
    #[serde(default)]
    pub(crate) cache: Option<CacheStatus>,
    /// What is brought before it is asked for, where that was wanted.
    #[serde(default)]
    pub(crate) warm: Option<Warm>,
    /// What the owner found when it took the drive over.
    pub(crate) notices: Vec<String>,
    /// Why nothing that is not durable by now ever will be, if so.
    #[serde(default)]
    pub(crate) lost: Option<String>,
    /// What went wrong and still is.
    pub(crate) trouble: Option<String>,
}

/// How a cache does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CacheStatus {
    /// Its folder; none where nothing is kept on disk.
    pub(crate) dir: Option<PathBuf>,
    /// Bytes that the folder may hold.
    pub(crate) limit: u64,
    /// Bytes that it holds, of all mounts and servers.
    pub(crate) bytes: u64,
    /// Reads of this mount.
    pub(crate) reads: u64,
    /// Those of them for which nothing was fetched.
    pub(crate) hits: u64,
    /// Bytes that this mount has fetched.
    pub(crate) fetched: u64,
}

/// How far it is what is brought before it is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Warm {
    /// What is brought, in words.
    pub(crate) what: String,
    /// Files and directories that were found so far.
    pub(crate) found: u64,
    /// Those that were brought.
    pub(crate) done: u64,
    /// Bytes of contents that were brought.
    pub(crate) bytes: u64,
    /// Whether nothing more comes.
    pub(crate) is_over: bool,
}

/// What is not durable yet.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Unsynced {
    /// Changes.
    pub(crate) ops: u64,
    /// Bytes of contents.
    pub(crate) bytes: u64,
    /// Age of the oldest, in milliseconds.
    pub(crate) age_ms: u64,
}

/// A mount that answers.
pub(crate) struct Mounted {
    /// What it says of itself.
    pub(crate) status: Status,
}

impl Mounted {
    /// Asks the mount at `dir`, or refuses with what is there instead.
    pub(crate) fn at(dir: &Path) -> Result<Self> {
        let path = dir.join(INSIDE);
        let text = std::fs::read(&path).map_err(|error| refused(dir, &error))?;
        let status = serde_json::from_slice(&text)
            .with_context(|| format!("{} is not what a mount of this version writes", path.display()))?;
        Ok(Mounted { status })
    }
}

fn refused(dir: &Path, error: &std::io::Error) -> anyhow::Error {
    const ENOTCONN: i32 = 107;
    let shown = dir.display();
    if error.raw_os_error() == Some(ENOTCONN) {
        return Told::refused(
            format!("the process that served {shown} has ended"),
            format!(
                "tenure unmount {}, then mount it again: everything that was synced is there",
                output::quoted(dir)
            ),
        );
    }
    if error.kind() == ErrorKind::PermissionDenied
        && let Some(owner) = mounts::process(&mounts::resolved(dir)).and_then(|process| process.owner())
    {
        return Told::refused(
            format!(
                "{shown} is a mount of user {owner}: without --allow-other Linux lets nobody else in, not even root"
            ),
            format!(
                "as that user: sudo -u '#{owner}' tenure status {} (or sync, or unmount)",
                output::quoted(dir)
            ),
        );
    }
    match std::fs::metadata(dir) {
        Ok(_) => Told::refused(
            format!("{shown} is not a mount of a drive"),
            "tenure status lists the mounts",
        ),
        Err(error) => Told::refused(format!("{shown}: {error}"), "tenure status lists the mounts"),
    }
}

impl Status {
    /// Tells whether everything that was changed is durable.
    pub(crate) fn is_durable(&self) -> bool {
        self.unsynced.ops + self.unsynced.bytes == 0
    }

    /// Says how much of what was changed is durable.
    pub(crate) fn durable(&self) -> String {
        let left = self.unsynced.to_string();
        match (&self.lost, self.is_durable()) {
            (None, true) => "everything is durable".to_owned(),
            (None, false) => format!(
                "{left} are not durable yet; the oldest is {} ms old",
                self.unsynced.age_ms
            ),
            (Some(_), true) => "nothing more is accepted; everything that was is durable".to_owned(),
            (Some(_), false) => {
                format!("nothing more is accepted, and {left} are not durable and are lost with this mount")
            }
        }
    }

    /// Says how a mount is ended whose changes cannot be made durable.
    pub(crate) fn how_to_give_up(&self) -> String {
        if self.shared {
            // It asks the owner for what it shows, and is answered no more.
            return format!(
                "kill {}, which unmounts it, and mount again: what it had told the drive's owner is in the branch",
                self.pid
            );
        }
        let at = output::quoted(&self.dir);
        format!(
            "copy what you need out of {at} and out of its other branches, all of which can still be read, and only then kill {}, which unmounts it: where a file of the bucket was removed, the drive cannot be opened again before that is put back",
            self.pid
        )
    }
}

impl CacheStatus {
    pub(crate) fn of(usage: &CacheUsage) -> Self {
        Self {
            dir: usage.folder.clone(),
            limit: usage.limit,
            bytes: usage.bytes,
            reads: usage.reads,
            hits: usage.hits,
            fetched: usage.fetched,
        }
    }
}

impl fmt::Display for CacheStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.dir {
            Some(dir) => {
                let (bytes, limit) = (output::bytes(self.bytes), output::bytes(self.limit));
                write!(f, "{bytes} of {limit} in {}; ", dir.display())?;
            }
            None => write!(f, "in memory alone; ")?,
        }
        let (hits, reads, fetched) = (self.hits, self.reads, output::bytes(self.fetched));
        write!(f, "{hits} of {reads} reads found all there, {fetched} fetched")
    }
}

impl fmt::Display for Warm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (done, found, bytes) = (self.done, self.found, output::bytes(self.bytes));
        let how_far = if self.is_over { "brought" } else { "is brought" };
        write!(
            f,
            "{} {how_far}: {done} of {found} files and directories, {bytes}",
            self.what
        )
    }
}

impl fmt::Display for Unsynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} and {}",
            counted(self.ops, "change"),
            output::bytes(self.bytes)
        )
    }
}

/// Returns a path that is not UTF-8 with its bytes beyond ASCII as `\\xNN`; JSON has no other way to say it.
pub(crate) fn escaped(dir: &Path) -> Option<String> {
    let is_text = dir.to_str().is_some();
    (!is_text).then(|| dir.as_os_str().as_encoded_bytes().escape_ascii().to_string())
}

fn lossily<S: serde::Serializer>(dir: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&dir.to_string_lossy())
}
