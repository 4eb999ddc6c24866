//! FUSE over io_uring: a second way for requests to come and answers to go, with one queue for each CPU.
//!
//! A queue's thread is pinned to its CPU, so that a caller and its daemon are woken on one CPU, and one system call answers a
//! request and fetches the next. FORGET and INTERRUPT still come by `/dev/fuse`. See Linux
//! `Documentation/filesystems/fuse-io-uring.rst`. Invariant: a slot is with the kernel or with one request; when all
//! slots of a queue are with requests that wait, another one is made, so that no number of them keeps out what they wait for.

mod queue;
mod slot;

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::abi;
use super::channel::Channel;
use super::dispatch::Dispatch;
use super::reader::Watch;
use super::reply::Line;
use super::request::Body;

pub(super) use queue::Ticket;
use queue::{Answer, Queue};
use slot::Slot;

/// Where the kernel says whether it lets daemons use rings.
const ENABLED: &str = "/sys/module/fuse/parameters/enable_uring";

/// How many slots a queue begins with, at most: enough for the requests that a CPU's callers have under way at once.
const SLOTS_FIRST: usize = 8;
/// How many slots a queue may grow to: more than there are waiting calls on one CPU. Their memory is touched only when used.
const SLOTS_MAX: usize = 4096;
/// How many submissions a queue collects; more are submitted in between.
const SUBMISSIONS: u32 = 64;
/// Marks the completion of the read of the queue's eventfd.
const WOKEN: u64 = u64::MAX;

/// `enum fuse_uring_cmd`.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

type Uring = IoUring<squeue::Entry128, cqueue::Entry>;

/// The threads of a mount's queues, which wait to be told whether they are wanted.
pub(super) struct Rings {
    threads: Vec<JoinHandle<()>>,
    go: Vec<Sender<Go>>,
    registered: Receiver<Result<(), Errno>>,
}

/// What a queue's thread needs to begin.
#[derive(Clone)]
struct Go {
    channel: Arc<Channel>,
    watch: Arc<Watch>,
    payload_max: usize,
    slots: usize,
}

/// Returns whether this machine's administrator lets daemons use rings.
pub(super) fn enabled() -> bool {
    std::fs::read_to_string(ENABLED).is_ok_and(|value| value.starts_with(['Y', '1']))
}

impl Rings {
    /// Makes a ring and a thread for each CPU that the kernel may ever have: it needs a queue for every one of them.
    pub(super) fn prepare() -> Result<Rings, Errno> {
        let (registered_send, registered) = channel();
        let (made_send, made) = channel();
        let mut rings = Rings { threads: Vec::new(), go: Vec::new(), registered };
        for cpu in 0..possible_cpus()? {
            let (go_send, go) = channel();
            let (made, registered) = (made_send.clone(), registered_send.clone());
            let thread = std::thread::Builder::new()
                .name(format!("fuse-ring-{cpu}"))
                .spawn(move || run(cpu, &made, &go, &registered))
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
            rings.threads.push(thread);
            rings.go.push(go_send);
        }
        for _ in &rings.threads {
            made.recv().map_err(|_| Errno::IO)??;
        }
        Ok(rings)
    }

    /// Registers all queues with the kernel, which agreed on rings; all its requests wait until that is done. Returns the
    /// threads, and whether the kernel uses the rings: where it does not, it uses `/dev/fuse` again.
    pub(super) fn register(
        self,
        channel: &Arc<Channel>,
        watch: &Arc<Watch>,
        payload_max: usize,
        memory_max: usize,
    ) -> (Vec<JoinHandle<()>>, Result<(), Errno>) {
        let slots = (memory_max / (payload_max * self.go.len())).clamp(1, SLOTS_FIRST);
        let go = Go { channel: Arc::clone(channel), watch: Arc::clone(watch), payload_max, slots };
        for send in &self.go {
            // A thread that is gone shows below.
            let _ = send.send(go.clone());
        }
        let all = self.threads.iter().map(|_| self.registered.recv().unwrap_or(Err(Errno::IO)));
        let result = all.fold(Ok(()), Result::and);
        (self.threads, result)
    }
}

