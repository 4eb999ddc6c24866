//! Branches and checkpoints as a person has them: listed, drawn, renamed, made for a time, and made once however often it is asked.

use crate::home::{Home, pause, sync, text, until};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn json(home: &Home, arguments: &[&str]) -> Value {
    serde_json::from_str(&home.done(arguments)).expect("it is JSON")
}

#[test]
fn branches_are_drawn_shown_renamed_and_deleted_while_one_is_mounted() {
    let Some(home) = Home::new() else { return };
    let main = home.mount("work", "main", &["--create"]);
    fs::write(main.join("file"), "before").expect("there is room");
    sync(&main);
    home.done(&["checkpoint", "work", "point", "-m", "it works"]);
    home.done(&["fork", "work@point", "attempt"]);
    home.done(&["fork", "work@attempt", "deeper"]);
    home.done(&["fork", "work", "other"]);
    let drawn = home.done(&["branch", "tree", "work"]);
    let lines: Vec<_> = drawn.lines().collect();
    assert!(lines[0].starts_with("main, held by "), "{drawn}");
    assert_eq!(
        lines[1..],
        [
            "├─ point (checkpoint) \"it works\"",
            "│  └─ attempt",
            "│     └─ deeper",
            "└─ other",
        ]
    );
    home.done(&["branch", "rename", "work", "main", "trunk"]);
    home.done(&["branch", "rename", "work", "point", "good"]);
    fs::write(main.join("file"), "after").expect("its mount goes on");
    sync(&main);
    let shown = home.done(&["branch", "show", "work", "trunk"]);
    for said in ["held by", "other", "good"] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    let tree = json(&home, &["branch", "tree", "work", "--json"]);
    assert_eq!(tree[0]["name"], "trunk");
    assert_eq!(
        tree[0]["made_from_it"][0]["made_from_it"][0]["from"],
        "checkpoint good"
    );
    home.done(&["branch", "delete", "work", "attempt", "--yes"]);
    let drawn = home.done(&["branch", "tree", "work"]);
    assert!(drawn.contains("(branch attempt, deleted)\n└─ deeper"), "{drawn}");
    assert!(
        home.refused(&["branch", "rename", "work", "other", "good"])
            .contains("checkpoint good already")
    );
    assert!(
        home.refused(&["branch", "show", "work", "none"])
            .contains("hint: ")
    );
    home.done(&["unmount", text(&main)]);
    let trunk = home.mount("work@trunk", "again", &[]);
    assert_eq!(
        fs::read_to_string(trunk.join("file")).expect("it is there"),
        "after"
    );
    home.done(&["unmount", text(&trunk)]);
}

#[test]
fn a_fork_that_is_asked_for_again_is_the_same_one() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "work"]);
    let made = json(&home, &["fork", "work", "try", "--if-absent", "--json"]);
    assert_eq!((&made["made"], &made["branch"]), (&true.into(), &"try".into()));
    assert_eq!(
        json(&home, &["fork", "work", "try", "--if-absent", "--json"])["made"],
        false
    );
    let by_key = |name: &str| home.tenure(&["fork", "work", name, "--key", "job-7", "--json"]);
    assert!(by_key("job").status.success());
    home.done(&["branch", "rename", "work", "job", "kept"]);
    let again: Value = serde_json::from_slice(&by_key("job").stdout).expect("it is JSON");
    assert_eq!(
        (&again["branch"], &again["made"]),
        (&"kept".into(), &false.into())
    );
    assert_eq!(by_key("another").status.code(), Some(1));
    assert!(
        home.done(&["fork", "work", "try", "--if-absent"])
            .contains("is there already, made from branch main")
    );
    let dir = home.mount("work@fresh", "fresh", &["--fork-from", "@try"]);
    home.done(&["unmount", text(&dir)]);
    let said = home.refused(&["mount", "work@fresh", text(&dir), "--fork-from", "try"]);
    assert!(said.contains("--if-absent"), "{said}");
    home.mount("work@fresh", "fresh", &["--fork-from", "try", "--if-absent"]);
    home.done(&["unmount", text(&dir)]);
}

