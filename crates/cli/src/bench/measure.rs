//! Measures one piece of work on one side: seconds, CPU, requests, memory, bytes written. The only place of the bench
//! that reads a clock.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

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
        let cost = Cost {
            content,
            cpu_seconds: after.ours - before.ours
                + (side_after.cpu_seconds - side_before.cpu_seconds).max(0.0),
            machine_cpu_seconds: after.machine - before.machine,
            requests: difference(&side_before, &side_after),
            bucket_requests: side_after
                .bucket_requests
                .saturating_sub(side_before.bucket_requests),
            peak_rss_bytes: side_after.peak_rss_bytes,
            written_bytes: side_after.written_bytes.saturating_sub(side_before.written_bytes),
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
    /// User and system, all its threads, and its children that it has waited for.
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_rss_bytes: u64,
}

/// Returns what the process `id` ("self" or a number) has used so far.
pub(crate) fn process(id: &str) -> Result<Process> {
    let directory = Path::new("/proc").join(id);
    let read = |file: &str| {
        let path = directory.join(file);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    Ok(Process {
        cpu_seconds: cpu_seconds(&read("stat")?),
        peak_rss_bytes: peak_rss_bytes(&read("status")?),
    })
}

/// CPU seconds of the bench with its children, and of the machine.
struct Usage {
    ours: f64,
    machine: f64,
}

impl Usage {
    fn now() -> Result<Usage> {
        let machine = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        Ok(Usage {
            ours: process("self")?.cpu_seconds,
            machine: busy_seconds(&machine),
        })
    }
}

/// Reads fields 14 to 17 of proc_pid_stat(5): utime, stime, cutime, cstime.
fn cpu_seconds(stat: &str) -> f64 {
    // The second field is the program's name in parentheses and may hold anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    seconds(ticks)
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

    #[test]
    fn a_process_name_may_hold_spaces_and_parentheses() {
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = format!("7 (a (b) c) S 1 7 7 0 -1 0 0 0 0 0 {ticks} {ticks} 0 {ticks} 20 0 1 0");
        assert_eq!(cpu_seconds(&stat), 3.0);
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
