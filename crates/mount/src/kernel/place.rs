//! The directory that a mount is put on, and what is mounted there already.
//!
//! Looks at the directory without asking whatever daemon is mounted on it, except to learn whether that one is alive.
//! Invariant: a [`Place`] is a directory, by its absolute path without symbolic links, with no FUSE mount on it, and nobody
//! else has it at the same time who also may read the directory.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::error::MountError;

/// What to do with files that a mount would hide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contents {
    /// Do not mount.
    #[default]
    Refuse,
    /// Mount over them.
    Hide,
}

/// A directory to mount on, until this goes: whoever finds it next sees what was mounted on it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// The directory, locked; none where the caller may not read it or it cannot be locked.
    _turn: Option<OwnedFd>,
}

/// How often a directory's lock is tried that somebody has, and how long between. A mount takes far less; who has it
/// longer is not mounting, and is not waited for.
const TURN_TRIES: u32 = 200;
const TURN_PAUSE: Duration = Duration::from_millis(10);

/// What is mounted on a directory, as the kernel lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    /// The device number, `major:minor`: no two mounts that live at the same time have the same one.
    pub(super) device: String,
    /// The type of the file system, with its subtype.
    pub(super) kind: String,
}

impl Place {
    /// Returns the place that `dir` names, or why nothing can be mounted there.
    pub(super) fn find(dir: &Path, contents: Contents) -> Result<Place, MountError> {
        let failed = |errno| match errno {
            Errno::NOENT => MountError::Missing(dir.into()),
            Errno::NOTDIR => MountError::NotDirectory(dir.into()),
            Errno::NOTCONN => MountError::Stale(dir.into()),
            Errno::ACCESS | Errno::PERM => MountError::NoAccess {
                dir: dir.into(),
                errno,
            },
            errno => MountError::Refused {
                dir: dir.into(),
                errno,
            },
        };
        // An O_PATH file is opened without a word to the file system that the directory is on.
        let fd = rustix::fs::open(dir, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
            .map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        refuse_mounted(&path)?;
        let turn = take_turn(&fd);
        refuse_mounted(&path)?;
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Err(MountError::NotDirectory(path));
        }
        if contents == Contents::Refuse && std::fs::read_dir(&path).is_ok_and(|mut dir| dir.next().is_some())
        {
            return Err(MountError::NotEmpty(path));
        }
        Ok(Place { path, _turn: turn })
    }

    /// Gives the place up, for its path.
    pub(super) fn into_path(self) -> PathBuf {
        self.path
    }
}

/// Refuses a directory, by its absolute path without symbolic links, with a FUSE mount on it, alive or dead.
pub fn refuse_mounted(path: &Path) -> Result<(), MountError> {
    if mounted(path).is_none_or(|mounted| !mounted.kind.starts_with("fuse")) {
        return Ok(());
    }
    Err(
        match rustix::fs::statx(CWD, path, AtFlags::STATX_FORCE_SYNC, StatxFlags::MODE) {
            Err(Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED) => MountError::Stale(path.into()),
            _ => MountError::Busy(path.into()),
        },
    )
}

/// Locks the directory that `dir` stands for, not what is mounted on it meanwhile.
fn take_turn(dir: &OwnedFd) -> Option<OwnedFd> {
    let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let turn = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    for _ in 0..TURN_TRIES {
        match rustix::fs::flock(&turn, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(turn),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(TURN_PAUSE),
            Err(_) => return None,
        }
    }
    None
}

/// Returns what is mounted on `path` (on top, where there are several), which is absolute and without symbolic links.
pub(super) fn mounted(path: &Path) -> Option<Mounted> {
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    mounts.split(|&byte| byte == b'\n').rev().find_map(|line| {
        let (point, mounted) = parse(line)?;
        (point == path).then_some(mounted)
    })
}

/// Returns where a mount is now that was made at `path`: elsewhere, where a directory above it was renamed. None where it is gone, or
/// something else was mounted over it.
pub(super) fn now_at(path: &Path, device: &str) -> Option<PathBuf> {
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    let ours = mounts.split(|&byte| byte == b'\n').filter_map(parse);
    let ours: Vec<_> = ours
        .filter(|(_, mounted)| mounted.device == device)
        .map(|(point, _)| point)
        .collect();
    let point = ours.iter().find(|point| *point == path).or(ours.first())?;
    let is_on_top = mounted(point).is_some_and(|mounted| mounted.device == device);
    is_on_top.then(|| point.clone())
}

/// Returns the mount point and the mount of one line of proc_pid_mountinfo(5).
fn parse(line: &[u8]) -> Option<(PathBuf, Mounted)> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = fields.nth(2)?;
    let point = fields.nth(1)?;
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let point = PathBuf::from(std::ffi::OsString::from_vec(unescape(point)));
    Some((
        point,
        Mounted {
            device: text(device),
            kind: text(kind),
        },
    ))
}

/// Undoes the octal escapes of a path in mountinfo.
fn unescape(path: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let escaped = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[3..] } else { tail };
    }
    bytes
}

/// Returns `path` as an argument of a program that takes what begins with `-` for an option.
pub(super) fn argument(path: &Path) -> PathBuf {
    if path.as_os_str().as_bytes().starts_with(b"-") {
        Path::new(".").join(path)
    } else {
        path.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_taken_apart() {
        let line = b"36 35 0:53 / /mnt/a\\040b\\134c rw,nosuid shared:1 master:2 - fuse.tenure drive@main rw,user_id=0";
        let expected = Mounted {
            device: "0:53".into(),
            kind: "fuse.tenure".into(),
        };
        assert_eq!(parse(line), Some((PathBuf::from("/mnt/a b\\c"), expected)));
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn a_place_must_be_an_empty_directory() {
        let dir = std::env::temp_dir().join(format!("tenure-place-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("full/inner")).expect("a directory can be made");
        std::fs::write(dir.join("file"), "").expect("a file can be made");
        let find = |name: &str, contents| Place::find(&dir.join(name), contents);
        assert!(matches!(
            find("none", Contents::Refuse),
            Err(MountError::Missing(_))
        ));
        assert!(matches!(
            find("file", Contents::Refuse),
            Err(MountError::NotDirectory(_))
        ));
        assert!(matches!(
            find("file/x", Contents::Refuse),
            Err(MountError::NotDirectory(_))
        ));
        assert!(matches!(
            find("full", Contents::Refuse),
            Err(MountError::NotEmpty(_))
        ));
        assert!(find("full", Contents::Hide).is_ok());
        assert!(find("full/inner", Contents::Refuse).is_ok());
        std::fs::remove_dir_all(dir).expect("they can be removed");
    }
}
