//! The promises over real mounts: each test has a home of its own and the program as a person starts it.

use crate::home::{Home, sync, text};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// Guarantees 1, 2, 6: what was synced is there after the process was killed, under the same inode number; the next
/// mount says what may be missing.
#[test]
fn what_was_synced_survives_a_killed_process() {
    let Some(home) = Home::new() else { return };
    let mut inodes = Vec::new();
    for round in 0..5 {
        let dir = home.mount("work", "m", &["--create"]);
        for (earlier, ino) in inodes.iter().enumerate() {
            let file = dir.join(format!("synced-{earlier}"));
            assert_eq!(fs::metadata(&file).expect("it was synced").ino(), *ino);
            assert_eq!(
                fs::read(&file).expect("it was synced"),
                vec![earlier as u8; 100_000 * (earlier + 1)]
            );
        }
        let file = dir.join(format!("synced-{round}"));
        fs::write(&file, vec![round as u8; 100_000 * (round + 1)]).expect("there is room");
        inodes.push(fs::metadata(&file).expect("it is there").ino());
        sync(&file);
        fs::write(dir.join("unsynced"), b"may be lost").expect("there is room");
        home.kill(&dir);
    }
    let dir = home.folder.path().join("m");
    let mounted = home.tenure(&["mount", "work", text(&dir)]);
    let (out, err) = (
        String::from_utf8_lossy(&mounted.stdout),
        String::from_utf8_lossy(&mounted.stderr),
    );
    assert!(out.starts_with("mounted work@main at"), "{out}{err}");
    assert!(err.contains("note: the last owner ended without"), "{err}");
    let notices = home.status(&dir)["notices"].to_string();
    assert!(notices.contains("ended without"), "{notices}");
    home.done(&["unmount", text(&dir)]);
    assert!(home.done(&["check", "work", "--deep"]).contains("whole"));
}

/// Guarantee 11: the bucket folder, copied to an empty home, gives everything back.
#[test]
fn a_copied_bucket_is_the_drive_on_another_machine() {
    let (Some(home), Some(other)) = (Home::new(), Home::new()) else {
        return;
    };
    let dir = home.mount("work", "m", &["--create"]);
    fs::create_dir(dir.join("d")).expect("there is room");
    fs::write(dir.join("d/file"), vec![7; 3_000_000]).expect("there is room");
    std::os::unix::fs::symlink("d/file", dir.join("link")).expect("there is room");
    let ino = fs::metadata(dir.join("d/file")).expect("it is there").ino();
    sync(&dir);
    home.kill(&dir);
    let copied = Command::new("cp")
        .arg("-a")
        .arg(home.folder.path().join("data"))
        .arg(other.folder.path())
        .status();
    assert!(copied.expect("cp is there").success());
    let dir = other.mount("work", "m", &[]);
    assert_eq!(
        fs::read(dir.join("link")).expect("it was copied"),
        vec![7; 3_000_000]
    );
    assert_eq!(
        fs::metadata(dir.join("d/file")).expect("it was copied").ino(),
        ino
    );
    other.done(&["unmount", text(&dir)]);
}

/// Guarantees 6, 9, 10: a fork has what was synced before and nothing after; a branch has one holder, whom a refusal names;
/// mounts of other processes go on when the owner of the drive is killed.
#[test]
fn forks_are_apart_and_outlive_the_owner_of_the_drive() {
    let Some(home) = Home::new() else { return };
    let main = home.mount("work", "main", &["--create"]);
    fs::write(main.join("file"), "before").expect("there is room");
    sync(&main);
    let ino = fs::metadata(main.join("file")).expect("it is there").ino();
    home.done(&["checkpoint", "work", "point", "-m", "it works"]);
    assert!(home.done(&["branch", "list", "work"]).contains("it works"));
    home.done(&["fork", "work", "attempt"]);
    fs::write(main.join("file"), "after").expect("there is room");
    let attempt = home.mount("work@attempt", "attempt", &[]);
    assert_eq!(
        fs::read_to_string(attempt.join("file")).expect("it was forked"),
        "before"
    );
    assert_eq!(
        fs::metadata(attempt.join("file")).expect("it was forked").ino(),
        ino
    );
    let second = home.folder.path().join("second");
    fs::create_dir(&second).expect("a place");
    assert!(
        home.refused(&["mount", "work", text(&second)])
            .contains(text(&main))
    );
    home.kill(&main);
    fs::write(attempt.join("more"), "it goes on").expect("the next owner takes it");
    sync(&attempt);
    home.done(&["unmount", text(&attempt)]);
    let point = home.mount("work@point", "point", &[]);
    assert_eq!(
        fs::read_to_string(point.join("file")).expect("it was named"),
        "before"
    );
    assert_eq!(
        fs::write(point.join("new"), "")
            .expect_err("a checkpoint stays")
            .raw_os_error(),
        Some(30)
    );
    home.done(&["unmount", text(&point)]);
    assert!(home.done(&["check", "work", "--deep"]).contains("whole"));
}

/// Guarantee 13: an idle drive makes no requests to its bucket.
#[test]
fn an_idle_drive_makes_no_requests() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create", "--lag", "50"]);
    fs::write(dir.join("file"), "something").expect("there is room");
    sync(&dir);
    let settled = || home.status(&dir)["bucket_requests"].clone();
    let mut before = settled();
    // The journal prepares its next segment behind the first writes; idle is when nothing has moved for many lags.
    for _ in 0..100 {
        std::thread::park_timeout(std::time::Duration::from_millis(300));
        let now = settled();
        if now == before {
            let read = fs::read_to_string(dir.join("file")).expect("it is there");
            assert_eq!(
                (read.as_str(), settled()),
                ("something", before),
                "what is cached costs nothing"
            );
            home.done(&["unmount", text(&dir)]);
            return;
        }
        before = now;
    }
    panic!("it never comes to rest: {before}");
}

