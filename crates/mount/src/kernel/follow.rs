//! Which threads read the device: one that follows its caller from CPU to CPU, or all.
//!
//! The kernel hands a request to the thread that has waited longest, on whatever CPU that is, and a wake-up of another CPU
//! costs several times the request. So one thread, the first, reads alone and stays on the CPU of the thread that calls;
//! where callers are on several CPUs, or an answer takes long or is large, all read, each on a CPU of its own. Invariant: the
//! first thread reads whenever it does not answer, and a thread that does not read is woken when it must.
//!
//! While one thread calls and no other, the first may take its time over an answer: who else comes meanwhile is served by the
//! others from the second tick on.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Requests between two looks at where the caller runs; twice as many each time that it is where it was, up to the maximum.
/// A look costs more than half a request; a request that is answered from another CPU costs three.
const BETWEEN_LOOKS: u32 = 16;
const BETWEEN_LOOKS_MAX: u32 = 128;
/// A thread that has waited longer for a request has lost its caller to another CPU, or that had nothing to ask. A caller on the
/// same CPU takes it before the call returns that has answered it, and gives it back by asking again: then hardly anything is
/// waited for.
const AWAY: Duration = Duration::from_micros(10);
/// Of so many last looks, how many may find another caller on another CPU before callers count as being everywhere.
const LOOKS: u32 = 16;
const SCATTERED_MAX: u32 = 5;
/// Requests in a row from one thread until it counts as the only caller.
const LONE: u32 = 16;
/// Requests of the first thread that all threads read for before it reads alone again.
const SPREAD: u64 = 512;
/// The same after a bulky request: the kernel reads ahead of who reads in sequence, so the next is on its way.
const SPREAD_BULKY: u64 = 16;

/// What the threads that read one device agree on.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Whether all threads read.
    spread: AtomicBool,
    ended: AtomicBool,
    /// Odd while the first thread answers a request.
    steps: AtomicU64,
    steps_seen: AtomicU64,
    /// The thread that called the first one last, 0 when unknown.
    caller: AtomicU32,
    state: Mutex<()>,
    called: Condvar,
}

impl Turns {
    /// Waits until threads beside the first may read.
    pub(super) fn wait(&self) {
        if self.is_for_all() {
            return;
        }
        let mut state = self.state.lock();
        while !self.is_for_all() {
            self.called.wait(&mut state);
        }
    }

    /// Tells whether all threads read.
    pub(super) fn is_for_all(&self) -> bool {
        self.spread.load(Ordering::Relaxed) || self.ended.load(Ordering::Relaxed)
    }

    /// Returns the thread that called last, 0 when unknown.
    pub(super) fn caller(&self) -> u32 {
        self.caller.load(Ordering::Relaxed)
    }

    fn spread(&self) {
        let _state = self.state.lock();
        self.spread.store(true, Ordering::Relaxed);
        self.called.notify_all();
    }

    fn gather(&self) {
        self.spread.store(false, Ordering::Relaxed);
    }

    /// Lets all threads see that the mount is gone.
    pub(super) fn end(&self) {
        let _state = self.state.lock();
        self.ended.store(true, Ordering::Relaxed);
        self.called.notify_all();
    }

    /// Looks, once in a while, whether the first thread is still at the answer that it was at before: then all read.
    pub(super) fn look(&self) {
        let steps = self.steps.load(Ordering::Relaxed);
        let before = self.steps_seen.swap(steps, Ordering::Relaxed);
        if steps == before && !steps.is_multiple_of(2) && !self.is_for_all() {
            self.spread();
        }
    }
}

/// What the first thread knows of its callers.
#[derive(Debug)]
pub(super) struct Follower<'a> {
    turns: &'a Turns,
    /// Where it is while all read.
    home: usize,
    cpu: usize,
    caller: Option<Caller>,
    /// The thread that called last, and how often in a row it had called before.
    last: (u32, u32),
    until_look: u32,
    between_looks: u32,
    /// A bit for each of the last looks: whether it found another caller, on another CPU.
    scattered: u32,
    requests: u64,
    spread_end: u64,
}

