//! `tenure status`: how a mount is, as it says itself in `.tenure/status`.

use crate::clock::MachineClock;
use crate::error::Told;
use crate::mounts::{self, Process};
use crate::output;
use crate::waiting::{PATIENCE, Waiting};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use tenure_model::{Clock, counted};
use tenure_store::CacheUsage;

/// The directory in which a mount says how it is, which is in no listing.
pub(crate) const HIDDEN: &str = ".tenure";
/// Where a mount says how it is.
pub(crate) const INSIDE: &str = ".tenure/status";

/// Show how a mount is: what is durable, what is not yet, what it has cost
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure status ~/work\n  tenure status --json\n  cat ~/work/.tenure/status     the same JSON, without this program"
)]
pub(crate) struct Args {
    /// The mounted directory, or something in it [default: every mount of this machine that can be seen]
    dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

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

/// Shows one mount, or all of them.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(dir) = &args.dir else {
        return all(args.json);
    };
    let dir = &mounts::around(dir)?.unwrap_or_else(|| dir.clone());
    if let Some(process) = mounts::process(&mounts::resolved(dir)).filter(|process| process.is_stopped) {
        return Err(Told::failed(
            format!(
                "{} does not answer; process {} is stopped",
                dir.display(),
                process.pid
            ),
            format!("kill -CONT {}", process.pid),
        ));
    }
    let waiting = Waiting::for_mount(dir);
    let mounted = Mounted::at(dir)?;
    drop(waiting);
    if args.json {
        return output::json(&mounted.status);
    }
    show(&mounted.status)
}

/// What one of all mounts has answered.
enum Answer {
    /// How it is.
    Status(Box<Status>),
    /// Nothing yet; the process that serves it, where that is known.
    Silent(Option<Process>),
    /// Why it cannot be asked: it is another user's, or its process has ended.
    Refused(String),
}

fn all(json: bool) -> Result<()> {
    let answers = ask(mounts::all()?);
    if json {
        let values: Result<Vec<_>, _> = answers.iter().map(|(dir, answer)| as_json(dir, answer)).collect();
        return output::json(&values?);
    }
    if answers.is_empty() {
        return output::line(
            "nothing is mounted; `tenure mount DRIVE DIR --create` makes a drive and mounts it",
        );
    }
    let mut table = output::table(["DIR", "DRIVE", "BRANCH", "TIER", "UNSYNCED", "PID"]);
    for (dir, answer) in &answers {
        if let Answer::Status(status) = answer {
            table.add_row(row(dir, status));
        }
    }
    if !table.is_empty() {
        output::rows(&table)?;
    }
    answers
        .iter()
        .filter_map(|(dir, answer)| match answer {
            Answer::Status(_) => None,
            Answer::Silent(process) => Some(format!("{}: {}", dir.display(), silent(*process))),
            Answer::Refused(why) => Some(why.clone()),
        })
        .try_for_each(output::line)
}

/// Asks all mounts side by side; who has not answered after a while is silent.
fn ask(dirs: Vec<PathBuf>) -> Vec<(PathBuf, Answer)> {
    let (say, hear) = channel();
    let mut answers = BTreeMap::new();
    for dir in dirs {
        let process = mounts::process(&dir);
        answers.insert(dir.clone(), Answer::Silent(process));
        // A stopped process is not asked: Linux may hold who asks it until it goes on.
        if process.is_some_and(|process| process.is_stopped) {
            continue;
        }
        let say = say.clone();
        let ask = move || drop(say.send((dir.clone(), Mounted::at(&dir))));
        // Without a thread for it the mount is silent.
        let _ = std::thread::Builder::new().name("asking".into()).spawn(ask);
    }
    drop(say);
    let begun = MachineClock.elapsed();
    loop {
        let left = PATIENCE.saturating_sub(MachineClock.elapsed().saturating_sub(begun));
        match hear.recv_timeout(left) {
            Ok((dir, Ok(mounted))) => {
                answers.insert(dir, Answer::Status(Box::new(mounted.status)));
            }
            Ok((dir, Err(error))) => {
                let hint = Told::hint_of(&error).map_or_else(String::new, |hint| format!(" ({hint})"));
                answers.insert(dir, Answer::Refused(format!("{error}{hint}")));
            }
            Err(_) => return answers.into_iter().collect(),
        }
    }
}

