//! FUSE_INIT: what the file system wants, what the kernel offers, what both agree on.
//!
//! The first exchange of a mount, on the thread that mounts. Invariant: nothing is agreed on that was not both wanted and
//! offered, except what this room itself needs to work.

use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::abi::{self, PAGE, READ_BUFFER_MIN};
use super::channel::Channel;
use super::error::MountError;
use super::flags::InitFlags;
use super::payload::Source;
use super::request::{Body, Init, Message, decode, head};

/// The flag that this room relies on: a write is as large as agreed.
const OWN: InitFlags = InitFlags::BIG_WRITES;

/// The largest payload that is ever agreed on: the default of the kernel's limit, `fs.fuse.max_pages_limit`.
const PAYLOAD_MAX: u32 = 1 << 20;

/// What a file system asks of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The flags that it wants where the kernel has them.
    pub flags: InitFlags,
    /// The largest WRITE that it wants, from 4 KiB to 1 MiB.
    pub max_write: u32,
    /// How far the kernel may read ahead, in bytes.
    pub max_readahead: u32,
    /// How many background requests (read-ahead, write-back) the kernel may have under way; 0 leaves its default.
    pub max_background: u16,
    /// From how many of them on the kernel slows down; 0 leaves its default.
    pub congestion_threshold: u16,
    /// The granularity of times in nanoseconds, 1 to 1,000,000,000.
    pub time_gran: u32,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted {
            flags: InitFlags::NONE,
            max_write: PAYLOAD_MAX,
            max_readahead: PAYLOAD_MAX,
            max_background: 0,
            congestion_threshold: 0,
            time_gran: 1,
        }
    }
}

/// What a mount agreed on with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The protocol's minor version: the smaller of both sides'.
    pub minor: u32,
    /// The flags that are in force.
    pub flags: InitFlags,
    /// The flags that the kernel offered.
    pub offered: InitFlags,
    /// The largest WRITE.
    pub max_write: u32,
    /// How far the kernel reads ahead, in bytes (before the mount's `read_ahead_kib`).
    pub max_readahead: u32,
    /// The most pages that a READ or WRITE has.
    pub max_pages: u16,
}

impl Negotiated {
    /// Returns the largest payload of a request or an answer.
    pub(super) fn payload_max(&self) -> usize {
        (self.max_write as usize)
            .next_multiple_of(PAGE)
            .max(READ_BUFFER_MIN)
    }
}

/// Answers the kernel's INIT, which is waiting in `channel`.
///
/// `own` are flags that this room wants besides.
pub(super) fn negotiate(
    channel: &Channel,
    wanted: &Wanted,
    own: InitFlags,
) -> Result<Negotiated, MountError> {
    let init = receive(channel)?;
    if init.major != abi::MAJOR || init.minor < abi::MINOR_OLDEST {
        let refused = channel.reply(init.unique, Some(Errno::PROTO), &[]);
        tracing::debug!(?refused, "the kernel's protocol is refused");
        return Err(MountError::Protocol {
            major: init.major,
            minor: init.minor,
        });
    }
    let negotiated = agree(wanted, own, &init);
    let out = answer(wanted, &negotiated);
    channel
        .reply(init.unique, None, &[out.as_bytes()])
        .map_err(MountError::Handshake)?;
    Ok(negotiated)
}

fn receive(channel: &Channel) -> Result<Init, MountError> {
    let mut space = [0; READ_BUFFER_MIN];
    let len = loop {
        match channel.read(&mut space) {
            Ok(len) => break len,
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
            Err(errno) => return Err(MountError::Handshake(errno)),
        }
    };
    let bytes = &space[..len];
    let header = head(bytes).ok_or(MountError::Handshake(Errno::IO))?;
    match decode(&header, Body::contiguous(Source::unkept(bytes)), InitFlags::NONE) {
        Ok(Message::Init(init)) => Ok(init),
        _ => Err(MountError::Handshake(Errno::PROTO)),
    }
}

fn agree(wanted: &Wanted, own: InitFlags, init: &Init) -> Negotiated {
    let flags = (wanted.flags | own | OWN | InitFlags::MAX_PAGES | InitFlags::INIT_EXT) & init.flags;
    // Without MAX_PAGES the kernel sends at most 32 pages.
    let payload_max = if flags.contains(InitFlags::MAX_PAGES) {
        PAYLOAD_MAX
    } else {
        32 * PAGE as u32
    };
    let max_write = wanted.max_write.clamp(PAGE as u32, payload_max);
    Negotiated {
        minor: init.minor.min(abi::MINOR),
        flags,
        offered: init.flags,
        max_write,
        max_readahead: wanted.max_readahead.min(init.max_readahead),
        max_pages: max_write.div_ceil(PAGE as u32) as u16,
    }
}

fn answer(wanted: &Wanted, negotiated: &Negotiated) -> abi::InitOut {
    let (flags, flags2) = negotiated.flags.words();
    abi::InitOut {
        major: abi::MAJOR,
        minor: negotiated.minor,
        max_readahead: negotiated.max_readahead,
        flags,
        max_background: wanted.max_background,
        congestion_threshold: wanted.congestion_threshold,
        max_write: negotiated.max_write,
        time_gran: wanted.time_gran.clamp(1, 1_000_000_000),
        max_pages: negotiated.max_pages,
        flags2,
        ..abi::InitOut::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(flags: InitFlags) -> Init {
        Init {
            unique: 2,
            major: 7,
            minor: 46,
            max_readahead: 131_072,
            flags,
        }
    }

    #[test]
    fn only_what_both_sides_want_is_agreed_on() {
        let wanted = Wanted {
            flags: InitFlags::WRITEBACK_CACHE | InitFlags::POSIX_ACL,
            ..Wanted::default()
        };
        let init = offered(InitFlags::POSIX_ACL | InitFlags::MAX_PAGES | InitFlags::FLOCK_LOCKS);
        let negotiated = agree(&wanted, InitFlags::NONE, &init);
        assert_eq!(negotiated.flags, InitFlags::POSIX_ACL | InitFlags::MAX_PAGES);
        assert_eq!(
            (negotiated.minor, negotiated.max_readahead),
            (abi::MINOR, 131_072)
        );
        assert_eq!((negotiated.max_write, negotiated.max_pages), (1 << 20, 256));
    }

    #[test]
    fn without_max_pages_a_write_has_at_most_32() {
        let negotiated = agree(&Wanted::default(), InitFlags::NONE, &offered(InitFlags::NONE));
        assert_eq!((negotiated.max_write, negotiated.max_pages), (128 << 10, 32));
    }
}
