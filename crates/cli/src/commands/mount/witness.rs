//! What a mount leaves behind for the next one to say, should its process be killed: how much was not durable.
//!
//! A small file that the process has in its memory: what is counted there costs no call, and outlives the process, not the
//! machine. It is known by what tells the branch from every other, so that no other's is ever told. Invariant: until a mount is
//! usable, the note of the one before it stays as it is.

use crate::home;
use crate::mounts;
use crate::output;
use anyhow::{Context, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_client::{Branch, Witness};
use tenure_model::{Digest, counted};

/// The numbers in the file.
#[repr(C)]
struct Counts {
    pid: AtomicU64,
    changes: AtomicU64,
    bytes: AtomicU64,
}

const LEN: usize = size_of::<Counts>();

/// The note of a mount.
#[derive(Default)]
pub(super) struct Note(OnceLock<Draft>);

/// A note that takes the place of the one before it once its mount is usable.
struct Draft {
    counts: &'static Counts,
    at: PathBuf,
    path: PathBuf,
}

impl Note {
    /// Begins a note of a branch, and returns what the last process that had it mounted left unsaid. Nothing was changed yet.
    pub(super) fn begin(&self, branch: &Branch) -> Result<Option<String>> {
        let (drive, id) = branch
            .identity()
            .context("a branch that is changed has a number")?;
        let key = Digest::of(format!("{drive} {id}").as_bytes()).to_string();
        let path = home::state()?.join(format!("unsynced-{}", &key[..16]));
        let last = std::fs::read(&path).ok().and_then(|note| sentence(&note));
        let pid = std::process::id();
        let at = path.with_extension(pid.to_string());
        let counts = draft(&at, pid).with_context(|| {
            // Where there is no room, its name may be there all the same.
            let _ = std::fs::remove_file(&at);
            format!("cannot write {}", at.display())
        })?;
        let begun = self.0.set(Draft { counts, at, path });
        begun.ok().context("a mount begins one note")?;
        Ok(last)
    }

    /// Lets the note take the place of the one before it.
    pub(super) fn publish(&self) -> Result<()> {
        match self.0.get() {
            Some(Draft { at, path, .. }) => {
                std::fs::rename(at, path).with_context(|| format!("cannot write {}", path.display()))
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

    fn shipped(&self, changes: u64) {
        if let Some(Draft { counts, .. }) = self.0.get() {
            counts.changes.fetch_sub(changes, Ordering::Relaxed);
        }
    }

    fn staged(&self, bytes: u64) {
        if let Some(Draft { counts, .. }) = self.0.get() {
            counts.bytes.store(bytes, Ordering::Relaxed);
        }
    }
}

/// Makes the file, and has it in memory for as long as this process lives.
fn draft(at: &std::path::Path, pid: u32) -> std::io::Result<&'static Counts> {
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(at)?;
    // With room on the disk it is never a hole that could not be filled.
    file.write_all(&[u64::from(pid), 0, 0].map(u64::to_ne_bytes).concat())?;
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    #[expect(unsafe_code, reason = "memory of a file is asked for from the system")]
    // SAFETY: the system chooses a place where nothing is; it is as long as `Counts`, begins at a page, holds numbers of which
    // every value is one, and is never given back.
    let counts = unsafe { &*mmap(std::ptr::null_mut(), LEN, access, flags, &file, 0)?.cast::<Counts>() };
    Ok(counts)
}

fn sentence(note: &[u8]) -> Option<String> {
    let mut numbers = note
        .chunks_exact(8)
        .map(|number| u64::from_ne_bytes(number.try_into().expect("it has 8 bytes")));
    let (pid, changes, bytes) = (numbers.next()?, numbers.next()?, numbers.next()?);
    if changes + bytes == 0 {
        return None;
    }
    let what = format!(
        "{} of names, attributes and contents, and {} of contents beside them, were not durable",
        counted(changes, "change"),
        output::bytes(bytes)
    );
    let lives = u32::try_from(pid).ok().and_then(mounts::of);
    Some(match lives {
        Some(dir) => format!(
            "process {pid}, which has this branch mounted at {} still, was not heard of and has lost it to this mount: {what} \
             there, and are not here (tenure unmount {0} says how to end it)",
            dir.display()
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
        let note = |numbers: [u64; 3]| sentence(&numbers.map(u64::to_ne_bytes).concat());
        let said = note([u64::MAX, 3, 4096]).expect("something is lost");
        assert!(said.contains("3 changes") && said.contains("4.00 KiB"), "{said}");
        assert!(note([u64::MAX, 1, 0]).is_some_and(|said| said.contains("1 change of")));
        assert_eq!(note([1, 0, 0]), None);
        assert_eq!(sentence(b""), None);
    }
}
