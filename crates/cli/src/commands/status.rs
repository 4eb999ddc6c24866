//! `tenure status`: how a mount is, as it says itself in `.tenure/status`.

use crate::error::Told;
use crate::output;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where a mount says how it is.
const INSIDE: &str = ".tenure/status";

/// Show how a mount is: what is durable, what is not yet, what it has cost
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure status ~/work\n  tenure status --json\n  cat ~/work/.tenure/status     the same JSON, without this program"
)]
pub(crate) struct Args {
    /// The mounted directory [default: every mount of this machine that can be seen]
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
    pub(crate) dir: PathBuf,
    /// Whether nothing can be changed.
    pub(crate) read_only: bool,
    /// The process that serves it.
    pub(crate) pid: u32,
    /// The process that owns the drive; the same where the mount hosts it.
    pub(crate) owner_pid: Option<u32>,
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
    /// What the owner found when it took the drive over.
    pub(crate) notices: Vec<String>,
    /// What went wrong and still is.
    pub(crate) trouble: Option<String>,
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
            format!("tenure unmount {shown}, then mount it again: everything that was synced is there"),
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
    if let Some(dir) = &args.dir {
        let mounted = Mounted::at(dir)?;
        if args.json {
            return output::json(&mounted.status);
        }
        show(&mounted.status);
        return Ok(());
    }
    let all: Vec<_> = mounts()?
        .iter()
        .filter_map(|dir| Mounted::at(dir).ok())
        .map(|mounted| mounted.status)
        .collect();
    if args.json {
        return output::json(&all);
    }
    if all.is_empty() {
        println!("nothing is mounted; `tenure mount DRIVE DIR --create` makes a drive and mounts it");
        return Ok(());
    }
    let mut table = output::table(["DIR", "DRIVE", "BRANCH", "TIER", "UNSYNCED", "PID"]);
    for status in &all {
        let unsynced = format!(
            "{} changes, {}",
            status.unsynced.ops,
            output::bytes(status.unsynced.bytes)
        );
        table.add_row([
            status.dir.display().to_string(),
            status.drive.clone(),
            status.branch.clone(),
            status.tier.clone(),
            unsynced,
            status.pid.to_string(),
        ]);
    }
    println!("{table}");
    Ok(())
}

/// Returns the directories on which drives are mounted, as the kernel lists them (proc_pid_mountinfo(5)).
fn mounts() -> Result<Vec<PathBuf>> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").context("cannot read the list of mounts")?;
    Ok(text.lines().filter_map(mount_of_a_drive).collect())
}

fn mount_of_a_drive(line: &str) -> Option<PathBuf> {
    let (place, kind) = line.split_once(" - ")?;
    let is_ours = kind.starts_with("fuse.tenure ");
    is_ours.then(|| unescape(place.split(' ').nth(4).unwrap_or_default()))
}

/// Undoes the octal escapes of a path in mountinfo.
fn unescape(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| behind.get(..3)).flatten();
        let value = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match value {
            Some(value) => {
                bytes.push(value);
                rest = &behind[3..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

fn show(status: &Status) {
    let mut table = output::table(["", ""]);
    let durable = match status.unsynced.ops + status.unsynced.bytes {
        0 => "everything is durable".to_owned(),
        _ => format!(
            "{} changes and {} are not durable yet; the oldest is {} ms old",
            status.unsynced.ops,
            output::bytes(status.unsynced.bytes),
            status.unsynced.age_ms
        ),
    };
    let mode = if status.read_only {
        "read-only"
    } else {
        "exclusive"
    };
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
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
    row("now", durable);
    row("lent", status.delegation.clone());
    row(
        "holds",
        format!("{} inodes, {}", status.inodes, output::bytes(status.bytes)),
    );
    row("memory", format!("{} of pages", output::bytes(status.page_bytes)));
    row(
        "journal",
        format!("{} since the last manifest", output::bytes(status.journal_bytes)),
    );
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
        .notices
        .iter()
        .for_each(|notice| row("notice", notice.clone()));
    status
        .trouble
        .iter()
        .for_each(|trouble| row("trouble", trouble.clone()));
    println!("{table}");
}

fn named(status: &Status) -> String {
    format!("{}@{}", status.drive, status.branch)
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    let total: u64 = counts.values().sum();
    let kinds: Vec<_> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    format!("{total} requests: {}", kinds.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_a_drive_is_found_whatever_its_path_holds() {
        let line = r"73 30 0:45 / /tmp/a\040b\012c rw,relatime shared:1 - fuse.tenure work rw,user_id=0";
        assert_eq!(mount_of_a_drive(line), Some(PathBuf::from("/tmp/a b\nc")));
        assert_eq!(mount_of_a_drive("73 30 0:45 / /tmp rw - tmpfs tmpfs rw"), None);
    }
}
