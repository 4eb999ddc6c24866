//! Ctrl-C and its kin, turned into an ordinary error so that every guard on the stack cleans up.
//!
//! A thread of its own waits for the signals; it marks the run as interrupted and ends the child that is running. Whoever
//! waits for the child, or loops, then returns an error, and disks and mounts are taken down by their `Drop`.
//! A panic unwinds the same way.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static RUNNING_CHILD: Mutex<Option<Pid>> = Mutex::new(None);

/// Starts to watch for SIGINT, SIGTERM and SIGHUP, for the life of the process.
pub(crate) fn watch() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot watch for signals")?;
    std::thread::Builder::new()
        .name("interrupt".into())
        .spawn(move || {
            for _signal in signals.forever() {
                INTERRUPTED.store(true, Ordering::Release);
                if let Some(group) = *RUNNING_CHILD.lock() {
                    // The child may have ended by itself.
                    let _ = kill_process_group(group, Signal::TERM);
                }
            }
        })
        .context("cannot start the thread that watches for signals")?;
    Ok(())
}

/// Returns an error once the run has been interrupted.
pub(crate) fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::Acquire) {
        bail!("interrupted");
    }
    Ok(())
}

/// While it lives, an interruption ends the process group of a child.
#[derive(Debug)]
pub(crate) struct Watched(());

impl Watched {
    /// Watches over the child `id`, which leads a process group of its own.
    pub(crate) fn child(id: u32) -> Watched {
        *RUNNING_CHILD.lock() = i32::try_from(id).ok().and_then(Pid::from_raw);
        Watched(())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        *RUNNING_CHILD.lock() = None;
    }
}
