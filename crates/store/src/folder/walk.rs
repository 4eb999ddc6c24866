//! Opening what lies in the folder, and nothing that it leads to: no symbolic link is followed below the bucket's own path,
//! and what is opened as a file is a plain one.
//!
//! A bucket may have come from somebody else, and root may open it. Invariant: each component is opened relative to the folder
//! before it, which is held open, so that what is exchanged meanwhile leads nowhere else either.

use super::tree::Tree;
use crate::key::Key;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tenure_model::Failure;

/// The mode of files: contents of private files lie in them.
const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
/// The mode of folders.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o700);

/// Why a file was not opened.
pub(super) enum Shut {
    /// What is there is no plain file; says what to do.
    Odd(Failure),
    /// The operating system says no.
    Errno(Errno),
}

/// Returns the paths that lead to a folder, its own the last.
pub(super) fn way(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.map(|end| &path[..end]).filter(|path| !path.is_empty())
}

/// Returns the folder of a path; empty where that is the bucket's root.
pub(super) fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Returns the last component of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

impl Tree {
    /// Opens a folder; none when there is none.
    pub(super) fn open_folder(&self, path: &str) -> Result<Option<Arc<OwnedFd>>, Failure> {
        let mut folder = self.root.clone();
        for path in way(path) {
            folder = match enter(&folder, path) {
                Ok(next) => Arc::new(next),
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => match kind_of(&folder, path) {
                    Some(FileType::Directory) | None => {
                        return Err(self.failed("open the folder", &path, errno));
                    }
                    Some(FileType::RegularFile) => return Err(self.no_folder(path)),
                    Some(kind) => return Err(self.odd(path, kind)),
                },
            };
        }
        Ok(Some(folder))
    }

    /// Makes or opens a folder in one that is open.
    pub(super) fn make_folder(&self, folder: &OwnedFd, path: &str) -> Result<OwnedFd, Failure> {
        let made = match rustix::fs::mkdirat(folder, file_name(path), FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => enter(folder, path),
            Err(errno) => Err(errno),
        };
        made.map_err(|errno| match kind_of(folder, path) {
            Some(FileType::Directory) | None => self.failed("make the folder", &path, errno),
            Some(FileType::RegularFile) => self.no_folder(path),
            Some(kind) => self.odd(path, kind),
        })
    }

    /// Opens or creates a plain file in a folder that is open; `path` is its path in the bucket.
    pub(super) fn open_plain(&self, folder: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Shut> {
        let check = |kind: FileType| {
            if kind.is_file() {
                Ok(())
            } else if kind.is_dir() && !flags.contains(OFlags::CREATE) {
                Err(Shut::Errno(Errno::ISDIR))
            } else {
                Err(Shut::Odd(self.odd(path, kind)))
            }
        };
        // Opening a device may already do something.
        kind_of(folder, path).map_or(Ok(()), check)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, file_name(path), flags, FILE_MODE).map_err(Shut::Errno)?;
        let stat = rustix::fs::fstat(&file).map_err(Shut::Errno)?;
        check(FileType::from_raw_mode(stat.st_mode))?;
        Ok(file)
    }

    /// Refuses a folder that stands where an object is to be.
    pub(super) fn refuse_folder(&self, folder: &OwnedFd, key: &Key) -> Result<(), Failure> {
        match kind_of(folder, key.as_str()) {
            Some(FileType::Directory) => Err(self.odd(key.as_str(), FileType::Directory)),
            Some(_) | None => Ok(()),
        }
    }

    /// As `refuse_folder`, also where there is no folder that would hold the object.
    pub(super) fn refuse_folder_at(&self, key: &Key) -> Result<(), Failure> {
        match self.open_folder(parent_of(key.as_str()))? {
            Some(folder) => self.refuse_folder(&folder, key),
            None => Ok(()),
        }
    }

    /// Says of a file that it is not written, because that would change what is under its other names.
    pub(super) fn linked(&self, key: &Key) -> Failure {
        let file = format!("{}/{key}", self.path().display());
        Failure::DidNotHappen(format!(
            "{file} has other names (hard links), and writing to it would change those too: give it bytes of its own: cp {file} {file}.own && mv {file}.own {file}"
        ))
    }

    /// Says of a file that a folder belongs there.
    fn no_folder(&self, path: &str) -> Failure {
        self.misplaced(path, "a file in the place of a folder")
    }

    /// Says of what stands at `path` that it has no place in a bucket.
    fn odd(&self, path: &str, kind: FileType) -> Failure {
        self.misplaced(
            path,
            match kind {
                FileType::Symlink => "a symbolic link",
                FileType::Directory => "a folder in the place of a file",
                FileType::Fifo => "a named pipe",
                FileType::Socket => "a socket",
                FileType::CharacterDevice | FileType::BlockDevice => "a device",
                FileType::RegularFile | FileType::Unknown => "none of ours",
            },
        )
    }

    fn misplaced(&self, path: &str, what: &str) -> Failure {
        let place = self.path().display();
        Failure::Corrupt(format!(
            "{place}/{path} is {what}, and a bucket holds plain files and folders only: remove it, and where an object or a folder of the bucket belongs, restore that from a copy (another disk is mounted there, not linked)"
        ))
    }
}

/// Opens a folder in one that is open.
fn enter(folder: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, file_name(path), flags, Mode::empty())
}

/// Returns what stands under a name, if anything does.
fn kind_of(folder: &OwnedFd, path: &str) -> Option<FileType> {
    let stat = rustix::fs::statat(folder, file_name(path), AtFlags::SYMLINK_NOFOLLOW);
    stat.ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}
