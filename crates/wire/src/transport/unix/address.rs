//! Where a process listens: short paths, and sockets that nobody listens at any more.
//!
//! Invariant: a path that a socket cannot have is refused in words before anything is made.

use crate::owner::Error;
use crate::transport::stream::Stream;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    sockopt::{Timeout, set_socket_timeout},
};
use std::io;
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
/// that is. Refuses a directory whose own path is too long.
pub fn socket_path(runtime: &Path, place: &[u8]) -> Result<PathBuf, Refusal> {
    let name = &Digest::of(place).to_string()[..NAME_LEN];
    let path = runtime.join(format!("{name}.sock"));
    fits(&path).map(|()| path)
}

/// Listens at a path. A socket that a dead process left there is replaced; where somebody listens it is refused.
pub fn listen(path: &Path) -> Result<UnixListener, Error> {
    fits(path)?;
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            replace(path)?;
            UnixListener::bind(path)
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
    fits(path)?;
    let connected = || {
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        set_socket_timeout(&socket, Timeout::Send, Some(wait))?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok::<_, io::Error>(UnixStream::from(socket).into())
    };
    connected().map_err(|error| {
        let kind = error.kind();
        if matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
            Failure::DidNotHappen(format!("nobody answers at {}", path.display())).into()
        } else if kind == io::ErrorKind::PermissionDenied {
            Refusal::Because(format!("{} belongs to another user", path.display())).into()
        } else {
            failed("connect", path, error)
        }
    })
}

/// Removes a socket that nobody listens at.
fn replace(path: &Path) -> Result<(), Error> {
    let found = std::fs::symlink_metadata(path).map_err(|error| failed("listen", path, error))?;
    if !found.file_type().is_socket() {
        return Err(Refusal::Because(format!(
            "{} is there and is no socket; remove it, or choose another runtime directory",
            path.display()
        ))
        .into());
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| failed("replace the socket", path, error))
        }
        Err(error) => Err(failed("look who listens", path, error)),
        Ok(_) => {
            Err(Refusal::Because(format!("another process listens at {} already", path.display())).into())
        }
    }
}

fn fits(path: &Path) -> Result<(), Refusal> {
    let len = path.as_os_str().len();
    if len <= PATH_LEN_MAX {
        return Ok(());
    }
    Err(Refusal::Because(format!(
        "{} has {len} bytes, but a socket's path has at most {PATH_LEN_MAX}; choose a runtime directory with a shorter path",
        path.display()
    )))
}

fn failed(what: &str, path: &Path, error: impl std::fmt::Display) -> Error {
    Failure::DidNotHappen(format!("cannot {what} at {}: {error}", path.display())).into()
}
