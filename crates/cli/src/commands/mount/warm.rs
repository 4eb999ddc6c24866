//! What is brought before it is asked for, and what is noted for that: what a mount reads in its first seconds.
//!
//! The list of a drive is beside the cache, and worth no more than it: one that is missing, damaged or old brings less.

use super::Args;
use crate::cache::Kept;
use crate::output;
use crate::status::Warm;
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tenure_client::Branch;
use tenure_client::warm::{Brought, Part, Wanted};
use tenure_model::{Ino, Name};
use tenure_store::Cache;

/// For how long what a mount reads is noted.
const FIRST: Duration = Duration::from_secs(10);
/// Lines of a list: what the last few mounts have read, the newest first.
const LINES_MAX: usize = 32 << 10;
/// Bytes of a list.
const LIST_LEN_MAX: u64 = 2 << 20;
/// How long who is in no hurry waits before it looks again whether somebody is.
const REST: Duration = Duration::from_millis(5);

/// What is brought, and what is noted, while a mount is there.
#[derive(Default)]
pub(super) struct Warming {
    bringing: Option<Arc<Bringing>>,
    noting: Option<(Sender<()>, JoinHandle<()>)>,
}

/// What is brought.
struct Bringing {
    what: String,
    brought: Brought,
    is_over: AtomicBool,
    ends: AtomicBool,
}

impl Warming {
    /// Begins to bring what is wanted, and to note what is read.
    pub(super) fn begin(args: &Args, kept: &Kept, branch: &Arc<Branch>) -> Self {
        let list = kept.lists.as_ref().zip(branch.identity());
        let list = list.map(|(lists, (drive, _))| lists.join(&drive.to_string()[..32]));
        let bringing = args.warm.as_ref().map(|paths| {
            let what = match &paths[..] {
                [] => "what was read first the last times".to_owned(),
                paths => paths.iter().map(output::quoted).collect::<Vec<_>>().join(", "),
            };
            let bringing = Arc::new(Bringing {
                what,
                brought: Brought::default(),
                is_over: AtomicBool::new(false),
                ends: AtomicBool::new(false),
            });
            let lines = list.as_deref().map(read).unwrap_or_default();
            bringing.start(paths.clone(), lines, Arc::clone(branch), Arc::clone(&kept.cache));
            bringing
        });
        Self {
            bringing,
            noting: list.and_then(|list| note(list, Arc::clone(branch))),
        }
    }

    /// Returns what tells how far it is.
    pub(super) fn teller(&self) -> impl Fn() -> Option<Warm> + Send + Sync + use<> {
        let bringing = self.bringing.clone();
        move || bringing.as_ref().map(|bringing| bringing.tell())
    }

    /// Ends both: nobody waits for what is still brought, and what was noted is kept.
    pub(super) fn end(self) {
        if let Some(bringing) = self.bringing {
            bringing.ends.store(true, Ordering::Relaxed);
        }
        if let Some((ends, noting)) = self.noting {
            drop(ends);
            // One that has panicked has noted nothing.
            let _ = noting.join();
        }
    }
}

impl Bringing {
    fn start(
        self: &Arc<Self>,
        paths: Vec<PathBuf>,
        lines: Vec<Part>,
        branch: Arc<Branch>,
        cache: Arc<Cache>,
    ) {
        let myself = Arc::clone(self);
        let run = move || {
            let wanted = match &paths[..] {
                [] => lines.into_iter().map(Wanted::Part).collect(),
                paths => paths.iter().filter_map(|path| found(&branch, path)).collect(),
            };
            branch.bring(wanted, &myself.brought, &|| myself.goes_on(&cache));
            myself.is_over.store(true, Ordering::Relaxed);
        };
        // Without a thread for it nothing is brought before it is asked for.
        if std::thread::Builder::new()
            .name("warm".into())
            .spawn(run)
            .is_err()
        {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until nobody waits for the bucket: whoever does so goes first.
    fn goes_on(&self, cache: &Cache) -> bool {
        while cache.is_fetching() && !self.ends.load(Ordering::Relaxed) {
            std::thread::sleep(REST);
        }
        !self.ends.load(Ordering::Relaxed)
    }

    fn tell(&self) -> Warm {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Warm {
            what: self.what.clone(),
            found: count(&self.brought.found),
            done: count(&self.brought.done),
            bytes: count(&self.brought.bytes),
            is_over: self.is_over.load(Ordering::Relaxed),
        }
    }
}

/// Returns what a path in the branch names, if there is such a thing.
fn found(branch: &Branch, path: &Path) -> Option<Wanted> {
    let mut at = Ino::ROOT;
    for component in path.components() {
        if let Component::Normal(name) = component {
            let name = Name::parse(name.as_bytes()).ok()?;
            at = branch.lookup(at, &name).ok()?.0;
        }
    }
    Some(Wanted::Whole(at))
}

/// Notes what is read from now on, for a while or until what is returned goes, and keeps it in the list.
fn note(list: PathBuf, branch: Arc<Branch>) -> Option<(Sender<()>, JoinHandle<()>)> {
    let (ends, is_over) = channel::<()>();
    branch.note_reads();
    let run = move || {
        // Nothing is ever said: it is the end of the time, or of the mount.
        let _ = is_over.recv_timeout(FIRST);
        let noted = branch.noted_reads();
        drop(branch);
        // A list that cannot be kept is worth no word; the next mount has the one before.
        let _ = keep(&list, &noted);
    };
    let started = std::thread::Builder::new().name("noting".into()).spawn(run);
    started.ok().map(|thread| (ends, thread))
}

/// Puts what was read now before what the list has.
fn keep(list: &Path, noted: &BTreeSet<Part>) -> std::io::Result<()> {
    if noted.is_empty() {
        return Ok(());
    }
    let older = read(list);
    let older = older.iter().filter(|part| !noted.contains(part));
    let lines = noted.iter().chain(older).take(LINES_MAX);
    let text: String = lines
        .map(|part| format!("{} {}\n", part.ino.0, part.number))
        .collect();
    let folder = list.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let new = list.with_extension(std::process::id().to_string());
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&new, list)
}

/// Returns the lines of a list that are such lines.
fn read(list: &Path) -> Vec<Part> {
    let is_short = std::fs::metadata(list).is_ok_and(|found| found.is_file() && found.len() <= LIST_LEN_MAX);
    let text = if is_short {
        std::fs::read_to_string(list).unwrap_or_default()
    } else {
        String::new()
    };
    let part = |line: &str| {
        let (ino, number) = line.split_once(' ')?;
        Some(Part {
            ino: Ino(ino.parse().ok()?),
            number: number.parse().ok()?,
        })
    };
    text.lines().filter_map(part).take(LINES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(ino: u64, number: u64) -> Part {
        Part {
            ino: Ino(ino),
            number,
        }
    }

    #[test]
    fn a_list_has_what_was_read_last_first_and_nothing_twice() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("lists").join("drive");
        keep(&list, &[part(7, 0), part(8, 2)].into()).unwrap();
        keep(&list, &BTreeSet::new()).unwrap();
        keep(&list, &[part(9, 0), part(7, 0)].into()).unwrap();
        assert_eq!(read(&list), [part(7, 0), part(9, 0), part(8, 2)]);
    }

    #[test]
    fn what_is_no_line_of_a_list_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("drive");
        std::fs::write(&list, "7 0\n\n-1 5\n8\nword 3\n9 1\n").unwrap();
        assert_eq!(read(&list), [part(7, 0), part(9, 1)]);
        assert_eq!(read(&folder.path().join("none")), []);
    }
}