/// Returns the number of queues that the kernel wants.
fn possible_cpus() -> Result<usize, Errno> {
    let ranges = std::fs::read_to_string("/sys/devices/system/cpu/possible").map_err(|_| Errno::NOENT)?;
    let last = ranges.trim().rsplit([',', '-']).next().and_then(|cpu| cpu.parse::<usize>().ok());
    last.map(|last| last + 1).ok_or(Errno::INVAL)
}

/// The life of a queue's thread.
fn run(
    cpu: usize,
    made: &Sender<Result<(), Errno>>,
    go: &Receiver<Go>,
    registered: &Sender<Result<(), Errno>>,
) {
    let prepared = make_uring().and_then(|uring| Ok((uring, Queue::new()?)));
    let (uring, queue) = match prepared {
        Ok(prepared) => {
            let _ = made.send(Ok(()));
            prepared
        }
        Err(errno) => {
            let _ = made.send(Err(errno));
            return;
        }
    };
    // The other end is dropped where rings are not wanted after all.
    let Ok(go) = go.recv() else { return };
    pin(cpu);
    let number = u16::try_from(cpu).expect("the kernel numbers its queues with 16 bits");
    let mut ring = Ring { number, uring, queue, go, slots: Vec::new(), with_requests: 0, word: Box::new(0) };
    let result = ring.begin();
    let _ = registered.send(result);
    if result.is_ok() {
        ring.serve();
    }
    ring.queue.end();
}

