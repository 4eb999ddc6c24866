//! Keeping idle CPUs from halting while requests keep coming.
//!
//! An idle virtual CPU halts, and waking it costs more than a request. A thread on each CPU that runs only where nothing else
//! wants to (SCHED_IDLE) keeps it awake, from a request until some time after the last one. Invariant: without requests
//! nothing spins, and how much CPU was spun away is known.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::activity::Activity;
use super::courtesy::set_class;

/// How many spins there are between two looks at the clock.
const SPINS: u32 = 50;

/// What a mount does about the time that a wake-up takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wakeups {
    /// Nothing: idle CPUs may halt.
    Sleep,
    /// Threads that serve give way to everything, one on each CPU, so that callers stay where they are (see `courtesy`).
    #[default]
    Stay,
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
    activity: Arc<Activity>,
    spun: AtomicU64,
}

impl Spinners {
    /// Starts a thread on each CPU that this process may run on, and adds them to `threads`.
    pub(super) fn spawn(
        hold: Duration,
        activity: &Arc<Activity>,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> io::Result<Arc<Spinners>> {
        let allowed = sched_getaffinity(None)?;
        let spinners = Arc::new(Spinners {
            hold,
            activity: Arc::clone(activity),
            spun: AtomicU64::new(0),
        });
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
            let own = Arc::clone(&spinners);
            let thread = std::thread::Builder::new().name(format!("fuse-spin-{cpu}"));
            threads.push(thread.spawn(move || own.run(cpu))?);
        }
        Ok(spinners)
    }

    /// Returns the CPU time that was spun away.
    pub(super) fn spun(&self) -> Duration {
        Duration::from_nanos(self.spun.load(Ordering::Relaxed))
    }

    fn run(&self, cpu: usize) {
        let mut only = CpuSet::new();
        only.set(cpu);
        // A thread that is not idle-class or not on its CPU would take time from others.
        if sched_setaffinity(None, &only).is_err() || !set_class(gettid(), libc::SCHED_IDLE) {
            return;
        }
        let mut seen = 0;
        while self.activity.sleep(seen) {
            let before = clock(ClockId::ThreadCPUTime);
            self.spin(&mut seen);
            let spun = clock(ClockId::ThreadCPUTime).saturating_sub(before);
            self.spun.fetch_add(spun.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    fn spin(&self, seen: &mut u64) {
        let mut last = clock(ClockId::Monotonic);
        loop {
            for _ in 0..SPINS {
                std::hint::spin_loop();
            }
            let now = clock(ClockId::Monotonic);
            let requests = self.activity.requests();
            if requests != *seen {
                *seen = requests;
                last = now;
            } else if now.saturating_sub(last) > self.hold || self.activity.is_ended() {
                return;
            }
        }
    }
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}
