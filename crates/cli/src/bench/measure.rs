//! Measures one piece of work on one side: seconds, CPU, requests, memory, bytes written. The only place of the bench
//! that reads a clock.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::process::Pid;

use super::account::Spent;
use super::input::Inputs;
use super::side::{Counters, Side};
use super::statistics::percentile;

/// What one metric was in one round on one side.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    /// The number that is compared: seconds until done or, where a final sync belongs to it, until durable.
    pub(crate) seconds: f64,
    /// The same without the final sync, where there is one.
    pub(crate) seconds_without_sync: Option<f64>,
    /// What it cost, unless it is one latency among many.
    pub(crate) cost: Option<Cost>,
}

/// What a piece of work cost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cost {
    /// What it worked on.
    pub(crate) content: Content,
    /// CPU seconds, user and system, of the programs that did the work and of the side's own process.
    pub(crate) cpu_seconds: f64,
    /// CPU seconds of the whole machine meanwhile, the kernel's own threads included.
    pub(crate) machine_cpu_seconds: f64,
    pub(crate) requests: BTreeMap<String, u64>,
    pub(crate) bucket_requests: u64,
    pub(crate) peak_rss_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Where its time went.
    pub(crate) spent: Spent,
}

/// How much a piece of work works on; zero where it does not matter.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Content {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// Whether the final sync belongs to a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Durable,
}

/// One round on one side: where a workload works and leaves what it measured.
pub(crate) struct Round<'a> {
    pub(crate) side: &'a mut dyn Side,
    pub(crate) inputs: &'a Inputs,
    /// Tells rounds and sides apart where their contents must differ.
    pub(crate) seed: u64,
    pub(crate) samples: Vec<(&'static str, Sample)>,
}

impl Round<'_> {
    /// Measures `work` until it is durable: the work, then the side's own sync of everything.
    pub(crate) fn until_durable(
        &mut self,
        metric: &'static str,
        content: Content,
        work: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        self.measure(metric, content, End::Durable, work)
    }

    /// Measures `work` until it is done: it reads only, or syncs what it promises by itself.
    pub(crate) fn until_done(
        &mut self,
        metric: &'static str,
        content: Content,
        work: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        self.measure(metric, content, End::Done, work)
    }

    /// Records a number that the workload measured itself.
    pub(crate) fn record(&mut self, metric: &'static str, seconds: f64) {
        self.samples.push((
            metric,
            Sample {
                seconds,
                ..Sample::default()
            },
        ));
    }

    /// Measures `work`, which times each of its operations itself: their median, with what all of them cost, and their
    /// 99th percentile.
    pub(crate) fn latencies(
        &mut self,
        median: &'static str,
        p99: &'static str,
        content: Content,
        work: impl FnOnce(&Path) -> Result<Vec<f64>>,
    ) -> Result<()> {
        let mut latencies = Vec::new();
        self.until_done(median, content, |at| {
            latencies = work(at)?;
            Ok(())
        })?;
        let (_, sample) = self.samples.last_mut().expect("it was just measured");
        sample.seconds = percentile(&latencies, 0.50);
        self.record(p99, percentile(&latencies, 0.99));
        Ok(())
    }

    fn measure(
        &mut self,
        metric: &'static str,
        content: Content,
        end: End,
        work: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        // What earlier work left dirty, on either side, is not this work's to pay for.
        self.side.make_durable()?;
        rustix::fs::sync();
        let path = self.side.path().to_owned();
        let side_before = self.side.counters()?;
        let before = Usage::now()?;
        let watch = Stopwatch::start();
        work(&path).with_context(|| format!("{metric} on {}", self.side.name()))?;
        let done = watch.seconds();
        if end == End::Durable {
            self.side.make_durable()?;
        }
        let durable = watch.seconds();
        let after = Usage::now()?;
        let side_after = self.side.counters()?;
        let mut spent = spent(&side_before, &side_after);
        spent.callers_seconds = after.ours - before.ours;
        (spent.wall_seconds, spent.sync_seconds) = match end {
            End::Done => (done, 0.0),
            End::Durable => (durable, durable - done),
        };
        let cost = Cost {
            content,
            cpu_seconds: spent.callers_seconds + spent.daemon_user_seconds + spent.daemon_system_seconds,
            machine_cpu_seconds: after.machine - before.machine,
            requests: difference(&side_before, &side_after),
            bucket_requests: side_after
                .bucket_requests
                .saturating_sub(side_before.bucket_requests),
            peak_rss_bytes: side_after.peak_rss_bytes,
            written_bytes: (side_after.traffic.written_bytes)
                .saturating_sub(side_before.traffic.written_bytes),
            spent,
        };
        let sample = match end {
            End::Done => Sample {
                seconds: done,
                seconds_without_sync: None,
                cost: Some(cost),
            },
            End::Durable => Sample {
                seconds: durable,
                seconds_without_sync: Some(done),
                cost: Some(cost),
            },
        };
        self.samples.push((metric, sample));
        Ok(())
    }
}

