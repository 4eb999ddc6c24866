//! A TCP connection through a tunnel, as a stream of clear bytes: one thread reads and others write at the same time.
//!
//! Invariant: the tunnel's lock is held by nobody who waits.

use super::tunnel::{Taken, Tunnel};
use crate::transport::stream::has_room;
use parking_lot::{Mutex, MutexGuard};
use rustix::net::sockopt;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes that are asked of the socket at once: a few records of TLS, each of 16 KiB.
const RECEIVED_LEN: usize = 64 << 10;

/// How soon the kernel takes the other end for gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keeping {
    /// Silence after which it asks whether somebody is there.
    pub(super) idle: Duration,
    /// Between two such questions.
    pub(super) interval: Duration,
    /// Questions without an answer.
    pub(super) count: u32,
    /// How long bytes may be underway.
    pub(super) unacknowledged_max: Duration,
}

/// One end of a TCP connection.
pub(super) struct Channel {
    socket: TcpStream,
    tunnel: Mutex<Tunnel>,
    /// Whether anything has come since somebody asked.
    was_heard: AtomicBool,
}

/// What has come and was not looked at; its reader has it.
pub(super) struct Received {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
}

impl Default for Received {
    fn default() -> Self {
        Self {
            bytes: vec![0; RECEIVED_LEN].into(),
            from: 0,
            to: 0,
        }
    }
}

impl Channel {
    pub(super) fn new(socket: TcpStream, tunnel: Tunnel, keeping: Keeping) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, keeping.idle)?;
        sockopt::set_tcp_keepintvl(&socket, keeping.interval)?;
        sockopt::set_tcp_keepcnt(&socket, keeping.count)?;
        let unacknowledged_max = u32::try_from(keeping.unacknowledged_max.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(&socket, unacknowledged_max)?;
        Ok(Self {
            socket,
            tunnel: Mutex::new(tunnel),
            was_heard: AtomicBool::new(false),
        })
    }

    /// Returns the tunnel, for what does not wait.
    pub(super) fn tunnel(&self) -> MutexGuard<'_, Tunnel> {
        self.tunnel.lock()
    }

    /// Returns the tunnel once nothing is left in it; waits at most `wait` for room in the socket, each time.
    pub(super) fn empty_tunnel(&self, wait: Duration) -> io::Result<MutexGuard<'_, Tunnel>> {
        loop {
            let mut tunnel = self.tunnel();
            if tunnel.push(&self.socket)? {
                return Ok(tunnel);
            }
            drop(tunnel);
            if !has_room(&self.socket, wait) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }

    /// Sends what there is room for; returns whether nothing is left.
    pub(super) fn push(&self, tunnel: &mut Tunnel) -> io::Result<bool> {
        tunnel.push(&self.socket)
    }

    /// Returns the next clear bytes; 0 at the end.
    pub(super) fn read(&self, received: &mut Received, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut rest = &received.bytes[received.from..received.to];
            let mut tunnel = self.tunnel();
            let taken = tunnel.take(&mut rest, out);
            received.from = received.to - rest.len();
            // An answer to what was taken, such as new keys. Where there is no room the next who writes sends it.
            let pushed = tunnel.push(&self.socket);
            drop(tunnel);
            match taken? {
                Taken::Bytes(len) => return Ok(len),
                Taken::End => return Ok(0),
                Taken::Nothing => pushed?,
            };
            if self.receive(received)? == 0 {
                return Ok(0);
            }
        }
    }

    /// Agrees on keys with the other end. Reads at most `reads` times.
    pub(super) fn shake(&self, received: &mut Received, reads: usize, wait: Duration) -> io::Result<()> {
        for _ in 0..reads {
            let mut tunnel = self.empty_tunnel(wait)?;
            if !tunnel.is_shaking() {
                return Ok(());
            }
            drop(tunnel);
            if self.receive(received)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            tunnel = self.tunnel();
            let mut rest = &received.bytes[received.from..received.to];
            let shaken = tunnel.shake(&mut rest);
            received.from = received.to - rest.len();
            if let Err(error) = shaken {
                // The other end learns why, if it can.
                let _ = tunnel.push(&self.socket);
                return Err(error);
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Waits for bytes of the socket; 0 at the end.
    fn receive(&self, received: &mut Received) -> io::Result<usize> {
        debug_assert_eq!(received.from, received.to, "what has come was looked at");
        (received.from, received.to) = (0, 0);
        loop {
            match (&self.socket).read(&mut received.bytes) {
                Ok(len) => {
                    received.to = len;
                    self.was_heard.store(true, Ordering::Relaxed);
                    return Ok(len);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Tells whether anything has come since this was asked before.
    pub(super) fn was_heard(&self) -> bool {
        self.was_heard.swap(false, Ordering::Relaxed)
    }

    pub(super) fn set_read_timeout(&self, wait: Option<Duration>) -> io::Result<()> {
        self.socket.set_read_timeout(wait)
    }

    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }
}
