//! What this machine takes to wake another process and be woken by it: the part of a request that is nobody's code.
//!
//! A byte goes through a pipe to `cat` and comes back through another: two switches, with both processes held on one CPU,
//! and on two.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::interrupt;
use super::measure::Stopwatch;
use super::statistics::{Quantiles, quantiles};

/// Round trips that are timed, and those before them.
const COUNT: usize = 20_000;
const BEFORE: usize = 1_000;

/// Seconds of a byte's round trip between two processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Switches {
    pub(crate) one_cpu: Quantiles,
    /// Nothing on a machine of one CPU.
    pub(crate) two_cpus: Option<Quantiles>,
}

/// Measures both.
pub(crate) fn measure() -> Result<Switches> {
    let place = Place::of_this_thread()?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| place.0.is_set(*cpu))
        .take(2)
        .collect();
    let first = *cpus.first().context("this process may run on no CPU")?;
    let two_cpus = cpus
        .get(1)
        .map(|second| round_trips(&place, first, *second))
        .transpose()?;
    Ok(Switches {
        one_cpu: round_trips(&place, first, first)?,
        two_cpus,
    })
}

/// Times round trips between this thread on the CPU `here` and `cat` on the CPU `there`.
fn round_trips(place: &Place, here: usize, there: usize) -> Result<Quantiles> {
    place.only(there)?;
    let mut other = Echo::start()?;
    place.only(here)?;
    for _ in 0..BEFORE {
        other.round_trip()?;
    }
    interrupt::check()?;
    let mut latencies = Vec::with_capacity(COUNT);
    for _ in 0..COUNT {
        let watch = Stopwatch::start();
        other.round_trip()?;
        latencies.push(watch.seconds());
    }
    interrupt::check()?;
    Ok(quantiles(&latencies))
}

/// The CPUs that this thread may run on; given back to it when dropped.
struct Place(CpuSet);

impl Place {
    fn of_this_thread() -> Result<Place> {
        sched_getaffinity(None)
            .map(Place)
            .context("cannot tell where this process may run")
    }

    /// Holds this thread, and the processes that it starts, on `cpu`.
    fn only(&self, cpu: usize) -> Result<()> {
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).with_context(|| format!("cannot run on CPU {cpu}"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // It could run there before.
        let _ = sched_setaffinity(None, &self.0);
    }
}

/// A process that gives back each byte; ended when dropped.
struct Echo(Child);

impl Echo {
    fn start() -> Result<Echo> {
        let cat = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        cat.map(Echo).context("cannot start `cat`")
    }

    fn round_trip(&mut self) -> Result<()> {
        let (input, output) = (self.0.stdin.as_mut(), self.0.stdout.as_mut());
        input.expect("it is a pipe").write_all(&[1])?;
        output.expect("it is a pipe").read_exact(&mut [0])?;
        Ok(())
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // Its input ends, so it does.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_measured_and_the_thread_may_run_where_it_could_before() {
        let before = sched_getaffinity(None).expect("it runs somewhere");
        let switches = measure().expect("there is a `cat`");
        assert!(switches.one_cpu.median > 0.0);
        assert_eq!(switches.two_cpus.is_some(), before.count() > 1);
        assert_eq!(sched_getaffinity(None).expect("it runs somewhere"), before);
    }
}