fn silent(process: Option<Process>) -> String {
    match process {
        Some(Process {
            pid,
            is_stopped: true,
        }) => format!("does not answer; process {pid} is stopped (kill -CONT {pid} lets it go on)"),
        Some(Process { pid, .. }) => format!(
            "does not answer; process {pid} runs, and may wait for its server or its disk \
             (ps -o pid,stat,args -C tenure shows who is stopped: T)"
        ),
        None => "does not answer; its process is not known (ps -o pid,stat,args -C tenure shows who is stopped: T)"
            .to_owned(),
    }
}

fn as_json(dir: &Path, answer: &Answer) -> serde_json::Result<serde_json::Value> {
    match answer {
        Answer::Status(status) => serde_json::to_value(status),
        Answer::Silent(process) => Ok(unknown(
            dir,
            process.map(|process| process.pid),
            &silent(*process),
        )),
        Answer::Refused(why) => Ok(unknown(dir, None, why)),
    }
}

fn unknown(dir: &Path, pid: Option<u32>, trouble: &str) -> serde_json::Value {
    serde_json::json!({
        "dir": dir.to_string_lossy(),
        "dir_escaped": escaped(dir),
        "pid": pid,
        "trouble": trouble,
    })
}

fn row(dir: &Path, status: &Status) -> [String; 6] {
    let unsynced = format!(
        "{}, {}",
        counted(status.unsynced.ops, "change"),
        output::bytes(status.unsynced.bytes)
    );
    [
        dir.display().to_string(),
        status.drive.clone(),
        status.branch.clone(),
        status.tier.clone(),
        unsynced,
        status.pid.to_string(),
    ]
}

/// Returns a path that is not UTF-8 with its bytes beyond ASCII as `\\xNN`; JSON has no other way to say it.
pub(crate) fn escaped(dir: &Path) -> Option<String> {
    let is_text = dir.to_str().is_some();
    (!is_text).then(|| dir.as_os_str().as_encoded_bytes().escape_ascii().to_string())
}

fn lossily<S: serde::Serializer>(dir: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&dir.to_string_lossy())
}

fn show(status: &Status) -> Result<()> {
    let mut facts = Vec::new();
    let mode = match (&status.lost, status.read_only) {
        (Some(_), _) => "nothing more is accepted",
        (None, true) => "read-only",
        (None, false) => "exclusive",
    };
    let mut row = |name: &str, value: String| {
        facts.push((name.to_owned(), value));
    };
    row(
        "mount",
        format!("{} at {} ({mode})", named(status), status.dir.display()),
    );
    row(
        "tier",
        format!(
            "{}; unsynced changes follow within {} ms",
            status.tier, status.lag_max_ms
        ),
    );
    row("now", status.durable());
    row("lent", status.delegation.clone());
    row(
        "holds",
        format!(
            "{}, {}",
            counted(status.inodes, "inode"),
            output::bytes(status.bytes)
        ),
    );
    row("memory", format!("{} of pages", output::bytes(status.page_bytes)));
    row(
        "journal",
        format!("{} since the last manifest", output::bytes(status.journal_bytes)),
    );
    status
        .cache
        .iter()
        .for_each(|cache| row("cache", cache.to_string()));
    status.warm.iter().for_each(|warm| row("warm", warm.to_string()));
    row("kernel", counts(&status.requests));
    row("bucket", counts(&status.bucket_requests));
    row(
        "process",
        format!(
            "{}, owner {}",
            status.pid,
            status.owner_pid.map_or("elsewhere".into(), |pid| pid.to_string())
        ),
    );
    status
        .server
        .iter()
        .for_each(|server| row("server", server.clone()));
    status
        .notices
        .iter()
        .for_each(|notice| row("notice", notice.clone()));
    status
        .trouble
        .iter()
        .for_each(|trouble| row("trouble", trouble.clone()));
    output::facts(&facts)
}

impl Status {
    /// Tells whether everything that was changed is durable.
    pub(crate) fn is_durable(&self) -> bool {
        self.unsynced.ops + self.unsynced.bytes == 0
    }

    /// Says how much of what was changed is durable.
    fn durable(&self) -> String {
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
        let at = output::quoted(&self.dir);
        format!(
            "copy what you need out of {at}, where all can still be read; then kill {} && tenure unmount {at}, and mount again",
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

fn named(status: &Status) -> String {
    format!("{}@{}", status.drive, status.branch)
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    let total: u64 = counts.values().sum();
    if total == 0 {
        return "no requests".to_owned();
    }
    let kinds: Vec<_> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    format!("{}: {}", counted(total, "request"), kinds.join(", "))
}
