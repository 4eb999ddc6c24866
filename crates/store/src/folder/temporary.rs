//! Files that become objects: written under `.tmp/`, then renamed to their keys.
//!
//! Invariant: whoever writes one holds its lock, so that another process can tell what a crash left.

use super::tree::Tree;
use super::walk::{Shut, file_name};
use crate::key::Key;
use rustix::fs::{AtFlags, FlockOperation, OFlags, RenameFlags};
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
    /// The folder that it is in.
    folder: OwnedFd,
    file: OwnedFd,
    name: String,
    placed: std::cell::Cell<bool>,
}

impl<'a> Temporary<'a> {
    pub(super) fn create(tree: &'a Tree) -> Result<Self, Failure> {
        let folder = tree.make_hidden(FOLDER)?;
        for _ in 0..TRIES_MAX {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("{FOLDER}/{}-{number}", std::process::id());
            if let Some(file) = create_locked(tree, &folder, &name)? {
                return Ok(Self {
                    tree,
                    folder,
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

    /// Gives the file its key, in the folder of that, unless it is taken.
    pub(super) fn rename_to(&self, folder: &OwnedFd, key: &Key) -> Result<(), Errno> {
        rename_if_absent((&self.folder, file_name(&self.name)), (folder, key.file_name()))?;
        self.placed.set(true);
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.placed.get() {
            // What cannot be removed now is removed when a bucket is opened here again.
            let _ = rustix::fs::unlinkat(&self.folder, file_name(&self.name), AtFlags::empty());
        }
    }
}

/// Returns a new file that this process has locked, or none when the name is taken or was taken away at once.
fn create_locked(tree: &Tree, folder: &OwnedFd, path: &str) -> Result<Option<OwnedFd>, Failure> {
    let failed = |errno| tree.failed("write", &path, errno);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = match tree.open_plain(folder, path, flags) {
        Ok(file) => file,
        Err(Shut::Errno(Errno::EXIST) | Shut::Odd(_)) => return Ok(None),
        Err(Shut::Errno(errno)) => return Err(failed(errno)),
    };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(failed)?;
    let links = rustix::fs::fstat(&file).map_err(failed)?.st_nlink;
    Ok((links > 0).then_some(file))
}

/// Renames unless the target is taken, also where the file system cannot do both at once.
pub(super) fn rename_if_absent(from: (&OwnedFd, &str), to: (&OwnedFd, &str)) -> Result<(), Errno> {
    let ((from, old), (to, new)) = (from, to);
    match rustix::fs::renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(from, old, to, new, AtFlags::empty())?;
            rustix::fs::unlinkat(from, old, AtFlags::empty())
        }
        done => done,
    }
}

/// Removes what crashed processes left. What is in use is locked, and stays.
pub(super) fn remove_stale(tree: &Tree) {
    let Ok(Some(folder)) = tree.open_folder(FOLDER) else {
        return;
    };
    for name in tree.hidden_names(FOLDER) {
        let Ok(file) = tree.open_plain(&folder, &format!("{FOLDER}/{name}"), OFlags::RDONLY) else {
            continue;
        };
        if rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive).is_ok() {
            // A bucket that cannot be written to is opened all the same: the next opening tries again.
            let _ = rustix::fs::unlinkat(&*folder, &name, AtFlags::empty());
        }
    }
}
