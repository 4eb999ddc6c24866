//! Serving threads that give way, so that a caller stays on its CPU.
//!
//! A caller that waits for its answer wakes where the scheduler finds an idle CPU, and a wake-up of another CPU costs more
//! than a request, most of all where CPUs are virtual. A CPU that runs nothing but a thread of the idle class
//! (SCHED_IDLE) counts as idle: so serving threads of that class, one on each CPU, answer a caller who then goes on where
//! it was. On a busy machine such a thread would starve, or get its CPU so late that all waits for it. Invariant: a serving
//! thread that others than its caller keep from its CPU for half the time, a few ticks long, is back in the usual class, with a
//! slice so short that it gets the CPU soon, for a time that grows while that keeps happening.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Resource, geteuid, getpid, getpriority_process, getrlimit};
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::activity::Activity;
use super::follow::Turns;

/// How often serving threads are looked at while requests come.
const TICK: Duration = Duration::from_millis(10);
/// Ticks without a request after which nobody looks any more.
const QUIET_TICKS: u32 = 10;
/// Ticks that a starved thread stays in the usual class: at first, and at most when it starves again and again.
const CALM_TICKS_MIN: u32 = 4;
const CALM_TICKS_MAX: u32 = 256;
/// Ticks without starving after which the next stay is half as long.
const FED_TICKS: u32 = 16;
/// How long in a tick a thread may wait for its CPU while neither its caller nor its own process runs.
const WAIT_MAX: Duration = Duration::from_millis(5);
/// Ticks in a row in which it waits longer until it counts as starved.
const HUNGRY_TICKS: u32 = 3;
/// What a thread asks for of its CPU in the usual class: of threads that wake, those that ask for less go first.
const SLICE_SHORT: Duration = Duration::from_micros(100);
/// What the kernel gives to all.
const SLICE_USUAL: Duration = Duration::ZERO;

/// What a mount does about the time that a wake-up takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wakeups {
    /// Nothing.
    Sleep,
    /// Threads that serve give way to everything, one on each CPU, so that callers stay where they are.
    #[default]
    Stay,
}

/// The serving threads of a mount.
#[derive(Debug)]
pub(super) struct Courtesy {
    activity: Arc<Activity>,
    serving: Mutex<Vec<Serving>>,
    turns: Turns,
    allowed: CpuSet,
    /// The thread that looks.
    looking: Mutex<Option<Pid>>,
}

#[derive(Debug)]
struct Serving {
    thread: Pid,
    cpu: usize,
    times: Times,
    /// `/proc/self/task/<thread>/stat`.
    stat: File,
    /// Who calls, and its times.
    caller: Option<(u32, Times)>,
    class: Class,
    hungry_ticks: u32,
    fed_ticks: u32,
    calm_ticks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Idle,
    Usual { ticks_left: u32 },
}

