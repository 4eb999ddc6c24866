//! Where a process listens, however long the path to it is, and sockets that nobody listens at any more.
//!
//! Invariant: a name that a socket cannot have is refused in words before anything is made.

use crate::owner::Error;
use crate::transport::stream::Stream;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    sockopt::{Timeout, set_socket_timeout},
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tenure_model::{Digest, Failure, Refusal};

/// Bytes in a socket's path (`sun_path` in `sys/un.h`, less its NUL).
const PATH_LEN_MAX: usize = 107;
/// Hexadecimal digits in the name of a socket: enough that no two places of one machine have the same.
const NAME_LEN: usize = 16;

/// Returns the path in `runtime`, a directory of the user's own, of the socket for whatever `place` names, however long
/// that is.
pub fn socket_path(runtime: &Path, place: &[u8]) -> PathBuf {
    let name = &Digest::of(place).to_string()[..NAME_LEN];
    runtime.join(format!("{name}.sock"))
}

/// Listens at a path. A socket that a dead process left there is replaced; where somebody listens it is refused.
pub fn listen(path: &Path) -> Result<UnixListener, Error> {
    let short = Short::of(path)?;
    let listener = match UnixListener::bind(&short.path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            replace(path, &short)?;
            UnixListener::bind(&short.path)
        }
        bound => bound,
    };
    let listener = listener.map_err(|error| failed("listen", path, error))?;
    // Whoever connects is looked at too; this keeps others from trying.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(|error| failed("listen", path, error))?;
    Ok(listener)
}

/// Connects to a path, and waits at most `wait` where the listener is busy or stopped.
pub fn dial(path: &Path, wait: Duration) -> Result<Stream, Error> {
    let short = Short::of(path)?;
    let connected = || {
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        set_socket_timeout(&socket, Timeout::Send, Some(wait))?;
        connect(&socket, &SocketAddrUnix::new(&short.path)?)?;
        Ok::<_, io::Error>(UnixStream::from(socket).into())
    };
    connected().map_err(|error| {
        let kind = error.kind();
        if matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
            nobody_at(path)
        } else if kind == io::ErrorKind::PermissionDenied {
            Refusal::Because(format!("{} belongs to another user", path.display())).into()
        } else {
            failed("connect", path, error)
        }
    })
}

/// Returns the process that listens at a path, if one does.
pub fn listener(path: &Path) -> Option<u32> {
    let short = Short::of(path).ok()?;
    let stream = UnixStream::connect(&short.path).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

/// Removes a socket that nobody listens at.
fn replace(path: &Path, short: &Short) -> Result<(), Error> {
    let found = std::fs::symlink_metadata(path).map_err(|error| failed("listen", path, error))?;
    if !found.file_type().is_socket() {
        return Err(Refusal::Because(format!(
            "{} is there and is no socket; remove it, or choose another runtime directory",
            path.display()
        ))
        .into());
    }
    match UnixStream::connect(&short.path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| failed("replace the socket", path, error))
        }
        Err(error) => Err(failed("look who listens", path, error)),
        Ok(_) => {
            Err(Refusal::Because(format!("another process listens at {} already", path.display())).into())
        }
    }
}

/// A path that a socket can have: its own, or one by way of its directory, which is held open.
struct Short {
    path: PathBuf,
    _directory: Option<OwnedFd>,
}

impl Short {
    fn of(path: &Path) -> Result<Self, Error> {
        if path.as_os_str().len() <= PATH_LEN_MAX {
            return Ok(Self {
                path: path.to_owned(),
                _directory: None,
            });
        }
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(too_long(path).into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(above, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT | Errno::NOTDIR => nobody_at(path),
            errno => failed("find the socket", path, errno),
        })?;
        let own = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string());
        let short = own.join(name);
        if short.as_os_str().len() > PATH_LEN_MAX {
            return Err(too_long(path).into());
        }
        Ok(Self {
            path: short,
            _directory: Some(directory),
        })
    }
}

fn too_long(path: &Path) -> Refusal {
    Refusal::Because(format!(
        "the name of the socket {} is too long: a socket's path has at most {PATH_LEN_MAX} bytes; choose a shorter name",
        path.display()
    ))
}

fn nobody_at(path: &Path) -> Error {
    Failure::DidNotHappen(format!("nobody answers at {}", path.display())).into()
}

fn failed(what: &str, path: &Path, error: impl std::fmt::Display) -> Error {
    Failure::DidNotHappen(format!("cannot {what} at {}: {error}", path.display())).into()
}
