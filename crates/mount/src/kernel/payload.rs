//! The memory that requests are read into, and how a large payload outlives its request without a copy.
//!
//! A reader owns one buffer at a time. A file system that keeps a payload takes the whole buffer with it and the
//! reader goes on with another; buffers come home when the last [`Shared`] of them is dropped.
//! Invariant: at most `spare_max` buffers are away at a time, so that memory is bounded by readers + `spare_max`.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::abi::{self, PAGE};

/// Payloads from this size on are kept by keeping their buffer; smaller ones are copied.
pub const SHARE_MIN: usize = 64 * 1024;

/// Where a request begins in its buffer: chosen so that the bytes of a WRITE begin on a page.
const LEAD: usize = PAGE - size_of::<abi::InHeader>() - size_of::<abi::WriteIn>();

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

/// The buffers of one mount that are not in use, and how many are away.
#[derive(Debug)]
pub(super) struct Pool {
    idle: Mutex<Vec<Box<[Page]>>>,
    away: AtomicUsize,
    spare_max: usize,
    pages: usize,
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Page")
    }
}

impl Pool {
    /// Returns a pool of buffers that each take one request with `payload_max` bytes of payload.
    pub(super) fn new(payload_max: usize, spare_max: usize) -> Arc<Pool> {
        let pages = 1 + payload_max.div_ceil(PAGE);
        Arc::new(Pool {
            idle: Mutex::new(Vec::new()),
            away: AtomicUsize::new(0),
            spare_max,
            pages,
        })
    }

    /// Returns a buffer, an idle one first.
    pub(super) fn take(self: &Arc<Pool>) -> Buffer {
        let idle = self.idle.lock().pop();
        let memory = idle.unwrap_or_else(|| {
            <[Page]>::new_box_zeroed_with_elems(self.pages)
                .expect("a buffer is a few MiB, and running out of memory aborts")
        });
        Buffer(Arc::new(Lease {
            memory,
            away: AtomicBool::new(false),
            pool: Arc::clone(self),
        }))
    }

    fn reserve(&self) -> bool {
        let reserve = |away| (away < self.spare_max).then_some(away + 1);
        self.away
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve)
            .is_ok()
    }
}

/// One buffer, and the way home for its memory.
#[derive(Debug)]
struct Lease {
    memory: Box<[Page]>,
    away: AtomicBool,
    pool: Arc<Pool>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if *self.away.get_mut() {
            self.pool.away.fetch_sub(1, Ordering::Relaxed);
        }
        let memory = std::mem::take(&mut self.memory);
        let mut idle = self.pool.idle.lock();
        if idle.len() < self.pool.spare_max {
            idle.push(memory);
        }
    }
}

/// The buffer that a reader reads requests into.
#[derive(Debug)]
pub(super) struct Buffer(Arc<Lease>);

impl Buffer {
    /// Returns the place for the next request; takes another buffer where somebody keeps this one.
    pub(super) fn space(&mut self) -> &mut [u8] {
        if Arc::get_mut(&mut self.0).is_none() {
            *self = Arc::clone(&self.0.pool).take();
        }
        let lease = Arc::get_mut(&mut self.0).expect("nobody else holds the buffer, or it was just made");
        &mut lease.memory.as_mut_bytes()[LEAD..]
    }

    /// Returns the first `len` bytes of what was read last.
    pub(super) fn filled(&self, len: usize) -> Source<'_> {
        Source {
            bytes: &self.0.memory.as_bytes()[LEAD..LEAD + len],
            lease: Some(&self.0),
        }
    }
}

/// The bytes of one request, and the buffer that they stand in (none where they cannot be kept).
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) bytes: &'a [u8],
    lease: Option<&'a Arc<Lease>>,
}

