//! The threads that read `/dev/fuse`.
//!
//! Each has a file of the device and a buffer of its own. Invariant: a thread ends only when the mount is gone.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use zerocopy::FromBytes;

use super::abi;
use super::activity::Activity;
use super::channel::Channel;
use super::courtesy::Courtesy;
use super::dispatch::Dispatch;
use super::follow::Follower;
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

/// With more CPUs than this, threads that all read one device would mostly wake on another CPU than their caller's.
const PINNED_MAX: usize = 4;

/// Bytes from which a READ is work for another CPU than the caller's.
const BULKY: u32 = 512 << 10;

/// Starts `count` threads that read the connection of `channel`; where they give way and are several, one for each CPU.
pub(super) fn spawn_all(
    count: usize,
    channel: &Arc<Channel>,
    pool: &Arc<Pool>,
    watch: &Arc<Watch>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut channel = Arc::clone(channel);
    let mut cpus = watch.courtesy().map(Courtesy::cpus).unwrap_or_default();
    if cpus.len() > PINNED_MAX || count == 1 {
        cpus.truncate(1);
    }
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
            let Some(courtesy) = watch.courtesy() else {
                return read(&own, buffer, &watch.dispatch, || {});
            };
            if let Some(cpu) = cpu {
                courtesy.join(cpu);
            }
            match cpu {
                Some(cpu) if index == 0 => {
                    read_first(&own, buffer, &watch.dispatch, courtesy, (cpu, count > 1));
                }
                _ => read(&own, buffer, &watch.dispatch, || courtesy.turns().wait()),
            }
            courtesy.turns().end();
        })?);
    }
    Ok(threads)
}

/// Reads as the thread that follows its callers, on `cpu` at first; `others` says whether there are more that can read.
fn read_first(
    channel: &Arc<Channel>,
    mut buffer: Buffer,
    dispatch: &Dispatch,
    courtesy: &Courtesy,
    (cpu, others): (usize, bool),
) {
    let mut follower = Follower::new(courtesy.turns(), cpu);
    loop {
        let before = now();
        let Some(len) = next(channel, &mut buffer) else {
            return;
        };
        let waited = now().saturating_sub(before);
        let caller = message(channel, &buffer, len, dispatch, |caller| {
            follower.begin(caller, waited) && others
        });
        if let Some(cpu) = follower.end(caller, is_bulky(&buffer, len)) {
            courtesy.follow(cpu);
        }
    }
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

/// Reads whenever `turn` returns.
fn read(channel: &Arc<Channel>, mut buffer: Buffer, dispatch: &Dispatch, turn: impl Fn()) {
    turn();
    while let Some(len) = next(channel, &mut buffer) {
        message(channel, &buffer, len, dispatch, |_| false);
        turn();
    }
}

/// Returns the length of the next message, or that there will be none.
fn next(channel: &Channel, buffer: &mut Buffer) -> Option<usize> {
    loop {
        match channel.read(buffer.space()) {
            Ok(len) => return Some(len),
            // A signal, or a request whose caller went away while it was being read.
            Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
            Err(Errno::NODEV | Errno::CONNABORTED) => return None,
            Err(errno) => {
                tracing::error!(%errno, "reading the kernel's requests failed");
                return None;
            }
        }
    }
}

/// Handles one message and returns the thread that it came from, 0 when none or unknown; `begin` is asked before whether
/// that is the only caller.
fn message(
    channel: &Arc<Channel>,
    buffer: &Buffer,
    len: usize,
    dispatch: &Dispatch,
    begin: impl FnOnce(u32) -> bool,
) -> u32 {
    let source = buffer.filled(len);
    let Some(header) = head(source.bytes) else {
        tracing::warn!(len, "the kernel sent less than a header");
        begin(0);
        return 0;
    };
    let is_lone = begin(header.pid);
    let line = || Line::Device(Arc::clone(channel));
    dispatch.message(
        (&header, is_lone),
        Body::contiguous(source),
        channel.interrupts(),
        line,
    );
    header.pid
}

/// Tells whether the message that was read last asks for much.
fn is_bulky(buffer: &Buffer, len: usize) -> bool {
    let message = buffer.filled(len).bytes;
    let body = message.get(size_of::<abi::InHeader>()..).unwrap_or_default();
    head(message).is_some_and(|header| header.opcode == abi::opcode::READ)
        && abi::ReadIn::read_from_prefix(body).is_ok_and(|(read, _)| read.size >= BULKY)
}
