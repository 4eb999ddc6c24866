//! A line to a kernel that a test plays.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::Reply;
use super::channel::Channel;
use super::interrupt::Interrupts;
use super::reply;

/// The number of the one request of a line.
const UNIQUE: u64 = 2;

/// The kernel's end.
pub(crate) struct Line {
    channel: Arc<Channel>,
    kernel: UnixStream,
}

/// Returns a line for one request.
pub(crate) fn line() -> Line {
    let (kernel, own) = UnixStream::pair().expect("there are descriptors");
    kernel.set_nonblocking(true).expect("it is a socket");
    Line {
        channel: Channel::new(own.into(), Arc::new(Interrupts::default())),
        kernel,
    }
}

impl Line {
    /// Returns the reply to the request.
    pub(crate) fn reply(&self) -> Reply {
        Reply::new(UNIQUE, reply::Line::Device(Arc::clone(&self.channel)))
    }

    /// Interrupts the request's caller.
    pub(crate) fn interrupt(&self) {
        if let Some(call) = self.channel.interrupts().interrupt(UNIQUE) {
            call();
        }
    }

    /// Returns the error number of the answer, if there is one by now.
    pub(crate) fn answer(&self) -> Option<i32> {
        let mut header = [0; 16];
        (&self.kernel).read_exact(&mut header).ok()?;
        Some(i32::from_ne_bytes(
            header[4..8].try_into().expect("it is four bytes"),
        ))
    }
}
