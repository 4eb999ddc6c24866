//! One stream to an owner, from the client's side: how it is opened, how a message is written to it, and how silence is
//! told from the end of it.
//!
//! Invariant: a frame is written whole, or the stream is of no further use for writing and says so.

use super::address::ServerAddress;
use super::stream::Stream;
use crate::frame::{self, Broken, FrameReader};
use crate::message::{GREETING_LEN_MAX, Hello, Welcome};
use crate::owner::Error;
use parking_lot::Mutex;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure_model::{Failure, Refusal, limits};

/// Silence after which a far owner is asked whether it is there, where somebody waits for it or holds something.
const PING_REST: Duration = Duration::from_secs(1);
/// How long a far owner may take to say that it is there.
const PONG_MAX: Duration = Duration::from_secs(1);
/// Bytes that go a second over the slowest link that is of use: the answer to a ping comes behind what was sent before.
const LINK_RATE_MIN: usize = 1 << 20;

/// A stream over which an owner answers.
pub(super) struct Link {
    stream: Stream,
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
    /// How often in a row nothing has come since the other end was asked whether it is there.
    unanswered: Option<usize>,
}

/// What an owner, or who it is taken for, says to a greeting.
pub(super) enum Greeted {
    /// It answers.
    In(Incoming),
    /// The owner is there.
    Elsewhere(ServerAddress),
}

impl Link {
    /// Greets the owner at the other end of a socket.
    pub(super) fn open(stream: Stream, hello: &Hello, waits: Waits) -> Result<Greeted, Error> {
        stream.peer()?;
        stream
            .set_read_timeout(Some(waits.greeting))
            .map_err(|error| did_not_greet(&error))?;
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
            unanswered: None,
        };
        if let Some(address) = incoming.welcome()? {
            return Ok(Greeted::Elsewhere(address));
        }
        greeted.map_err(|broken| did_not_greet(&broken))?;
        incoming.frames.set_len_max(limits::MESSAGE_LEN_MAX);
        let stream = &incoming.link.stream;
        let silence = stream
            .far()
            .map_or(waits.silence, |_| waits.silence.min(PING_REST));
        stream
            .set_read_timeout(Some(silence))
            .map_err(|error| did_not_greet(&error))?;
        Ok(Greeted::In(incoming))
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
        let sent = self.stream.send_all(&mut slices, write_max);
        if sent.is_err() {
            self.is_spent.store(true, Ordering::Release);
            // What is underway is still answered; the reader learns the end of it.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        Ok(sent?)
    }

    /// Returns the server to which it leads, where that was dialled by its address.
    pub(super) fn at(&self) -> Option<&ServerAddress> {
        self.stream.at()
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

    /// Looks around after a silence: asks a far owner that is `wanted` whether it is there. Returns false when it is not.
    pub(super) fn is_alive(&mut self, is_wanted: impl FnOnce() -> bool) -> bool {
        let Some(far) = self.link.stream.far() else {
            return true;
        };
        // What came before the owner was asked, and a while ago, is no answer.
        if far.was_heard() && self.unanswered.take().is_some() {
            return far.set_read_timeout(Some(PING_REST)).is_ok();
        }
        match &mut self.unanswered {
            Some(silences) => {
                *silences += 1;
                *silences <= far.unheard() / LINK_RATE_MIN
            }
            None if is_wanted() => {
                self.unanswered = Some(0);
                far.ping().and(far.set_read_timeout(Some(PONG_MAX))).is_ok()
            }
            None => true,
        }
    }

    /// Returns where the owner is, if not at the other end.
    fn welcome(&mut self) -> Result<Option<ServerAddress>, Error> {
        let bytes = match self.next() {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(did_not_greet(&"the connection ended")),
            Err(broken) => return Err(did_not_greet(&broken)),
        };
        match Welcome::parse(&bytes) {
            Ok(Welcome::In) => Ok(None),
            Ok(Welcome::Elsewhere(address)) => Ok(Some(address.parse()?)),
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
