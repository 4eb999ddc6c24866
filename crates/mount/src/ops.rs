//! A held branch as a file system of this machine: each request becomes a call of the client, each outcome an answer.
//!
//! Invariant: a lookup is counted before the kernel hears of it, and an inode without entries lives until the last
//! of its lookups is taken back.

mod again;
mod attribute;
mod checkpoints;
mod company;
mod content;
mod directory;
mod entry;
mod hidden;
mod known;
mod mounted;
mod patience;
mod pending;
mod pool;
mod privilege;
mod shared;
mod waiting;
mod xattr;

pub use checkpoints::Checkpoints;
pub use hidden::{Inside, Status};
pub use mounted::{Had, Mount, Options};

use crate::kernel::{
    self, Errno, FOREVER, Filesystem, InitFlags, Negotiated, Notifier, Operation, Original, Reply, Request,
    Wanted,
};
use again::Pools;
use hidden::Hidden;
use known::Known;
use parking_lot::Mutex;
use patience::Patience;
use pending::Pending;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tenure_client::{Error, Files, SharedBranch, wait};
use tenure_model::{Attr, Clock, Ino, Name, Refusal};

/// What is asked of the kernel: every cache and no request that it can do without.
const WANTED: [InitFlags; 14] = [
    InitFlags::ASYNC_READ,
    InitFlags::BIG_WRITES,
    InitFlags::DONT_MASK,
    InitFlags::DO_READDIRPLUS,
    InitFlags::READDIRPLUS_AUTO,
    InitFlags::ASYNC_DIO,
    InitFlags::NO_OPEN_SUPPORT,
    InitFlags::PARALLEL_DIROPS,
    InitFlags::HANDLE_KILLPRIV_V2,
    InitFlags::MAX_PAGES,
    InitFlags::CACHE_SYMLINKS,
    InitFlags::NO_OPENDIR_SUPPORT,
    InitFlags::SETXATTR_EXT,
    InitFlags::INIT_EXT,
];

/// How many requests the kernel may make that no caller waits with, such as those for what it reads ahead: those that wait
/// for their owner must leave room for all others.
const BACKGROUND_MAX: u16 = 1024;

/// What a request has become.
type Answered = Result<(), Error>;

/// The file system that the kernel talks to.
pub(crate) struct Served {
    /// Itself, for what is done on another thread.
    myself: Weak<Served>,
    branch: Arc<dyn Files>,
    /// The branch once more, where it is shared.
    shared: Option<Arc<SharedBranch>>,
    clock: Arc<dyn Clock>,
    known: Known,
    pools: Pools,
    patience: Patience,
    hidden: Hidden,
    settings: Settings,
    requests: Requests,
    /// Set once nothing is answered any more.
    is_over: AtomicBool,
    notifier: Mutex<Option<Notifier>>,
    on_end: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// How a branch is served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Whether the kernel checks permissions and obeys access control lists.
    pub(crate) kernel_checks: bool,
    /// Whether there are extended attributes. The kernel asks for one before it writes to a file it has just met.
    pub(crate) xattrs: bool,
    /// How long the kernel may answer by itself.
    pub(crate) ttl: Duration,
}

/// Counts requests by what they ask.
struct Requests([AtomicU64; NAMES.len()]);

impl Default for Requests {
    fn default() -> Self {
        Requests([const { AtomicU64::new(0) }; NAMES.len()])
    }
}

const NAMES: [&str; 40] = [
    "lookup",
    "getattr",
    "setattr",
    "readlink",
    "symlink",
    "mknod",
    "mkdir",
    "tmpfile",
    "unlink",
    "rmdir",
    "rename",
    "link",
    "open",
    "create",
    "read",
    "write",
    "statfs",
    "flush",
    "release",
    "fsync",
    "opendir",
    "readdir",
    "readdirplus",
    "releasedir",
    "fsyncdir",
    "setxattr",
    "getxattr",
    "listxattr",
    "removexattr",
    "access",
    "getlk",
    "setlk",
    "fallocate",
    "lseek",
    "copy_file_range",
    "statx",
    "syncfs",
    "ioctl",
    "poll",
    "other",
];

impl Served {
    fn wanted_flags(&self) -> InitFlags {
        let acl = if self.settings.kernel_checks {
            InitFlags::POSIX_ACL
        } else {
            InitFlags::NONE
        };
        let is_shared = self.shared.is_some();
        let own = WANTED
            .into_iter()
            .filter(|flag| !(is_shared && shared::UNWANTED.contains(flag)));
        let of_shared = shared::WANTED.into_iter().filter(|_| is_shared);
        own.chain(of_shared).fold(acl, |all, flag| all | flag)
    }

    /// Returns how many requests of each kind there were.
    pub(crate) fn requests(&self) -> BTreeMap<String, u64> {
        let counts = NAMES
            .iter()
            .zip(&self.requests.0)
            .map(|(name, count)| (*name, count.load(Ordering::Relaxed)));
        counts
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    }