#[test]
fn a_branch_that_was_made_for_a_time_goes_by_itself_unless_it_is_mounted() {
    let Some(home) = Home::new() else { return };
    let main = home.mount("work", "main", &["--create"]);
    fs::write(main.join("file"), "something").expect("there is room");
    home.done(&["fork", "work", "held", "--for", "2s"]);
    let held = home.mount("work@held", "held", &[]);
    home.done(&["fork", "work", "free", "--for", "2s"]);
    home.done(&["fork", "work", "long", "--for", "2h"]);
    home.done(&["checkpoint", "work", "point", "--keep", "2s"]);
    assert!(home.done(&["branch", "list", "work"]).contains("goes in"));
    let names = || {
        let all = json(&home, &["branch", "list", "work", "--json"]);
        let all = all.as_array().expect("a list").clone();
        all.iter().map(|line| line["name"].clone()).collect::<Vec<_>>()
    };
    until("what is over is gone", || names() == ["held", "long", "main"]);
    home.done(&["unmount", text(&held)]);
    until("nobody holds it any more", || names() == ["long", "main"]);
    home.done(&["unmount", text(&main)]);
}

#[test]
fn a_checkpoint_may_have_the_time_for_a_name_and_all_that_was_written() {
    let Some(home) = Home::new() else { return };
    let main = home.mount("work", "main", &["--create", "--lag", "60000"]);
    fs::write(main.join("file"), "not synced").expect("there is room");
    let early = json(&home, &["checkpoint", "work", "--json"])["checkpoint"].clone();
    let late = json(&home, &["checkpoint", "work", "--sync", "--json"])["checkpoint"].clone();
    let (early, late) = (early.as_str().expect("a name"), late.as_str().expect("a name"));
    assert!(
        early < late && early.ends_with('Z') && early.starts_with("20"),
        "{early} {late}"
    );
    home.done(&["fork", "work", "tried", "--sync"]);
    let has_file = |name: &str| {
        let dir = home.mount(&format!("work@{name}"), "look", &["--read-only"]);
        let is_there = dir.join("file").exists();
        home.done(&["unmount", text(&dir)]);
        is_there
    };
    assert_eq!([early, late, "tried"].map(has_file), [false, true, true]);
    home.done(&["unmount", text(&main)]);
}

