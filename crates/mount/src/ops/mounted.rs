//! A branch that is mounted on a directory.

use super::again::Pools;
use super::hidden::{Hidden, Inside};
use super::known::Known;
use super::patience::Patience;
use super::{Requests, Served, Settings, TTL_EXCLUSIVE, TTL_SHARED};
use crate::kernel::{Contents, Filesystem, MountError, Session, Transport, Unmount, UnmountError, Wakeups};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use tenure_client::{Branch, Company, Files, SharedBranch};
use tenure_model::Clock;

/// How far the kernel reads ahead of a sequential reader, in KiB.
const READ_AHEAD_KIB: u32 = 2048;

/// How to mount a branch.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the list of mounts shows as mounted, such as `drive@branch`.
    pub source: String,
    /// Whether nothing can be changed.
    pub read_only: bool,
    /// Whether other users may use the mount.
    pub allow_other: bool,
    /// Whether files that the mount point holds are hidden by the mount, not a reason to refuse it.
    pub hide_contents: bool,
    /// How many threads read requests.
    pub readers: usize,
    /// Whether there are extended attributes.
    pub xattrs: bool,
    /// How requests come.
    pub transport: Transport,
    /// What to do about the time that a wake-up takes.
    pub wakeups: Wakeups,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            source: "tenure".into(),
            read_only: false,
            allow_other: false,
            hide_contents: false,
            readers: 2,
            xattrs: true,
            transport: Transport::default(),
            wakeups: Wakeups::default(),
        }
    }
}

/// A branch to mount, by how it is had.
pub enum Had {
    /// It is held whole, or only read.
    Whole(Arc<Branch>),
    /// It is shared.
    Shared(Arc<SharedBranch>),
}

impl From<Arc<Branch>> for Had {
    fn from(branch: Arc<Branch>) -> Self {
        Had::Whole(branch)
    }
}

impl Had {
    /// Returns its files.
    pub fn files(&self) -> Arc<dyn Files> {
        match self {
            Had::Whole(branch) => Arc::clone(branch) as Arc<dyn Files>,
            Had::Shared(branch) => Arc::clone(branch) as Arc<dyn Files>,
        }
    }
}

/// A branch that is mounted.
pub struct Mount {
    session: Session,
    served: Arc<Served>,
}

impl Mount {
    /// Mounts a branch on `dir`. `inside` is what `.tenure` shows; `on_end` is called when the mount is
    /// gone, however that comes.
    pub fn attach(
        branch: impl Into<Had>,
        clock: Arc<dyn Clock>,
        dir: &Path,
        options: &Options,
        inside: Inside,
        on_end: Box<dyn FnOnce() + Send>,
    ) -> Result<Mount, MountError> {
        let had = branch.into();
        let (branch, shared) = match &had {
            Had::Whole(_) => (had.files(), None),
            Had::Shared(shared) => (had.files(), Some(Arc::clone(shared))),
        };
        let ttl = if shared.is_some() {
            TTL_SHARED
        } else {
            TTL_EXCLUSIVE
        };
        let root = rustix::process::geteuid().is_root();
        // Root may do everything in a mount that is its own; everybody else is checked by the kernel.
        let kernel_checks = options.allow_other || !root;
        let served = Arc::new_cyclic(|myself| Served {
            myself: Weak::clone(myself),
            branch,
            shared,
            clock: Arc::clone(&clock),
            known: Known::default(),
            pools: Pools::default(),
            patience: Patience::default(),
            hidden: Hidden::new(inside, clock),
            settings: Settings {
                kernel_checks,
                xattrs: options.xattrs,
                ttl,
            },
            requests: Requests::default(),
            is_over: AtomicBool::new(false),
            notifier: Mutex::new(None),
            on_end: Mutex::new(Some(on_end)),
        });
        if let Had::Whole(whole) = &had {
            let company: Weak<dyn Company> = Arc::downgrade(&served) as Weak<dyn Company>;
            whole.keep_company(company);
        }
        let kernel_options = crate::kernel::Options {
            source: options.source.clone(),
            allow_other: options.allow_other,
            default_permissions: kernel_checks,
            read_only: options.read_only,
            suid_and_devices: root,
            contents: if options.hide_contents {
                Contents::Hide
            } else {
                Contents::Refuse
            },
            readers: options.readers,
            transport: options.transport,
            wakeups: options.wakeups,
            read_ahead_kib: Some(READ_AHEAD_KIB),
            ..crate::kernel::Options::default()
        };
        let session = Session::mount(&kernel_options, dir, Arc::clone(&served) as Arc<dyn Filesystem>)?;
        Ok(Mount { session, served })
    }

    /// Returns the mount point, absolute and without symbolic links.
    pub fn path(&self) -> &Path {
        self.session.path()
    }

    /// Returns how many requests of each kind the kernel has made.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        self.served.requests()
    }

    /// Takes the mount away.
    pub fn unmount(&self, how: Unmount) -> Result<(), UnmountError> {
        self.session.unmount(how)
    }

    /// Answers everybody ENOTCONN from now on, as Linux does once this process has ended.
    pub fn end(&self) {
        self.served.is_over.store(true, Ordering::Relaxed);
    }

    /// Waits until the mount is gone.
    pub fn join(self) {
        self.session.join();
    }
}
