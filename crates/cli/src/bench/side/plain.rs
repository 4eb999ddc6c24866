//! Any directory, as it is: for comparing two file systems that are mounted already, and for trying the bench itself.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{Counters, Side, empty};
use crate::bench::named;

/// A directory of the bench's own inside one that the person named.
#[derive(Debug)]
pub(crate) struct Plain {
    name: String,
    path: PathBuf,
}

impl Plain {
    /// Makes a directory of the bench's own inside `parent`.
    pub(crate) fn inside(parent: &Path) -> Result<Plain> {
        ensure!(parent.is_dir(), "{} is not a directory", parent.display());
        let parent = parent.canonicalize()?;
        let path = parent.join(format!("tenure-bench.{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Plain {
            name: parent.display().to_string(),
            path,
        })
    }
}

impl Side for Plain {
    fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn fresh(&mut self) -> Result<()> {
        empty(&self.path)?;
        self.make_durable()
    }

    fn make_durable(&self) -> Result<()> {
        let directory = named::open(&self.path)?;
        rustix::fs::syncfs(&directory)?;
        // A FUSE mount is not told of syncfs; an fsync of a directory reaches it.
        directory
            .sync_all()
            .with_context(|| format!("cannot sync {}", self.path.display()))
    }

    // What serves it is not the bench's to end.
    fn unmount(&mut self) -> Result<()> {
        Ok(())
    }

    fn mount(&mut self) -> Result<()> {
        Ok(())
    }

    fn counters(&self) -> Result<Counters> {
        Ok(Counters::default())
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