/// Everything that a program sees of a directory, by path.
fn seen(dir: &Path) -> String {
    let listed = Command::new("find")
        .args([".", "-printf", "%P %y %m %n %s %T@ %l\n"])
        .current_dir(dir)
        .output()
        .expect("find is there");
    assert!(listed.status.success(), "{listed:?}");
    let mut lines: Vec<_> = String::from_utf8_lossy(&listed.stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines.join("\n")
}

/// Guarantee 34: what a checkpoint holds is read inside the mount of its branch, and nothing of it can be changed there.
#[test]
fn checkpoints_are_read_inside_a_mount_of_their_branch() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "served"]);
    let server = home.serve(&[]);
    let far = ["--server", server.address.as_str()];
    for (drive, more) in [
        ("whole", vec!["--create"]),
        ("together", vec!["--create", "--shared"]),
        ("served", far.to_vec()),
    ] {
        let main = home.mount(drive, drive, &more);
        let on_server: &[&str] = if drive == "served" { &far } else { &[] };
        let done = |arguments: &[&str]| home.done(&[arguments, on_server].concat());
        fs::create_dir_all(main.join("a/b")).expect("there is room");
        fs::write(main.join("a/b/file"), vec![7; 300_000]).expect("there is room");
        fs::write(main.join("a/small"), "before").expect("there is room");
        fs::hard_link(main.join("a/small"), main.join("a/linked")).expect("there is room");
        symlink("b/file", main.join("a/link")).expect("there is room");
        sync(&main);
        let before = seen(&main);
        done(&["checkpoint", drive, "point"]);
        fs::write(main.join("a/small"), "after").expect("there is room");
        fs::remove_file(main.join("a/b/file")).expect("it is there");
        sync(&main);

        let all = main.join(".tenure/checkpoints");
        let names = || {
            let mut names: Vec<_> = fs::read_dir(&all)
                .expect("it is there")
                .map(|entry| entry.expect("it is listed").file_name())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["point"], "{drive}");
        let point = all.join("point");
        assert_eq!(seen(&point), before, "{drive}");
        assert_eq!(
            fs::read(point.join("a/link")).expect("it is there"),
            vec![7; 300_000]
        );
        assert_eq!(
            fs::read_to_string(point.join("a/small")).expect("it is there"),
            "before"
        );
        assert_eq!(
            fs::read_to_string(main.join("a/small")).expect("it is there"),
            "after"
        );
        assert!(
            fs::canonicalize(point.join("a/b/../.."))
                .expect("it is there")
                .ends_with("point")
        );
        let ino = |path: &Path| fs::symlink_metadata(path).expect("it is there").ino();
        assert_ne!(ino(&point.join("a/small")), ino(&main.join("a/small")));
        assert_eq!(ino(&point.join("a/small")), ino(&point.join("a/linked")));

        let errno = |done: std::io::Result<()>| done.err().and_then(|error| error.raw_os_error());
        for (what, changed) in [
            ("write", fs::write(point.join("new"), "")),
            ("over", fs::write(point.join("a/small"), "mine")),
            ("remove", fs::remove_file(point.join("a/small"))),
            ("make", fs::create_dir(all.join("other"))),
            ("link", fs::hard_link(point.join("a/small"), main.join("stolen"))),
        ] {
            let refused = errno(changed);
            assert!(matches!(refused, Some(1 | 30)), "{drive}: {what}: {refused:?}");
        }
        fs::copy(point.join("a/b/file"), main.join("back")).expect("it is taken back");
        assert_eq!(fs::read(main.join("back")).expect("it is there").len(), 300_000);

        done(&["checkpoint", drive, "other", "--sync"]);
        done(&["branch", "delete", drive, "point", "--yes"]);
        assert_eq!(names(), ["other"], "{drive}");
        assert_eq!(
            fs::metadata(&point).expect_err("it is gone").kind(),
            std::io::ErrorKind::NotFound
        );
        assert!(seen(&all.join("other")).contains("back f"), "{drive}");
        home.done(&["unmount", text(&main)]);
    }
}

