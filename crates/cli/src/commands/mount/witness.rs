//! What a mount leaves behind for the next one, should its process be killed: how much was not durable, and that the process is
//! the one that has ended.
//!
//! A small file that the process has in its memory: what is counted there costs no call, and outlives the process, not the
//! machine. It is known by what tells the branch from every other, and its bucket from copies of it, so that no other's is ever
//! told, whatever name the bucket has. Invariant: until a mount is usable, the note of the one before it stays as it is.

use crate::bucket::Kept;
use crate::home;
use crate::life::{self, Life};
use crate::mounts;
use crate::output;
use crate::place::Place;
use anyhow::{Context, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_client::Witness;
use tenure_model::{BranchId, Digest, SessionId, counted};
use tenure_wire::Delegation;

/// The numbers in the file that change; behind them stand the session's, and those that tell the process.
#[repr(C)]
struct Counts {
    changes: AtomicU64,
    /// Bytes of contents that no change has put into a file yet.
    staged: AtomicU64,
    /// Bytes of contents that changes have.
    settled: AtomicU64,
}

const LEN: usize = size_of::<Counts>();
/// How many numbers there are.
const NUMBERS: usize = 4 + life::NUMBERS;

/// The note of a mount.
#[derive(Default)]
pub(super) struct Note(OnceLock<Draft>);

/// A note that takes the place of the one before it once its mount is usable.
struct Draft {
    counts: &'static Counts,
    at: PathBuf,
    path: PathBuf,
    /// Notes that are told with this one.
    told: Vec<PathBuf>,
}

/// Of which branch a note is, and where its bucket is: none where only a server knows.
#[derive(Clone, Debug)]
pub(super) struct Of {
    pub(super) drive: Digest,
    pub(super) branch: BranchId,
    pub(super) bucket: Option<String>,
}

impl Of {
    /// Returns what the notes of the branch are named by, whatever is known of its bucket.
    fn key(&self) -> String {
        let key = Digest::of(format!("{} {}", self.drive, self.branch).as_bytes()).to_string();
        format!("unsynced-{}", &key[..16])
    }

    /// Returns where the note of a mount is.
    fn path(&self) -> Result<PathBuf> {
        let bucket = self.bucket.as_ref().map(|bucket| format!("-{bucket}"));
        Ok(home::state()?.join(self.key() + &bucket.unwrap_or_default()))
    }

    /// Returns the notes that there are of the branch: not those that are known to be of another copy of the bucket.
    fn all(&self) -> Vec<PathBuf> {
        let key = self.key();
        let is_ours = |name: &str| match (name.strip_prefix(&key), &self.bucket) {
            (Some(rest), _) if rest.contains('.') => false,
            (Some(""), _) => true,
            (Some(rest), Some(bucket)) => rest.strip_prefix('-') == Some(bucket),
            (Some(rest), None) => rest.starts_with('-'),
            (None, _) => false,
        };
        let names = home::state().and_then(|state| Ok(std::fs::read_dir(state)?));
        let names = names.into_iter().flatten().flatten();
        names
            .filter(|name| name.file_name().to_str().is_some_and(is_ours))
            .map(|name| name.path())
            .collect()
    }
}

/// Returns what tells the folder of a bucket from every other of this machine, and from copies of it.
pub(super) fn folder_of(place: &Place) -> Option<String> {
    let is_ours = !place.server.is_named();
    let kept = is_ours.then(|| place.kept().ok()).flatten()?;
    let Kept::Folder(folder) = kept else { return None };
    let found = std::fs::metadata(folder).ok()?;
    let digest = Digest::of(format!("{} {}", found.dev(), found.ino()).as_bytes());
    Some(digest.to_string()[..16].to_owned())
}

/// Says what the last process that had a branch mounted, and has ended, left unsaid: to who only looks at it, and as often as one does.
pub(super) fn unsaid(of: &Of) -> Option<String> {
    let notes = of.all().into_iter().filter_map(|path| std::fs::read(path).ok());
    let mut over =
        notes.filter(|note| numbers(note).is_some_and(|[_, _, _, _, life @ ..]| Life::of(life).is_over()));
    over.find_map(|note| sentence(&note))
}

impl Note {
    /// Begins a note of a branch, and returns what the last process that had it mounted left unsaid. Nothing was changed yet.
    pub(super) fn begin(&self, of: &Of, session: SessionId) -> Result<Option<String>> {
        let (path, told) = (of.path()?, of.all());
        let notes = told.iter().filter_map(|path| std::fs::read(path).ok());
        let last = notes.filter_map(|note| sentence(&note)).next();
        let at = path.with_extension(std::process::id().to_string());
        let counts = draft(&at, session).with_context(|| {
            // Where there is no room, its name may be there all the same.
            let _ = std::fs::remove_file(&at);
            format!("cannot write {}", at.display())
        })?;
        let begun = self.0.set(Draft {
            counts,
            at,
            path,
            told,
        });
        begun.ok().context("a mount begins one note")?;
        Ok(last)
    }

    /// Lets the note take the place of the one before it.
    pub(super) fn publish(&self) -> Result<()> {
        match self.0.get() {
            Some(Draft { at, path, told, .. }) => {
                std::fs::rename(at, path).with_context(|| format!("cannot write {}", path.display()))?;
                for told in told.iter().filter(|told| *told != path) {
                    // One that cannot be removed is told once more.
                    let _ = std::fs::remove_file(told);
                }
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        if let Some(draft) = self.0.get() {
            // One that was published is there no more.
            let _ = std::fs::remove_file(&draft.at);
        }
    }
}

impl Witness for Note {
    fn changed(&self) {
        if let Some(Draft { counts, .. }) = self.0.get() {
            counts.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn settled(&self, bytes: u64) {
        if let Some(Draft { counts, .. }) = self.0.get() {
            counts.settled.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn shipped(&self, changes: u64, bytes: u64) {
        if let Some(Draft { counts, .. }) = self.0.get() {
            counts.changes.fetch_sub(changes, Ordering::Relaxed);
            counts.settled.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn staged(&self, bytes: u64) {
        if let Some(Draft { counts, .. }) = self.0.get() {
            counts.staged.store(bytes, Ordering::Relaxed);
        }
    }
}

/// Tells whether the process that has something of a drive is known to have ended: it had it mounted on this machine.
pub(super) fn has_ended(drive: Digest, lent: &Delegation) -> bool {
    let of = Of {
        drive,
        branch: lent.branch,
        bucket: None,
    };
    let notes = of.all().into_iter().filter_map(|path| std::fs::read(path).ok());
    let mut notes = notes.filter_map(|note| numbers(&note));
    notes.any(|[_, _, _, session, life @ ..]| session == lent.session.0 && Life::of(life).is_over())
}

/// Makes the file, and has its counts in memory for as long as this process lives.
fn draft(at: &Path, session: SessionId) -> Result<&'static Counts> {
    let life = Life::own().context("the system does not tell which process this is: is /proc mounted?")?;
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(at)?;
    let all = [&[0, 0, 0, session.0][..], &life.numbers()].concat();
    // With room on the disk it is never a hole that could not be filled.
    file.write_all(&all.into_iter().flat_map(u64::to_ne_bytes).collect::<Vec<_>>())?;
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    #[expect(unsafe_code, reason = "memory of a file is asked for from the system")]
    // SAFETY: the system chooses a place where nothing is; it is as long as `Counts`, begins at a page, holds numbers of which
    // every value is one, and is never given back.
    let counts = unsafe { &*mmap(std::ptr::null_mut(), LEN, access, flags, &file, 0)?.cast::<Counts>() };
    Ok(counts)
}

fn numbers(note: &[u8]) -> Option<[u64; NUMBERS]> {
    let numbers = note
        .chunks_exact(8)
        .map(|number| u64::from_ne_bytes(number.try_into().expect("it has 8 bytes")));
    numbers.collect::<Vec<_>>().try_into().ok()
}

fn sentence(note: &[u8]) -> Option<String> {
    let [changes, staged, settled, _, pid, ..] = numbers(note)?;
    let bytes = staged + settled;
    if changes + bytes == 0 {
        return None;
    }
    let what = format!(
        "{} of names, attributes and contents, and {} of contents, were not durable",
        counted(changes, "change"),
        output::bytes(bytes)
    );
    let lives = u32::try_from(pid).ok().and_then(mounts::of);
    Some(match lives {
        Some(dir) => format!(
            "process {pid}, which has this branch mounted at {} still, was not heard of and has lost it to this mount: {what} \
             there, and are not here (tenure unmount {} says how to end it)",
            output::path(&dir),
            output::quoted(&dir)
        ),
        None => format!(
            "the last process that had this branch mounted ended without unmounting: {what} when it ended, and may be lost"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_a_killed_mount_becomes_a_sentence() {
        let note = |changes: u64, staged, settled| {
            let numbers = [changes, staged, settled, 1, u64::MAX, 0, 0, 0, 0];
            sentence(&numbers.map(u64::to_ne_bytes).concat())
        };
        let said = note(3, 4096, 4096).expect("something is lost");
        assert!(said.contains("3 changes") && said.contains("8.00 KiB"), "{said}");
        assert!(note(1, 0, 0).is_some_and(|said| said.contains("1 change of")));
        assert_eq!(note(0, 0, 0), None);
        assert_eq!(sentence(b""), None);
    }
}
