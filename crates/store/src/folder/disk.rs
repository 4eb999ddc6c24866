//! The files of a folder bucket that grow in place, and its locks.

use super::file::FolderFile;
use super::names::Names;
use super::readers;
use super::temporary::rename_if_absent;
use super::tree::Tree;
use super::walk::{Shut, parent_of};
use crate::bucket::{OpenError, Requests};
use crate::disk::{self, Disk, DiskFile, Lock, Space};
use crate::key::Key;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tenure_model::{Failure, Refusal};

/// Bytes of a holder's words that are shown to whom the lock is refused.
const HOLDER_LEN_MAX: u64 = 500;
/// Times that a folder is made again because another process removed it, empty, meanwhile.
const TRIES_MAX: usize = 8;

/// The disk of a folder bucket.
pub(super) struct FolderDisk {
    tree: Arc<Tree>,
    names: Arc<Names>,
    requests: Arc<Requests>,
}

impl FolderDisk {
    pub(super) fn new(tree: Arc<Tree>, names: Arc<Names>, requests: Arc<Requests>) -> Self {
        Self {
            tree,
            names,
            requests,
        }
    }

    fn opened(&self, key: &Key, plain: OwnedFd) -> Result<Arc<dyn DiskFile>, Failure> {
        let stat =
            |file: &OwnedFd| rustix::fs::fstat(file).map_err(|errno| self.tree.failed("look at", key, errno));
        // A file system without O_DIRECT refuses to open; then everything goes through the kernel's cache.
        let direct = self
            .tree
            .open_file(key, OFlags::RDWR | OFlags::DIRECT)
            .unwrap_or(None);
        let is = stat(&plain)?;
        let direct = direct.filter(|direct| {
            stat(direct).is_ok_and(|other| (other.st_dev, other.st_ino) == (is.st_dev, is.st_ino))
        });
        let file = FolderFile::new(
            (key.clone(), self.names.of(key)),
            (plain, direct),
            is.st_nlink,
            self.tree.clone(),
            self.requests.clone(),
        );
        Ok(Arc::new(file))
    }

    /// Creates or opens a file in a folder that is made for it.
    fn open_in_parent(&self, key: &Key, flags: OFlags) -> Result<OwnedFd, Failure> {
        let flags = flags | OFlags::RDWR | OFlags::CREATE;
        for _ in 0..TRIES_MAX {
            let folder = self.tree.make_parent(key)?;
            match self.tree.open_plain(&folder, key.as_str(), flags) {
                Ok(file) => {
                    rustix::fs::fsync(&*folder)
                        .map_err(|errno| self.tree.failed("sync the folder of", key, errno))?;
                    return Ok(file);
                }
                Err(Shut::Errno(Errno::NOENT)) => self.tree.forget_folders(),
                Err(Shut::Errno(errno)) => return Err(self.tree.failed("create", key, errno)),
                Err(Shut::Odd(failure)) => return Err(failure),
            }
        }
        Err(self.tree.failed("create", key, Errno::NOENT))
    }
}

impl Disk for FolderDisk {
    fn create(&self, key: &Key) -> Result<Arc<dyn DiskFile>, Failure> {
        let plain = self.open_in_parent(key, OFlags::EXCL)?;
        self.opened(key, plain)
    }

    fn open(&self, key: &Key) -> Result<Option<Arc<dyn DiskFile>>, Failure> {
        match self.tree.open_file(key, OFlags::RDWR)? {
            Some(plain) => self.opened(key, plain).map(Some),
            None => self.tree.refuse_folder_at(key).map(|()| None),
        }
    }

