//! The baseline: this machine's disk, fairly.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Counters, Side, empty};
use crate::bench::disk::Disk;
use crate::bench::named;

/// A fair ext4 and the directory on it that workloads use.
#[derive(Debug)]
pub(crate) struct Ext4 {
    disk: Disk,
    path: PathBuf,
}

impl Ext4 {
    /// Takes over `disk`.
    pub(crate) fn on(disk: Disk) -> Result<Ext4> {
        let path = disk.path().join("work");
        named::create_dir(&path)?;
        Ok(Ext4 { disk, path })
    }
}

impl Side for Ext4 {
    fn name(&self) -> &str {
        "ext4"
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn fresh(&mut self) -> Result<()> {
        empty(&self.path)?;
        self.make_durable()
    }

    fn make_durable(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(named::open(&self.path)?)?)
    }

    // It has no process, and the caches are the kernel's.
    fn unmount(&mut self) -> Result<()> {
        Ok(())
    }

    fn mount(&mut self) -> Result<()> {
        Ok(())
    }

    fn counters(&self) -> Result<Counters> {
        Ok(Counters {
            traffic: self.disk.traffic()?,
            ..Counters::default()
        })
    }

    fn device_number(&self) -> Result<Option<String>> {
        self.disk.device_number().map(Some)
    }
}
