//! A bucket that is a folder of this machine: an object is a file under its key, written to `.tmp/` and then
//! renamed to its place.
//!
//! Invariant: an object appears under its key whole and durable, or not at all; every folder that was made for it
//! is durable before it. The folder is held open, so that it may be moved while it is used.

mod disk;
mod failure;
mod file;
mod handles;
mod names;
mod readers;
mod temporary;
mod tree;
mod walk;

use crate::bucket::{Bucket, OpenError, Put, RequestKind, Requests, missing_or_short, whole_len};
use crate::disk::Disk;
use crate::key::Key;
use crate::marker;
use disk::FolderDisk;
use failure::failed;
use handles::Handles;
use names::Names;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use temporary::Temporary;
use tenure_model::{Failure, Refusal};
use tree::Tree;

/// Times that a folder is made again because another process removed it, empty, meanwhile.
const TRIES_MAX: usize = 8;

/// A bucket that is a folder of this machine. Clones share it.
#[derive(Clone)]
pub struct FolderBucket {
    inner: Arc<Inner>,
}

struct Inner {
    tree: Arc<Tree>,
    names: Arc<Names>,
    requests: Arc<Requests>,
    handles: Handles,
}

impl FolderBucket {
    /// Makes a bucket of a folder that is empty or not there yet; opens it when it is a bucket already.
    pub fn create(path: &Path) -> Result<Self, OpenError> {
        let mut folders = std::fs::DirBuilder::new();
        let made = folders.recursive(true).mode(0o700).create(path);
        made.map_err(|error| cannot_open(path, &error))?;
        sync_parent(path).map_err(|error| cannot_open(path, &error))?;
        let bucket = Self::attach(path)?;
        if bucket.get(&marker::key())?.is_none() {
            if let Some(name) = bucket.inner.tree.first_name()? {
                return Err(Refusal::Because(format!(
                    "{} holds other things, such as `{name}`: give an empty folder for a new bucket",
                    bucket.describe()
                ))
                .into());
            }
            marker::write(&bucket)?;
        }
        marker::check(&bucket)?;
        Ok(bucket)
    }

    /// Opens a folder that is a bucket; refuses any other, and one in a newer format.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let bucket = Self::attach(path)?;
        marker::check(&bucket)?;
        temporary::remove_stale(&bucket.inner.tree);
        Ok(bucket)
    }

    fn attach(path: &Path) -> Result<Self, OpenError> {
        let path = std::path::absolute(path).map_err(|error| cannot_open(path, &error))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|errno| cannot_open(&path, &std::io::Error::from(errno)))?;
        Ok(Self {
            inner: Arc::new(Inner {
                tree: Arc::new(Tree::new(root, path)),
                names: Arc::default(),
                requests: Arc::default(),
                handles: Handles::default(),
            }),
        })
    }

    fn count(&self, kind: RequestKind) {
        self.inner.requests.count(kind);
    }

    /// Returns the open file of an object of which parts are read, as a pack is: again and again.
    fn kept_open(&self, key: &Key) -> Result<Arc<OwnedFd>, Failure> {
        if let Some(file) = self.inner.handles.get(key) {
            return Ok(file);
        }
        let file = self.opened(key)?.ok_or_else(|| missing_or_short(key))?;
        let file = Arc::new(file);
        self.inner.handles.add(key, file.clone());
        Ok(file)
    }

    fn opened(&self, key: &Key) -> Result<Option<OwnedFd>, Failure> {
        self.inner.tree.open_file(key, OFlags::RDONLY)
    }

    fn len_of(&self, key: &Key, file: &OwnedFd) -> Result<u64, Failure> {
        let stat = rustix::fs::fstat(file).map_err(|errno| self.inner.tree.failed("read", key, errno))?;
        Ok(u64::try_from(stat.st_size).expect("a file's size is not negative"))
    }
}

impl Bucket for FolderBucket {
    fn put_if_absent(&self, key: &Key, bytes: &[u8]) -> Result<Put, Failure> {
        self.inner.requests.count_bytes(RequestKind::Put, bytes.len());
        let tree = &self.inner.tree;
        let temporary = Temporary::create(tree)?;
        temporary.fill(bytes)?;
        for _ in 0..TRIES_MAX {
            let folder = tree.make_parent(key)?;
            let put = match temporary.rename_to(&folder, key) {
                Ok(()) => Put::Created,
                Err(Errno::EXIST) => {
                    tree.refuse_folder(&folder, key)?;
                    Put::Exists
                }
                Err(Errno::NOENT) => {
                    tree.forget_folders();
                    continue;
                }
                Err(errno) => return Err(tree.failed("create", key, errno)),
            };
            // Another process may have renamed an existing object here and not synced the folder yet.
            let synced = rustix::fs::fsync(&*folder);
            return match synced {
                Ok(()) => Ok(put),
                Err(errno) => Err(Failure::Unknown(
                    tree.failed("sync the folder of", key, errno).to_string(),
                )),
            };
        }
        Err(tree.failed("create", key, Errno::NOENT))
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        self.count(RequestKind::Get);
        let Some(file) = self.opened(key)? else {
            return Ok(None);
        };
        let len = self.len_of(key, &file)?;
        let mut bytes = vec![0; whole_len(key, len)?];
        self.inner
            .tree
            .read_parts(&file, key, 0, &mut [IoSliceMut::new(&mut bytes)])?;
        Ok(Some(bytes))
    }

    fn get_parts(&self, key: &Key, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        self.count(RequestKind::Get);
        let file = self.kept_open(key)?;
        self.inner.tree.read_parts(&file, key, offset, parts)
    }

    fn size(&self, key: &Key) -> Result<Option<u64>, Failure> {
        self.count(RequestKind::Get);
        let file = self.opened(key)?;
        file.map(|file| self.len_of(key, &file)).transpose()
    }

    fn list(&self, under: &str) -> Result<Vec<Key>, Failure> {
        self.count(RequestKind::List);
        self.inner.tree.list(under)
    }

    fn children(&self, under: &str) -> Result<Vec<String>, Failure> {
        self.count(RequestKind::List);
        self.inner.tree.children(under)
    }

    fn delete(&self, key: &Key) -> Result<(), Failure> {
        self.count(RequestKind::Delete);
        self.inner.handles.forget(key);
        self.inner.tree.remove(key)
    }

    fn requests(&self) -> &Requests {
        &self.inner.requests
    }

    fn disk(&self) -> Option<Arc<dyn Disk>> {
        Some(Arc::new(FolderDisk::new(
            self.inner.tree.clone(),
            self.inner.names.clone(),
            self.inner.requests.clone(),
        )))
    }

    fn tier(&self) -> &'static str {
        "folder"
    }

    fn describe(&self) -> String {
        format!("the folder {}", self.inner.tree.path().display())
    }
}

/// Makes a new folder's own name durable.
fn sync_parent(path: &Path) -> std::io::Result<()> {
    let path = std::path::absolute(path)?;
    match path.parent() {
        Some(parent) => std::fs::File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

fn cannot_open(path: &Path, error: &std::io::Error) -> OpenError {
    let place = path.display();
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    let refused = match errno {
        Errno::NOENT => format!("there is no folder {place}: make a bucket there first"),
        Errno::NOTDIR | Errno::EXIST => format!("{place} is not a folder: a bucket on this machine is one"),
        Errno::ACCESS | Errno::PERM => {
            format!("no permission for the folder {place}: change its owner or mode, or use another")
        }
        Errno::ROFS => format!("{place} is on a read-only file system: use a folder on another"),
        _ => return failed("open the folder", &place, errno).into(),
    };
    Refusal::Because(refused).into()
}
