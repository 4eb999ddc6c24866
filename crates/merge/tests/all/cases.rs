//! Cases as data: a folder of what both sides made of a base, and what becomes of it. `outcome` says by which driver, and what is told.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use tenure_merge::{Attributes, Outcome, choose, merge};

#[test]
fn what_both_sides_changed_is_merged_as_the_cases_say() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut folders: Vec<PathBuf> = fs::read_dir(cases)
        .expect("the cases can be listed")
        .map(|entry| entry.expect("an entry can be read").path())
        .collect();
    folders.sort();
    assert!(folders.len() > 50, "only {} cases were found", folders.len());
    let mut wrong = String::new();
    for folder in folders {
        let case = folder
            .file_name()
            .expect("a folder has a name")
            .to_string_lossy()
            .into_owned();
        let (told, content) = done(&folder);
        let expected = side(&folder, "expected");
        let outcome = side(&folder, "outcome").expect("a case says what comes of it");
        let outcome = String::from_utf8(outcome).expect("it is said in text");
        if (outcome.trim_end(), expected.as_deref()) != (&told, content.as_deref()) {
            let shown = content.map(|content| String::from_utf8_lossy(&content).into_owned());
            write!(wrong, "\n== {case}: {told}\n{}", shown.unwrap_or_default()).expect("a string takes all");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Returns what is told of a case, and the merged content.
fn done(folder: &Path) -> (String, Option<Vec<u8>>) {
    let base = side(folder, "base");
    let ours = side(folder, "ours").expect("a case has both sides");
    let theirs = side(folder, "theirs").expect("a case has both sides");
    let path = path(folder, "ours").expect("it was read");
    let name = path.file_name().expect("it has a name").as_encoded_bytes();
    let driver = choose(name, &Attributes::default(), &[&ours, &theirs]);
    match merge(driver, base.as_deref(), &ours, &theirs) {
        Outcome::Merged(merged) => {
            let unfit = merged.unfit.map(|unfit| format!(", {unfit}")).unwrap_or_default();
            (format!("merged by {}{unfit}", merged.by), Some(merged.content))
        }
        Outcome::Conflict(conflict) => {
            let unfit = conflict
                .unfit
                .map(|unfit| format!(", {unfit}"))
                .unwrap_or_default();
            (
                format!("conflict by {}: {}{unfit}", conflict.by, conflict.why),
                None,
            )
        }
    }
}

fn side(folder: &Path, name: &str) -> Option<Vec<u8>> {
    path(folder, name).map(|path| fs::read(path).expect("a file of a case can be read"))
}

/// Returns the file of a side, whatever its ending is.
fn path(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut files = fs::read_dir(folder)
        .expect("a case can be listed")
        .map(|entry| entry.expect("it can be read").path());
    files.find(|path| path.file_stem().is_some_and(|stem| stem == name))
}