    /// Returns the entry that tells the kernel of an inode; it counts as a lookup.
    fn entry(&self, ino: Ino, attr: &Attr) -> kernel::Entry {
        self.known.add(ino);
        self.entry_uncounted(ino, attr)
    }

    fn entry_uncounted(&self, ino: Ino, attr: &Attr) -> kernel::Entry {
        kernel::Entry {
            nodeid: ino.0,
            generation: 0,
            entry_ttl: self.settings.ttl,
            attr_ttl: self.settings.ttl,
            attr: attribute::stat(ino, attr),
        }
    }

    /// Drops an inode that lost its last entry, unless the kernel knows it: then it waits for the kernel to forget it.
    fn unlinked(&self, orphan: Option<Ino>) {
        if let Some(ino) = orphan.filter(|ino| !self.known.orphan(*ino)) {
            self.branch.drop_orphan_soon(ino);
        }
    }

    /// Answers what is not about the files of a branch that is held whole; tells whether it was that.
    fn answer_first(&self, request: &Request<'_>, pending: &mut Pending) -> bool {
        let is_over = self.is_over.load(Ordering::Relaxed);
        if is_over {
            pending.error(Errno::NOTCONN);
        }
        is_over
            || self.answer_shared(request, pending)
            || self.hidden.answer(request, pending, || self.requests())
    }

    /// Answers a request, or leaves it pending where it would have had to wait.
    fn dispatch(&self, request: &Request<'_>, pending: &mut Pending) {
        let ino = Ino(request.nodeid);
        if self.answer_first(request, pending) {
            return;
        }
        match &request.operation {
            Operation::Lookup { name } => self.lookup(ino, name, pending),
            Operation::Getattr { .. } => self.getattr(ino, pending),
            Operation::Setattr(setattr) => self.setattr(ino, setattr, pending),
            Operation::Readlink => self.readlink(ino, pending),
            Operation::Symlink { name, target } => self.symlink(request, name, target, pending),
            Operation::Mknod {
                name,
                mode,
                rdev,
                umask,
            } => self.mknod(request, name, (*mode, *umask, *rdev), pending),
            Operation::Mkdir { name, mode, umask } => self.mkdir(request, name, (*mode, *umask), pending),
            Operation::Tmpfile { mode, umask, .. } => self.tmpfile(request, (*mode, *umask), pending),
            Operation::Unlink { name } => self.unlink(ino, name, pending),
            Operation::Rmdir { name } => self.rmdir(ino, name, pending),
            Operation::Rename {
                name,
                new_parent,
                new_name,
                flags,
            } => {
                self.rename((ino, name), (Ino(*new_parent), new_name), *flags, pending);
            }
            Operation::Link { ino: of, name } => self.link(Ino(*of), ino, name, pending),
            Operation::Read { offset, size, .. } => self.read(ino, *offset, *size, pending),
            Operation::Write {
                offset,
                data,
                write_flags,
                flags,
                ..
            } => self.write(ino, (*offset, *flags, *write_flags), *data, pending),
            Operation::Statfs => self.statfs(pending),
            Operation::Fsync { .. } | Operation::Fsyncdir { .. } => self.fsync(ino, request.is_lone, pending),
            Operation::Syncfs => self.syncfs(pending),
            Operation::Readdir { offset, size, .. } => self.readdir(ino, *offset, *size, pending),
            Operation::Readdirplus { offset, size, .. } => self.readdirplus(ino, *offset, *size, pending),
            Operation::Setxattr { .. }
            | Operation::Getxattr { .. }
            | Operation::Listxattr { .. }
            | Operation::Removexattr { .. }
                if !self.settings.xattrs =>
            {
                pending.error(Errno::NOSYS);
            }
            Operation::Setxattr {
                name,
                value,
                flags,
                acl_kill_sgid,
            } => {
                self.setxattr(ino, name, value, (*flags, *acl_kill_sgid), pending);
            }
            Operation::Getxattr { name, size } => self.getxattr(ino, name, *size, pending),
            Operation::Listxattr { size } => self.listxattr(ino, *size, pending),
            Operation::Removexattr { name } => self.removexattr(ino, name, pending),
            Operation::Access { mask } => self.access(ino, *mask, pending),
            Operation::Fallocate {
                offset, length, mode, ..
            } => self.fallocate(request, (*offset, *length), *mode, pending),
            Operation::Lseek { offset, whence, .. } => self.lseek(ino, *offset, *whence, pending),
            Operation::CopyFileRange {
                offset,
                to,
                to_offset,
                length,
                wide,
                ..
            } => {
                let to = (Ino(*to), *to_offset);
                self.copy(request, *offset, to, (*length, *wide), pending);
            }
            Operation::Statx { .. } => self.statx(ino, pending),
            Operation::Release { .. } | Operation::Releasedir { .. } | Operation::Destroy => pending.ok(),
            // Files of a branch that is held whole are not opened, and its locks are the kernel's own.
            Operation::Open { .. }
            | Operation::Opendir { .. }
            | Operation::Create { .. }
            | Operation::Flush { .. }
            | Operation::Getlk { .. }
            | Operation::Setlk { .. }
            | Operation::Ioctl { .. }
            | Operation::Poll { .. }
            | Operation::Bmap { .. }
            | Operation::Unknown { .. } => pending.error(Errno::NOSYS),
        }
    }
}

