//! Serving threads that give way, so that a caller stays on its CPU.
//!
//! A caller that waits for its answer wakes where the scheduler finds an idle CPU, and a wake-up of another CPU costs more
//! than a request, most of all where CPUs are virtual. A CPU that runs nothing but a thread of the idle class
//! (SCHED_IDLE) counts as idle: so serving threads of that class, one on each CPU, answer a caller who then goes on where
//! it was. On a busy machine such a thread would starve. Invariant: a serving thread that has waited for its CPU for a
//! whole tick is back in the usual class, for a time that grows while that keeps happening.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Resource, geteuid, getpid, getrlimit};
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};

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
    /// `/proc/self/task/<thread>/schedstat` and `stat`.
    schedstat: File,
    stat: File,
    class: Class,
    slices: u64,
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
        let open = |file: &str| File::open(format!("/proc/self/task/{}/{file}", thread.as_raw_nonzero()));
        match (open("schedstat"), open("stat")) {
            (Ok(schedstat), Ok(stat)) => {
                let mut serving = Serving {
                    thread,
                    cpu,
                    schedstat,
                    stat,
                    class: Class::Idle,
                    slices: 0,
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
            if serving.class == Class::Idle {
                serving.give_way();
            }
        }
    }

    fn run(&self) {
        *self.looking.lock() = Some(gettid());
        let mut seen = 0;
        while self.activity.sleep(seen) {
            let mut quiet = 0;
            while quiet < QUIET_TICKS {
                if !self.activity.pause(TICK) {
                    return;
                }
                let requests = self.activity.requests();
                quiet = if requests == seen { quiet + 1 } else { 0 };
                seen = requests;
                for serving in self.serving.lock().iter_mut() {
                    serving.look();
                }
                self.turns.look();
            }
        }
    }
}

impl Serving {
    /// Looks whether the thread has waited for its CPU since the last look, and whether it may give way again.
    fn look(&mut self) {
        match self.class {
            Class::Idle => {
                let before = std::mem::replace(&mut self.slices, slices(&self.schedstat).unwrap_or(0));
                if before == self.slices && is_waiting_for_cpu(&self.stat) {
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
            && set_class(self.thread, libc::SCHED_IDLE)
        {
            self.class = Class::Idle;
            self.slices = 0;
        } else {
            self.class = Class::Usual {
                ticks_left: CALM_TICKS_MAX,
            };
        }
    }

    fn feed(&mut self) {
        self.fed_ticks += 1;
        if self.fed_ticks == FED_TICKS {
            self.fed_ticks = 0;
            self.calm_ticks = (self.calm_ticks / 2).max(CALM_TICKS_MIN);
        }
    }

    fn come_back(&mut self) {
        set_class(self.thread, libc::SCHED_OTHER);
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
    set_class(gettid(), class);
    if let Ok(usual) = sched_getaffinity(Some(first)) {
        let _ = sched_setaffinity(None, &usual);
    }
}

fn only(cpu: usize) -> CpuSet {
    let mut only = CpuSet::new();
    only.set(cpu);
    only
}

/// Returns how often the thread was given a CPU: the third number (`Documentation/scheduler/sched-stats.rst`).
fn slices(schedstat: &File) -> Option<u64> {
    let mut text = [0; 96];
    let len = schedstat.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..len])
        .ok()?
        .split_whitespace()
        .nth(2)?
        .parse()
        .ok()
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

/// Puts a thread of this process into a scheduling class; tells whether that worked.
pub(super) fn set_class(thread: Pid, class: libc::c_int) -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters are read during the call only, and a thread that has ended is an error.
    unsafe { libc::sched_setscheduler(thread.as_raw_nonzero().get(), class, &raw const parameters) == 0 }
}