/// A running stopwatch.
#[derive(Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts it.
    #[expect(
        clippy::disallowed_methods,
        reason = "measuring time is what the bench is for; this is its one clock"
    )]
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Returns the seconds since it was started.
    pub(crate) fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Process {
    /// Of all its threads, and of its children that it has waited for.
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    pub(crate) peak_rss_bytes: u64,
}

/// Returns what the process `id` ("self" or a number) has used so far.
pub(crate) fn process(id: &str) -> Result<Process> {
    let directory = Path::new("/proc").join(id);
    let read = |file: &str| {
        let path = directory.join(file);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (user_seconds, system_seconds) = cpu_seconds(&read("stat")?);
    Ok(Process {
        user_seconds,
        system_seconds,
        peak_rss_bytes: peak_rss_bytes(&read("status")?),
    })
}

/// Returns the CPU seconds of those threads of a process that answer the kernel; nothing where it has none, or where the
/// kernel does not count by thread.
pub(crate) fn serving_seconds(process: Pid) -> Option<f64> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).ok()?;
    let seconds = threads.flatten().filter_map(|thread| {
        // A thread may end meanwhile.
        let name = std::fs::read_to_string(thread.path().join("comm")).ok()?;
        let statistics = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        answers_the_kernel(name.trim_end()).then(|| running_seconds(&statistics))?
    });
    seconds.reduce(|sum, seconds| sum + seconds)
}

