//! The memory that the kernel and a queue pass one request and its answer through.
//!
//! One page for the headers, then the payload. Invariant: while a slot is with the kernel, nobody here touches its memory;
//! while it is with a request, the kernel does not, and only that request's answer is written to its payload.

use std::ptr::NonNull;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use zerocopy::IntoBytes;

use super::queue::Answer;
use crate::kernel::abi::{self, PAGE};

/// How many pieces of memory a slot registers: headers and payload.
pub(super) const VECTORS: u32 = 2;
/// The size of a request's fixed part in the headers (`FUSE_URING_OP_IN_OUT_SZ`).
const FIXED: usize = 128;

/// Where the parts of `fuse_uring_req_header` stand in the first page.
mod at {
    /// `in_out`: `fuse_in_header`, then `fuse_out_header`.
    pub(super) const HEADER: usize = 0;
    /// `op_in`.
    pub(super) const FIXED: usize = 128;
    /// `ring_ent_in_out`.
    pub(super) const ENTRY: usize = 256;
    /// Our own: the two `iovec`s, which the kernel reads when the slot is registered.
    pub(super) const VECTORS: usize = 2048;
}

/// The size of `fuse_uring_req_header`.
const HEADERS: usize = at::ENTRY + size_of::<abi::RingEntry>();

/// Zeroed memory of whole pages, which is real only where it was touched.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: the memory is plain bytes; who may touch which of them when is the slot's invariant.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(size: usize) -> Result<Arc<Memory>, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice takes nothing from anybody.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                size,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Arc::new(Memory { start, size }))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it is a mapping of this size, and the last owner is gone.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.size) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

/// The place for an answer's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: a space belongs to one request's answer, which may be given from any thread.
unsafe impl Send for Space {}
// SAFETY: a shared reference to a space lets nobody write; `fill` takes it by value from its one owner.
unsafe impl Sync for Space {}

impl Space {
    pub(super) fn size(self) -> usize {
        self.size
    }

    /// Writes `parts` one behind the other.
    ///
    /// # Safety
    /// The slot is with a request, nobody reads its payload, and its memory is alive.
    pub(super) unsafe fn fill(self, parts: &[&[u8]]) {
        let mut at = 0;
        for part in parts {
            assert!(part.len() <= self.size - at, "the answer was measured");
            // SAFETY: the bytes are inside the slot's payload, as was just checked; the caller owns it.
            unsafe {
                self.start
                    .add(at)
                    .copy_from_nonoverlapping(NonNull::from(*part).cast(), part.len())
            };
            at += part.len();
        }
    }
}

/// What a request brought.
pub(super) struct Arrived<'a> {
    pub(super) header: abi::InHeader,
    pub(super) fixed: [u8; FIXED],
    pub(super) payload: &'a [u8],
}

/// One slot of a queue.
#[derive(Debug)]
pub(super) struct Slot {
    memory: Arc<Memory>,
    space: Space,
    commit_id: u64,
    unique: u64,
    /// How many bytes of the payload may be real memory.
    touched: usize,
}

impl Slot {
    /// Returns a slot for payloads of up to `payload_max` bytes, ready to be registered.
    pub(super) fn new(payload_max: usize) -> Result<Slot, Errno> {
        let memory = Memory::new(PAGE + payload_max)?;
        // SAFETY: the payload begins one page into the memory.
        let payload = unsafe { memory.start.add(PAGE) };
        let space = Space {
            start: payload,
            size: payload_max,
        };
        let vectors = [
            libc::iovec {
                iov_base: memory.start.as_ptr().cast(),
                iov_len: HEADERS,
            },
            libc::iovec {
                iov_base: payload.as_ptr().cast(),
                iov_len: payload_max,
            },
        ];
        // SAFETY: the place is in the first page, aligned, behind the headers; the memory is ours alone.
        unsafe { memory.start.add(at::VECTORS).cast().write(vectors) };
        Ok(Slot {
            memory,
            space,
            commit_id: 0,
            unique: 0,
            touched: 0,
        })
    }

    /// Returns the address of the `iovec`s.
    pub(super) fn vectors(&self) -> u64 {
        self.memory.start.as_ptr() as u64 + at::VECTORS as u64
    }

    pub(super) fn memory(&self) -> Arc<Memory> {
        Arc::clone(&self.memory)
    }

    pub(super) fn space(&self) -> Space {
        self.space
    }

    /// Returns the request that the kernel has put in, unless it makes no sense.
    pub(super) fn take(&mut self) -> Option<Arrived<'_>> {
        let entry: abi::RingEntry = self.read(at::ENTRY);
        let header: abi::InHeader = self.read(at::HEADER);
        self.commit_id = entry.commit_id;
        self.unique = header.unique;
        let size = entry.payload_size as usize;
        if size > self.space.size {
            return None;
        }
        self.touched = self.touched.max(size);
        // SAFETY: the kernel has given the slot back, and its payload is written only by the request's answer, which
        // is put in its place when nobody holds this borrow.
        let payload = unsafe { std::slice::from_raw_parts(self.space.start.as_ptr(), size) };
        Some(Arrived {
            header,
            fixed: self.read(at::FIXED),
            payload,
        })
    }

    /// Puts an answer in and returns the number that it is committed with.
    pub(super) fn put(&mut self, answer: &Answer) -> u64 {
        if let Some(bytes) = answer.bytes() {
            // SAFETY: the request's handler has returned, so that nobody reads the payload.
            unsafe { self.space.fill(&[bytes]) };
        }
        let len = answer.len();
        self.touched = self.touched.max(len as usize);
        let header = abi::OutHeader {
            len: 16 + len,
            error: answer.error(),
            unique: self.unique,
        };
        let entry = abi::RingEntry {
            commit_id: self.commit_id,
            payload_size: len,
            ..Default::default()
        };
        self.write(at::HEADER, header.as_bytes());
        self.write(at::ENTRY, entry.as_bytes());
        self.commit_id
    }

    /// Returns how many bytes of the payload may be real memory.
    pub(super) fn touched(&self) -> usize {
        self.touched
    }

    /// Gives the payload's memory back, but for its first page, where the answer that was put in fits in that.
    pub(super) fn shrink(&mut self, answer: &Answer) {
        let rest = self.touched.saturating_sub(PAGE);
        if rest == 0 || answer.len() as usize > PAGE {
            return;
        }
        // SAFETY: the pages are the slot's own, behind its answer, and what they hold is not needed any more.
        let advised = unsafe {
            madvise(
                self.space.start.add(PAGE).as_ptr().cast(),
                rest,
                Advice::LinuxDontNeed,
            )
        };
        debug_assert_eq!(advised, Ok(()));
        self.touched = PAGE;
    }

    fn read<T: zerocopy::FromBytes>(&self, at: usize) -> T {
        debug_assert!(at + size_of::<T>() <= PAGE);
        // SAFETY: the place is in the first page, every value of its bytes is a `T`, and the kernel has given the
        // slot back.
        unsafe { self.memory.start.add(at).cast::<T>().read_unaligned() }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= PAGE);
        // SAFETY: the place is in the first page, and the kernel has given the slot back.
        unsafe {
            self.memory
                .start
                .add(at)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len())
        };
    }
}
