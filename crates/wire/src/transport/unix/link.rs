//! One socket to an owner, from the client's side: how it is opened, and how a message is written to it.
//!
//! Invariant: a frame is written whole, or the socket is of no further use for writing and says so.

use super::peer::Peer;
use crate::frame::{self, Broken, FrameReader};
use crate::message::{GREETING_LEN_MAX, Hello, Welcome};
use crate::owner::Error;
use parking_lot::Mutex;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure_model::{Failure, Refusal, limits};

/// A socket over which an owner answers.
pub(super) struct Link {
    stream: UnixStream,
    writing: Mutex<()>,
    /// Whether no further message can be written.
    is_spent: AtomicBool,
}

/// How long somebody waits at a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// For the answer to a greeting: the owner may have to open the drive before.
    pub(super) greeting: Duration,
    /// For room in the socket, each time.
    pub(super) write: Duration,
    /// For anything to read, before the reader looks around.
    pub(super) silence: Duration,
}

/// The half of a link that its reader has.
pub(super) struct Incoming {
    pub(super) link: Arc<Link>,
    frames: FrameReader,
}

impl Link {
    /// Greets the owner at the other end of a socket.
    pub(super) fn open(stream: UnixStream, hello: &Hello, waits: Waits) -> Result<Incoming, Error> {
        Peer::of(&stream)?;
        let prepared = stream
            .set_write_timeout(Some(waits.write))
            .and(stream.set_read_timeout(Some(waits.greeting)));
        prepared.map_err(|error| did_not_greet(&error))?;
        let link = Arc::new(Link {
            stream,
            writing: Mutex::new(()),
            is_spent: AtomicBool::new(false),
        });
        // Somebody who is not let in may find the door closed before he has spoken, and an answer behind it.
        let greeted = link.write(&[&hello.written()], waits.write);
        let mut incoming = Incoming {
            link,
            frames: FrameReader::new(GREETING_LEN_MAX),
        };
        incoming
            .welcome()
            .and(greeted.map_err(|broken| did_not_greet(&broken)))?;
        incoming.frames.set_len_max(limits::MESSAGE_LEN_MAX);
        incoming
            .link
            .stream
            .set_read_timeout(Some(waits.silence))
            .map_err(|error| did_not_greet(&error))?;
        Ok(incoming)
    }

    /// Writes a frame. When it fails the owner has not got it, and will get nothing more over this link.
    pub(super) fn write(&self, parts: &[&[u8]], write_max: Duration) -> Result<(), Broken> {
        let header = frame::header(parts.iter().copied(), limits::MESSAGE_LEN_MAX)?;
        let Some(_alone) = self.writing.try_lock_for(write_max) else {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        };
        if self.is_spent() {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        }
        let mut slices: Vec<_> = [&header[..]]
            .iter()
            .chain(parts)
            .map(|part| IoSlice::new(part))
            .collect();
        let sent = send_all(&self.stream, &mut slices);
        if sent.is_err() {
            self.is_spent.store(true, Ordering::Release);
            // What is underway is still answered; the reader learns the end of it.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        Ok(sent?)
    }

    /// Tells whether no further message can be written.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent.load(Ordering::Acquire)
    }

    /// Ends it, for its reader too.
    pub(super) fn end(&self) {
        self.is_spent.store(true, Ordering::Release);
        // A socket that is not connected any more has ended by itself.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Incoming {
    /// Returns the next message; none at the end. After `WouldBlock` it may be asked again.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        self.frames.next(&mut &self.link.stream)
    }

    fn welcome(&mut self) -> Result<(), Error> {
        let bytes = match self.next() {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(did_not_greet(&"the connection ended")),
            Err(broken) => return Err(did_not_greet(&broken)),
        };
        match Welcome::parse(&bytes) {
            Ok(Welcome::In) => Ok(()),
            Ok(Welcome::Refused(why)) => Err(Refusal::Because(why).into()),
            Ok(Welcome::Later(why)) => Err(Failure::DidNotHappen(why).into()),
            Err(malformed) => {
                Err(Refusal::Because(format!("what answers is not an owner of drives: {malformed}")).into())
            }
        }
    }
}

fn did_not_greet(why: &dyn std::fmt::Display) -> Error {
    Failure::DidNotHappen(format!("the owner did not answer a greeting: {why}")).into()
}

fn send_all(stream: &UnixStream, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match sendmsg(
            stream,
            slices,
            &mut SendAncillaryBuffer::default(),
            SendFlags::NOSIGNAL,
        ) {
            Ok(len) => IoSlice::advance_slices(&mut slices, len),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
