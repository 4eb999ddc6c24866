//! What the workloads work on: made once, from the package registries alone, and kept in a cache folder. After that the
//! bench is offline.
//!
//! Everything is pinned by locks that are compiled in, so that two machines measure the same bytes.
//! Invariant: a folder of the cache is whole or not there: it is made under another name and renamed.

use std::cell::OnceCell;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use super::disk::Scratch;
use super::interrupt;
use super::measure::Content;
use super::progress::Progress;
use crate::bench::named;

mod app;
mod repository;
mod workspace;

pub(crate) use app::App;
pub(crate) use repository::Repository;

/// What the largest of the trees that inputs are made of takes, twice over.
const WORKSHOP_BYTES: u64 = 4 << 30;

/// The inputs, each made when it is first asked for.
#[derive(Debug)]
pub(crate) struct Inputs {
    cache: PathBuf,
    own_repository: Option<PathBuf>,
    progress: Progress,
    repository: OnceCell<Repository>,
    app: OnceCell<App>,
    workspace: OnceCell<PathBuf>,
}

impl Inputs {
    /// Keeps inputs in `cache`; `own_repository` is cloned instead of the one that would be made.
    pub(crate) fn kept_in(cache: PathBuf, own_repository: Option<PathBuf>, progress: Progress) -> Inputs {
        Inputs {
            cache,
            own_repository,
            progress,
            repository: OnceCell::new(),
            app: OnceCell::new(),
            workspace: OnceCell::new(),
        }
    }

    /// Returns the repository to clone.
    pub(crate) fn repository(&self) -> Result<&Repository> {
        once(&self.repository, || match &self.own_repository {
            Some(path) => Repository::given(path),
            None => Repository::make(&self.cache.join("repository"), self.progress),
        })
    }

    /// Returns the Next.js application to install.
    pub(crate) fn app(&self) -> Result<&App> {
        once(&self.app, || {
            App::make(&self.cache.join("next-app"), self.progress)
        })
    }

    /// Returns the folder that holds the Cargo workspace to build.
    pub(crate) fn workspace(&self) -> Result<&Path> {
        once(&self.workspace, || workspace::make(&self.cache.join("workspace"))).map(PathBuf::as_path)
    }
}

/// Reads every file below `path`, so that the next reader finds them in memory.
pub(crate) fn warm(path: &Path) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    walk(path, &mut |file| {
        let mut file = named::open(file)?;
        while file.read(&mut buffer)? > 0 {}
        Ok(())
    })
}

/// Counts the regular files below `path` and their bytes.
pub(crate) fn count(path: &Path) -> Result<Content> {
    let mut content = Content::default();
    walk(path, &mut |file| {
        content.files += 1;
        content.bytes += fs::symlink_metadata(file)?.len();
        Ok(())
    })?;
    Ok(content)
}

/// Visits every regular file at or below `path`, directories in the order of their listing.
pub(crate) fn walk(path: &Path, visit: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    interrupt::check()?;
    if fs::symlink_metadata(path)
        .with_context(|| format!("cannot read {}", path.display()))?
        .is_file()
    {
        return visit(path);
    }
    for entry in fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), visit)?;
        } else if kind.is_file() {
            visit(&entry.path())?;
        }
    }
    Ok(())
}

/// Returns what `cell` holds, made by `make` if it holds nothing yet.
fn once<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    if let Some(made) = cell.get() {
        return Ok(made);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}

/// Makes `folder` by `make` unless it was made from exactly `made_from` before; returns what `make` counted then.
fn make_once(folder: &Path, made_from: &str, make: impl FnOnce(&Path) -> Result<Content>) -> Result<Content> {
    let note = folder.join("made-from.json");
    let kept = fs::read(&note)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
    if let Some(kept) = kept
        && kept["made_from"] == made_from
        && let (Some(files), Some(bytes)) = (kept["files"].as_u64(), kept["bytes"].as_u64())
    {
        return Ok(Content { files, bytes });
    }
    let partial = folder.with_extension("partial");
    for old in [folder, &partial] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
    }
    fs::create_dir_all(&partial).with_context(|| format!("cannot make {}", partial.display()))?;
    let content = make(&partial)?;
    let note = json!({ "made_from": made_from, "files": content.files, "bytes": content.bytes });
    named::write(partial.join("made-from.json"), note.to_string())?;
    named::rename(&partial, folder)?;
    Ok(content)
}

/// Makes a folder for trees that are thrown away once an input is made of them: in memory where there is room, since
/// some file systems take minutes to remove tens of thousands of files.
fn workshop(partial: &Path) -> Result<Scratch> {
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |at| at.f_bavail * at.f_frsize);
    Scratch::make(if free > WORKSHOP_BYTES { memory } else { partial })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_made_once_and_again_when_its_source_changes() {
        let cache = tempfile::tempdir().expect("a folder");
        let folder = cache.path().join("input");
        let mut made = 0;
        for (source, expected) in [("a", 1), ("a", 1), ("b", 2)] {
            let content = make_once(&folder, source, |partial| {
                made += 1;
                fs::write(partial.join("x"), "1234")?;
                count(partial)
            });
            assert_eq!(content.expect("it can be made").bytes, 4);
            assert_eq!(made, expected);
        }
    }

    #[test]
    fn an_input_that_could_not_be_made_is_not_there() {
        let cache = tempfile::tempdir().expect("a folder");
        let folder = cache.path().join("input");
        assert!(make_once(&folder, "a", |_| anyhow::bail!("no network")).is_err());
        assert!(!folder.exists());
    }
}
