//! A mount: from mount(2) to the end of its last thread.
//!
//! Puts the parts of this room together. Invariant: when a [`Session`] exists, the mount answers; when the mount goes away
//! its threads end by themselves and the file system is told once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::Filesystem;
use super::activity::Activity;
use super::attach::{self, Unmount, unmount};
use super::channel::Channel;
use super::courtesy::{Courtesy, Wakeups};
use super::dispatch::Dispatch;
use super::error::{MountError, UnmountError};
use super::flags::InitFlags;
use super::interrupt::Interrupts;
use super::negotiate::{Negotiated, negotiate};
use super::notify::Notifier;
use super::payload::Pool;
use super::place::{self, Contents, Place};
use super::reader::{self, Watch};
use super::ring::{self, Rings, Unregistered};

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
    /// How requests come.
    pub transport: Transport,
    /// How many bytes the buffers of [`Transport::Ring`] may keep when they are idle.
    pub ring_memory_max: usize,
    /// What to do about the time that a wake-up takes.
    pub wakeups: Wakeups,
}

/// How requests come from the kernel and answers go to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// By `/dev/fuse`, which always works.
    #[default]
    Device,
    /// By io_uring where the machine's administrator allows it (`/sys/module/fuse/parameters/enable_uring`) and the kernel can,
    /// else by `/dev/fuse`.
    Ring,
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
            transport: Transport::Device,
            ring_memory_max: 64 << 20,
            wakeups: Wakeups::Stay,
        }
    }
}

/// A mounted file system. Dropping it unmounts it lazily; its threads end with its last user.
#[derive(Debug)]
pub struct Session {
    path: PathBuf,
    device: Option<String>,
    started: Started,
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
        let device = place::mounted(&place.path).map(|mounted| mounted.device);
        let path = place.into_path();
        let channel = Channel::new(fd, Arc::new(Interrupts::default()));
        // A mount that nobody answers must not stay behind.
        let started = start(options, &channel, filesystem).inspect_err(|_| {
            let _ = unmount(&path, Unmount::Detach);
        })?;
        let session = Session {
            path,
            device,
            started,
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
        &self.started.negotiated
    }

    /// Returns the way to tell the kernel something.
    pub fn notifier(&self) -> Notifier {
        self.started.notifier.clone()
    }

    /// Returns how requests come, which may be by `/dev/fuse` where a ring was asked for.
    pub fn transport(&self) -> Transport {
        self.started.transport
    }

    /// Takes the mount away; one that is gone already is left alone, and so is what others mounted in its place.
    pub fn unmount(&self, how: Unmount) -> Result<(), UnmountError> {
        let device = self.device.as_deref();
        match device.and_then(|device| place::now_at(&self.path, device)) {
            Some(path) => unmount(&path, how),
            None => Ok(()),
        }
    }

    /// Waits until the mount is gone and all its threads have ended.
    pub fn join(mut self) {
        for thread in self.started.threads.drain(..) {
            // The threads catch what they call; a panic that ends one was reported where it came from.
            let _ = thread.join();
        }
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
        if !self.started.threads.is_empty()
            && let Err(error) = self.unmount(Unmount::Detach)
        {
            tracing::warn!(%error, "a mount stays behind");
        }
    }
}

/// What runs for a mount.
#[derive(Debug)]
struct Started {
    negotiated: Negotiated,
    transport: Transport,
    notifier: Notifier,
    threads: Vec<JoinHandle<()>>,
}

/// Begins the mount that `channel` belongs to and starts its threads.
fn start(
    options: &Options,
    channel: &Arc<Channel>,
    filesystem: Arc<dyn Filesystem>,
) -> Result<Started, MountError> {
    let rings = prepare_rings(options.transport);
    let own = if rings.is_some() {
        InitFlags::OVER_IO_URING
    } else {
        InitFlags::NONE
    };
    let negotiated = negotiate(channel, &filesystem.wanted(), own)?;
    let (notifier, notifying) = Notifier::spawn(Arc::clone(channel)).map_err(MountError::Thread)?;
    let mut threads = vec![notifying];
    let beside = beside(options.wakeups, &mut threads).map_err(MountError::Thread)?;
    let dispatch = Dispatch::new(Arc::clone(&filesystem), negotiated.flags, beside.activity.clone());
    let watch = Arc::new(Watch::new(
        dispatch,
        notifier.clone(),
        beside.activity,
        beside.courtesy,
    ));
    filesystem.ready(&negotiated, notifier.clone());

    let payload_max = negotiated.payload_max();
    let rings = rings.filter(|_| negotiated.flags.contains(InitFlags::OVER_IO_URING));
    let transport = match rings {
        None => Transport::Device,
        Some(rings) => {
            let (queues, registered) = rings.register(channel, &watch, payload_max, options.ring_memory_max);
            threads.extend(queues);
            used(registered)?
        }
    };
    // Beside rings, one thread is enough for what still comes by the device: forgets and interrupts.
    let readers = if transport == Transport::Ring {
        1
    } else {
        options.readers.max(1)
    };
    let pool = Pool::new(payload_max, options.spare_buffers);
    threads.extend(reader::spawn_all(readers, channel, &pool, &watch).map_err(MountError::Thread)?);
    Ok(Started {
        negotiated,
        transport,
        notifier,
        threads,
    })
}

/// What looks after the serving threads, and when.
#[derive(Default)]
struct Beside {
    activity: Option<Arc<Activity>>,
    courtesy: Option<Arc<Courtesy>>,
}

fn beside(wakeups: Wakeups, threads: &mut Vec<JoinHandle<()>>) -> std::io::Result<Beside> {
    match wakeups {
        Wakeups::Sleep => Ok(Beside::default()),
        Wakeups::Stay => {
            let activity = Arc::new(Activity::default());
            let courtesy = Courtesy::spawn(&activity, threads)?;
            Ok(Beside {
                activity: Some(activity),
                courtesy,
            })
        }
    }
}

/// Makes rings where they are asked for, allowed and possible.
fn prepare_rings(transport: Transport) -> Option<Rings> {
    if transport == Transport::Device || !ring::enabled() {
        return None;
    }
    Rings::prepare()
        .inspect_err(|errno| tracing::warn!(%errno, "no io_uring: /dev/fuse is used"))
        .ok()
}

/// Returns the transport that the kernel uses after all queues were registered, or not all of them.
fn used(registered: Result<(), Unregistered>) -> Result<Transport, MountError> {
    match registered {
        Ok(()) => Ok(Transport::Ring),
        Err(Unregistered::Refused(errno)) => {
            tracing::warn!(%errno, "the kernel refused FUSE over io_uring: /dev/fuse is used");
            Ok(Transport::Device)
        }
        // The kernel still waits for the missing queue and would never send a request.
        Err(Unregistered::Failed(errno)) => Err(MountError::Handshake(errno)),
    }
}