#[derive(Debug)]
struct Caller {
    thread: u32,
    /// `/proc/<thread>/stat`.
    stat: File,
}

impl<'a> Follower<'a> {
    /// Returns the follower of a thread that begins on `cpu`.
    pub(super) fn new(turns: &'a Turns, cpu: usize) -> Follower<'a> {
        Follower {
            turns,
            home: cpu,
            cpu,
            caller: None,
            last: (0, 0),
            until_look: 1,
            between_looks: BETWEEN_LOOKS,
            scattered: 0,
            requests: 0,
            spread_end: 0,
        }
    }

    /// Says that a request of `caller` came (a thread's number, 0 when unknown) and how long it was waited for; tells whether that
    /// is the only caller.
    pub(super) fn begin(&mut self, caller: u32, waited: Duration) -> bool {
        if waited > AWAY {
            self.until_look = 0;
        }
        self.turns.steps.fetch_add(1, Ordering::Relaxed);
        self.turns.caller.store(caller, Ordering::Relaxed);
        if caller == 0 {
            return false;
        }
        let (last, before) = self.last;
        let row = if caller == last {
            before.saturating_add(1)
        } else {
            0
        };
        self.last = (caller, row);
        row >= LONE && !self.turns.is_for_all()
    }

    /// Says that the request of `caller` was handled (a thread's number, 0 when unknown), and whether it was a bulky one;
    /// returns the CPU to move to.
    pub(super) fn end(&mut self, caller: u32, is_bulky: bool) -> Option<usize> {
        self.turns.steps.fetch_add(1, Ordering::Relaxed);
        self.requests += 1;
        if is_bulky {
            return self.spread(SPREAD_BULKY);
        }
        self.until_look = self.until_look.saturating_sub(1);
        if self.turns.is_for_all() {
            self.until_look = self.until_look.min(BETWEEN_LOOKS);
        }
        if self.requests < self.spread_end || self.until_look > 0 || caller == 0 {
            return None;
        }
        self.turns.gather();
        let known = self.caller.as_ref().is_some_and(|last| last.thread == caller);
        self.until_look = self.between_looks;
        let cpu = self.cpu_of(caller)?;
        let is_elsewhere = cpu != self.cpu;
        self.between_looks = if is_elsewhere {
            BETWEEN_LOOKS
        } else {
            BETWEEN_LOOKS_MAX.min(self.between_looks * 2)
        };
        self.scattered = (self.scattered << 1 | u32::from(is_elsewhere && !known)) & ((1 << LOOKS) - 1);
        if self.scattered.count_ones() > SCATTERED_MAX {
            // Nobody looks while all read: it is found out anew afterwards.
            self.scattered = 0;
            return self.spread(SPREAD);
        }
        self.go(cpu)
    }

    /// Lets all threads read for so many requests, each on a CPU of its own.
    fn spread(&mut self, requests: u64) -> Option<usize> {
        self.spread_end = self.spread_end.max(self.requests + requests);
        if !self.turns.is_for_all() {
            self.turns.spread();
        }
        self.go(self.home)
    }

    fn go(&mut self, cpu: usize) -> Option<usize> {
        (std::mem::replace(&mut self.cpu, cpu) != cpu).then_some(cpu)
    }

    /// Returns the CPU that a thread ran on last.
    fn cpu_of(&mut self, thread: u32) -> Option<usize> {
        if self.caller.as_ref().is_none_or(|last| last.thread != thread) {
            let stat = File::open(format!("/proc/{thread}/stat")).ok();
            self.caller = stat.map(|stat| Caller { thread, stat });
        }
        let mut text = [0; 512];
        let len = self.caller.as_ref()?.stat.read_at(&mut text, 0).ok()?;
        processor(&text[..len])
    }
}

/// Returns field 39 of a `stat` (proc_pid_stat(5)).
fn processor(stat: &[u8]) -> Option<usize> {
    /// The state, field 3, is the first one behind the name in parentheses.
    const BEHIND_NAME: usize = 39 - 3;
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(BEHIND_NAME)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::sync::Arc;

    #[test]
    fn the_processor_is_found_behind_a_name_that_looks_like_fields() {
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let stat = format!("77 (a) R 1 (b\n) S {}", fields.join(" "));
        assert_eq!(processor(stat.as_bytes()), Some(39));
        assert_eq!(processor(b"77 (a) S 1 2 3"), None);
        assert_eq!(processor(b"nothing"), None);
    }

    #[test]
    fn a_first_thread_that_does_not_come_back_calls_the_others() {
        let turns = Arc::new(Turns::default());
        let mut follower = Follower::new(&turns, 0);
        turns.look();
        turns.look();
        assert!(!turns.is_for_all(), "it waits for a request");
        follower.begin(0, Duration::ZERO);
        turns.look();
        assert!(!turns.is_for_all(), "it has just begun");
        let other = std::thread::spawn({
            let turns = Arc::clone(&turns);
            move || turns.wait()
        });
        turns.look();
        other.join().expect("the other thread reads");
    }

    #[test]
    fn a_bulky_request_calls_all_threads_for_a_while_and_the_first_goes_home() {
        let turns = Turns::default();
        let mut follower = Follower::new(&turns, 3);
        follower.cpu = 4;
        assert_eq!(follower.end(1, true), Some(3));
        assert!(turns.is_for_all());
        for _ in 0..SPREAD_BULKY {
            follower.end(std::process::id(), false);
        }
        assert!(!turns.is_for_all());
    }

    #[test]
    fn a_caller_who_stays_is_looked_for_less_and_less_often() {
        let turns = Turns::default();
        let allowed = sched_getaffinity(None).expect("it is told");
        let cpu = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu));
        let cpu = cpu.expect("this thread runs somewhere");
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).expect("a thread may stay");
        let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let mut follower = Follower::new(&turns, cpu);
        let mut looks = |requests| {
            let mut looks = 0;
            for _ in 0..requests {
                looks += u32::from(follower.until_look <= 1);
                follower.end(own, false);
            }
            looks
        };
        assert_eq!(looks(1 + 16 + 32 + 64), 4);
        assert_eq!(looks(BETWEEN_LOOKS_MAX * 4), 4);
    }

    #[test]
    fn a_caller_who_lets_itself_be_waited_for_is_looked_for_at_once() {
        let turns = Turns::default();
        // A CPU that no caller runs on.
        let mut follower = Follower::new(&turns, usize::MAX);
        let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let mut moves = |waited| {
            follower.cpu = usize::MAX;
            follower.begin(own, waited);
            follower.end(own, false).is_some()
        };
        assert!(moves(Duration::ZERO), "the first request is a reason to look");
        assert!(!moves(AWAY));
        assert!(moves(AWAY * 2));
        assert!(!moves(Duration::ZERO));
    }

    #[test]
    fn a_caller_is_the_only_one_once_nobody_else_has_called_for_a_while() {
        let turns = Turns::default();
        let mut follower = Follower::new(&turns, 0);
        let mut calls = |caller, count| {
            (0..count)
                .map(|_| follower.begin(caller, Duration::ZERO))
                .filter(|lone| *lone)
                .count()
        };
        assert_eq!(calls(7, LONE + 2), 2);
        assert_eq!(calls(8, 1), 0);
        assert_eq!(calls(7, LONE), 0);
        assert_eq!(calls(7, 1), 1);
        assert_eq!(calls(0, LONE + 2), 0, "nobody knows who that is");
        assert_eq!(calls(7, 1), 1);
        turns.spread();
        assert_eq!(calls(7, 1), 0, "others may call by other threads");
    }

    #[test]
    fn callers_on_several_cpus_call_all_threads_and_one_caller_lets_them_go() {
        let turns = Turns::default();
        // A CPU that no caller runs on, and callers that are never the same twice: this thread and its process's first.
        let mut follower = Follower::new(&turns, usize::MAX);
        let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let first = std::process::id();
        for look in 0..LOOKS {
            follower.cpu = usize::MAX;
            for _ in 0..BETWEEN_LOOKS {
                follower.end(if look % 2 == 0 { own } else { first }, false);
            }
        }
        assert!(turns.is_for_all());
        for _ in 0..2 * SPREAD {
            follower.end(own, false);
        }
        assert!(!turns.is_for_all());
    }
}
