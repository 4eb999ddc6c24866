//! The FUSE protocol: a mount, its requests, their answers, and what is told to the kernel unasked.
//!
//! Speaks to the kernel through `/dev/fuse` and knows nothing of drives: a [`Filesystem`] gets each [`Request`] with
//! the [`Reply`] that answers it, now or later, from any thread. Invariant: every request is answered exactly once, and no
//! request waits without a way to interrupt it.

pub use rustix::io::Errno;

mod abi;
mod activity;
mod attach;
mod channel;
mod courtesy;
mod directory;
mod dispatch;
mod error;
mod flags;
mod follow;
mod interrupt;
mod kept;
mod negotiate;
mod notify;
mod payload;
mod place;
mod reader;
mod reply;
mod request;
mod ring;
mod session;
#[cfg(test)]
pub(crate) mod testing;

pub use attach::{Unmount, unmount};
pub use courtesy::{Wakeups, serve_no_more};
pub use directory::{DirectoryBuffer, Full};
pub use error::{MountError, UnmountError};
pub use flags::{InitFlags, OpenFlags};
pub use interrupt::Arming;
pub use kept::{Kept, Original};
pub use negotiate::{Negotiated, Wanted};
pub use notify::{NotTaken, Notice, Notifier};
pub use payload::{Payload, SHARE_MIN, Shared};
pub use place::{Contents, refuse_mounted};
pub use reply::{Attr, Entry, FOREVER, Opened, Reply, Statfs, Statx};
pub use request::{Lock, LockKind, Operation, Request, SetTime, Setattr, Time, WriteFlags};
pub use session::{Options, Session, Transport};

/// The inode number of the root directory.
pub const ROOT: u64 = 1;

/// What answers the requests of a mount. All methods are called from several threads at once.
pub trait Filesystem: Send + Sync + 'static {
    /// Returns what is asked of the kernel when the mount begins.
    fn wanted(&self) -> Wanted;

    /// Is called once, before the first request, with what was agreed on.
    fn ready(&self, negotiated: &Negotiated, notifier: Notifier);

    /// Answers `request`, or moves `reply` elsewhere to be answered later; must not wait for anything slow itself, because
    /// its thread reads the requests that others wait with. What it keeps of `original` is the request once more.
    fn handle(&self, request: Request<'_>, original: Original<'_>, reply: Reply);

    /// Takes back `lookups` of the lookups of an inode that answers with entries counted; at 0 the kernel no longer knows it.
    fn forget(&self, ino: u64, lookups: u64);

    /// Is called when one of these methods panicked; the request it handled got EIO.
    fn bug(&self);

    /// Is called once, when the kernel's side is gone.
    fn ended(&self);
}

impl std::fmt::Debug for dyn Filesystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Filesystem")
    }
}
