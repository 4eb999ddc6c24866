//! One open file of `/dev/fuse`: requests come out of it, replies and notifications go into it.
//!
//! Moves whole messages and knows nothing of what they say. A reply must go into the file that its request came out of,
//! because each keeps its own list of what it waits for. Invariant: a message is written by one system call.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl;
use zerocopy::IntoBytes;

use super::abi;
use super::interrupt::Interrupts;

/// The device's path.
pub(super) const DEVICE: &str = "/dev/fuse";

/// How many pieces a reply may have before their list moves to the heap.
const PARTS_INLINE: usize = 7;

/// Messages of at most so many bytes are put together before they are written: the kernel pins the memory of each piece.
const WHOLE_MAX: usize = 256;

/// `FUSE_DEV_IOC_CLONE`: binds a newly opened device to the connection of another one.
const CLONE: ioctl::Opcode = ioctl::opcode::read::<u32>(229, 0);

/// One open file of `/dev/fuse`.
#[derive(Debug)]
pub(super) struct Channel {
    fd: OwnedFd,
    interrupts: Arc<Interrupts>,
}

/// Opens the device; it belongs to no mount yet.
pub(super) fn open_device() -> Result<OwnedFd, Errno> {
    rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

impl Channel {
    pub(super) fn new(fd: OwnedFd, interrupts: Arc<Interrupts>) -> Arc<Channel> {
        Arc::new(Channel { fd, interrupts })
    }

    /// Returns another file of the same connection, with a list of requests of its own.
    pub(super) fn duplicate(&self) -> Result<Arc<Channel>, Errno> {
        let fd = open_device()?;
        let connection = self.fd.as_raw_fd().cast_unsigned();
        // SAFETY: FUSE_DEV_IOC_CLONE reads one u32, the number of a descriptor, and writes nothing.
        unsafe { ioctl::ioctl(&fd, ioctl::Setter::<CLONE, u32>::new(connection)) }?;
        Ok(Channel::new(fd, Arc::clone(&self.interrupts)))
    }

    pub(super) fn interrupts(&self) -> &Interrupts {
        &self.interrupts
    }

    /// Waits for the next message and returns its length.
    pub(super) fn read(&self, space: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(&self.fd, space)
    }

    /// Answers the request `unique`.
    pub(super) fn reply(&self, unique: u64, error: Option<Errno>, parts: &[&[u8]]) -> Result<(), Errno> {
        let error = error.map_or(0, |errno| -errno.raw_os_error());
        self.write(
            abi::OutHeader {
                len: 0,
                error,
                unique,
            },
            parts,
        )
    }

    /// Sends a notification.
    pub(super) fn notify(&self, code: i32, parts: &[&[u8]]) -> Result<(), Errno> {
        self.write(
            abi::OutHeader {
                len: 0,
                error: code,
                unique: 0,
            },
            parts,
        )
    }

    fn write(&self, mut header: abi::OutHeader, parts: &[&[u8]]) -> Result<(), Errno> {
        let len = size_of::<abi::OutHeader>() + parts.iter().map(|part| part.len()).sum::<usize>();
        header.len = u32::try_from(len).map_err(|_| Errno::TOOBIG)?;
        if len <= WHOLE_MAX {
            let mut whole = [0; WHOLE_MAX];
            let mut rest = &mut whole[..];
            for part in std::iter::once(header.as_bytes()).chain(parts.iter().copied()) {
                let (here, behind) = rest.split_at_mut(part.len());
                here.copy_from_slice(part);
                rest = behind;
            }
            return rustix::io::write(&self.fd, &whole[..len]).map(drop);
        }
        let mut inline = [IoSlice::new(&[]); PARTS_INLINE + 1];
        let heap: Vec<IoSlice<'_>>;
        let slices = if parts.len() <= PARTS_INLINE {
            inline[0] = IoSlice::new(header.as_bytes());
            for (slice, part) in inline[1..].iter_mut().zip(parts) {
                *slice = IoSlice::new(part);
            }
            &inline[..=parts.len()]
        } else {
            let head = std::iter::once(IoSlice::new(header.as_bytes()));
            heap = head.chain(parts.iter().map(|part| IoSlice::new(part))).collect();
            &heap[..]
        };
        rustix::io::writev(&self.fd, slices).map(|_| ())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
