//! FUSE over io_uring: a second way for requests to come and answers to go, with one queue for each CPU.
//!
//! A queue's thread is pinned to its CPU, so that a caller and its daemon are woken on one CPU, and one system call answers a
//! request and fetches the next. FORGET and INTERRUPT still come by `/dev/fuse`. See Linux
//! `Documentation/filesystems/fuse-io-uring.rst`. Invariant: a slot is with the kernel or with one request, and the kernel
//! has slots left in every queue: a queue grows before requests that wait have taken them all, because the kernel hands out what it
//! had to queue only when a slot comes back, and what comes back may depend on what is queued.

mod queue;
mod slot;

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::abi;
use super::channel::Channel;
use super::reader::Watch;
use super::reply::Line;
use super::request::Body;

pub(super) use queue::Ticket;
use queue::{Answer, Queue};
use slot::Slot;

/// Where the kernel says whether it lets daemons use rings.
const ENABLED: &str = "/sys/module/fuse/parameters/enable_uring";

/// How many slots a queue begins with: twice the requests that a CPU's callers may make before its thread runs. Their memory
/// is real only once it is used, and the kernel uses the slot again that came back last.
const SLOTS_FIRST: usize = 128;
/// How many slots a queue may grow to: more than there are calls that wait on one CPU.
const SLOTS_MAX: usize = 8192;
/// How many submissions a queue collects; more are submitted in between.
const SUBMISSIONS: u32 = 64;
/// The number of `/dev/fuse` among the files that are registered with a ring.
const DEVICE: u32 = 0;
/// Marks the completion of the wait for the queue's eventfd.
const WOKEN: u64 = u64::MAX;

/// `enum fuse_uring_cmd`.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

type Uring = IoUring<squeue::Entry128, cqueue::Entry>;

/// The threads of a mount's queues, which wait to be told whether they are wanted.
pub(super) struct Rings {
    threads: Vec<JoinHandle<()>>,
    go: Vec<Sender<Go>>,
    registered: Receiver<Result<(), Unregistered>>,
}

/// What a queue's thread needs to begin.
#[derive(Clone)]
struct Go {
    channel: Arc<Channel>,
    watch: Arc<Watch>,
    payload_max: usize,
    /// How much memory the slots of one queue may keep.
    memory_max: usize,
}

/// Why a queue is not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unregistered {
    /// The kernel said no, and sends its requests to `/dev/fuse`.
    Refused(Errno),
    /// The kernel was not asked.
    Failed(Errno),
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
        let mut rings = Rings {
            threads: Vec::new(),
            go: Vec::new(),
            registered,
        };
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
    /// threads, and whether the kernel uses the rings.
    pub(super) fn register(
        self,
        channel: &Arc<Channel>,
        watch: &Arc<Watch>,
        payload_max: usize,
        memory_max: usize,
    ) -> (Vec<JoinHandle<()>>, Result<(), Unregistered>) {
        let memory_max = memory_max / self.go.len().max(1);
        let go = Go {
            channel: Arc::clone(channel),
            watch: Arc::clone(watch),
            payload_max,
            memory_max,
        };
        for send in &self.go {
            // A thread that is gone shows below.
            let _ = send.send(go.clone());
        }
        let all = self.threads.iter().map(|_| {
            self.registered
                .recv()
                .unwrap_or(Err(Unregistered::Failed(Errno::IO)))
        });
        let result = all.fold(Ok(()), Result::and);
        (self.threads, result)
    }
}

/// Returns the number of queues that the kernel wants.
fn possible_cpus() -> Result<usize, Errno> {
    let ranges = std::fs::read_to_string("/sys/devices/system/cpu/possible").map_err(|_| Errno::NOENT)?;
    let last = ranges
        .trim()
        .rsplit([',', '-'])
        .next()
        .and_then(|cpu| cpu.parse::<usize>().ok());
    last.map(|last| last + 1).ok_or(Errno::INVAL)
}