impl Filesystem for Served {
    fn wanted(&self) -> Wanted {
        Wanted {
            flags: self.wanted_flags(),
            max_background: BACKGROUND_MAX,
            ..Wanted::default()
        }
    }

    fn ready(&self, _negotiated: &Negotiated, notifier: Notifier) {
        *self.notifier.lock() = Some(notifier);
    }

    fn handle(&self, request: Request<'_>, original: Original<'_>, reply: Reply) {
        self.requests.0[kind(&request.operation)].fetch_add(1, Ordering::Relaxed);
        let mut pending = Pending::Here(reply);
        wait::without_waiting(|| self.dispatch(&request, &mut pending));
        if let Pending::Here(reply) = pending {
            self.handle_again(original.keep(), reply);
        }
    }

    fn forget(&self, ino: u64, lookups: u64) {
        if self.hidden.forget(ino) {
            return;
        }
        if self.known.forget(Ino(ino), lookups) {
            self.branch.drop_orphan_soon(Ino(ino));
        }
    }

    fn bug(&self) {
        tracing::error!("a request could not be answered because of a bug; please report what stands above");
    }

    fn ended(&self) {
        if let Some(on_end) = self.on_end.lock().take() {
            on_end();
        }
    }
}

fn kind(operation: &Operation<'_>) -> usize {
    match operation {
        Operation::Lookup { .. } => 0,
        Operation::Getattr { .. } => 1,
        Operation::Setattr(_) => 2,
        Operation::Readlink => 3,
        Operation::Symlink { .. } => 4,
        Operation::Mknod { .. } => 5,
        Operation::Mkdir { .. } => 6,
        Operation::Tmpfile { .. } => 7,
        Operation::Unlink { .. } => 8,
        Operation::Rmdir { .. } => 9,
        Operation::Rename { .. } => 10,
        Operation::Link { .. } => 11,
        Operation::Open { .. } => 12,
        Operation::Create { .. } => 13,
        Operation::Read { .. } => 14,
        Operation::Write { .. } => 15,
        Operation::Statfs => 16,
        Operation::Flush { .. } => 17,
        Operation::Release { .. } => 18,
        Operation::Fsync { .. } => 19,
        Operation::Opendir { .. } => 20,
        Operation::Readdir { .. } => 21,
        Operation::Readdirplus { .. } => 22,
        Operation::Releasedir { .. } => 23,
        Operation::Fsyncdir { .. } => 24,
        Operation::Setxattr { .. } => 25,
        Operation::Getxattr { .. } => 26,
        Operation::Listxattr { .. } => 27,
        Operation::Removexattr { .. } => 28,
        Operation::Access { .. } => 29,
        Operation::Getlk { .. } => 30,
        Operation::Setlk { .. } => 31,
        Operation::Fallocate { .. } => 32,
        Operation::Lseek { .. } => 33,
        Operation::CopyFileRange { .. } => 34,
        Operation::Statx { .. } => 35,
        Operation::Syncfs => 36,
        Operation::Ioctl { .. } => 37,
        Operation::Poll { .. } => 38,
        Operation::Bmap { .. } | Operation::Destroy | Operation::Unknown { .. } => 39,
    }
}

/// Returns the errno that a program sees.
fn errno(error: &Error) -> Errno {
    Errno::from_raw_os_error(error.errno())
}

/// Answers with what `then` makes of a success, or with the error; leaves pending what would have had to wait.
fn answer<T>(pending: &mut Pending, outcome: Result<T, Error>, then: impl FnOnce(Reply, T)) {
    match outcome {
        Ok(value) => {
            if let Some(reply) = pending.take() {
                then(reply, value);
            }
        }
        Err(_) if wait::would_have_waited() => {}
        Err(error) => pending.error(errno(&error)),
    }
}

fn name(bytes: &[u8]) -> Result<Name, Error> {
    Name::parse(bytes).map_err(Error::Refused)
}

fn invalid() -> Error {
    Error::Refused(Refusal::InvalidArgument)
}

/// The caches of a branch that is held whole need no end: whatever changes it goes through this mount.
pub(crate) const TTL_EXCLUSIVE: Duration = FOREVER;

/// What the kernel is told of a shared branch is good once.
pub(crate) const TTL_SHARED: Duration = Duration::ZERO;
