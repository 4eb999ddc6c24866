//! Branches merged by `tenure merge`, and what is left settled by `tenure resolve`, over real mounts.

use crate::home::{Home, sync, text};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn read(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Makes a drive of which `main` and `attempt` have each changed something, neither mounted.
fn made(home: &Home) {
    let main = home.mount("work", "main", &["--create"]);
    fs::create_dir(main.join("src")).expect("there is room");
    for name in ["src/here", "src/there", "src/binary", "gone", "moved"] {
        fs::write(main.join(name), "base\0\n").expect("there is room");
    }
    sync(&main);
    home.done(&["fork", "work", "attempt"]);
    let attempt = home.mount("work@attempt", "attempt", &[]);
    fs::write(attempt.join("src/there"), "there\0\n").expect("there is room");
    fs::write(attempt.join("src/binary"), "there\0\n").expect("there is room");
    fs::rename(attempt.join("moved"), attempt.join("src/moved")).expect("it is there");
    fs::remove_file(attempt.join("gone")).expect("it is there");
    fs::write(main.join("src/here"), "here\0\n").expect("there is room");
    fs::write(main.join("src/binary"), "here\0\n").expect("there is room");
    fs::write(main.join("moved"), "changed\0\n").expect("there is room");
    for dir in [main, attempt] {
        home.done(&["unmount", text(&dir)]);
    }
}

#[test]
fn both_sides_work_is_in_the_branch_and_what_does_not_fit_is_settled() {
    let Some(home) = Home::new() else { return };
    made(&home);
    let merge = ["merge", "work@attempt", "main"];
    let dry = home.tenure(&[&merge[..], &["--dry-run", "--json"]].concat());
    assert_eq!(dry.status.code(), Some(1), "there would be a conflict");
    let would: Value = serde_json::from_slice(&dry.stdout).expect("it is JSON");
    assert_eq!((&would["done"], &would["conflicts"]), (&false.into(), &1.into()));

    let output = home.tenure(&merge);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}{err}");
    for line in [
        "taken  src/there",
        "taken  src/moved",
        "removed  gone",
        "conflict, changed on both sides  src/binary",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(err.contains("hint: tenure conflicts work@main"), "{err}");

    let main = home.mount("work", "main", &[]);
    assert_eq!(read(&main, "src/here"), "here\0\n");
    assert_eq!(read(&main, "src/there"), "there\0\n");
    assert_eq!(read(&main, "src/moved"), "changed\0\n", "a rename is followed");
    assert!(!main.join("gone").exists() && !main.join("moved").exists());
    assert_eq!(read(&main, "src/binary"), "here\0\n");
    assert_eq!(read(&main, "src/binary~attempt"), "there\0\n");
    home.done(&["unmount", text(&main)]);

    let listed: Value =
        serde_json::from_str(&home.done(&["conflicts", "work", "--json"])).expect("it is JSON");
    assert_eq!(
        (&listed[0]["path"], &listed[0]["theirs"], &listed[0]["conflict"]),
        (
            &"src/binary".into(),
            &"src/binary~attempt".into(),
            &"content".into()
        )
    );
    home.done(&["resolve", "work", "src/binary", "--theirs"]);
    assert!(home.done(&["conflicts", "work"]).contains("has no conflicts"));
    let main = home.mount("work", "main", &["--shared"]);
    assert_eq!(read(&main, "src/binary"), "there\0\n");
    assert!(!main.join("src/binary~attempt").exists());
    assert_eq!(home.done(&["check", "work", "--deep"]).lines().count(), 1);

    // Into a branch that is shared it goes while that is mounted.
    let attempt = home.mount("work@attempt", "attempt", &[]);
    fs::write(attempt.join("later"), "later").expect("there is room");
    fs::write(attempt.join("src/there"), "there again").expect("there is room");
    sync(&attempt);
    let said = home.done(&["merge", "work@attempt", "work@main"]);
    assert!(said.contains("taken  later"), "{said}");
    assert_eq!(read(&main, "later"), "later");
    fs::write(main.join("on"), "and on").expect("it goes on");
    sync(&main);
    let said = home.done(&merge);
    assert!(said.contains("nothing was done"), "{said}");
}

#[test]
fn what_is_no_merge_is_refused_by_name() {
    let home = Home::unmounted();
    home.done(&["drive", "create", "work"]);
    home.done(&["fork", "work", "attempt"]);
    let said = home.refused(&["merge", "work@attempt", "other@main"]);
    assert!(said.contains("not of work and other"), "{said}");
    let said = home.refused(&["merge", "work@nothing", "main"]);
    assert!(
        said.contains("no branch or checkpoint nothing") && said.contains("hint: "),
        "{said}"
    );
    let said = home.refused(&["merge", "work@main", "main"]);
    assert!(said.contains("not into itself"), "{said}");
    let said = home.refused(&["resolve", "work", "nothing", "--both"]);
    assert!(said.contains("no conflict at nothing"), "{said}");
    assert!(home.done(&["conflicts", "work"]).contains("has no conflicts"));
}
