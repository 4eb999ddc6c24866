//! A stream of bytes to another process, whatever carries it: a unix socket, or a WebSocket.
//!
//! One thread reads. Any may write, one at a time. Invariant: bytes that were taken arrive in their order, or the stream
//! has failed.

use super::address::ServerAddress;
use super::peer::Peer;
use super::web::WebStream;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::io::{self, IoSlice, Read};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tenure_model::Refusal;

/// A connected stream to another process.
pub struct Stream {
    carrier: Carrier,
    at: Option<ServerAddress>,
}

enum Carrier {
    Unix(UnixStream),
    Web(Box<WebStream>),
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        Self {
            carrier: Carrier::Unix(stream),
            at: None,
        }
    }
}

impl From<WebStream> for Stream {
    fn from(stream: WebStream) -> Self {
        Self {
            carrier: Carrier::Web(Box::new(stream)),
            at: None,
        }
    }
}

impl Stream {
    /// Says to which server it leads.
    pub(super) fn to(self, at: &ServerAddress) -> Self {
        let at = Some(at.clone());
        Self { at, ..self }
    }

    /// Returns the server to which it leads, where that was dialled by its address.
    pub(super) fn at(&self) -> Option<&ServerAddress> {
        self.at.as_ref()
    }

    /// Tells who is at the other end; refuses who may not speak.
    pub(super) fn peer(&self) -> Result<Peer, Refusal> {
        match &self.carrier {
            Carrier::Unix(stream) => Peer::of(stream),
            Carrier::Web(_) => Ok(Peer::Far),
        }
    }

    /// Sets how long a read waits before it fails with `WouldBlock`.
    pub(super) fn set_read_timeout(&self, wait: Option<Duration>) -> io::Result<()> {
        match &self.carrier {
            Carrier::Unix(stream) => stream.set_read_timeout(wait),
            Carrier::Web(stream) => stream.set_read_timeout(wait),
        }
    }

    /// Takes some of the bytes, at least one, and returns how many; waits at most `wait` for room, and then fails with
    /// `WouldBlock`.
    pub(super) fn send(&self, parts: &[IoSlice<'_>], wait: Duration) -> io::Result<usize> {
        match &self.carrier {
            Carrier::Unix(stream) => send_now(stream, parts, wait),
            Carrier::Web(stream) => stream.send(parts, wait),
        }
    }

    /// Hands what was taken to the kernel; waits at most `wait` for room, and then fails with `WouldBlock`.
    pub(super) fn flush(&self, wait: Duration) -> io::Result<()> {
        match &self.carrier {
            Carrier::Unix(_) => Ok(()),
            Carrier::Web(stream) => stream.flush(wait),
        }
    }

    /// Sends all of the bytes; waits at most `wait` for room, each time.
    pub(super) fn send_all(&self, mut parts: &mut [IoSlice<'_>], wait: Duration) -> io::Result<()> {
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let len = self.send(parts, wait)?;
            IoSlice::advance_slices(&mut parts, len);
        }
        self.flush(wait)
    }

    /// Ends one direction or both, also for who waits.
    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match &self.carrier {
            Carrier::Unix(stream) => stream.shutdown(how),
            Carrier::Web(stream) => stream.shutdown(how),
        }
    }

    /// Returns what is between here and a far process, to learn whether it is still there; none for one of this machine:
    /// the kernel tells of its end.
    pub(super) fn far(&self) -> Option<&WebStream> {
        match &self.carrier {
            Carrier::Unix(_) => None,
            Carrier::Web(stream) => Some(stream),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match &self.carrier {
            Carrier::Unix(stream) => (&*stream).read(out),
            Carrier::Web(stream) => stream.read(out),
        }
    }
}

/// Hands as many bytes to the kernel as there is room for, once there is any.
pub(super) fn send_now(socket: impl AsFd, parts: &[IoSlice<'_>], wait: Duration) -> io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        match sendmsg(&socket, parts, &mut SendAncillaryBuffer::default(), flags) {
            Ok(len) => return Ok(len),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if has_room(&socket, wait) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until there is room in a socket, at most `wait`.
pub(super) fn has_room(socket: impl AsFd, wait: Duration) -> bool {
    if wait.is_zero() {
        return false;
    }
    let wait = Timespec::try_from(wait).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    });
    let mut ends = [PollFd::new(&socket, PollFlags::OUT)];
    !matches!(poll(&mut ends, Some(&wait)), Ok(0))
}
