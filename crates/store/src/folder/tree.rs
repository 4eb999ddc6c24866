//! The folder itself: finding, making, listing and removing what is in it, by key.
//!
//! Invariant: a folder that `make_parent` returned has a durable name, and so has every folder above it.

use super::failure::failed;
use super::walk::{Shut, file_name, parent_of, way};
use crate::bucket::missing_or_short;
use crate::key::Key;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Dir, FileType, OFlags};
use rustix::io::{Errno, retry_on_intr};
use std::collections::HashMap;
use std::fmt::Display;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenure_model::Failure;
use tenure_model::limits::FILE_LEN_MAX;

/// Folders that stay open: a drive has about five.
const FOLDERS_MAX: usize = 64;

/// What a new ext4 file system holds, and what a bucket's own hidden folder begins with.
const LOST_AND_FOUND: &str = "lost+found";

/// A folder, held open.
pub(super) struct Tree {
    pub(super) root: Arc<OwnedFd>,
    path: PathBuf,
    folders: Mutex<HashMap<String, Arc<OwnedFd>>>,
}

/// A name in a folder, and whether it is a folder.
struct Named {
    name: String,
    folder: bool,
}

impl Tree {
    pub(super) fn new(root: OwnedFd, path: PathBuf) -> Self {
        Self {
            root: Arc::new(root),
            path,
            folders: Mutex::default(),
        }
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Says that `doing` something to what lies at `at` in this folder failed.
    pub(super) fn failed(&self, doing: &str, at: &dyn Display, errno: Errno) -> Failure {
        failed(doing, &format_args!("{}/{at}", self.path.display()), errno)
    }

    /// Opens a plain file, or returns none when there is none.
    pub(super) fn open_file(&self, key: &Key, flags: OFlags) -> Result<Option<OwnedFd>, Failure> {
        let Some(folder) = self.open_folder(parent_of(key.as_str()))? else {
            return Ok(None);
        };
        match self.open_plain(&folder, key.as_str(), flags) {
            Ok(file) => Ok(Some(file)),
            Err(Shut::Errno(Errno::NOENT | Errno::ISDIR)) => Ok(None),
            Err(Shut::Errno(errno)) => Err(self.failed("open", key, errno)),
            Err(Shut::Odd(failure)) => Err(failure),
        }
    }

    /// Tells whether the key still leads to an open file: not where somebody has removed or moved it, or a folder above it.
    pub(super) fn leads_to(&self, key: &Key, file: &OwnedFd) -> bool {
        // From the root: folders that are held open may have been moved.
        let there = rustix::fs::statat(&self.root, key.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        match (there, rustix::fs::fstat(file)) {
            (Ok(there), Ok(is)) => (there.st_dev, there.st_ino) == (is.st_dev, is.st_ino),
            (Err(Errno::NOENT | Errno::NOTDIR), _) => false,
            // Where nobody may look, for now, what is open is as good as before.
            (Err(_), _) | (_, Err(_)) => true,
        }
    }

    /// Fills the parts, one behind the other, from `offset` of an open file.
    pub(super) fn read_parts(
        &self,
        file: &OwnedFd,
        key: &Key,
        offset: u64,
        parts: &mut [IoSliceMut<'_>],
    ) -> Result<(), Failure> {
        let failed = |errno| self.failed("read", key, errno);
        let wanted: usize = parts.iter().map(|part| part.len()).sum();
        if offset.saturating_add(wanted as u64) > FILE_LEN_MAX {
            return Err(missing_or_short(key));
        }
        let read = retry_on_intr(|| rustix::io::preadv(file, parts, offset)).map_err(failed)?;
        if read == wanted {
            return Ok(());
        }
        let mut at = offset;
        for part in parts {
            let mut filled = 0;
            while filled < part.len() {
                let rest = &mut part[filled..];
                match retry_on_intr(|| rustix::io::pread(file, &mut *rest, at)).map_err(failed)? {
                    0 => return Err(missing_or_short(key)),
                    read => {
                        filled += read;
                        at += read as u64;
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes the folders that a key needs, durably, and returns the one that holds it.
    pub(super) fn make_parent(&self, key: &Key) -> Result<Arc<OwnedFd>, Failure> {
        let parent = parent_of(key.as_str());
        if parent.is_empty() {
            return Ok(self.root.clone());
        }
        if let Some(folder) = self.folders.lock().get(parent) {
            return Ok(folder.clone());
        }
        let mut folder = self.root.clone();
        for path in way(parent) {
            let made = self.make_folder(&folder, path)?;
            rustix::fs::fsync(&*folder).map_err(|errno| self.failed("sync the folder of", &path, errno))?;
            folder = Arc::new(made);
        }
        let mut folders = self.folders.lock();
        if folders.len() >= FOLDERS_MAX {
            folders.clear();
        }
        folders.insert(parent.to_owned(), folder.clone());
        Ok(folder)
    }

    /// Forgets folders that were held open: one may have been removed.
    pub(super) fn forget_folders(&self) {
        self.folders.lock().clear();
    }

    /// Makes a folder of the bucket's own, which is not part of what it keeps.
    pub(super) fn make_hidden(&self, name: &str) -> Result<OwnedFd, Failure> {
        self.make_folder(&self.root, name)
    }

    /// Returns the names in a folder of the bucket's own; none when it cannot be read.
    pub(super) fn hidden_names(&self, name: &str) -> Vec<String> {
        let named = self.names(name).unwrap_or_default();
        named.into_iter().map(|named| named.name).collect()
    }

    /// Returns the name of something in the folder that a new bucket would have to share it with.
    pub(super) fn first_name(&self) -> Result<Option<String>, Failure> {
        let names = self.names("")?.into_iter().map(|named| named.name);
        Ok(names
            .filter(|name| name != LOST_AND_FOUND && name != ".tmp")
            .min())
    }

    /// Returns every key that begins with `under`.
    pub(super) fn list(&self, under: &str) -> Result<Vec<Key>, Failure> {
        let mut keys = Vec::new();
        let mut open = vec![under.trim_end_matches('/').to_owned()];
        while let Some(path) = open.pop() {
            for named in self.names(&path)? {
                let Some(key) = below(&path, &named.name) else {
                    continue;
                };
                match named.folder {
                    true => open.push(key.as_str().to_owned()),
                    false => keys.push(key),
                }
            }
        }
        keys.sort_unstable();
        Ok(keys)
    }

    /// Returns the names directly below `under` that are objects, or lead to one.
    pub(super) fn children(&self, under: &str) -> Result<Vec<String>, Failure> {
        let path = under.trim_end_matches('/');
        let mut names = Vec::new();
        for named in self.names(path)? {
            let Some(key) = below(path, &named.name) else {
                continue;
            };
            if !named.folder || self.holds_any(key.as_str())? {
                names.push(named.name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Tells whether a folder leads to any object.
    fn holds_any(&self, path: &str) -> Result<bool, Failure> {
        let names = self.names(path)?;
        if names.iter().any(|named| !named.folder) {
            return Ok(true);
        }
        for named in names {
            if self.holds_any(&format!("{path}/{}", named.name))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes a file durably, and the folders that are empty then.
    pub(super) fn remove(&self, key: &Key) -> Result<(), Failure> {
        let Some(folder) = self.open_folder(parent_of(key.as_str()))? else {
            return Ok(());
        };
        match rustix::fs::unlinkat(&*folder, key.file_name(), AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => {
                self.refuse_folder(&folder, key)?;
                return Err(self.failed("delete", key, errno));
            }
        }
        let mut path = parent_of(key.as_str());
        self.sync_folder(path)?;
        while !path.is_empty() {
            let above = parent_of(path);
            let Some(folder) = self.open_folder(above)? else {
                return Ok(());
            };
            if rustix::fs::unlinkat(&*folder, file_name(path), AtFlags::REMOVEDIR).is_err() {
                return Ok(());
            }
            self.forget_folders();
            self.sync_folder(above)?;
            path = above;
        }
        Ok(())
    }

    /// Makes the names in a folder durable; another process may have removed it since: then it had nothing left to keep.
    fn sync_folder(&self, path: &str) -> Result<(), Failure> {
        let Some(folder) = self.open_folder(path)? else {
            return Ok(());
        };
        rustix::fs::fsync(&*folder)
            .map_err(|errno| Failure::Unknown(self.failed("sync the folder", &path, errno).to_string()))
    }

    /// Returns what a folder holds; nothing when there is no such folder.
    fn names(&self, path: &str) -> Result<Vec<Named>, Failure> {
        let failed = |errno| self.failed("list", &path, errno);
        let Some(folder) = self.open_folder(path)? else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&*folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if name != "." && name != ".." {
                let kind = entry.file_type();
                let unknown = kind == FileType::Unknown;
                names.push(Named {
                    name: name.to_owned(),
                    folder: kind.is_dir() || unknown && is_folder(&folder, name),
                });
            }
        }
        Ok(names)
    }
}

/// Tells what a file system that does not say it in listings keeps under a name.
fn is_folder(folder: &OwnedFd, name: &str) -> bool {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
}

/// Returns the key of a name in a folder, unless the name is not one that keys have.
fn below(path: &str, name: &str) -> Option<Key> {
    let text = if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}/{name}")
    };
    Key::parse(&text).ok()
}
