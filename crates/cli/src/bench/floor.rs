//! What a request costs that does nothing: the least that a file system behind FUSE can take for one here.
//!
//! It is an `fgetxattr` of `.tenure`, the directory that every mount answers from within: the kernel asks each time, the
//! mount says at once that there is no such attribute, and no tree, no lock of the drive and no disk is touched. So it holds
//! the system call, the kernel's way to the serving process and back, and the decoding and answering there; one caller,
//! placed by the scheduler as the callers of a workload are.

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

/// What one request costs that does nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floor {
    /// Seconds that the caller waits.
    pub(crate) seconds: Quantiles,
    /// CPU seconds of the caller, in the kernel for the most part.
    pub(crate) caller_seconds: f64,
    /// CPU seconds of the threads that serve.
    pub(crate) serving_seconds: f64,
}

/// Measures it on `side`; nothing where no process serves it, or where the kernel does not count the CPU of threads.
pub(crate) fn measure(side: &dyn Side) -> Result<Option<Floor>> {
    let Some(path) = side.answers_from_within() else {
        return Ok(None);
    };
    let directory = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let before = side.counters()?;
    for _ in 0..BEFORE {
        ask(&directory, &path)?;
    }
    let caller_before = own_cpu_seconds();
    let mut latencies = Vec::with_capacity(COUNT);
    for _ in 0..COUNT {
        let watch = Stopwatch::start();
        ask(&directory, &path)?;
        latencies.push(watch.seconds());
    }
    let caller_after = own_cpu_seconds();
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
    let pair = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
    let (Some(caller), Some(serving)) = (
        pair(caller_before, caller_after),
        pair(before.serving_seconds, after.serving_seconds),
    ) else {
        return Ok(None);
    };
    Ok(Some(Floor {
        seconds: quantiles(&latencies),
        caller_seconds: caller / COUNT as f64,
        serving_seconds: serving / answered as f64,
    }))
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