/// Bad input is refused with what, where and what to do.
#[test]
fn refusals_say_what_would_help() {
    let Some(home) = Home::new() else { return };
    let dir = home.folder.path().join("m");
    fs::create_dir(&dir).expect("a place");
    assert!(home.refused(&["mount", "work", text(&dir)]).contains("--create"));
    home.done(&["drive", "create", "work"]);
    assert!(
        home.refused(&["mount", "other", text(&dir)])
            .contains("tenure mount other")
    );
    assert!(
        home.refused(&["mount", "work", "/no/such/place"])
            .contains("/no/such/place")
    );
    fs::write(dir.join("in-the-way"), "").expect("there is room");
    assert!(
        home.refused(&["mount", "work", text(&dir)])
            .contains("in-the-way")
            || !dir.join(".tenure").exists()
    );
    assert!(home.refused(&["status", text(&dir)]).contains("not a mount"));
    assert!(home.refused(&["unmount", text(&dir)]).contains("not a mount"));
    assert!(home.refused(&["drive", "create", "work"]).contains("work"));
    assert!(home.refused(&["drive", "delete", "work"]).contains("--yes"));
    assert!(home.refused(&["fork", "work@nothing", "x"]).contains("nothing"));
    let elsewhere = home.folder.path().join("not-a-bucket");
    fs::create_dir(&elsewhere).expect("a place");
    assert!(
        home.refused(&["drive", "list", "--bucket", text(&elsewhere)])
            .contains("not a bucket")
    );
    assert_eq!(
        home.tenure(&["mount", "no/such name", "x"]).status.code(),
        Some(2)
    );
}

/// What cannot be changed is durable: a sync of it is done at once.
#[test]
fn a_sync_of_what_is_only_read_returns() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    fs::write(dir.join("file"), "kept").expect("there is room");
    home.done(&["sync", text(&dir)]);
    home.done(&["checkpoint", "work", "before"]);
    let (fixed, read) = (
        home.mount("work@before", "fixed", &[]),
        home.mount("work", "read", &["--read-only"]),
    );
    for dir in [&fixed, &read] {
        sync(&dir.join("file"));
        sync(dir);
        home.done(&["sync", text(dir)]);
    }
    for dir in [&fixed, &read, &dir] {
        home.done(&["unmount", text(dir)]);
    }
}

/// A mount that fails is told apart from one that is usable, whatever its directory is called.
#[test]
fn who_makes_a_drive_need_not_make_the_directory() {
    let Some(home) = Home::new() else { return };
    let dir = home.folder.path().join("a/new one");
    home.done(&["mount", "work", text(&dir), "--create"]);
    fs::write(dir.join("file"), "there").expect("it is mounted");
    home.done(&["unmount", text(&dir)]);
}

#[test]
fn a_directory_that_is_missing_is_refused_whatever_its_name() {
    let home = Home::unmounted();
    for name in ["ready", "a\nready", "mounted"] {
        let dir = home.folder.path().join(name);
        let refused = home.refused(&["mount", "work", text(&dir)]);
        assert!(refused.contains("does not exist"), "{refused}");
    }
}

/// Where the branch would be missing, or something is mounted, neither the drive nor its bucket nor the directory is made.
#[test]
fn a_mount_that_is_refused_makes_nothing() {
    let Some(home) = Home::new() else { return };
    let dir = home.folder.path().join("m");
    let create = |what: &str| home.refused(&["mount", what, text(&dir), "--create"]);
    assert!(create("none@x").contains("there is no bucket"));
    home.done(&["drive", "create", "work"]);
    let said = create("none@x");
    assert!(
        said.contains("would have no branch x") && said.contains("tenure fork none x"),
        "{said}"
    );
    assert!(create("work@x").contains("--fork-from main makes it of main"));
    assert_eq!(home.done(&["drive", "list"]), "work\n");
    assert!(!dir.exists());
    home.done(&["fork", "work", "x"]);
    home.done(&["mount", "work@x", text(&dir), "--create"]);
    let bucket = home.folder.path().join("another");
    let said = home.refused(&[
        "mount",
        "other",
        text(&dir),
        "--create",
        "--bucket",
        text(&bucket),
    ]);
    assert!(said.contains("mounted file system already"), "{said}");
    assert!(!bucket.exists());
    home.done(&["unmount", text(&dir)]);
}

/// Who is somewhere in a mount need not know where it begins; taken away is what is named, and nothing else.
#[test]
fn a_mount_is_found_from_what_is_in_it() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    let inside = dir.join("a/b");
    fs::create_dir_all(&inside).expect("there is room");
    fs::write(inside.join("file"), "here").expect("there is room");
    let link = home.folder.path().join("link");
    std::os::unix::fs::symlink(&inside, &link).expect("there is room");
    for path in [&dir, &inside, &inside.join("file"), &link] {
        let said = home.done(&["sync", text(path)]);
        assert!(
            said.starts_with(&format!("everything in {} is", text(&dir))),
            "{said}"
        );
        assert!(
            home.done(&["status", text(path)]).contains("work@main"),
            "{path:?}"
        );
    }
    assert!(
        home.refused(&["sync", text(&dir.join("none"))])
            .contains("No such file")
    );
    let said = home.refused(&["unmount", text(&inside)]);
    assert!(
        said.contains(&format!("hint: tenure unmount {}\n", text(&dir))),
        "{said}"
    );
    let said = home.refused(&["unmount", text(home.folder.path())]);
    assert!(
        said.contains("is not a mount of a drive") && !said.contains("then"),
        "{said}"
    );
    home.done(&["unmount", text(&dir)]);
}