impl Courtesy {
    /// Starts the thread that looks after serving threads, where this process may change their class both ways.
    pub(super) fn spawn(
        activity: &Arc<Activity>,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> std::io::Result<Option<Arc<Courtesy>>> {
        /// The limit that lets a process return to the usual class (sched(7)).
        const NICE_ZERO: u64 = 20;
        if !geteuid().is_root()
            && getrlimit(Resource::Nice)
                .current
                .is_some_and(|limit| limit < NICE_ZERO)
        {
            return Ok(None);
        }
        let courtesy = Arc::new(Courtesy {
            activity: Arc::clone(activity),
            serving: Mutex::default(),
            turns: Turns::default(),
            looking: Mutex::default(),
            allowed: sched_getaffinity(None)?,
        });
        let own = Arc::clone(&courtesy);
        threads.push(
            std::thread::Builder::new()
                .name("fuse-courtesy".into())
                .spawn(move || own.run())?,
        );
        Ok(Some(courtesy))
    }

    /// Returns the CPUs that this process may run on.
    pub(super) fn cpus(&self) -> Vec<usize> {
        (0..CpuSet::MAX_CPU)
            .filter(|cpu| self.allowed.is_set(*cpu))
            .collect()
    }

    /// Lets the calling thread, which serves, give way on `cpu`.
    pub(super) fn join(&self, cpu: usize) {
        let thread = gettid();
        let own = format!("/proc/self/task/{}", thread.as_raw_nonzero());
        match (Times::of(&own), File::open(format!("{own}/stat"))) {
            (Ok(times), Ok(stat)) => {
                let mut serving = Serving {
                    thread,
                    cpu,
                    times,
                    stat,
                    caller: None,
                    class: Class::Idle,
                    hungry_ticks: 0,
                    fed_ticks: 0,
                    calm_ticks: CALM_TICKS_MIN,
                };
                serving.give_way();
                self.serving.lock().push(serving);
            }
            // Without them nobody would see it starve.
            (Err(error), _) | (_, Err(error)) => tracing::debug!(%error, "a serving thread keeps its class"),
        }
    }

    /// Returns who of the device's readers reads.
    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Moves the calling thread, which has joined, to another CPU, and with it the thread that looks: a CPU that falls idle
    /// when that one sleeps takes the caller of the first from where it is.
    pub(super) fn follow(&self, cpu: usize) {
        if !self.allowed.is_set(cpu) {
            return;
        }
        if let Some(looking) = *self.looking.lock() {
            // Where that is not possible, it costs some speed and nothing else.
            let _ = sched_setaffinity(Some(looking), &only(cpu));
        }
        let thread = gettid();
        let mut all = self.serving.lock();
        if let Some(serving) = all.iter_mut().find(|serving| serving.thread == thread) {
            serving.cpu = cpu;
            let _ = sched_setaffinity(None, &only(cpu));
        }
    }

    fn run(&self) {
        *self.looking.lock() = Some(gettid());
        let mut seen = 0;
        let mut process = process_ran();
        while self.activity.sleep(seen) {
            let mut quiet = 0;
            while quiet < QUIET_TICKS {
                if !self.activity.pause(TICK) {
                    return;
                }
                let requests = self.activity.requests();
                quiet = if requests == seen { quiet + 1 } else { 0 };
                seen = requests;
                let caller = self.turns.caller();
                let ran = process_ran();
                let own = ran.saturating_sub(std::mem::replace(&mut process, ran));
                for serving in self.serving.lock().iter_mut() {
                    serving.look(caller, own);
                }
                self.turns.look();
            }
        }
    }
}

impl Serving {
    /// Looks whether the thread has waited for its CPU since the last look, longer than `caller` (a thread's number, 0 when
    /// unknown) and its own process ran, and whether it may give way again.
    fn look(&mut self, caller: u32, own: Duration) {
        match self.class {
            Class::Idle => {
                let passed = self.times.pass();
                let is_hungry = passed.waited > self.ran(caller) + own + WAIT_MAX;
                self.hungry_ticks = if is_hungry { self.hungry_ticks + 1 } else { 0 };
                let has_waited_all_the_time = passed.slices == 0 && is_waiting_for_cpu(&self.stat);
                if has_waited_all_the_time || self.hungry_ticks == HUNGRY_TICKS {
                    self.come_back();
                } else {
                    self.feed();
                }
            }
            Class::Usual { ticks_left: 0 } => self.give_way(),
            Class::Usual { ticks_left } => {
                self.class = Class::Usual {
                    ticks_left: ticks_left - 1,
                }
            }
        }
    }

    fn give_way(&mut self) {
        if sched_setaffinity(Some(self.thread), &only(self.cpu)).is_ok()
            && set_class(self.thread, libc::SCHED_IDLE, SLICE_USUAL)
        {
            self.class = Class::Idle;
            self.times.pass();
        } else {
            self.class = Class::Usual {
                ticks_left: CALM_TICKS_MAX,
            };
        }
    }

    /// Returns how long `caller` has run since the last look; nothing when it was another then.
    fn ran(&mut self, caller: u32) -> Duration {
        if let Some((of, times)) = &mut self.caller
            && *of == caller
        {
            return times.pass().ran;
        }
        let times = Times::of(&format!("/proc/{caller}")).ok();
        self.caller = times.map(|times| (caller, times));
        Duration::ZERO
    }

    fn feed(&mut self) {
        self.fed_ticks += 1;
        if self.fed_ticks == FED_TICKS {
            self.fed_ticks = 0;
            self.calm_ticks = (self.calm_ticks / 2).max(CALM_TICKS_MIN);
        }
    }

