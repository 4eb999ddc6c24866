//! What a request costs that does nothing: the least that a file system behind FUSE can take for one here.
//!
//! It is an `fgetxattr` of `.tenure`, the directory that every mount answers from within: the kernel asks each time, the
//! mount says at once that there is no such attribute, and no tree, no lock of the drive and no disk is touched. So it holds
//! the system call, the kernel's way to the serving process and back, and the decoding and answering there. Callers are
//! placed by the scheduler as those of a workload are: one that does nothing else, or several that keep every CPU busy. Of
//! those a request takes time from the CPUs, also where another of them goes on meanwhile.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;

use super::interrupt;
use super::measure::{Stopwatch, running_seconds};
use super::side::{Counters, Side};
use super::statistics::{Quantiles, quantiles};

/// Requests that are timed, and those before them in which the serving thread finds its caller.
const COUNT: usize = 20_000;
const BEFORE: usize = 1_000;
/// Several callers' requests are timed in so many parts, each beside the same without requests.
const PARTS: usize = 10;
/// Several callers for each CPU, so that each has always somebody who can go on.
const CALLERS_PER_CPU: usize = 2;
/// Steps of each of several callers between two requests, some 50 us of them: in `npm ci`, a request comes each 60 us of CPU.
const STEPS: u64 = 25_000;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callers {
    /// One that waits for each request before it goes on.
    One,
    /// More than there are CPUs, with work of their own.
    Several,
}

/// What one request costs that does nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floor {
    /// Seconds that the caller waits; of several, by which all of them together are done later.
    pub(crate) seconds: Quantiles,
    /// CPU seconds of the caller, in the kernel for the most part.
    pub(crate) caller_seconds: f64,
    /// CPU seconds of the threads that serve.
    pub(crate) serving_seconds: f64,
}

/// What requests took.
struct Timed {
    /// Seconds of one, each a sample.
    seconds: Vec<f64>,
    /// CPU seconds of all callers, where the kernel tells.
    cpu_seconds: Option<f64>,
}

/// Measures it on `side`; nothing where no process serves it, or where the kernel does not count the CPU of threads.
pub(crate) fn measure(side: &dyn Side, callers: Callers) -> Result<Option<Floor>> {
    let Some(path) = side.answers_from_within() else {
        return Ok(None);
    };
    let directory = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let before = side.counters()?;
    for _ in 0..BEFORE {
        ask(&directory, &path)?;
    }
    let timed = match callers {
        Callers::One => by_one(&directory, &path)?,
        Callers::Several => by_several(&directory, &path)?,
    };
    interrupt::check()?;
    let after = side.counters()?;
    let asked = |counters: &Counters| counters.requests.get("getxattr").copied().unwrap_or(0);
    let answered = asked(&after).saturating_sub(asked(&before));
    ensure!(
        answered >= (BEFORE + COUNT) as u64,
        "of {} requests that do nothing only {answered} reached the process that serves {}",
        BEFORE + COUNT,
        path.display()
    );
    let served = difference(before.serving_seconds, after.serving_seconds);
    let (Some(caller), Some(serving)) = (timed.cpu_seconds, served) else {
        return Ok(None);
    };
    Ok(Some(Floor {
        seconds: quantiles(&timed.seconds),
        caller_seconds: caller / COUNT as f64,
        serving_seconds: serving / answered as f64,
    }))
}

/// Times each request of one caller.
fn by_one(directory: &File, path: &Path) -> Result<Timed> {
    let before = own_cpu_seconds();
    let mut seconds = Vec::with_capacity(COUNT);
    for _ in 0..COUNT {
        let watch = Stopwatch::start();
        ask(directory, path)?;
        seconds.push(watch.seconds());
    }
    Ok(Timed {
        seconds,
        cpu_seconds: difference(before, own_cpu_seconds()),
    })
}

/// Times requests of several callers: by what they are done later than without them.
fn by_several(directory: &File, path: &Path) -> Result<Timed> {
    let callers = CALLERS_PER_CPU * std::thread::available_parallelism().map_or(1, usize::from);
    let each = (COUNT / PARTS).div_ceil(callers);
    let (mut seconds, mut cpu_seconds) = (Vec::with_capacity(PARTS), Some(0.0));
    for _ in 0..PARTS {
        let (without, cpu_without) = together(callers, each, || Ok(()))?;
        let (with, cpu_with) = together(callers, each, || ask(directory, path))?;
        seconds.push((with - without) / (callers * each) as f64);
        cpu_seconds = cpu_seconds
            .zip(difference(cpu_without, cpu_with))
            .map(|(sum, more)| sum + more);
    }
    Ok(Timed { seconds, cpu_seconds })
}

/// Has callers work and ask by turns, `each` times; returns the seconds until all are done, and their CPU seconds.
fn together(callers: usize, each: usize, ask: impl Fn() -> Result<()> + Sync) -> Result<(f64, Option<f64>)> {
    let work_and_ask = || {
        for _ in 0..each {
            work();
            ask()?;
        }
        // A new thread's CPU seconds begin with zero.
        Ok(own_cpu_seconds())
    };
    let watch = Stopwatch::start();
    let cpu_seconds = std::thread::scope(|threads| -> Result<Option<f64>> {
        let started: Vec<_> = (0..callers).map(|_| threads.spawn(work_and_ask)).collect();
        let mut sum = Some(0.0);
        for thread in started {
            let one: Result<Option<f64>> = thread.join().expect("a caller does not panic");
            sum = sum.zip(one?).map(|(sum, one)| sum + one);
        }
        Ok(sum)
    })?;
    Ok((watch.seconds(), cpu_seconds))
}

/// Takes some time on a CPU, always the same steps.
fn work() {
    let mut state = 1_u64;
    for _ in 0..STEPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    std::hint::black_box(state);
}

fn difference(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    Some(after? - before?)
}

/// Asks for an attribute that is not there.
fn ask(directory: &File, path: &Path) -> Result<()> {
    // For names in `trusted` the kernel looks at the caller's capabilities alone, not at the directory's mode.
    match rustix::fs::fgetxattr(directory, c"trusted.nothing", &mut [0; 16]) {
        Err(Errno::NODATA) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("{} does not answer", path.display())),
        Ok(_) => bail!("{} has an attribute that nobody set", path.display()),
    }
}

/// Returns the CPU seconds of this thread, where the kernel tells.
fn own_cpu_seconds() -> Option<f64> {
    running_seconds(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}
