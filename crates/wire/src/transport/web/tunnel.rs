//! What turns clear bytes into the bytes of a TCP connection and back: TLS, or nothing.
//!
//! It never waits. Invariant: clear bytes come out as they were put in, or an error.

use crate::transport::stream::send_now;
use rustls::Connection;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// One end of a tunnel.
pub(super) enum Tunnel {
    /// Bytes are as they are; those that wait for room in the socket, and how many of them were sent.
    Plain { unsent: Vec<u8>, sent: usize },
    /// They are encrypted.
    Tls(Box<Connection>),
}

/// What came out of a tunnel.
pub(super) enum Taken {
    /// That many clear bytes.
    Bytes(usize),
    /// More bytes are needed.
    Nothing,
    /// The other end has said that there is no more.
    End,
}

impl Tunnel {
    /// Begins one that changes nothing.
    pub(super) fn plain() -> Self {
        Tunnel::Plain {
            unsent: Vec::new(),
            sent: 0,
        }
    }

    /// Begins one that encrypts.
    pub(super) fn tls(mut connection: Connection) -> Self {
        // Who puts bytes in waits until those before have gone.
        connection.set_buffer_limit(None);
        Tunnel::Tls(Box::new(connection))
    }

    /// Tells whether the two ends still agree on keys.
    pub(super) fn is_shaking(&self) -> bool {
        match self {
            Tunnel::Plain { .. } => false,
            Tunnel::Tls(connection) => connection.is_handshaking(),
        }
    }

    /// Puts clear bytes in, all of them.
    pub(super) fn put(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        match self {
            Tunnel::Plain { unsent, .. } => {
                parts.iter().for_each(|part| unsent.extend_from_slice(part));
                Ok(())
            }
            Tunnel::Tls(connection) => {
                let all = parts.iter().map(|part| part.len()).sum::<usize>();
                if connection.writer().write_vectored(parts)? == all {
                    Ok(())
                } else {
                    Err(io::Error::other(
                        "a TLS connection without a limit has taken too little",
                    ))
                }
            }
        }
    }

    /// Sends what there is room for; returns whether nothing is left.
    pub(super) fn push(&mut self, socket: &TcpStream) -> io::Result<bool> {
        let pushed = match self {
            Tunnel::Plain { unsent, sent } => push_plain(unsent, sent, socket),
            Tunnel::Tls(connection) => push_tls(connection, socket),
        };
        match pushed {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes clear bytes out of what was received, and leaves what it has not looked at.
    pub(super) fn take(&mut self, received: &mut &[u8], out: &mut [u8]) -> io::Result<Taken> {
        match self {
            Tunnel::Plain { .. } => match received.read(out)? {
                0 => Ok(Taken::Nothing),
                len => Ok(Taken::Bytes(len)),
            },
            Tunnel::Tls(connection) => loop {
                match connection.reader().read(out) {
                    Ok(0) => return Ok(Taken::End),
                    Ok(len) => return Ok(Taken::Bytes(len)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
                if received.is_empty() {
                    return Ok(Taken::Nothing);
                }
                process(connection, received)?;
            },
        }
    }

    /// Goes on agreeing on keys with what was received.
    pub(super) fn shake(&mut self, received: &mut &[u8]) -> io::Result<()> {
        if let Tunnel::Tls(connection) = self {
            while connection.is_handshaking() && !received.is_empty() {
                process(connection, received)?;
            }
        }
        Ok(())
    }
}

fn process(connection: &mut Connection, received: &mut &[u8]) -> io::Result<()> {
    connection.read_tls(received)?;
    let processed = connection.process_new_packets();
    processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(())
}

fn push_plain(unsent: &mut Vec<u8>, sent: &mut usize, socket: &TcpStream) -> io::Result<()> {
    while *sent < unsent.len() {
        *sent += send_now(socket, &[IoSlice::new(&unsent[*sent..])], Duration::ZERO)?;
    }
    unsent.clear();
    *sent = 0;
    Ok(())
}

fn push_tls(connection: &mut Connection, socket: &TcpStream) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(&mut Now(socket))?;
    }
    Ok(())
}

/// A socket that is written to only where there is room.
struct Now<'a>(&'a TcpStream);

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        send_now(self.0, parts, Duration::ZERO)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
