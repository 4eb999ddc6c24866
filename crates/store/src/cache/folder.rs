//! A cache's folder: for each pack a file with what was read of its body, in its place, and one with its index.
//!
//! What was not read is a hole, so a file needs no list of what is in it: whoever reads holds each block against the
//! pack's index, and a hole, damage, or another's half-written block is simply not it. So files need no syncs, no order
//! and no lock; the folder may be deleted at any time, by anybody, also in part. Invariant: no trouble with the folder is
//! more than something that is not there.

use crate::pack::PackName;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashSet};
use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use tenure_model::Failure;

/// Bytes of an index that is kept: packs have much shorter ones.
const INDEX_LEN_MAX: u64 = 64 << 20;
/// What stands behind the name of a pack whose index a file holds.
const INDEX: &str = ".index";
/// Bytes that a process writes between two looks at how much there is.
const LOOK_EVERY_MAX: u64 = 64 << 20;
/// Writes that are not tried after one that failed: a disk stays full for a while.
const SKIPPED: u32 = 64;

/// The folder.
pub(super) struct CacheFolder {
    path: PathBuf,
    limit: u64,
    upkeep: Mutex<Upkeep>,
}

#[derive(Default)]
struct Upkeep {
    /// Bytes written since the last look at how much there is.
    written: u64,
    /// Packs that were said to be in use since then.
    used: HashSet<PackName>,
    /// Writes that are not tried.
    skips: u32,
}

/// The files of one pack.
struct Kept {
    /// When one was read or written last: seconds and nanoseconds.
    used: (i64, i64),
    bytes: u64,
    paths: Vec<PathBuf>,
}

