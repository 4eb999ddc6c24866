//! What an agent does in a checkout: edit files, commit them, look at the state.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::bench::command::{git, run};
use crate::bench::input::count;
use crate::bench::named;

/// How many files it edits.
pub(crate) const EDITED: usize = 200;
/// How many files it adds.
pub(crate) const ADDED: usize = 50;

/// Returns some files of the checkout, spread over it.
pub(crate) fn files_to_edit(clone: &Path) -> Result<Vec<PathBuf>> {
    let listing = run(git(clone).args(["ls-files", "-z"]))?;
    let listing = String::from_utf8_lossy(&listing);
    let all: Vec<&str> = listing.split_terminator('\0').collect();
    let step = (all.len() / EDITED).max(1);
    let chosen = all
        .into_iter()
        .step_by(step)
        .take(EDITED)
        .map(|file| clone.join(file));
    Ok(chosen
        .filter(|file| fs::symlink_metadata(file).is_ok_and(|attributes| attributes.is_file()))
        .collect())
}

/// Appends a line to each of `files` and adds new ones.
pub(crate) fn edit(clone: &Path, files: &[PathBuf]) -> Result<()> {
    for path in files {
        OpenOptions::new()
            .append(true)
            .open(path)?
            .write_all(b"edited\n")?;
    }
    let notes = clone.join("notes");
    named::create_dir_all(&notes)?;
    for number in 0..ADDED {
        named::write(
            notes.join(format!("note-{number}.md")),
            format!("# Note {number}\n\nWhat was found out.\n"),
        )?;
    }
    Ok(())
}

/// Commits everything but the installed packages.
pub(crate) fn commit(clone: &Path) -> Result<()> {
    let exclude = clone.join(".git/info/exclude");
    named::create_dir_all(clone.join(".git/info"))?;
    named::write(exclude, "node_modules/\n")?;
    run(git(clone).args(["add", "--all"]))?;
    run(git(clone).args(["commit", "--quiet", "--no-gpg-sign", "-m", "A day's work"])).map(drop)
}

/// Refuses unless the checkout is as it was committed.
pub(crate) fn status(clone: &Path) -> Result<()> {
    let printed = run(git(clone).args(["status", "--porcelain"]))?;
    ensure!(
        printed.is_empty(),
        "git status is not clean: {}",
        String::from_utf8_lossy(&printed)
    );
    Ok(())
}

/// Counts the files of the installed packages.
pub(crate) fn installed_files(web: &Path) -> Result<u64> {
    Ok(count(&web.join("node_modules"))?.files)
}