fn make_uring() -> Result<Uring, Errno> {
    let made = IoUring::builder()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_cqsize(2 * SUBMISSIONS)
        .build(SUBMISSIONS);
    made.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Pins the calling thread; one whose CPU is not allowed or not there stays free, which is slower and works.
fn pin(cpu: usize) {
    if cpu < rustix::thread::CpuSet::MAX_CPU {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        let pinned = rustix::thread::sched_setaffinity(None, &set);
        tracing::debug!(cpu, ?pinned, "a thread for a CPU");
    }
}

/// One queue, as its thread sees it.
struct Ring {
    number: u16,
    uring: Uring,
    queue: Arc<Queue>,
    go: Go,
    slots: Vec<Slot>,
    /// How many slots are not with the kernel.
    with_requests: usize,
    /// Where the eventfd is read to.
    word: Box<u64>,
}

impl Ring {
    /// Registers the first slots.
    fn begin(&mut self) -> Result<(), Errno> {
        self.await_wake()?;
        for _ in 0..self.go.slots {
            self.add_slot()?;
        }
        self.submit(0)?;
        // A registration that fails does so at once; one that works has no completion before its first request.
        let refused = self.uring.completion().find(|done| done.result() < 0);
        refused.map_or(Ok(()), |done| Err(Errno::from_raw_os_error(-done.result())))
    }

    /// Handles requests until the mount is gone.
    fn serve(&mut self) {
        let mut done = Vec::new();
        let mut answers = Vec::new();
        loop {
            if let Err(errno) = self.rest(&mut answers) {
                tracing::error!(%errno, "a ring failed");
                return;
            }
            done.extend(self.uring.completion().map(|done| (done.user_data(), done.result())));
            let last = done.len().saturating_sub(1);
            for (at, (user_data, result)) in done.drain(..).enumerate() {
                if self.complete(user_data, result).is_err() {
                    return;
                }
                // The answer to one request does not wait for the work on the next.
                if at < last && (self.commit(&mut answers).is_err() || self.submit(0).is_err()) {
                    return;
                }
            }
        }
    }

    /// Sends the answers that there are, and sleeps until something happens.
    fn rest(&mut self, answers: &mut Vec<Answer>) -> Result<(), Errno> {
        self.commit(answers)?;
        if self.with_requests == self.slots.len() && self.slots.len() < SLOTS_MAX {
            self.add_slot()?;
        }
        if !self.uring.completion().is_empty() {
            return self.submit(0);
        }
        if self.queue.may_sleep() {
            self.submit(1)?;
        }
        self.queue.awake();
        Ok(())
    }

    /// Handles one completion; an error says that the mount is gone.
    fn complete(&mut self, user_data: u64, result: i32) -> Result<(), Errno> {
        if user_data == WOKEN {
            return self.await_wake();
        }
        if result < 0 {
            return Err(Errno::from_raw_os_error(-result));
        }
        let at = usize::try_from(user_data).expect("it is the number of a slot");
        self.with_requests += 1;
        let slot = &mut self.slots[at];
        let Some(request) = slot.take_request() else {
            let errno = Some(Errno::IO);
            self.queue.answer(Answer::short(at, errno, &[]));
            return Ok(());
        };
        let ticket =
            Ticket::new(Arc::clone(&self.queue), at, slot.payload(), !request.payload.is_empty());
        let interrupts = self.go.channel.interrupts();
        let line = || Line::Ring(ticket, Arc::clone(&self.go.channel));
        let body = Body::split(&request.fixed, request.payload);
        self.go.watch.dispatch().message(&request.header, body, interrupts, line);
        Ok(())
    }

    /// Hands the slots whose requests are answered back to the kernel.
    fn commit(&mut self, answers: &mut Vec<Answer>) -> Result<(), Errno> {
        self.queue.take_answers(answers);
        for answer in answers.drain(..) {
            let slot = &mut self.slots[answer.slot];
            let commit_id = slot.put_answer(&answer);
            let command = self.command(COMMIT_AND_FETCH, commit_id, answer.slot).build();
            self.push(command, answer.slot as u64)?;
            self.with_requests -= 1;
        }
        Ok(())
    }

    /// Registers another slot.
    fn add_slot(&mut self) -> Result<(), Errno> {
        let at = self.slots.len();
        let slot = Slot::new(self.go.payload_max)?;
        let address = slot.vectors();
        self.queue.keep(slot.memory());
        self.slots.push(slot);
        let command = self.command(REGISTER, 0, at).addr(Some(address)).build();
        self.push(with_len(command, slot::VECTORS), at as u64)
    }

    fn command(&self, code: u32, commit_id: u64, _slot: usize) -> opcode::UringCmd80 {
        let mut bytes = [0; 80];
        let command = abi::RingCommand { flags: 0, commit_id, queue: self.number, padding: [0; 6] };
        bytes[..size_of::<abi::RingCommand>()].copy_from_slice(command.as_bytes());
        let fd = types::Fd(self.go.channel.as_fd().as_raw_fd());
        opcode::UringCmd80::new(fd, code).cmd(bytes)
    }

    /// Has the next write to the queue's eventfd complete something.
    fn await_wake(&mut self) -> Result<(), Errno> {
        let fd = types::Fd(self.queue.eventfd().as_raw_fd());
        let word = std::ptr::from_mut(&mut *self.word).cast();
        let read = opcode::Read::new(fd, word, size_of::<u64>() as u32).build();
        self.push(read.into(), WOKEN)
    }

    fn push(&mut self, entry: squeue::Entry128, user_data: u64) -> Result<(), Errno> {
        let entry = entry.user_data(user_data);
        loop {
            // SAFETY: what the entry points to (a slot's memory, this queue's word) lives as long as the ring, which
            // is dropped before them.
            if unsafe { self.uring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.submit(0)?;
        }
    }

    fn submit(&mut self, want: usize) -> Result<(), Errno> {
        match self.uring.submit_and_wait(want) {
            Ok(_) => Ok(()),
            // Interrupted by a signal, or told to take completions first: the caller does and comes back.
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
                errno => Err(errno.unwrap_or(Errno::IO)),
            },
        }
    }
}