impl<'a> Source<'a> {
    /// Returns a source whose payloads are copied when they are kept.
    pub(super) fn unkept(bytes: &'a [u8]) -> Source<'a> {
        Source { bytes, lease: None }
    }

    /// Returns all of it to keep, as [`Payload::share`] does.
    pub(super) fn share(self) -> Shared {
        self.payload(self.bytes).share()
    }

    /// Returns `bytes`, which are a part of this source, as a payload.
    pub(super) fn payload(self, bytes: &'a [u8]) -> Payload<'a> {
        Payload {
            bytes,
            lease: self.lease,
        }
    }
}

/// The bytes that a request carries, borrowed from the buffer of its reader.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    bytes: &'a [u8],
    lease: Option<&'a Arc<Lease>>,
}

impl<'a> Payload<'a> {
    /// Returns the bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the bytes to keep: without a copy from [`SHARE_MIN`] on while the reader has a spare buffer, else copied.
    pub fn share(&self) -> Shared {
        match self.lease {
            Some(lease) if self.bytes.len() >= SHARE_MIN && keep(lease) => {
                let base = lease.memory.as_bytes().as_ptr() as usize;
                let start = self.bytes.as_ptr() as usize - base;
                Shared {
                    start,
                    len: self.bytes.len(),
                    owner: Owner::Kept(Arc::clone(lease)),
                }
            }
            _ => Shared {
                start: 0,
                len: self.bytes.len(),
                owner: Owner::Copied(Arc::from(self.bytes)),
            },
        }
    }
}

/// Returns whether the buffer may leave its reader: it is away already, or a spare one is allowed.
fn keep(lease: &Lease) -> bool {
    if lease.away.swap(true, Ordering::Relaxed) || lease.pool.reserve() {
        return true;
    }
    lease.away.store(false, Ordering::Relaxed);
    false
}

#[derive(Clone, Debug)]
enum Owner {
    Kept(Arc<Lease>),
    Copied(Arc<[u8]>),
}

/// Bytes of a request that outlive it; a clone is another reference.
#[derive(Clone, Debug)]
pub struct Shared {
    owner: Owner,
    start: usize,
    len: usize,
}

impl Shared {
    /// Returns whether the bytes still stand in the buffer that the kernel wrote them to.
    pub fn is_kept(&self) -> bool {
        matches!(self.owner, Owner::Kept(_))
    }

    /// Returns the bytes as they are read from.
    pub(super) fn source(&self) -> Source<'_> {
        let lease = match &self.owner {
            Owner::Kept(lease) => Some(lease),
            Owner::Copied(_) => None,
        };
        Source { bytes: self, lease }
    }
}

impl Deref for Shared {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all = match &self.owner {
            Owner::Kept(lease) => lease.memory.as_bytes(),
            Owner::Copied(bytes) => bytes,
        };
        &all[self.start..self.start + self.len]
    }
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_payload_is_not_copied_and_the_reader_goes_on_with_another_buffer() {
        let pool = Pool::new(1 << 20, 1);
        let mut buffer = pool.take();
        buffer.space()[80..80 + SHARE_MIN].fill(7);
        let source = buffer.filled(80 + SHARE_MIN);
        let payload = source.payload(&source.bytes[80..]);
        assert_eq!(
            payload.bytes().as_ptr() as usize % PAGE,
            0,
            "the bytes of a WRITE begin on a page"
        );
        let kept = payload.share();
        assert!(kept.is_kept());
        assert_eq!(kept.as_ptr(), payload.bytes().as_ptr());

        buffer.space()[80..80 + SHARE_MIN].fill(9);
        let source = buffer.filled(80 + SHARE_MIN);
        let second = source.payload(&source.bytes[80..]).share();
        assert!(!second.is_kept(), "the one spare buffer is away");
        assert_eq!((kept[0], second[0]), (7, 9));

        let home = kept.as_ptr();
        drop(kept);
        let source = buffer.filled(80 + SHARE_MIN);
        assert!(source.payload(&source.bytes[80..]).share().is_kept());
        assert_eq!(pool.idle.lock().len(), 1);
        assert_eq!(
            pool.take().filled(81).bytes[80..].as_ptr(),
            home,
            "buffers are used again"
        );
    }

    #[test]
    fn a_small_payload_is_copied() {
        let mut buffer = Pool::new(1 << 20, 4).take();
        buffer.space()[0] = 1;
        let source = buffer.filled(SHARE_MIN - 1);
        assert!(!source.payload(source.bytes).share().is_kept());
    }
}
