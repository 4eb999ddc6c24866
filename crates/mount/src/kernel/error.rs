//! Why a mount or an unmount did not happen, in words for the person who asked for it.
//!
//! Each says what, where and what to do about it.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Why there is no mount.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel or the machine has no FUSE.
    #[error(
        "this machine has no FUSE (/dev/fuse: {0}): install the package fuse3, load the module with `modprobe fuse`, or give the container /dev/fuse"
    )]
    NoFuse(Errno),
    /// The directory does not exist.
    #[error("the mount point {0:?} does not exist: make it with `mkdir`")]
    Missing(PathBuf),
    /// It is something else.
    #[error("the mount point {0:?} is not a directory")]
    NotDirectory(PathBuf),
    /// There are files in it, which the mount would hide.
    #[error("the mount point {0:?} is not empty: its files would be hidden; choose an empty directory")]
    NotEmpty(PathBuf),
    /// A FUSE file system is mounted there already.
    #[error("{0:?} is a mounted file system already: unmount that first")]
    Busy(PathBuf),
    /// The daemon of what is mounted there has died.
    #[error("a mount whose process has died is on {0:?}: unmount that first")]
    Stale(PathBuf),
    /// The caller may not look at the directory.
    #[error("no permission for the mount point {dir:?}: {errno}")]
    NoAccess {
        /// The mount point.
        dir: PathBuf,
        /// What the system said.
        errno: Errno,
    },
    /// Neither the kernel nor fusermount3 let the caller mount.
    #[error("mounting needs root or the program fusermount3 (package fuse3): {0}")]
    NotPermitted(Errno),
    /// fusermount3 refused.
    #[error("fusermount3 did not mount {dir:?}: {message}")]
    Fusermount {
        /// The mount point.
        dir: PathBuf,
        /// What it printed.
        message: String,
    },
    /// The kernel refused for another reason.
    #[error("mounting on {dir:?} failed: {errno}")]
    Refused {
        /// The mount point.
        dir: PathBuf,
        /// What the system said.
        errno: Errno,
    },
    /// The kernel's FUSE is too old or from the future.
    #[error("the kernel speaks FUSE {major}.{minor}; this program needs 7.31 or newer (Linux 5.4)")]
    Protocol {
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// The first exchange with the kernel failed.
    #[error("the kernel did not begin the mount: {0}")]
    Handshake(Errno),
    /// No thread could be started.
    #[error("a thread of the mount could not be started")]
    Thread(#[source] io::Error),
}

/// Why something is still mounted.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// Nothing is mounted there.
    #[error("nothing is mounted on {0:?}")]
    NotMounted(PathBuf),
    /// Files in it are open, or programs stand in it.
    #[error(
        "{0:?} is in use: close what has files open in it (`fuser -vm {0:?}` shows who), or unmount lazily"
    )]
    Busy(PathBuf),
    /// The caller may not unmount it.
    #[error("no permission to unmount {dir:?}: {message}")]
    NotPermitted {
        /// The mount point.
        dir: PathBuf,
        /// What fusermount3 printed, or that there is none.
        message: String,
    },
    /// The kernel refused for another reason.
    #[error("unmounting {dir:?} failed: {errno}")]
    Refused {
        /// The mount point.
        dir: PathBuf,
        /// What the system said.
        errno: Errno,
    },
}
