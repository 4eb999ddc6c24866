//! mount(2) and umount2(2) of a FUSE file system, by our own right or by fusermount3's.
//!
//! Gets the open device of a new mount; what is said on it is not known here. Invariant: whoever gets an error has nothing
//! mounted.

use std::ffi::CString;
use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair,
};

use super::channel::open_device;
use super::error::{MountError, UnmountError};
use super::place::{Place, argument};
use super::session::Options;

/// The program that mounts for users who are not root.
const FUSERMOUNT: &str = "fusermount3";

/// How to unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Only if nobody uses it.
    Idle,
    /// Take it out of the tree now, and end it when the last user goes.
    Detach,
    /// Abort all requests as well; their callers get ECONNABORTED. What the kernel had not yet written is lost.
    Force,
}

/// Mounts a FUSE file system on `place` and returns its device.
pub(super) fn attach(options: &Options, place: &Place) -> Result<OwnedFd, MountError> {
    let refused = match open_device() {
        Ok(fd) => match mount(options, place, &fd) {
            Ok(()) => return Ok(fd),
            Err(errno) => errno,
        },
        Err(errno @ (Errno::NOENT | Errno::NXIO | Errno::NODEV)) => return Err(MountError::NoFuse(errno)),
        Err(errno) => errno,
    };
    match refused {
        Errno::PERM | Errno::ACCESS => by_fusermount(options, place, refused),
        Errno::NODEV => Err(MountError::NoFuse(refused)),
        Errno::BUSY => Err(MountError::Busy(place.path.clone())),
        errno => Err(MountError::Refused {
            dir: place.path.clone(),
            errno,
        }),
    }
}

fn mount(options: &Options, place: &Place, fd: &OwnedFd) -> Result<(), Errno> {
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NOSUID | MountFlags::NODEV, !options.suid_and_devices);
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let mut data = format!(
        "fd={},rootmode={:o},user_id={uid},group_id={gid}",
        fd.as_raw_fd(),
        libc::S_IFDIR
    );
    for option in shared_options(options) {
        data.push(',');
        data.push_str(&option);
    }
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let kind = format!("fuse.{}", options.subtype);
    rustix::mount::mount(
        options.source.as_str(),
        &place.path,
        kind.as_str(),
        flags,
        data.as_c_str(),
    )
}

/// The options that the kernel and fusermount3 both know by the same names.
fn shared_options(options: &Options) -> Vec<String> {
    let mut words = Vec::new();
    if options.allow_other {
        words.push("allow_other".into());
    }
    if options.default_permissions {
        words.push("default_permissions".into());
    }
    if let Some(max_read) = options.max_read {
        words.push(format!("max_read={max_read}"));
    }
    words
}

fn by_fusermount(options: &Options, place: &Place, refused: Errno) -> Result<OwnedFd, MountError> {
    let failed = |message: String| MountError::Fusermount {
        dir: place.path.clone(),
        message,
    };
    let io = |error: &dyn std::fmt::Display| failed(error.to_string());
    let mut words = shared_options(options);
    if options.read_only {
        words.push("ro".into());
    }
    words.push(format!("fsname={}", escape(&options.source)));
    words.push(format!("subtype={}", escape(&options.subtype)));
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|errno| io(&errno))?;
    let mut command = Command::new(FUSERMOUNT);
    command.arg("-o").arg(words.join(",")).arg("--").arg(&place.path);
    // Its end of the socket is its standard input, so that no other program that is started meanwhile inherits it.
    command
        .env("_FUSE_COMMFD", "0")
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        if missing {
            MountError::NotPermitted(refused)
        } else {
            io(&error)
        }
    })?;
    // Ours is now the only end that would keep the socket open.
    drop(command);
    let received = receive_fd(&ours);
    let mut message = String::new();
    if let Some(stderr) = child.stderr.as_mut() {
        let _ = stderr.read_to_string(&mut message);
    }
    let status = child.wait().map_err(|error| io(&error))?;
    match received {
        Ok(Some(fd)) if status.success() => Ok(fd),
        Err(errno) => Err(io(&errno)),
        Ok(_) => Err(failed(message.trim().to_owned())),
    }
}

/// Commas and backslashes end an option's value unless a backslash stands before them.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,")
}

fn receive_fd(socket: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    rustix::io::retry_on_intr(|| recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC))?;
    let fd = ancillary.drain().find_map(|message| {
        let RecvAncillaryMessage::ScmRights(mut fds) = message else {
            return None;
        };
        fds.next()
    });
    Ok(fd)
}

/// Unmounts what is mounted on `dir`, alive or dead.
pub fn unmount(dir: &Path, how: Unmount) -> Result<(), UnmountError> {
    let flags = UnmountFlags::NOFOLLOW
        | match how {
            Unmount::Idle => UnmountFlags::empty(),
            Unmount::Detach => UnmountFlags::DETACH,
            Unmount::Force => UnmountFlags::FORCE | UnmountFlags::DETACH,
        };
    match rustix::mount::unmount(dir, flags) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => unmount_by_fusermount(dir, how),
        Err(Errno::BUSY) => Err(UnmountError::Busy(dir.into())),
        Err(Errno::INVAL | Errno::NOENT) => Err(UnmountError::NotMounted(dir.into())),
        Err(errno) => Err(UnmountError::Refused {
            dir: dir.into(),
            errno,
        }),
    }
}

fn unmount_by_fusermount(dir: &Path, how: Unmount) -> Result<(), UnmountError> {
    let not_permitted = |message| UnmountError::NotPermitted {
        dir: dir.into(),
        message,
    };
    let dir_argument: PathBuf = argument(dir);
    let mut command = Command::new(FUSERMOUNT);
    command.arg("-u");
    if how != Unmount::Idle {
        command.arg("-z");
    }
    let output = command.arg("--").arg(dir_argument).stdin(Stdio::null()).output();
    let output = output.map_err(|error| not_permitted(format!("{FUSERMOUNT} (package fuse3): {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if message.ends_with("Device or resource busy") {
        return Err(UnmountError::Busy(dir.into()));
    }
    Err(not_permitted(message))
}
