//! A bare git repository to clone: the vendored sources of a pinned set of published crates, committed in a fixed history.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{make_once, walk, workshop};
use crate::bench::command::{command, git, require, run};
use crate::bench::measure::Content;
use crate::bench::named;
use crate::bench::progress::Progress;

const MANIFEST: &str = include_str!("../../../../../bench/repository/Cargo.toml");
const LOCK: &str = include_str!("../../../../../bench/repository/Cargo.lock");

/// How many commits, after those that add the crates, change files here and there.
const CHANGES: usize = 24;
/// How many files one of those commits changes, at most.
const FILES_A_CHANGE: usize = 200;
/// The first commit's date; each next commit is a day later. 2025-01-01 in UTC.
const FIRST_DATE: u64 = 1_735_689_600;

/// A bare repository and what a checkout of it holds.
#[derive(Debug)]
pub(crate) struct Repository {
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
}

impl Repository {
    /// Takes the repository at `path`, a bare one or a work tree.
    pub(super) fn given(path: &Path) -> Result<Repository> {
        require("git", "git")?;
        let path = path
            .canonicalize()
            .with_context(|| format!("cannot find {}", path.display()))?;
        let content = checkout_content(&path)
            .with_context(|| format!("{} is not a git repository with a commit", path.display()))?;
        Ok(Repository { path, content })
    }

    /// Makes the repository in `folder`: the crates are fetched by `cargo vendor`.
    pub(super) fn make(folder: &Path, progress: Progress) -> Result<Repository> {
        require("git", "git")?;
        require("cargo", "cargo")?;
        let content = make_once(folder, LOCK, |partial| {
            let step = progress.step("fetching the sources of published crates from their registry (once)");
            let workshop = workshop(partial)?;
            let source = workshop.path().join("source");
            vendor(&source)?;
            step.now("committing them into a repository".to_owned());
            commit_history(&source)?;
            let bare = partial.join("bare.git");
            run(command("git")
                .args(["clone", "--quiet", "--bare"])
                .arg(&source)
                .arg(&bare))?;
            run(git(&bare).args(["gc", "--quiet", "--prune=now"]))?;
            checkout_content(&bare)
        })?;
        Ok(Repository {
            path: folder.join("bare.git"),
            content,
        })
    }

    /// Clones it into `directory`, sharing nothing with the original.
    pub(crate) fn clone_into(&self, directory: &Path) -> Result<()> {
        run(command("git")
            .args(["clone", "--quiet", "--no-hardlinks"])
            .arg(&self.path)
            .arg(directory))
        .map(drop)
    }
}

fn vendor(source: &Path) -> Result<()> {
    named::create_dir_all(source.join("src"))?;
    named::write(source.join("Cargo.toml"), MANIFEST)?;
    named::write(source.join("Cargo.lock"), LOCK)?;
    named::write(source.join("src/lib.rs"), "")?;
    run(command("cargo")
        .args(["vendor", "--quiet", "--locked", "vendor"])
        .current_dir(source))
    .context("the crates could not be fetched; the crates' registry must be reachable the first time")?;
    // Import libraries of another system: hundreds of megabytes that no project commits.
    for entry in named::read_dir(source.join("vendor"))? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("windows") || name.to_string_lossy().starts_with("winapi") {
            named::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Commits the crates by their first letters, then small changes spread over them; the same ids on every machine.
fn commit_history(source: &Path) -> Result<()> {
    run(command("git")
        .args(["init", "--quiet", "--initial-branch=main"])
        .arg(source))?;
    let mut day = 0;
    let mut commit = |message: &str| {
        let date = format!("{} +0000", FIRST_DATE + day * 86_400);
        day += 1;
        let mut git = git(source);
        git.args(["commit", "--quiet", "--no-gpg-sign", "-m", message]);
        run(git.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date)).map(drop)
    };
    run(git(source).args(["add", "--force", "Cargo.toml", "Cargo.lock", "src"]))?;
    commit("Name the crates")?;
    for (first, last) in [
        ('a', 'b'),
        ('c', 'f'),
        ('g', 'k'),
        ('l', 'o'),
        ('p', 'r'),
        ('s', 't'),
        ('u', 'z'),
    ] {
        let crates = format!(
            "vendor/[{first}-{last}{}-{}]*",
            first.to_ascii_uppercase(),
            last.to_ascii_uppercase()
        );
        run(git(source).args(["add", "--force", &crates]))?;
        commit(&format!("Vendor {first} to {last}"))?;
    }
    let files = rust_files(&source.join("vendor"))?;
    for change in 0..CHANGES {
        for path in files.iter().skip(change).step_by(CHANGES).take(FILES_A_CHANGE) {
            let mut file = fs::OpenOptions::new().append(true).open(path)?;
            writeln!(file, "// Looked at in change {change}.")?;
        }
        run(git(source).args(["add", "--force", "--update"]))?;
        commit(&format!("Change {change}"))?;
    }
    let left = run(git(source).args(["status", "--porcelain", "--ignored"]))?;
    ensure!(
        left.is_empty(),
        "not everything was committed: {}",
        String::from_utf8_lossy(&left)
    );
    Ok(())
}

fn rust_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    walk(directory, &mut |file| {
        if file.extension().is_some_and(|extension| extension == "rs") {
            files.push(file.to_owned());
        }
        Ok(())
    })?;
    files.sort();
    Ok(files)
}

/// Counts the files of the newest commit and their bytes.
fn checkout_content(repository: &Path) -> Result<Content> {
    let listing = run(git(repository).args(["ls-tree", "-r", "-z", "--long", "--full-tree", "HEAD"]))?;
    let mut content = Content::default();
    for entry in listing.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        // "100644 blob <id> <size padded>\t<path>"
        let size = String::from_utf8_lossy(entry);
        let size = size
            .split_whitespace()
            .nth(3)
            .and_then(|size| size.parse::<u64>().ok());
        content.files += 1;
        content.bytes += size.unwrap_or(0);
    }
    ensure!(content.files > 0, "the newest commit holds no file");
    Ok(content)
}
