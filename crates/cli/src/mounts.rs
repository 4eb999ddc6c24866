//! The mounts of drives on this machine as the kernel lists them, and the processes that serve them.
//!
//! Invariant: no mount is asked here, so nothing here waits, whatever has become of the process behind a mount; only
//! [`resolved`] and [`around`] walk along a path, and wait where that leads through a mount that does not answer.

use crate::commands::mount;
use crate::reach::MAIN;
use anyhow::{Context, Result};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tenure_model::Ref;

/// Where a process of a mount hears the kernel.
const DEVICE: &str = "/dev/fuse";

/// A process that serves a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Its number.
    pub(crate) pid: u32,
    /// Whether a signal has stopped it.
    pub(crate) is_stopped: bool,
}

/// What is mounted where.
pub(crate) struct Served {
    /// The drive, and its branch or checkpoint.
    pub(crate) what: Ref,
    /// The directory.
    pub(crate) dir: PathBuf,
}

impl Served {
    /// Returns the name of the branch or checkpoint.
    pub(crate) fn branch(&self) -> &str {
        self.what.at.as_deref().unwrap_or(MAIN)
    }
}

impl Process {
    /// Returns the user who runs it.
    pub(crate) fn owner(self) -> Option<u32> {
        Some(std::fs::metadata(format!("/proc/{}", self.pid)).ok()?.uid())
    }
}

/// Returns the directories on which drives are mounted (proc_pid_mountinfo(5)).
pub(crate) fn all() -> Result<Vec<PathBuf>> {
    let text = std::fs::read("/proc/self/mountinfo").context("cannot read the list of mounts")?;
    Ok(of_drives(&text).collect())
}

fn of_drives(mountinfo: &[u8]) -> impl Iterator<Item = PathBuf> {
    mountinfo.split(|&byte| byte == b'\n').filter_map(of_a_drive)
}

/// Returns what is mounted in `dir`, a path without symbolic links, by whomever; the latest first.
pub(crate) fn inside(dir: &Path) -> Result<Vec<PathBuf>> {
    let text = std::fs::read("/proc/self/mountinfo").context("cannot read the list of mounts")?;
    let points = text.split(|&byte| byte == b'\n').filter_map(point).rev();
    Ok(points
        .filter(|point| point != dir && point.starts_with(dir))
        .collect())
}

/// Returns the directory of the drive's mount that a path is in; none where it is in another file system, or not there.
pub(crate) fn around(path: &Path) -> Result<Option<PathBuf>> {
    let at = match found(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // Where its mount lets nobody in, or has ended, the path is in it all the same.
        Ok(_) | Err(_) => resolved(path),
    };
    let text = std::fs::read("/proc/self/mountinfo").context("cannot read the list of mounts")?;
    Ok(innermost(&text, &at))
}

/// Returns where the innermost of all mounts is that a path is in, if that is a drive's.
fn innermost(text: &[u8], path: &Path) -> Option<PathBuf> {
    let lines = text.split(|&byte| byte == b'\n');
    let mounts = lines.filter_map(|line| Some((point(line)?, of_a_drive(line).is_some())));
    // Of those on one directory the last one is seen.
    let (point, is_drive) = mounts
        .filter(|(point, _)| path.starts_with(point))
        .max_by_key(|(point, _)| point.as_os_str().len())?;
    is_drive.then_some(point)
}

/// Returns a directory by its path without symbolic links, or as it is where there is none.
pub(crate) fn resolved(dir: &Path) -> PathBuf {
    found(dir).unwrap_or_else(|_| std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()))
}

