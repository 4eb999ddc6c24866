//! Guards docs/GUARANTEES.md: each promise names the tests that show it, and each of those is there.

use super::{collect, root};
use std::collections::BTreeSet;

/// How the line begins on which a promise names its tests, as `` `room::test` ``, or `` `check::function` `` for a suite.
const TESTS: &str = "Tests: ";

/// Returns every test of a room, and the functions of `check` for that name.
fn there(room: &str) -> BTreeSet<String> {
    if room == "check" {
        let script = std::fs::read_to_string(root().join("check")).expect("it is there");
        let functions = script.lines().filter_map(|line| line.split_once("() {"));
        return functions.map(|(name, _)| name.to_owned()).collect();
    }
    let mut sources = Vec::new();
    let folder = root().join("crates").join(room);
    assert!(folder.is_dir(), "there is no room {room}");
    collect(&folder, &mut sources);
    sources.iter().flat_map(|(_, text)| tests_in(text)).collect()
}

/// Returns the names of the functions that stand behind a `#[test]`.
fn tests_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        is_test |= line == "#[test]";
        if let Some(rest) = line.strip_prefix("fn ").filter(|_| is_test) {
            found.extend(rest.split_once('(').map(|(name, _)| name.to_owned()));
            is_test = false;
        }
    }
    found
}

/// Returns the number of a promise's line, if it is the first of one.
fn number(line: &str) -> Option<u32> {
    line.split_once(". **")?.0.parse().ok()
}

#[test]
fn each_promise_names_tests_that_there_are() {
    let text = std::fs::read_to_string(root().join("docs/GUARANTEES.md")).expect("it is there");
    let mut open = None;
    let mut promises = Vec::new();
    for line in text.lines() {
        if let Some(promise) = number(line) {
            assert_eq!(open, None, "it names no tests");
            open = Some(promise);
            promises.push(promise);
        }
        let Some(named) = line.trim().strip_prefix(TESTS) else {
            continue;
        };
        let promise = open.take().expect("tests stand behind their promise");
        let names: Vec<_> = named.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "promise {promise} names no tests");
        for name in names {
            let (room, test) = name.split_once("::").expect("a room and a test");
            assert!(
                there(room).contains(test),
                "promise {promise}: there is no {name}"
            );
        }
    }
    assert_eq!(open, None, "it names no tests");
    assert!(
        promises.iter().copied().eq(1..=promises.len() as u32),
        "{promises:?}"
    );
    assert!(promises.len() > 10);
}
