//! Files that become objects: written under `.tmp/`, then renamed to their keys.
//!
//! Invariant: whoever writes one holds its lock, so that another process can tell what a crash left.

use super::tree::Tree;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_model::Failure;

const FOLDER: &str = ".tmp";
/// Names that are tried before giving up: another process can hold a few of the same number after a restart.
const TRIES_MAX: usize = 1000;

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A file without a key yet. Dropping it removes it.
pub(super) struct Temporary<'a> {
    tree: &'a Tree,
    file: OwnedFd,
    name: String,
    placed: std::cell::Cell<bool>,
}

impl<'a> Temporary<'a> {
    pub(super) fn create(tree: &'a Tree) -> Result<Self, Failure> {
        tree.make_hidden(FOLDER)?;
        for _ in 0..TRIES_MAX {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("{FOLDER}/{}-{number}", std::process::id());
            if let Some(file) = create_locked(tree, &name)? {
                return Ok(Self {
                    tree,
                    file,
                    name,
                    placed: std::cell::Cell::new(false),
                });
            }
        }
        Err(tree.failed("write", &FOLDER, Errno::EXIST))
    }

    /// Writes all of the file's bytes and makes them durable.
    pub(super) fn fill(&self, bytes: &[u8]) -> Result<(), Failure> {
        let failed = |errno| self.tree.failed("write", &self.name, errno);
        let mut rest = bytes;
        while !rest.is_empty() {
            let written =
                rustix::io::retry_on_intr(|| rustix::io::write(&self.file, rest)).map_err(failed)?;
            rest = &rest[written..];
        }
        rustix::io::retry_on_intr(|| rustix::fs::fdatasync(&self.file)).map_err(failed)
    }

    /// Gives the file its key unless that is taken.
    pub(super) fn rename_to(&self, key: &crate::key::Key) -> Result<(), Errno> {
        rename_if_absent(self.tree, &self.name, key.as_str())?;
        self.placed.set(true);
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.placed.get() {
            // What cannot be removed now is removed when a bucket is opened here again.
            let _ = rustix::fs::unlinkat(self.tree.root(), &self.name, AtFlags::empty());
        }
    }
}

/// Returns a new file that this process has locked, or none when the name is taken or was taken away at once.
fn create_locked(tree: &Tree, name: &str) -> Result<Option<OwnedFd>, Failure> {
    let failed = |errno| tree.failed("write", &name, errno);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(tree.root(), name, flags, Mode::from_raw_mode(0o644)) {
        Ok(file) => file,
        Err(Errno::EXIST) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(failed)?;
    let links = rustix::fs::fstat(&file).map_err(failed)?.st_nlink;
    Ok((links > 0).then_some(file))
}

/// Renames unless the target is taken, also where the file system cannot do both at once.
pub(super) fn rename_if_absent(tree: &Tree, from: &str, to: &str) -> Result<(), Errno> {
    let root = tree.root();
    match rustix::fs::renameat_with(root, from, root, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(root, from, root, to, AtFlags::empty())?;
            rustix::fs::unlinkat(root, from, AtFlags::empty())
        }
        done => done,
    }
}

/// Removes what crashed processes left. What is in use is locked, and stays.
pub(super) fn remove_stale(tree: &Tree) {
    for name in tree.hidden_names(FOLDER) {
        let name = format!("{FOLDER}/{name}");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(tree.root(), &name, flags, Mode::empty()) else {
            continue;
        };
        if rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive).is_ok() {
            // A bucket that cannot be written to is opened all the same: the next opening tries again.
            let _ = rustix::fs::unlinkat(tree.root(), &name, AtFlags::empty());
        }
    }
}
