//! What is compared: a directory to work in, how its work is made durable, how its caches are emptied, what it cost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::disk::Traffic;
use super::{command, disk, input};
use crate::bench::named;

mod ext4;
mod plain;
mod tenure;

pub(crate) use ext4::Ext4;
pub(crate) use plain::Plain;
pub(crate) use tenure::{Program, Tenure};

/// One side of a comparison.
pub(crate) trait Side {
    /// Returns what the reports call it.
    fn name(&self) -> &str;

    /// Returns the directory that workloads use.
    fn path(&self) -> &Path;

    /// Starts over with nothing in it, as if just made.
    fn fresh(&mut self) -> Result<()>;

    /// Makes everything done so far as durable as the side can, and returns when it is.
    fn make_durable(&self) -> Result<()>;

    /// Ends the process that serves it, if there is one, durably.
    fn unmount(&mut self) -> Result<()>;

    /// Begins it again: its memory is empty after that.
    fn mount(&mut self) -> Result<()>;

    /// Returns the program that serves it, if there is one.
    fn program(&self) -> Option<&Path> {
        None
    }

    /// Returns what it has cost since its process began (requests, memory, CPU) or ever (bytes written).
    fn counters(&self) -> Result<Counters>;

    /// Returns a directory whose attributes the process that serves it is asked for each time, and answers at once, from
    /// within; nothing where no process serves it.
    fn answers_from_within(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the block device below it as `major:minor`, where there is one to limit.
    fn device_number(&self) -> Result<Option<String>> {
        Ok(None)
    }
}

/// What a side's own process and disk have counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    /// Requests of the kernel, by opcode.
    pub(crate) requests: BTreeMap<String, u64>,
    /// Requests to the bucket, of whatever kind.
    pub(crate) bucket_requests: u64,
    /// CPU seconds of the serving process.
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    /// CPU seconds of those of its threads that answer the kernel; nothing where there are none, or the kernel does not tell.
    pub(crate) serving_seconds: Option<f64>,
    /// The largest resident set of the serving process.
    pub(crate) peak_rss_bytes: u64,
    /// What was done to the block device.
    pub(crate) traffic: Traffic,
}

impl Counters {
    /// Returns the CPU seconds of the serving process, user and system.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

/// Empties every cache that a read could be answered from: the side's process, then the kernel.
pub(crate) fn drop_caches(side: &mut dyn Side) -> Result<()> {
    side.make_durable()?;
    side.unmount()?;
    side.mount()?;
    disk::drop_kernel_caches()
}

/// Empties every cache as [`drop_caches`] does, and brings `program` back into memory: how fast it loads from the
/// machine's root file system is nobody's merit.
pub(crate) fn drop_caches_but_of(program: &str, side: &mut dyn Side) -> Result<()> {
    drop_caches(side)?;
    warm_program(program)
}

/// Brings a program into memory.
pub(crate) fn warm_program(program: &str) -> Result<()> {
    if let Some(executable) = command::find(program) {
        input::warm(&executable.canonicalize()?)?;
    }
    command::run(command::command(program).arg("--version")).map(drop)
}

/// Removes what `directory` holds, and keeps it.
fn empty(directory: &Path) -> Result<()> {
    for entry in named::read_dir(directory)? {
        let entry = entry?;
        match entry.file_name().to_str() {
            Some("lost+found") => {}
            _ if entry.file_type()?.is_dir() => named::remove_dir_all(entry.path())?,
            _ => named::remove_file(entry.path())?,
        }
    }
    Ok(())
}