#[test]
fn checkpoints_are_made_by_themselves_while_something_changes() {
    let Some(home) = Home::new() else { return };
    let main = home.mount("work", "main", &["--create", "--lag", "50"]);
    home.done(&[
        "drive",
        "set",
        "work",
        "--checkpoint-every",
        "1s",
        "--checkpoint-keep",
        "1h",
    ]);
    let hidden = || {
        let all = json(&home, &["branch", "list", "work", "--all", "--json"]);
        let all = all.as_array().expect("a list").clone();
        let hidden = all.into_iter().filter(|line| line["automatic"] == true);
        hidden
            .map(|line| line["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    fs::write(main.join("file"), "once").expect("there is room");
    until("what has changed is kept", || hidden().len() == 1);
    fs::write(main.join("file"), "twice").expect("there is room");
    until("what has changed again is kept", || hidden().len() == 2);
    pause(Duration::from_millis(2500));
    let made = hidden();
    assert_eq!(made.len(), 2, "nothing has changed since");
    assert!(!home.done(&["branch", "list", "work"]).contains("auto-"));
    let shown: Vec<_> = fs::read_dir(main.join(".tenure/checkpoints"))
        .expect("it is there")
        .collect();
    assert!(shown.is_empty(), "they are hidden: {shown:?}");
    let read = |name: &str| fs::read_to_string(main.join(".tenure/checkpoints").join(name).join("file"));
    assert_eq!(read(&made[0]).expect("it is there"), "once");
    assert_eq!(read(&made[1]).expect("it is there"), "twice");
    home.done(&["fork", &format!("work@{}", made[0]), "saved"]);
    assert!(
        home.done(&["drive", "show", "work"])
            .contains("every 1 s while something changes")
    );
    home.done(&["unmount", text(&main)]);
}

#[test]
fn what_a_drive_needs_is_told_by_branch() {
    let Some(home) = Home::new() else { return };
    let main = home.mount("work", "main", &["--create"]);
    let noise: Vec<u8> = (0..1_000_000u32)
        .flat_map(|number| (number ^ number << 7).to_le_bytes())
        .collect();
    fs::write(main.join("big"), &noise).expect("there is room");
    home.done(&["checkpoint", "work", "point", "--sync"]);
    fs::remove_file(main.join("big")).expect("it is there");
    home.done(&["unmount", text(&main)]);
    let told = json(&home, &["du", "work", "--json"]);
    let own = |name: &str| {
        let lines = told["lines"].as_array().expect("a list");
        let line = lines.iter().find(|line| line["name"] == name);
        line.and_then(|line| line["own"].as_u64()).expect("it is told")
    };
    assert!(own("point") >= 4_000_000, "{told}");
    assert!(own("main") < 100_000, "{told}");
    let shown = home.done(&["du", "work"]);
    assert!(
        shown.contains("checkpoint") && shown.contains("in all"),
        "{shown}"
    );
}

#[test]
fn a_command_runs_in_a_fork_that_is_kept_or_discarded() {
    let Some(home) = Home::new() else { return };
    let main = home.mount("work", "main", &["--create"]);
    fs::write(main.join("file"), "before\n").expect("there is room");
    sync(&main);
    let names = || {
        let all = json(&home, &["branch", "list", "work", "--json"]);
        let all = all.as_array().expect("a list").clone();
        all.iter().map(|line| line["name"].clone()).collect::<Vec<_>>()
    };
    let script =
        "echo after >file; test $TENURE_BRANCH = try && test $TENURE_DRIVE = work && test $TENURE_DIR = $PWD";
    let run = |more: &[&str], script: &str| {
        home.tenure(
            &[
                &["run", "--fork", "work", "--name", "try"],
                more,
                &["--", "sh", "-c", script],
            ]
            .concat(),
        )
    };
    let ran = run(&["--discard"], script);
    let shown = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(
        ran.status.success() && shown.contains("-before\n+after"),
        "{ran:?}"
    );
    assert_eq!(names(), ["main"], "nothing is left of it");
    let ran = run(&["--keep", "--stat"], "rm file; exit 7");
    assert_eq!(ran.status.code(), Some(7), "{ran:?}");
    assert!(
        String::from_utf8_lossy(&ran.stdout).contains("removed  file"),
        "{ran:?}"
    );
    assert_eq!(names().len(), 3, "the branch, and where it begins");
    assert_eq!(
        run(&["--keep"], "true").status.code(),
        Some(1),
        "the name is taken"
    );
    assert_eq!(names().len(), 3);
    assert_eq!(
        home.tenure(&[
            "run",
            "--fork",
            "work@try",
            "--discard",
            "--",
            "kill-9-no-such-program"
        ])
        .status
        .code(),
        Some(3)
    );
    let killed = home.tenure(&[
        "run",
        "--fork",
        "work@try",
        "--discard",
        "--",
        "sh",
        "-c",
        "kill -9 $$",
    ]);
    assert_eq!(killed.status.code(), Some(137), "{killed:?}");
    assert_eq!(
        fs::read_to_string(main.join("file")).expect("it is there"),
        "before\n"
    );
    home.done(&["unmount", text(&main)]);
}

#[test]
fn what_a_branch_was_is_told_and_a_file_of_it_restored() {
    let Some(home) = Home::new() else { return };
    let main = home.mount("work", "main", &["--create"]);
    fs::create_dir(main.join("src")).expect("there is room");
    fs::write(main.join("src/one"), "one\n").expect("there is room");
    home.done(&["checkpoint", "work", "first", "--sync", "-m", "as it was"]);
    fs::write(main.join("src/one"), "changed\n").expect("there is room");
    fs::write(main.join("src/two"), "two\n").expect("there is room");
    home.done(&["checkpoint", "work", "second", "--sync"]);
    fs::remove_file(main.join("src/two")).expect("it is there");
    sync(&main);
    let log = json(&home, &["log", "work", "--json"]);
    let states: Vec<_> = log
        .as_array()
        .expect("a list")
        .iter()
        .map(|step| &step["state"])
        .collect();
    assert_eq!(states, ["main", "second", "first"], "{log}");
    assert_eq!(log[0]["changed"][0]["path"], "src/two");
    assert_eq!(log[1]["changed"].as_array().map(Vec::len), Some(2), "{log}");
    assert!(
        log[1]["held_by"]
            .as_str()
            .is_some_and(|who| who.contains("mount at")),
        "{log}"
    );
    let of_one = json(&home, &["log", "work", "src/one", "--json"]);
    assert_eq!(of_one.as_array().map(Vec::len), Some(1), "{of_one}");
    assert_eq!(of_one[0]["state"], "second");
    let shown = home
        .command(&["log"])
        .current_dir(main.join("src"))
        .output()
        .expect("it starts");
    assert!(
        String::from_utf8_lossy(&shown.stdout).contains("as it was"),
        "{shown:?}"
    );

    let restored = json(
        &home,
        &["restore", "work", "src/two", "--from", "second", "--json"],
    );
    assert_eq!(
        fs::read_to_string(main.join("src/two")).expect("it is back"),
        "two\n"
    );
    home.done(&["restore", "work", "src", "--from", "@first"]);
    assert_eq!(
        fs::read_to_string(main.join("src/one")).expect("it is back"),
        "one\n"
    );
    assert!(!main.join("src/two").exists(), "the directory is what it was");
    assert_eq!(
        fs::read_dir(&main).expect("it is there").count(),
        1,
        "nothing is left beside"
    );
    let before = restored["before"].as_str().expect("a name");
    let kept = main.join(".tenure/checkpoints").join(before).join("src/two");
    assert!(!kept.exists(), "it was not there before");
    assert!(
        home.refused(&["restore", "work", "none", "--from", "first"])
            .contains("no none in first")
    );
    let points = json(&home, &["branch", "list", "work", "--all", "--json"]);
    let points = points.as_array().expect("a list");
    assert_eq!(
        points.len(),
        5,
        "what was refused has made no checkpoint: {points:?}"
    );
    assert!(
        home.refused(&["restore", "work", "src", "--from", "5d"])
            .contains("as old as")
    );
    home.done(&["unmount", text(&main)]);
    home.done(&["restore", "work", "src/two", "--from", "second"]);
    let main = home.mount("work", "main", &[]);
    assert_eq!(
        fs::read_to_string(main.join("src/two")).expect("it is back"),
        "two\n"
    );
    home.done(&["unmount", text(&main)]);
}

#[test]
fn what_was_done_to_a_branch_is_undone_and_that_as_well() {
    let Some(home) = Home::new() else { return };
    let main = home.mount("work", "main", &["--create", "--shared"]);
    let read = || fs::read_to_string(main.join("file")).unwrap_or_default();
    fs::write(main.join("file"), "one").expect("there is room");
    home.done(&["checkpoint", "work", "first", "--sync"]);
    fs::write(main.join("file"), "two").expect("there is room");
    sync(&main);
    let undone = json(&home, &["undo", "work", "--json"]);
    assert_eq!(
        (&undone["to"], read().as_str()),
        (&"first".into(), "one"),
        "{undone}"
    );
    let before = undone["before"].as_str().expect("a name");
    assert!(
        !home.done(&["branch", "list", "work"]).contains(before),
        "it is hidden"
    );
    home.done(&["undo", "work"]);
    assert_eq!(read(), "two", "undone was the undoing");
    home.done(&["undo", "work", "--to", "@first"]);
    assert_eq!(read(), "one");
    home.done(&["undo", "work", "--to", before]);
    assert_eq!(read(), "two");
    assert!(
        home.refused(&["undo", "work", "--to", "5d"])
            .contains("as old as")
    );
    let here = home
        .command(&["undo"])
        .current_dir(&main)
        .output()
        .expect("it starts");
    assert!(here.status.success(), "{here:?}");
    home.done(&["unmount", text(&main)]);
    let main = home.mount("work", "main", &[]);
    home.done(&["undo", "work", "--to", before]);
    assert_eq!(read(), "two", "also where one mount has the branch to itself");
    home.done(&["unmount", text(&main)]);
    home.done(&["undo", "work", "--to", "0s"]);
}

/// Returns what is said of a file: mode, links, inode and when it was changed last.
fn said(path: &Path) -> (u32, u64, u64, i64) {
    let seen = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (seen.mode(), seen.nlink(), seen.ino(), seen.mtime())
}

#[test]
fn what_is_restored_has_its_modes_links_and_times_wherever_it_is_mounted() {
    let Some(home) = Home::new() else { return };
    let paths = [
        "src",
        "src/one",
        "src/also",
        "src/run",
        "src/link",
        "src/deep",
        "src/deep/file",
    ];
    for more in [&["--create"][..], &["--shared"]] {
        let main = home.mount("work", "main", more);
        let is_new = more == ["--create"];
        if is_new {
            fs::create_dir_all(main.join("src/deep")).expect("there is room");
            for name in ["src/one", "src/run", "src/deep/file"] {
                fs::write(main.join(name), format!("{name}\n")).expect("there is room");
            }
            fs::hard_link(main.join("src/one"), main.join("src/also")).expect("there is room");
            symlink("one", main.join("src/link")).expect("there is room");
            for (name, mode) in [
                ("src/run", 0o4755),
                ("src/one", 0o644),
                ("src/deep", 0o2775),
                ("src", 0o755),
            ] {
                let mode = fs::Permissions::from_mode(mode);
                fs::set_permissions(main.join(name), mode).expect("it is there");
            }
            home.done(&["checkpoint", "work", "good", "--sync"]);
        }
        let was: Vec<_> = paths.iter().map(|name| said(&main.join(name))).collect();
        let mut opened = File::open(main.join("src/one")).expect("it is there");
        pause(Duration::from_millis(1100));
        fs::write(main.join("src/one"), "changed, and not synced").expect("there is room");
        fs::remove_dir_all(main.join("src/deep")).expect("it is there");
        fs::remove_file(main.join("src/run")).expect("it is there");
        fs::write(main.join("beside"), "kept").expect("there is room");
        let restored = json(&home, &["restore", "work", "src", "--from", "good", "--json"]);
        let is: Vec<_> = paths.iter().map(|name| said(&main.join(name))).collect();
        assert_eq!(is, was);
        assert_eq!(
            fs::read_to_string(main.join("src/also")).expect("it is there"),
            "src/one\n"
        );
        assert_eq!(
            fs::read_to_string(main.join("beside")).expect("it is there"),
            "kept"
        );
        let mut seen = String::new();
        opened.read_to_string(&mut seen).expect("it is open");
        assert_eq!(seen, "src/one\n", "what is open is what it has become");
        let before = restored["before"].as_str().expect("a name");
        home.done(&["undo", "work", "--to", before]);
        assert_eq!(
            fs::read_to_string(main.join("src/one")).expect("it is there"),
            "changed, and not synced",
            "what was done before is in what the branch was"
        );
        home.done(&["restore", "work", "src", "--from", "good"]);
        drop(opened);
        home.done(&["unmount", text(&main)]);
    }
    let mounts = fs::read_to_string("/proc/self/mounts").expect("it is there");
    assert!(!mounts.contains("tenure-restore"), "{mounts}");
}
