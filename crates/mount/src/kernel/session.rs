//! A mount: from mount(2) to the end of its last thread.
//!
//! Puts the parts of this room together. Invariant: when a [`Session`] exists, the mount answers; when the mount goes away
//! its threads end by themselves and the file system is told once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::Filesystem;
use super::attach::{self, Unmount, unmount};
use super::channel::Channel;
use super::dispatch::Dispatch;
use super::error::{MountError, UnmountError};
use super::interrupt::Interrupts;
use super::negotiate::{Negotiated, negotiate};
use super::notify::Notifier;
use super::payload::Pool;
use super::place::{self, Contents, Place};
use super::reader::{self, Watch};

/// How to mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the list of mounts shows as mounted.
    pub source: String,
    /// What the list of mounts shows as its type, after `fuse.`.
    pub subtype: String,
    /// Whether other users may use the mount (a user who is not root needs `user_allow_other` in /etc/fuse.conf).
    pub allow_other: bool,
    /// Whether the kernel checks permissions; else the file system does.
    pub default_permissions: bool,
    /// Whether nothing can be changed.
    pub read_only: bool,
    /// Whether suid bits and device files work in it (root only).
    pub suid_and_devices: bool,
    /// What to do with files in the mount point.
    pub contents: Contents,
    /// The largest READ, where it is to be smaller than the largest WRITE.
    pub max_read: Option<u32>,
    /// How many threads read requests, at least one.
    pub readers: usize,
    /// How many buffers the file system may keep payloads in at a time.
    pub spare_buffers: usize,
    /// How far the kernel is to read ahead, in KiB, where the caller may say so (root).
    pub read_ahead_kib: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            source: "tenure".into(),
            subtype: "tenure".into(),
            allow_other: false,
            default_permissions: false,
            read_only: false,
            suid_and_devices: false,
            contents: Contents::Refuse,
            max_read: None,
            readers: 2,
            spare_buffers: 16,
            read_ahead_kib: None,
        }
    }
}

/// A mounted file system. Dropping it unmounts it lazily; its threads end with its last user.
#[derive(Debug)]
pub struct Session {
    path: PathBuf,
    device: Option<String>,
    negotiated: Negotiated,
    notifier: Notifier,
    threads: Vec<JoinHandle<()>>,
}

impl Session {
    /// Mounts `filesystem` on `dir` and answers its requests from now on.
    pub fn mount(
        options: &Options,
        dir: &Path,
        filesystem: Arc<dyn Filesystem>,
    ) -> Result<Session, MountError> {
        let place = Place::find(dir, options.contents)?;
        let fd = attach::attach(options, &place)?;
        let channel = Channel::new(fd, Arc::new(Interrupts::default()));
        let started = start(options, &channel, filesystem);
        // A mount that nobody answers must not stay behind.
        let (negotiated, notifier, threads) = started.inspect_err(|_| {
            let _ = unmount(&place.path, Unmount::Detach);
        })?;
        let device = place::mounted(&place.path).map(|mounted| mounted.device);
        let session = Session {
            path: place.path,
            device,
            negotiated,
            notifier,
            threads,
        };
        session.set_read_ahead(options.read_ahead_kib);
        Ok(session)
    }

    /// Returns the mount point, absolute and without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what was agreed on with the kernel.
    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// Returns the way to tell the kernel something.
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// Takes the mount away; one that is gone already is left alone, and so is what others mounted in its place.
    pub fn unmount(&self, how: Unmount) -> Result<(), UnmountError> {
        if self.is_mounted() {
            unmount(&self.path, how)
        } else {
            Ok(())
        }
    }

    /// Waits until the mount is gone and all its threads have ended.
    pub fn join(mut self) {
        for thread in self.threads.drain(..) {
            // The threads catch what they call; a panic that ends one was reported where it came from.
            let _ = thread.join();
        }
    }

    fn is_mounted(&self) -> bool {
        place::mounted(&self.path).map(|mounted| mounted.device) == self.device && self.device.is_some()
    }

    /// Writes the read-ahead of the mount's backing device, which FUSE starts at 128 KiB.
    fn set_read_ahead(&self, kib: Option<u32>) {
        let (Some(kib), Some(device)) = (kib, &self.device) else {
            return;
        };
        let file = format!("/sys/class/bdi/{device}/read_ahead_kb");
        if let Err(error) = std::fs::write(&file, kib.to_string()) {
            tracing::debug!(file, %error, "the kernel's read-ahead stays as it is");
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.threads.is_empty()
            && let Err(error) = self.unmount(Unmount::Detach)
        {
            tracing::warn!(%error, "a mount stays behind");
        }
    }
}

type Started = (Negotiated, Notifier, Vec<JoinHandle<()>>);

/// Begins the mount that `channel` belongs to and starts its threads.
fn start(
    options: &Options,
    channel: &Arc<Channel>,
    filesystem: Arc<dyn Filesystem>,
) -> Result<Started, MountError> {
    let negotiated = negotiate(channel, &filesystem.wanted())?;
    let (notifier, notifying) = Notifier::spawn(Arc::clone(channel)).map_err(MountError::Thread)?;
    let dispatch = Arc::new(Dispatch::new(Arc::clone(&filesystem), negotiated.flags));
    let watch = Arc::new(Watch::new(dispatch, notifier.clone()));
    filesystem.ready(&negotiated, notifier.clone());
    let pool = Pool::new(negotiated.max_write as usize, options.spare_buffers);
    let mut threads = vec![notifying];
    let mut channel = Arc::clone(channel);
    for index in 0..options.readers.max(1) {
        if index > 0 {
            // Without the right to open the device, all readers share one file of it.
            channel = channel.duplicate().unwrap_or(channel);
        }
        let thread = reader::spawn(index, Arc::clone(&channel), &pool, Arc::clone(&watch));
        threads.push(thread.map_err(MountError::Thread)?);
    }
    Ok((negotiated, notifier, threads))
}