    fn come_back(&mut self) {
        self.hungry_ticks = 0;
        set_class(self.thread, libc::SCHED_OTHER, SLICE_SHORT);
        self.class = Class::Usual {
            ticks_left: self.calm_ticks,
        };
        self.calm_ticks = (self.calm_ticks * 2).min(CALM_TICKS_MAX);
        self.fed_ticks = 0;
    }
}

/// Lets the calling thread, which a serving thread has started, run as the threads of this process usually do.
pub fn serve_no_more() {
    // Its first thread serves nobody. What is not possible costs some speed and nothing else.
    let first = getpid();
    // SAFETY: the call touches no memory.
    let class = unsafe { libc::sched_getscheduler(first.as_raw_nonzero().get()) };
    set_class(gettid(), class, SLICE_USUAL);
    if let Ok(usual) = sched_getaffinity(Some(first)) {
        let _ = sched_setaffinity(None, &usual);
    }
}

fn only(cpu: usize) -> CpuSet {
    let mut only = CpuSet::new();
    only.set(cpu);
    only
}

/// What a thread has got of the CPUs, from its `schedstat` (`Documentation/scheduler/sched-stats.rst`).
#[derive(Debug)]
struct Times {
    schedstat: File,
    seen: Passed,
}

/// What a thread got between two looks.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    ran: Duration,
    /// How long it waited for a CPU, as far as it has one since.
    waited: Duration,
    /// How often it was given a CPU.
    slices: u64,
}

impl Times {
    /// Returns the times of the thread whose directory in `/proc` is `directory`, from now on.
    fn of(directory: &str) -> std::io::Result<Times> {
        let mut times = Times {
            schedstat: File::open(format!("{directory}/schedstat"))?,
            seen: Passed::default(),
        };
        times.pass();
        Ok(times)
    }

    /// Returns what has passed since the last call; nothing of a thread that has ended.
    fn pass(&mut self) -> Passed {
        let now = self.read().unwrap_or(self.seen);
        let seen = std::mem::replace(&mut self.seen, now);
        Passed {
            ran: now.ran.saturating_sub(seen.ran),
            waited: now.waited.saturating_sub(seen.waited),
            slices: now.slices.saturating_sub(seen.slices),
        }
    }

    fn read(&self) -> Option<Passed> {
        let mut text = [0; 96];
        let len = self.schedstat.read_at(&mut text, 0).ok()?;
        let mut numbers = std::str::from_utf8(&text[..len]).ok()?.split_whitespace();
        let mut next = || numbers.next()?.parse().ok();
        Some(Passed {
            ran: Duration::from_nanos(next()?),
            waited: Duration::from_nanos(next()?),
            slices: next()?,
        })
    }
}

/// Returns how long all threads of this process together have run.
fn process_ran() -> Duration {
    let ran = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(ran.tv_sec.cast_unsigned(), ran.tv_nsec as u32)
}

/// Tells whether the thread could run and does not: its state, behind the name in parentheses, is `R` (proc_pid_stat(5)).
fn is_waiting_for_cpu(stat: &File) -> bool {
    let mut text = [0; 128];
    let len = stat.read_at(&mut text, 0).unwrap_or(0);
    let behind_name = text[..len]
        .iter()
        .rposition(|byte| *byte == b')')
        .map(|at| &text[at..len]);
    behind_name.and_then(|rest| rest.get(2)) == Some(&b'R')
}

/// Puts a thread of this process into a scheduling class, with a slice of its CPU; tells whether that worked.
pub(super) fn set_class(thread: Pid, policy: libc::c_int, slice: Duration) -> bool {
    let Ok(nice) = getpriority_process(Some(thread)) else {
        return false;
    };
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: policy.cast_unsigned(),
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: slice.as_nanos() as u64,
        sched_deadline: 0,
        sched_period: 0,
    };
    let thread = thread.as_raw_nonzero().get();
    // SAFETY: the attributes are read during the call only, and a thread that has ended is an error.
    unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_passed_is_told_once() {
        let own = format!("/proc/self/task/{}", gettid().as_raw_nonzero());
        let mut times = Times::of(&own).expect("this thread has times");
        let mut ran = Duration::ZERO;
        while ran < TICK {
            ran += times.pass().ran;
        }
        assert!(times.pass().ran < ran);
    }

    #[test]
    fn a_thread_changes_its_class_and_keeps_its_niceness() {
        std::thread::spawn(|| {
            let own = gettid();
            let nice = getpriority_process(Some(own)).expect("it has one");
            for (policy, slice) in [(libc::SCHED_IDLE, SLICE_USUAL), (libc::SCHED_OTHER, SLICE_SHORT)] {
                // A user who is not root may be kept from coming back.
                if !set_class(own, policy, slice) {
                    return;
                }
                // SAFETY: the call touches no memory.
                let class = unsafe { libc::sched_getscheduler(own.as_raw_nonzero().get()) };
                assert_eq!(class, policy);
                assert_eq!(getpriority_process(Some(own)).expect("it has one"), nice);
            }
        })
        .join()
        .expect("the thread ends");
    }
}
