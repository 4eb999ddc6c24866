//! `git merge-file` as the oracle of what is merged by lines.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fs;
use std::path::Path;
use std::process::Command;
use tenure_merge::{Driver, Outcome, merge};

/// Files of few kinds of lines, so that it is often not plain which line is which.
#[test]
fn lines_are_merged_as_git_merges_them() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let mut runner = TestRunner::new(Config::with_cases(500));
    let cases = (base(), edits(), edits());
    let result = runner.run(&cases, |(base, ours, theirs)| {
        let [ours, theirs] = [ours, theirs].map(|edits| edited(&base, &edits));
        let [base, ours, theirs] = [base, ours, theirs].map(|lines| lines.concat().into_bytes());
        let merged = match merge(Driver::Text, Some(&base), &ours, &theirs) {
            Outcome::Merged(merged) => Some(merged.content),
            Outcome::Conflict(_) => None,
        };
        let git = git(folder.path(), &base, &ours, &theirs);
        let shown = |text: &Option<Vec<u8>>| {
            text.as_ref()
                .map(|text| String::from_utf8_lossy(text).into_owned())
        };
        prop_assert_eq!(shown(&merged), shown(&git));
        Ok(())
    });
    result.expect("git says the same");
}

/// Returns what git makes of it, or none for a conflict.
fn git(folder: &Path, base: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    for (name, bytes) in [("base", base), ("ours", ours), ("theirs", theirs)] {
        fs::write(folder.join(name), bytes).expect("a file can be written");
    }
    let output = Command::new("git")
        .args(["merge-file", "-p", "-q", "ours", "base", "theirs"])
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .current_dir(folder)
        .output()
        .expect("git can be started");
    let code = output.status.code().expect("git ends by itself");
    assert!(code < 128, "{}", String::from_utf8_lossy(&output.stderr));
    (code == 0).then_some(output.stdout)
}

fn base() -> impl Strategy<Value = Vec<String>> {
    prop_oneof![
        vec("[a-d]\n", 0..10),
        vec("[a-z]{2}\n", 0..60),
        vec("( {0,8}[a-z]|\\{|\\}|)\r?\n", 0..40)
    ]
}

/// Places, how many lines are removed there, and what is put there.
type Edits = Vec<(usize, usize, Vec<String>)>;

fn edits() -> impl Strategy<Value = Edits> {
    vec(
        (any::<usize>(), 0..4_usize, vec("([a-d]|[a-z]{2}|\\}|)\n", 0..4)),
        0..4,
    )
}

fn edited(base: &[String], edits: &Edits) -> Vec<String> {
    let mut lines = base.to_vec();
    for (at, removed, added) in edits {
        let at = at % (lines.len() + 1);
        let end = (at + removed).min(lines.len());
        lines.splice(at..end, added.iter().cloned());
    }
    // Some files end within a line.
    if edits.first().is_some_and(|(at, ..)| at % 5 == 0)
        && let Some(last) = lines.last_mut()
    {
        *last = last.trim_end().to_owned();
        if last.is_empty() {
            lines.pop();
        }
    }
    lines
}