fn found(path: &Path) -> std::io::Result<PathBuf> {
    // An O_PATH file is opened without a word to the process behind the mount.
    let fd = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// Finds the process that serves the mount at `dir`, a path without symbolic links.
pub(crate) fn process(dir: &Path) -> Option<Process> {
    let mut serving = processes().filter(|pid| serves(*pid).is_some_and(|served| served.dir == dir));
    serving.next().map(|pid| Process {
        pid,
        is_stopped: is_stopped(pid),
    })
}

/// Returns the directory whose mount a process serves.
pub(crate) fn of(pid: u32) -> Option<PathBuf> {
    let dir = serves(pid)?.dir;
    all().ok()?.contains(&dir).then_some(dir)
}

/// A mount that was taken away while files in it were open, and lives on for who has them.
pub(crate) struct Detached {
    /// Where it was.
    pub(crate) was: Served,
    /// The process that serves it.
    pub(crate) pid: u32,
}

/// Returns the mounts of this machine that were taken away and live on, as far as their processes may be looked at.
pub(crate) fn all_detached() -> Vec<Detached> {
    processes().filter_map(detached).collect()
}

/// Returns the mount that a process serves, if that has been taken away, as that process sees it, and lives on.
pub(crate) fn detached(pid: u32) -> Option<Detached> {
    let was = serves(pid)?;
    let seen = std::fs::read(format!("/proc/{pid}/mountinfo")).ok()?;
    let is_mounted = of_drives(&seen).any(|mounted| mounted == was.dir);
    // Before it mounts and once its mount is gone it does not hear the kernel.
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let mut files = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    let lives = !is_mounted && files.any(|file| file == Path::new(DEVICE));
    lives.then_some(Detached { was, pid })
}

/// Returns the numbers of all processes.
fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Tells whether a signal has stopped a process of this machine.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    state(&stat).is_some_and(|state| matches!(state, b'T' | b't'))
}

/// Says how a process is that somebody waits for, and what helps.
pub(crate) fn how_it_is(pid: u32) -> String {
    if is_stopped(pid) {
        format!("process {pid} is stopped: kill -CONT {pid}")
    } else if is_there(pid) {
        format!("process {pid} runs; it may wait for its server or its disk: ps -o pid,stat,wchan,args {pid}")
    } else {
        format!("process {pid} is not there")
    }
}

/// Tells whether there is a process of that number on this machine.
pub(crate) fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Returns the state in a line of proc_pid_stat(5).
fn state(stat: &[u8]) -> Option<u8> {
    let end_of_name = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(end_of_name + 2).copied()
}

/// Returns what a process was started to serve.
fn serves(pid: u32) -> Option<Served> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let arguments = line.strip_suffix(b"\0")?.split(|&byte| byte == 0).skip(1);
    let served = mount::served_by(arguments.map(|argument| OsString::from_vec(argument.to_vec())))?;
    // Of another user's process only root learns where it was started.
    let started = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    Some(Served {
        dir: started.join(served.dir),
        ..served
    })
}

fn of_a_drive(line: &[u8]) -> Option<PathBuf> {
    let mut fields = line.split(|&byte| byte == b' ');
    let kind = fields.by_ref().skip_while(|field| *field != b"-").nth(1)?;
    (kind == b"fuse.tenure").then(|| point(line)).flatten()
}

/// Returns where a line of mountinfo says that something is mounted.
fn point(line: &[u8]) -> Option<PathBuf> {
    line.split(|&byte| byte == b' ').nth(4).map(unescape)
}

/// Undoes the octal escapes of a path in mountinfo.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
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
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_a_drive_is_found_whatever_its_path_holds() {
        let line =
            b"73 30 0:45 / /tmp/a\\040b\\012c\xff rw,relatime shared:1 - fuse.tenure work rw,user_id=0";
        let path = PathBuf::from(OsString::from_vec(b"/tmp/a b\nc\xff".to_vec()));
        assert_eq!(of_a_drive(line), Some(path));
        assert_eq!(of_a_drive(b"73 30 0:45 / /tmp rw - tmpfs tmpfs rw"), None);
        assert_eq!(of_a_drive(b""), None);
    }

    #[test]
    fn a_path_is_in_the_innermost_mount() {
        let text = b"1 0 0:1 / / rw - ext4 /dev/vda rw\n\
            2 1 0:2 / /m rw - fuse.tenure work rw\n\
            3 2 0:3 / /m/tmp rw - tmpfs tmpfs rw\n\
            4 3 0:4 / /m/tmp/m rw - fuse.tenure other rw\n\
            5 1 0:5 / /over rw - fuse.tenure work rw\n\
            6 5 0:6 / /over rw - tmpfs tmpfs rw\n";
        for (path, dir) in [
            ("/m", Some("/m")),
            ("/m/a/b", Some("/m")),
            ("/mm", None),
            ("/m/tmp/a", None),
            ("/m/tmp/m/a", Some("/m/tmp/m")),
            ("/over", None),
            ("/", None),
        ] {
            assert_eq!(innermost(text, Path::new(path)), dir.map(PathBuf::from), "{path}");
        }
    }

    #[test]
    fn the_state_of_a_process_is_found_behind_any_name() {
        assert_eq!(state(b"42 (a) T (b) S 1 42"), Some(b'S'));
        assert_eq!(state(b"42 (tenure) T 1 42"), Some(b'T'));
        assert_eq!(state(b""), None);
    }
}
