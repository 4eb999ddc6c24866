//! Keeping idle CPUs from halting while requests keep coming.
//!
//! An idle virtual CPU halts, and waking it costs more than a request. A thread on each CPU that runs only where nothing else
//! wants to (SCHED_IDLE) keeps it awake, from a request until some time after the last one. Invariant: without requests
//! nothing spins, and how much CPU was spun away is known.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// How many spins there are between two looks at the clock.
const SPINS: u32 = 50;

/// What a mount does about the time that a wake-up takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wakeups {
    /// Nothing: idle CPUs may halt.
    #[default]
    Sleep,
    /// Keeps idle CPUs awake until `hold` after the last request.
    Spin {
        /// A fraction of a millisecond.
        hold: Duration,
    },
}

/// The spinning threads of a mount.
#[derive(Debug)]
pub(super) struct Spinners {
    hold: Duration,
    requests: AtomicU64,
    asleep: AtomicUsize,
    ended: AtomicBool,
    state: Mutex<()>,
    stirred: Condvar,
    spun: AtomicU64,
}

impl Spinners {
    /// Starts a thread on each CPU that this process may run on, where `wakeups` asks for it, and adds them to `threads`.
    pub(super) fn spawn(
        wakeups: Wakeups,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> io::Result<Option<Arc<Spinners>>> {
        let Wakeups::Spin { hold } = wakeups else {
            return Ok(None);
        };
        let allowed = sched_getaffinity(None)?;
        let spinners = Arc::new(Spinners {
            hold,
            requests: AtomicU64::new(0),
            asleep: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            state: Mutex::new(()),
            stirred: Condvar::new(),
            spun: AtomicU64::new(0),
        });
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
            let own = Arc::clone(&spinners);
            let thread = std::thread::Builder::new().name(format!("fuse-spin-{cpu}"));
            threads.push(thread.spawn(move || own.run(cpu))?);
        }
        Ok(Some(spinners))
    }

    /// Says that a request has come.
    pub(super) fn stir(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.asleep.load(Ordering::Relaxed) != 0 {
            let _state = self.state.lock();
            self.stirred.notify_all();
        }
    }

    /// Ends the threads.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        let _state = self.state.lock();
        self.stirred.notify_all();
    }

    /// Returns the CPU time that was spun away.
    pub(super) fn spun(&self) -> Duration {
        Duration::from_nanos(self.spun.load(Ordering::Relaxed))
    }

    fn run(&self, cpu: usize) {
        let mut only = CpuSet::new();
        only.set(cpu);
        // A thread that is not idle-class or not on its CPU would take time from others.
        if sched_setaffinity(None, &only).is_err() || !become_idle() {
            return;
        }
        let mut seen = 0;
        while self.sleep(&mut seen) {
            let before = clock(ClockId::ThreadCPUTime);
            self.spin(&mut seen);
            let spun = clock(ClockId::ThreadCPUTime).saturating_sub(before);
            self.spun.fetch_add(spun.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// Sleeps until there has been a request that was not `seen`; returns whether there may be more.
    fn sleep(&self, seen: &mut u64) -> bool {
        let mut state = self.state.lock();
        self.asleep.fetch_add(1, Ordering::Relaxed);
        while self.requests.load(Ordering::Relaxed) == *seen && !self.ended.load(Ordering::Acquire) {
            self.stirred.wait(&mut state);
        }
        self.asleep.fetch_sub(1, Ordering::Relaxed);
        !self.ended.load(Ordering::Acquire)
    }

    fn spin(&self, seen: &mut u64) {
        let mut last = clock(ClockId::Monotonic);
        loop {
            for _ in 0..SPINS {
                std::hint::spin_loop();
            }
            let now = clock(ClockId::Monotonic);
            let requests = self.requests.load(Ordering::Relaxed);
            if requests != *seen {
                *seen = requests;
                last = now;
            } else if now.saturating_sub(last) > self.hold || self.ended.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Puts the calling thread into the class of threads that run only on idle CPUs.
fn become_idle() -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 names the calling thread, and the parameters are read during the call only.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) == 0 }
}