/// The life of a queue's thread.
fn run(
    cpu: usize,
    made: &Sender<Result<(), Errno>>,
    go: &Receiver<Go>,
    registered: &Sender<Result<(), Unregistered>>,
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
    if let Some(courtesy) = go.watch.courtesy() {
        courtesy.join(cpu);
    }
    let number = u16::try_from(cpu).expect("the kernel numbers its queues with 16 bits");
    queue.connect(&go.channel);
    let mut ring = Ring {
        number,
        uring,
        queue,
        go,
        slots: Vec::new(),
        slots_max: SLOTS_MAX,
        with_requests: 0,
        memory: 0,
    };
    let begun = ring.begin();
    let _ = registered.send(begun.as_ref().map(|_| ()).map_err(|unregistered| *unregistered));
    let served = begun.map_err(|_| Errno::OPNOTSUPP).map(|done| ring.serve(done));
    ring.queue.end();
    if !served.is_ok_and(|errno| ring.is_given_back(errno)) {
        // The kernel may still write to the slots.
        std::mem::forget(Arc::clone(&ring.queue));
    }
}

/// Returns a ring that does the kernel's part of the work when its thread waits, which measures a twentieth faster than at each
/// system call.
fn make_uring() -> Result<Uring, Errno> {
    let made = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
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

/// What completed, and how.
#[derive(Clone, Copy, Debug)]
struct Done {
    user_data: u64,
    result: i32,
}

impl From<cqueue::Entry> for Done {
    fn from(entry: cqueue::Entry) -> Done {
        Done {
            user_data: entry.user_data(),
            result: entry.result(),
        }
    }
}

/// One queue, as its thread sees it.
struct Ring {
    number: u16,
    uring: Uring,
    queue: Arc<Queue>,
    go: Go,
    slots: Vec<Slot>,
    /// How many slots there may be.
    slots_max: usize,
    /// How many slots are not with the kernel.
    with_requests: usize,
    /// How much memory the payloads may have.
    memory: usize,
}

impl Ring {
    /// Registers the first slots, and returns what has completed since.
    fn begin(&mut self) -> Result<Vec<Done>, Unregistered> {
        self.submit_first().map_err(Unregistered::Failed)?;
        // A registration that fails does so at once. One that works completes with its first request.
        let done: Vec<Done> = self.uring.completion().map(Done::from).collect();
        match done.iter().find(|done| done.result < 0) {
            Some(done) => Err(Unregistered::Refused(Errno::from_raw_os_error(-done.result))),
            None => Ok(done),
        }
    }

    fn submit_first(&mut self) -> Result<(), Errno> {
        let device = self.go.channel.as_fd().as_raw_fd();
        let registered = self.uring.submitter().register_files(&[device]);
        registered.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        self.await_wake()?;
        self.grow(SLOTS_FIRST)?;
        self.submit(0)
    }

    /// Handles requests until that fails, which it does when the mount is gone, and returns how.
    fn serve(&mut self, mut done: Vec<Done>) -> Errno {
        let mut answers = Vec::new();
        loop {
            let served = self
                .complete_all(&mut done, &mut answers)
                .and_then(|()| self.rest(&mut answers));
            if let Err(errno) = served {
                return errno;
            }
            done.extend(self.uring.completion().map(Done::from));
        }
    }

    /// Waits, where serving ended with the end of the mount, until the kernel has given all slots back; returns whether it has.
    fn is_given_back(&mut self, errno: Errno) -> bool {
        if !matches!(errno, Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED) {
            tracing::error!(queue = self.number, %errno, "a ring failed: calls on its CPU get no answer");
            self.go.watch.dispatch().bug();
            return false;
        }
        while self.with_requests < self.slots.len() {
            if self.submit(1).is_err() {
                return false;
            }
            let back = self
                .uring
                .completion()
                .filter(|done| done.user_data() != WOKEN)
                .count();
            self.with_requests += back;
        }
        true
    }

    /// Handles completions; an error says that the mount is gone.
    fn complete_all(&mut self, done: &mut Vec<Done>, answers: &mut Vec<Answer>) -> Result<(), Errno> {
        let last = done.len().saturating_sub(1);
        let mut result = Ok(());
        for (at, done) in done.drain(..).enumerate() {
            result = result.and(self.complete(done));
            // The answer to one request does not wait for the work on the next.
            if at < last && result.is_ok() {
                result = self.commit(answers).and_then(|()| self.submit(0));
            }
        }
        result
    }

    /// Sends the answers that there are, and sleeps until something happens.
    fn rest(&mut self, answers: &mut Vec<Answer>) -> Result<(), Errno> {
        self.commit(answers)?;
        if self.with_requests > self.slots.len() / 2 && self.slots.len() < self.slots_max {
            let grown = self.grow(self.slots.len());
            grown.unwrap_or_else(|errno| {
                tracing::warn!(queue = self.number, %errno, "a ring cannot grow: waiting calls may hold up others");
                self.slots_max = self.slots.len();
            });
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
    fn complete(&mut self, done: Done) -> Result<(), Errno> {
        if done.user_data == WOKEN {
            self.queue.woken();
            return self.await_wake();
        }
        self.with_requests += 1;
        if done.result < 0 {
            return Err(Errno::from_raw_os_error(-done.result));
        }
        let at = usize::try_from(done.user_data).expect("it is the number of a slot");
        let slot = &mut self.slots[at];
        let (space, before) = (slot.space(), slot.touched());
        let Some(arrived) = slot.take() else {
            self.queue.answer(Answer::placed(at, Some(Errno::IO), 0));
            return Ok(());
        };
        self.memory += arrived.payload.len().saturating_sub(before);
        let lent = !arrived.payload.is_empty();
        let line = || Line::Ring(Ticket::new(&self.queue, at, space, lent));
        let body = Body::split(&arrived.fixed, arrived.payload);
        self.go
            .watch
            .dispatch()
            .message((&arrived.header, false), body, self.go.channel.interrupts(), line);
        Ok(())
    }

    /// Hands the slots whose requests are answered back to the kernel.
    fn commit(&mut self, answers: &mut Vec<Answer>) -> Result<(), Errno> {
        self.queue.take_answers(answers);
        for answer in answers.drain(..) {
            let slot = &mut self.slots[answer.slot];
            let before = slot.touched();
            let commit_id = slot.put(&answer);
            if self.memory > self.go.memory_max {
                slot.shrink(&answer);
            }
            self.memory = self.memory + slot.touched() - before;
            self.push(
                self.command(COMMIT_AND_FETCH, commit_id).build(),
                answer.slot as u64,
            )?;
            self.with_requests -= 1;
        }
        Ok(())
    }

    /// Registers more slots.
    fn grow(&mut self, more: usize) -> Result<(), Errno> {
        for _ in 0..more {
            let slot = Slot::new(self.go.payload_max)?;
            let command = self.command(REGISTER, 0).addr(Some(slot.vectors())).build();
            self.queue.keep(slot.memory());
            self.slots.push(slot);
            self.push(with_len(command, slot::VECTORS), self.slots.len() as u64 - 1)?;
        }
        Ok(())
    }

    fn command(&self, code: u32, commit_id: u64) -> opcode::UringCmd80 {
        let mut bytes = [0; 80];
        let command = abi::RingCommand {
            flags: 0,
            commit_id,
            queue: self.number,
            padding: [0; 6],
        };
        bytes[..size_of::<abi::RingCommand>()].copy_from_slice(command.as_bytes());
        opcode::UringCmd80::new(types::Fixed(DEVICE), code).cmd(bytes)
    }

    /// Has the next write to the queue's eventfd complete something.
    fn await_wake(&mut self) -> Result<(), Errno> {
        let fd = types::Fd(self.queue.eventfd().as_raw_fd());
        let poll = opcode::PollAdd::new(fd, libc::POLLIN as u32).build();
        self.push(poll.into(), WOKEN)
    }

    fn push(&mut self, entry: squeue::Entry128, user_data: u64) -> Result<(), Errno> {
        let entry = entry.user_data(user_data);
        loop {
            // SAFETY: what the entry points to is a slot's memory, which the queue keeps for longer than the ring lives.
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

/// Returns a submission with its `len` field set, which the crate's builder has no word for.
fn with_len(mut entry: squeue::Entry128, len: u32) -> squeue::Entry128 {
    /// Where `len` stands in `struct io_uring_sqe`.
    const LEN: usize = 24;
    // SAFETY: an entry has the layout of the kernel's 128-byte submission (`repr(C)`), which has a u32 there.
    unsafe {
        std::ptr::from_mut(&mut entry)
            .cast::<u8>()
            .add(LEN)
            .cast::<u32>()
            .write(len)
    };
    entry
}
