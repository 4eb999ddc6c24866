//! The threads that read `/dev/fuse`.
//!
//! Each has a file of the device and a buffer of its own. Invariant: a thread ends only when the mount is gone.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::io::Errno;

use super::activity::Activity;
use super::channel::Channel;
use super::courtesy::{Courtesy, DEVICE_CPUS_MAX};
use super::dispatch::Dispatch;
use super::notify::Notifier;
use super::payload::{Buffer, Pool};
use super::reply::Line;
use super::request::{Body, head};

/// Held by every thread of a mount; the end of the last one is the end of the mount.
pub(super) struct Watch {
    dispatch: Dispatch,
    notifier: Notifier,
    activity: Option<Arc<Activity>>,
    courtesy: Option<Arc<Courtesy>>,
}

impl Watch {
    pub(super) fn new(
        dispatch: Dispatch,
        notifier: Notifier,
        activity: Option<Arc<Activity>>,
        courtesy: Option<Arc<Courtesy>>,
    ) -> Watch {
        Watch {
            dispatch,
            notifier,
            activity,
            courtesy,
        }
    }

    /// Returns what serving threads join to give way.
    pub(super) fn courtesy(&self) -> Option<&Courtesy> {
        self.courtesy.as_deref()
    }

    pub(super) fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.notifier.end();
        if let Some(activity) = &self.activity {
            activity.end();
        }
        self.dispatch.ended();
    }
}

/// Starts `count` threads that read the connection of `channel`, or one for each CPU where they give way.
pub(super) fn spawn_all(
    count: usize,
    channel: &Arc<Channel>,
    pool: &Arc<Pool>,
    watch: &Arc<Watch>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut channel = Arc::clone(channel);
    let cpus = watch
        .courtesy()
        .map(Courtesy::cpus)
        .filter(|cpus| cpus.len() <= DEVICE_CPUS_MAX)
        .unwrap_or_default();
    let count = count.max(cpus.len());
    let mut threads = Vec::with_capacity(count);
    for index in 0..count {
        if index > 0 {
            // Without the right to open the device, all readers share one file of it.
            channel = channel.duplicate().unwrap_or(channel);
        }
        let (own, buffer, watch) = (Arc::clone(&channel), pool.take(), Arc::clone(watch));
        let thread = std::thread::Builder::new().name(format!("fuse-{index}"));
        let cpu = cpus.get(index).copied();
        threads.push(thread.spawn(move || {
            if let (Some(courtesy), Some(cpu)) = (watch.courtesy(), cpu) {
                courtesy.join(cpu);
            }
            read(&own, buffer, &watch.dispatch);
        })?);
    }
    Ok(threads)
}

fn read(channel: &Arc<Channel>, mut buffer: Buffer, dispatch: &Dispatch) {
    loop {
        match channel.read(buffer.space()) {
            Ok(len) => message(channel, &buffer, len, dispatch),
            // A signal, or a request whose caller went away while it was being read.
            Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
            Err(Errno::NODEV | Errno::CONNABORTED) => return,
            Err(errno) => {
                tracing::error!(%errno, "reading the kernel's requests failed");
                return;
            }
        }
    }
}

fn message(channel: &Arc<Channel>, buffer: &Buffer, len: usize, dispatch: &Dispatch) {
    let source = buffer.filled(len);
    let Some(header) = head(source.bytes) else {
        tracing::warn!(len, "the kernel sent less than a header");
        return;
    };
    let line = || Line::Device(Arc::clone(channel));
    dispatch.message(&header, Body::contiguous(source), channel.interrupts(), line);
}
