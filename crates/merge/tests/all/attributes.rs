//! Which driver a file has; `git check-attr` is the oracle of patterns.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use tenure_merge::{Attributes, Driver, choose};

#[test]
fn a_name_says_the_driver_unless_it_is_no_text() {
    let cases: &[(&str, &[u8], Driver)] = &[
        ("a/package.json", b"{}", Driver::Json),
        ("A.JSON", b"{}", Driver::Json),
        ("Cargo.lock", b"", Driver::Toml),
        ("not-Cargo.lock", b"", Driver::Text),
        ("a/Cargo.toml", b"", Driver::Toml),
        (".github/workflows/ci.yml", b"", Driver::Yaml),
        ("events.jsonl", b"", Driver::Union),
        ("main.rs", b"", Driver::Text),
        ("json", b"", Driver::Text),
        ("a.json", b"\0", Driver::Binary),
        ("main.rs", b"a\0", Driver::Binary),
    ];
    for (path, content, driver) in cases {
        let chosen = choose(path.as_bytes(), &Attributes::default(), &[b"text", content]);
        assert_eq!(chosen, *driver, "{path}");
    }
}

#[test]
fn attributes_say_it_first() {
    let mut attributes = Attributes::parse(
        b"# ours\n*.json merge=text\n*.lock -merge\ndata/** merge=union\n*.db merge=json\n",
    );
    attributes.add(
        b"app",
        b"*.json merge=json\n\"with space.txt\" merge=binary\nsub/*.lock !merge\n",
    );
    let cases: &[(&str, Option<Driver>)] = &[
        ("a.json", Some(Driver::Text)),
        ("deep/a.json", Some(Driver::Text)),
        ("app/a.json", Some(Driver::Json)),
        ("app/x/a.json", Some(Driver::Json)),
        ("apps/a.json", Some(Driver::Text)),
        ("Cargo.lock", Some(Driver::Binary)),
        ("app/sub/Cargo.lock", None),
        ("app/Cargo.lock", Some(Driver::Binary)),
        ("data/x/y", Some(Driver::Union)),
        ("app/data/x", None),
        ("app/with space.txt", Some(Driver::Binary)),
        ("with space.txt", None),
        ("a.c", None),
    ];
    for (path, driver) in cases {
        assert_eq!(attributes.driver(path.as_bytes()), *driver, "{path}");
    }
    // Also of what is no text.
    assert_eq!(choose(b"a.db", &attributes, &[b"\0"]), Driver::Json);
    assert!(attributes.complaints().is_empty());
}

#[test]
fn what_cannot_be_followed_is_told() {
    let mut attributes = Attributes::parse(
        b"*.a merge=rm\\ -rf\n*.b text merge=text\n!*.c merge=text\n[attr]x merge=text\n\"open merge=text\n",
    );
    attributes.add(b"sub/", b"*.a merge=\n");
    let told: Vec<String> = attributes.complaints().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            ".tenureattributes, line 1: `-rf` is passed over: only `merge` counts",
            ".tenureattributes, line 2: `text` is passed over: only `merge` counts",
            ".tenureattributes, line 3: a pattern cannot be negated; write `\\!` for a name that begins so",
            ".tenureattributes, line 4: sets of attributes are not known here; only `merge` counts",
            ".tenureattributes, line 5: a quoted pattern does not end",
            "sub/.tenureattributes, line 1: `merge=` names no driver; there are text, json, toml, yaml, union, binary",
        ]
    );
    assert_eq!(attributes.driver(b"x.a"), None);
    assert_eq!(attributes.driver(b"x.b"), Some(Driver::Text));
    assert_eq!(attributes.driver(b"x.c"), None);
}

#[test]
fn attributes_are_bounded() {
    let long = format!("{} merge=text\n", "a".repeat(513));
    assert_eq!(Attributes::parse(long.as_bytes()).complaints().len(), 1);
    let many = "a merge=text\n".repeat(10_001);
    let attributes = Attributes::parse(many.as_bytes());
    assert_eq!(attributes.complaints().len(), 1);
    assert_eq!(attributes.driver(b"a"), Some(Driver::Text));
    let mut attributes = Attributes::parse(&vec![b' '; (256 << 10) + 1]);
    assert_eq!(attributes.complaints()[0].line, None);
    attributes.add(b"", b"a merge=text\n");
    assert_eq!(attributes.driver(b"a"), Some(Driver::Text));
}

#[test]
fn patterns_fit_what_they_fit_for_git() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    run(folder.path(), &["init", "-q"], b"");
    let mut runner = TestRunner::new(Config::with_cases(300));
    let cases = (vec(pattern(), 1..6), vec(pattern(), 0..4), vec(path(), 40));
    let result = runner.run(&cases, |(top, sub, paths)| {
        let file = |patterns: &[String]| {
            let line = |(at, pattern): (usize, &String)| format!("{pattern} merge={}\n", Driver::ALL[at % 6]);
            patterns.iter().enumerate().map(line).collect::<String>()
        };
        let [top, sub] = [file(&top), file(&sub)];
        fs::create_dir_all(folder.path().join("a")).expect("a folder can be made");
        fs::write(folder.path().join(".gitattributes"), &top).expect("a file can be written");
        fs::write(folder.path().join("a/.gitattributes"), &sub).expect("a file can be written");
        let mut attributes = Attributes::parse(top.as_bytes());
        attributes.add(b"a", sub.as_bytes());
        let asked = paths.join("\0");
        let answer = run(
            folder.path(),
            &["check-attr", "--stdin", "-z", "merge"],
            asked.as_bytes(),
        );
        let answer = String::from_utf8(answer).expect("paths are text");
        let fields: Vec<&str> = answer.split('\0').collect();
        for fields in fields.chunks_exact(3) {
            let ours = attributes
                .driver(fields[0].as_bytes())
                .map_or("unspecified", Driver::name);
            prop_assert_eq!(ours, fields[2], "{} of\n{}-- a:\n{}", fields[0], top, sub);
        }
        prop_assert_eq!(fields.len() / 3, paths.len());
        Ok(())
    });
    result.expect("git says the same");
}

fn run(folder: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git can be started");
    child
        .stdin
        .take()
        .expect("it is piped")
        .write_all(input)
        .expect("git reads");
    let output = child.wait_with_output().expect("git ends");
    assert!(output.status.success());
    output.stdout
}

fn pattern() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a",
        "b",
        "c",
        "/",
        "/",
        "*",
        "**",
        "**/",
        "/**",
        "?",
        "[ab]",
        "[!a]",
        "[^b]",
        "[a-c]",
        "[]a]",
        "[a-]",
        "[[:alpha:]]",
        "[[:x:]]",
        "[a",
        ".",
        "\\a",
        "\\*",
        "[\\]]",
        "[a-\\c]",
        "[[:]",
    ]);
    // One that is negated or a comment is none of these.
    vec(part, 1..6).prop_map(|parts| parts.concat())
}

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c", "ab", "a.b", "abc", "]", "*", "-", "[", ":"]);
    vec(name, 1..5).prop_map(|names| names.join("/"))
}