    fn rename(&self, from: &Key, to: &Key) -> Result<(), Failure> {
        let failed = |errno| self.tree.failed(&format!("rename {from} to"), to, errno);
        let old = self.tree.open_folder(parent_of(from.as_str()))?;
        let old = old.ok_or_else(|| failed(Errno::NOENT))?;
        let folder = self.tree.make_parent(to)?;
        let rename = || rename_if_absent((&old, from.file_name()), (&folder, to.file_name()));
        self.names.renaming(from, to, rename).map_err(failed)?;
        rustix::fs::fsync(&*folder)
            .map_err(|errno| Failure::Unknown(self.tree.failed("sync the folder of", to, errno).to_string()))
    }

    fn remove(&self, key: &Key) -> Result<(), Failure> {
        self.tree.remove(key)
    }

    fn lock(&self, key: &Key, holder: &str) -> Result<Lock, OpenError> {
        let failed = |errno| OpenError::from(self.tree.failed("lock", key, errno));
        for _ in 0..TRIES_MAX {
            let file = self.open_in_parent(key, OFlags::empty())?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(held(file).into()),
                Err(errno) => return Err(failed(errno)),
            }
            // A file that was deleted before it was locked keeps nobody out.
            let links = rustix::fs::fstat(&file).map_err(failed)?.st_nlink;
            if links > 1 {
                return Err(self.tree.linked(key).into());
            }
            if links > 0 {
                let cut = rustix::fs::ftruncate(&file, 0);
                cut.and_then(|()| rustix::io::write(&file, holder.as_bytes()))
                    .map_err(failed)?;
                return Ok(Lock::new(Held {
                    file,
                    key: key.clone(),
                    tree: Arc::clone(&self.tree),
                }));
            }
        }
        Err(failed(Errno::NOENT))
    }

    fn lock_to_read(&self, key: &Key, _holder: &str) -> Result<Lock, OpenError> {
        let failed = |errno| OpenError::from(self.tree.failed("lock", key, errno));
        let file = self.tree.open_file(key, OFlags::RDONLY)?;
        let file = file.ok_or_else(|| failed(Errno::NOENT))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) if self.tree.leads_to(key, &file) => {}
            Ok(()) => return Err(failed(Errno::NOENT)),
            Err(Errno::WOULDBLOCK) => return Err(held(file).into()),
            Err(errno) => return Err(failed(errno)),
        }
        Ok(Lock::new(HeldToRead {
            file,
            key: key.clone(),
            tree: Arc::clone(&self.tree),
        }))
    }

    fn space(&self) -> Result<Space, Failure> {
        let stat = rustix::fs::fstatvfs(self.tree.root())
            .map_err(|errno| self.tree.failed("ask the size of", &"", errno))?;
        // What file systems keep back they keep for root.
        let free = match rustix::process::geteuid().is_root() {
            true => stat.f_bfree,
            false => stat.f_bavail,
        };
        Ok(Space {
            total: stat.f_blocks * stat.f_frsize,
            free: free * stat.f_frsize,
        })
    }
}

/// A lock, given back when its file is closed.
struct Held {
    file: OwnedFd,
    key: Key,
    tree: Arc<Tree>,
}

impl disk::Held for Held {
    fn is_held(&self) -> bool {
        self.tree.leads_to(&self.key, &self.file)
    }
}

/// A lock that others may have too who only read.
struct HeldToRead {
    file: OwnedFd,
    key: Key,
    tree: Arc<Tree>,
}

impl disk::Held for HeldToRead {
    fn is_held(&self) -> bool {
        self.tree.leads_to(&self.key, &self.file)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The words are for people only; a lock that names an old holder is still free.
        let _ = rustix::fs::ftruncate(&self.file, 0);
    }
}

fn held(file: OwnedFd) -> Refusal {
    // What an owner has written who was killed is there still.
    if let Some(by) = readers::of(&file) {
        return Refusal::Held { by };
    }
    let mut by = String::new();
    // Words that cannot be read leave the refusal without a name.
    let _ = std::fs::File::from(file)
        .take(HOLDER_LEN_MAX)
        .read_to_string(&mut by);
    let by = match by.trim() {
        "" => "another process".to_owned(),
        words => words.to_owned(),
    };
    Refusal::Held { by }
}