impl CacheFolder {
    /// Opens the folder, and makes it where there is none.
    pub(super) fn open(path: &Path, limit: u64) -> Result<Self, Failure> {
        make(path)?;
        let folder = Self {
            path: path.to_owned(),
            limit,
            upkeep: Mutex::default(),
        };
        folder.make_room();
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns how many bytes there are.
    pub(super) fn bytes(&self) -> u64 {
        self.kept().values().map(|kept| kept.bytes).sum()
    }

    /// Reads what is kept of a body from `offset` on; what is not there leaves `into` as it is.
    pub(super) fn read(&self, name: PackName, offset: u64, into: &mut [u8]) {
        if let Some((file, _)) = self.opened(&name.file_name()) {
            let mut filled = 0;
            while let Ok(count @ 1..) = file.read_at(&mut into[filled..], offset + filled as u64) {
                filled += count;
            }
            self.note_use(name, &file);
        }
    }

    /// Keeps a part of a body.
    pub(super) fn keep(&self, name: PackName, offset: u64, bytes: &[u8]) {
        self.write(
            &name.file_name(),
            |file| file.write_all_at(bytes, offset),
            bytes.len(),
        );
    }

    /// Returns the index that is kept of a pack.
    pub(super) fn index(&self, name: PackName) -> Option<Vec<u8>> {
        let (file, found) = self.opened(&index_name(name))?;
        if found.len() > INDEX_LEN_MAX {
            return None;
        }
        let mut bytes = vec![0; found.len() as usize];
        file.read_exact_at(&mut bytes, 0).ok()?;
        Some(bytes)
    }

    /// Keeps the index of a pack.
    pub(super) fn keep_index(&self, name: PackName, bytes: &[u8]) {
        self.write(
            &index_name(name),
            |file| {
                file.set_len(bytes.len() as u64)?;
                file.write_all_at(bytes, 0)
            },
            bytes.len(),
        );
    }

    /// Opens a plain file of the folder to read it.
    fn opened(&self, name: &str) -> Option<(File, Metadata)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(self.path.join(name), flags, Mode::empty()).ok()?);
        let found = file.metadata().ok().filter(Metadata::is_file)?;
        Some((file, found))
    }

    /// Says, now and then, that a pack was read: those go first that were not for longest.
    fn note_use(&self, name: PackName, file: &File) {
        if self.upkeep.lock().used.insert(name) {
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_NOW,
            };
            let times = Timestamps {
                last_access: now,
                last_modification: now,
            };
            // One that cannot be told is only forgotten sooner.
            let _ = rustix::fs::futimens(file, &times);
        }
    }

    fn write(&self, name: &str, write: impl Fn(&File) -> io::Result<()>, len: usize) {
        let mut upkeep = self.upkeep.lock();
        if upkeep.skips > 0 {
            upkeep.skips -= 1;
            return;
        }
        drop(upkeep);
        let written = self.opened_to_write(name).and_then(|file| write(&file));
        let mut upkeep = self.upkeep.lock();
        upkeep.written += len as u64;
        if written.is_err() {
            upkeep.skips = SKIPPED;
        } else if upkeep.written < LOOK_EVERY_MAX.min(self.limit / 16) {
            return;
        }
        upkeep.written = 0;
        upkeep.used.clear();
        drop(upkeep);
        self.make_room();
    }

    /// Opens a plain file of the folder to write it, and makes it where there is none.
    fn opened_to_write(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = || rustix::fs::open(self.path.join(name), flags, Mode::RUSR | Mode::WUSR);
        let file = match open() {
            // Somebody has deleted the folder.
            Err(Errno::NOENT) if make(&self.path).is_ok() => open()?,
            opened => opened?,
        };
        let file = File::from(file);
        let found = file.metadata()?;
        if found.is_file() && found.nlink() == 1 {
            Ok(file)
        } else {
            Err(io::ErrorKind::InvalidInput.into())
        }
    }

    /// Deletes packs that were not used for longest, until there is no more than there may be: neither more than the limit,
    /// nor more than is free besides. One process at a time does so.
    fn make_room(&self) {
        let Ok(_lock) = self.lock() else { return };
        let kept = self.kept();
        let mut bytes: u64 = kept.values().map(|kept| kept.bytes).sum();
        let free = rustix::fs::statvfs(&self.path).map_or(u64::MAX, |stat| stat.f_bavail * stat.f_frsize);
        let limit = self.limit.min(bytes.saturating_add(free) / 2);
        if bytes <= limit {
            return;
        }
        let mut oldest: Vec<_> = kept.into_values().collect();
        oldest.sort_by_key(|kept| kept.used);
        for kept in oldest {
            // A little more than is necessary, so that the next look is not at once.
            if bytes <= limit - limit / 16 {
                return;
            }
            bytes -= kept.bytes;
            for path in kept.paths {
                // One that cannot be deleted is tried again at the next look.
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn lock(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(self.path.join("lock"), flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    }

    /// Returns what there is of packs; what else is in the folder is not ours.
    fn kept(&self) -> BTreeMap<PackName, Kept> {
        let mut kept = BTreeMap::new();
        let Ok(entries) = std::fs::read_dir(&self.path) else {
            return kept;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let pack = name.to_str().and_then(pack_of);
            let (Some(pack), Ok(found)) = (pack, entry.metadata()) else {
                continue;
            };
            let of_pack = kept.entry(pack).or_insert_with(|| Kept {
                used: (0, 0),
                bytes: 0,
                paths: Vec::new(),
            });
            of_pack.used = of_pack.used.max((found.mtime(), found.mtime_nsec()));
            // The size says nothing: most of a file may be a hole.
            of_pack.bytes += found.blocks() * 512;
            of_pack.paths.push(entry.path());
        }
        kept
    }
}

fn index_name(name: PackName) -> String {
    format!("{}{INDEX}", name.file_name())
}

/// Returns the pack that a file is of, by its name.
fn pack_of(name: &str) -> Option<PackName> {
    PackName::parse(name.strip_suffix(INDEX).unwrap_or(name))
}

/// Makes the folder, its owner's alone, where there is none; refuses one that others can enter.
fn make(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    let failed = |why: String| Failure::DidNotHappen(format!("the cache {shown} cannot be used: {why}"));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| failed(error.to_string()))?;
    let found = path.metadata().map_err(|error| failed(error.to_string()))?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    if is_own && found.mode() & 0o077 == 0 {
        Ok(())
    } else {
        Err(failed("it is not its user's alone (0700)".to_owned()))
    }
}