/// Tells by its name whether a thread answers the kernel: `fuse-0`, or `fuse-ring-0`.
fn answers_the_kernel(name: &str) -> bool {
    let number = name
        .strip_prefix("fuse-")
        .map(|rest| rest.strip_prefix("ring-").unwrap_or(rest));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Reads the first number of a thread's `schedstat`: nanoseconds on a CPU.
pub(crate) fn running_seconds(statistics: &str) -> Option<f64> {
    let nanoseconds = statistics.split_whitespace().next()?.parse::<u64>().ok()?;
    Some(nanoseconds as f64 / 1e9)
}

/// Returns what a side's process and disk have spent meanwhile.
fn spent(before: &Counters, after: &Counters) -> Spent {
    // A process that was begun again counts from zero.
    let beyond = |of: fn(&Counters) -> f64| (of(after) - of(before)).max(0.0);
    Spent {
        daemon_user_seconds: beyond(|counters| counters.user_seconds),
        daemon_system_seconds: beyond(|counters| counters.system_seconds),
        serving_seconds: beyond(|counters| counters.serving_seconds.unwrap_or(0.0)),
        flushes: beyond(|counters| counters.traffic.flushes as f64),
        flush_seconds: beyond(|counters| counters.traffic.flush_seconds),
        disk_busy_seconds: beyond(|counters| counters.traffic.busy_seconds),
        ..Spent::default()
    }
}

/// CPU seconds of the bench with its children, and of the machine.
struct Usage {
    ours: f64,
    machine: f64,
}

impl Usage {
    fn now() -> Result<Usage> {
        let machine = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        let ours = process("self")?;
        Ok(Usage {
            ours: ours.user_seconds + ours.system_seconds,
            machine: busy_seconds(&machine),
        })
    }
}

/// Reads fields 14 to 17 of proc_pid_stat(5), utime, stime, cutime, cstime; returns user and system seconds.
fn cpu_seconds(stat: &str) -> (f64, f64) {
    // The second field is the program's name in parentheses and may hold anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = after_name.split_whitespace().skip(11).take(4);
    let ticks: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    match ticks[..] {
        [user, system, children_user, children_system] => {
            (seconds(user + children_user), seconds(system + children_system))
        }
        _ => (0.0, 0.0),
    }
}

/// Reads VmHWM of proc_pid_status(5).
fn peak_rss_bytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Reads the first line of proc_stat(5): all but idle (4th), iowait (5th), and guests, which user time holds already.
fn busy_seconds(stat: &str) -> f64 {
    let first = stat.lines().next().unwrap_or_default();
    let fields: Vec<u64> = first
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    let busy = fields
        .iter()
        .take(8)
        .enumerate()
        .filter(|(place, _)| !matches!(place, 3 | 4));
    seconds(busy.map(|(_, ticks)| ticks).sum())
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

fn difference(before: &Counters, after: &Counters) -> BTreeMap<String, u64> {
    let pairs = after.requests.iter().map(|(opcode, count)| {
        let earlier = before.requests.get(opcode).copied().unwrap_or(0);
        (opcode.clone(), count.saturating_sub(earlier))
    });
    pairs.filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::disk::Traffic;

    #[test]
    fn a_process_name_may_hold_spaces_and_parentheses() {
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = format!("7 (a (b) c) S 1 7 7 0 -1 0 0 0 0 0 {ticks} {ticks} 0 {ticks} 20 0 1 0");
        assert_eq!(cpu_seconds(&stat), (1.0, 2.0));
    }

    #[test]
    fn threads_that_answer_the_kernel_are_known_by_their_names() {
        let named = |name: &&str| answers_the_kernel(name);
        let names = ["fuse-0", "fuse-notify", "fuse-ring-1", "fuse-courtesy", "shipper"];
        assert_eq!(
            names.iter().filter(|name| named(name)).collect::<Vec<_>>(),
            [&"fuse-0", &"fuse-ring-1"]
        );
        assert_eq!(running_seconds("1500000000 7 3\n"), Some(1.5));
    }

    #[test]
    fn what_a_process_and_its_disk_spent_is_what_came_meanwhile() {
        let counted = |serving: f64, flushes: u64| Counters {
            serving_seconds: Some(serving),
            traffic: Traffic {
                flushes,
                ..Traffic::default()
            },
            ..Counters::default()
        };
        let spent = spent(&counted(1.0, 5), &counted(3.5, 7));
        assert_eq!((spent.serving_seconds, spent.flushes), (2.5, 2.0));
    }

    #[test]
    fn a_machine_is_busy_when_it_neither_idles_nor_waits_for_a_disk() {
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = format!("cpu  {ticks} 0 {ticks} 999 999 0 {ticks} 0 {ticks} 0\ncpu0 1 1 1");
        assert_eq!(busy_seconds(&stat), 3.0);
    }

    #[test]
    fn this_process_has_used_memory() {
        assert!(process("self").expect("it is running").peak_rss_bytes > 100_000);
    }

    #[test]
    fn only_what_was_asked_meanwhile_counts() {
        let counted = |pairs: &[(&str, u64)]| Counters {
            requests: pairs
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
            ..Counters::default()
        };
        let meanwhile = difference(
            &counted(&[("LOOKUP", 5), ("READ", 2)]),
            &counted(&[("LOOKUP", 9), ("READ", 2), ("MKNOD", 1)]),
        );
        assert_eq!(
            meanwhile.into_iter().collect::<Vec<_>>(),
            [("LOOKUP".into(), 4), ("MKNOD".into(), 1)]
        );
    }
}
