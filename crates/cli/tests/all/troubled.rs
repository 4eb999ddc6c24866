//! What a person sees who asks about mounts in trouble, and mounts in unusual places.

use crate::home::{Home, Stopped, text, until};
use rustix::process::{Signal, kill_process, test_kill_process};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::process::Command;

const ENOTCONN: i32 = 107;

/// All other mounts are listed, and the stopped one is named with what lets it go on, whichever way it hears the kernel.
#[test]
fn one_stopped_mount_does_not_hide_the_others() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    let other = home.mount("other", "o", &["--create"]);
    let pid = home.process(&dir);
    let stopped = Stopped::new(pid);
    let said = home.done(&["status"]);
    assert!(said.contains(text(&other)), "{said}");
    let number = pid.as_raw_nonzero();
    assert!(
        said.contains(&format!(
            "{}: does not answer; process {number} is stopped (kill -CONT {number}",
            text(&dir)
        )),
        "{said}"
    );
    assert!(home.done(&["status", "--json"]).contains("is stopped"));
    let asked = home.tenure(&["status", text(&dir)]);
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert_eq!(asked.status.code(), Some(3), "{said}");
    assert!(said.contains(&format!("hint: kill -CONT {number}")), "{said}");
    drop(stopped);
    home.done(&["unmount", text(&dir)]);
    home.done(&["unmount", text(&other)]);
}

/// Who waits for a process that is stopped is told so on standard error, and goes on with it.
#[test]
fn who_waits_long_is_told_for_whom() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    home.done(&["fork", "work", "attempt"]);
    let place = home.folder.path().join("attempt");
    fs::create_dir(&place).expect("there is room");
    for arguments in [
        &["check", "work"][..],
        &["mount", "work@attempt", text(&place)],
        &["sync", text(&dir)],
        &["unmount", text(&dir)],
    ] {
        let stopped = Stopped::new(home.process(&dir));
        let mut waits = home
            .command(arguments)
            .stderr(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut said = vec![0; 30];
        let mut errors = waits.stderr.take().expect("it is piped");
        errors.read_exact(&mut said).expect("it says something");
        drop(stopped);
        let mut rest = String::new();
        errors.read_to_string(&mut rest).expect("it ends");
        let said = String::from_utf8_lossy(&said).into_owned() + &rest;
        assert!(
            said.contains("still waiting for") && said.contains("kill -CONT"),
            "{arguments:?}: {said}"
        );
        assert!(
            waits.wait().expect("it is ours").success(),
            "{arguments:?}: {said}"
        );
        if arguments[0] == "mount" {
            home.done(&["unmount", text(&place)]);
        }
    }
}

/// The process that stays has no file of whoever started it: a lock is free and a pipe ends.
#[test]
fn a_mount_keeps_no_file_of_who_started_it() {
    let Some(home) = Home::new() else { return };
    let dir = home.folder.path().join("m");
    fs::create_dir(&dir).expect("there is room");
    let script = "exec 9>\"$0/lock\" && flock 9 && \"$1\" mount work \"$0/m\" --create && exec 9>&- && \
                  flock -n \"$0/lock\" true";
    let home_of = home.command(&[]);
    let mut command = Command::new("sh");
    command.args([
        "-c",
        script,
        text(home.folder.path()),
        env!("CARGO_BIN_EXE_tenure"),
    ]);
    command.envs(
        home_of
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    assert!(
        command.status().expect("sh is there").success(),
        "the lock is free"
    );
    home.done(&["unmount", text(&dir)]);
}

/// A mount is taken away by a symbolic link too.
#[test]
fn a_mount_is_unmounted_by_a_link_to_it() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    let link = home.folder.path().join("link");
    std::os::unix::fs::symlink(&dir, &link).expect("there is room");
    home.done(&["status", text(&link)]);
    home.done(&["sync", text(&link)]);
    home.done(&["unmount", text(&link)]);
    assert!(!dir.join(".tenure/status").exists());
}

/// A directory of any name can be mounted on, listed and unmounted.
#[test]
fn a_mount_on_a_name_that_is_not_text_is_shown_and_unmounted() {
    let Some(home) = Home::new() else { return };
    let dir = home.folder.path().join(OsStr::from_bytes(b"m\xff"));
    fs::create_dir(&dir).expect("there is room");
    let run = |arguments: &[&str]| {
        let output = home
            .command(arguments)
            .arg(&dir)
            .output()
            .expect("the program starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {errors}");
        said
    };
    run(&["mount", "--create", "--", "work"]);
    assert!(run(&["status"]).contains("work@main"));
    assert!(home.done(&["status"]).contains(r"m\xff"));
    let listed: serde_json::Value =
        serde_json::from_str(&home.done(&["status", "--json"])).expect("it is JSON");
    let escaped = listed
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|mount| mount["dir_escaped"].as_str());
    assert!(escaped.into_iter().any(|dir| dir.ends_with("m\\xff")), "{listed}");
    run(&["sync"]);
    run(&["unmount"]);
}

/// A detached mount goes on in the background until its last user ends, and all of theirs is durable then.
#[test]
fn a_detached_mount_returns_at_once_and_goes_on_for_its_users() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    let pid = home.process(&dir);
    let mut file = File::create(dir.join("file")).expect("there is room");
    let said = home.done(&["unmount", "--detach", text(&dir)]);
    assert!(said.contains("goes on in the background"), "{said}");
    let said = home.refused(&["mount", "work", text(&dir)]);
    let number = pid.as_raw_nonzero();
    let ends = format!("is closed; kill {number} ends it");
    assert!(said.contains(&ends) && !said.contains("tenure unmount"), "{said}");
    let said = home.done(&["status"]);
    let lives = format!("{}: detached; process {number} has work@main", text(&dir));
    assert!(said.contains(&lives), "{said}");
    let listed = home.done(&["status", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("it is JSON");
    let listed = listed.as_array().expect("a list");
    let listed = listed
        .iter()
        .find(|mount| mount["pid"] == number.get())
        .expect("it is listed");
    assert_eq!(
        (&listed["drive"], &listed["detached"]),
        (&"work".into(), &true.into())
    );
    file.write_all(b"later").expect("it goes on");
    drop(file);
    until("its process ends", || test_kill_process(pid).is_err());
    let dir = home.mount("work", "m", &[]);
    assert_eq!(fs::read(dir.join("file")).expect("it is durable"), b"later");
    home.done(&["unmount", text(&dir)]);
}

/// Whoever ends a mount's process need not wait for who has files open: what was written is durable, and they are told.
#[test]
fn a_mount_that_is_asked_to_end_does_so_though_files_are_open() {
    let Some(home) = Home::new() else { return };
    let lazy = ["--create", "--lag", "60000"];
    for is_detached in [false, true] {
        let dir = home.mount("work", "m", &lazy);
        let pid = home.process(&dir);
        let mut file = File::create(dir.join("file")).expect("there is room");
        if is_detached {
            home.done(&["unmount", "--detach", text(&dir)]);
        }
        write!(file, "detached: {is_detached}").expect("there is room");
        kill_process(pid, Signal::TERM).expect("it is there");
        until("its process ends", || test_kill_process(pid).is_err());
        let written = file.write_all(b"late").expect_err("nobody takes it");
        assert_eq!(written.raw_os_error(), Some(ENOTCONN));
        assert!(
            !home.done(&["status"]).contains(text(&dir)),
            "nothing of it is left"
        );
        home.mount("work", "m", &lazy);
        let found = fs::read_to_string(dir.join("file")).expect("it is durable");
        assert_eq!(found, format!("detached: {is_detached}"));
        home.done(&["unmount", text(&dir)]);
    }
    let logs = fs::read_dir(home.folder.path().join("state/tenure"))
        .expect("it is there")
        .flatten();
    let logs = logs.map(|log| fs::read(log.path()).expect("it is a file"));
    let logs = logs
        .map(|log| String::from_utf8_lossy(&log).into_owned())
        .collect::<String>();
    assert_eq!(logs.matches("files are open in").count(), 2, "{logs}");
}

/// Who is refused because a mount has the drive is told which mount that is, and a bad place is told first.
#[test]
fn who_is_kept_out_by_a_mount_is_told_which() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    let other = home.folder.path().join("other");
    fs::create_dir(&other).expect("there is room");
    let frees = format!("hint: tenure unmount {} frees it", text(&dir));
    for arguments in [
        &["drive", "delete", "work", "--yes"][..],
        &["mount", "work", text(&other)],
    ] {
        let said = home.refused(arguments);
        assert!(said.contains(&frees), "{said}");
    }
    let said = home.refused(&["mount", "work", text(&home.folder.path().join("none"))]);
    assert!(
        said.contains("does not exist") && !said.contains("in use"),
        "{said}"
    );
    home.done(&["unmount", text(&dir)]);
}

/// Guarantee 12: who reads what is damaged gets EIO, and the mount says which object it is and whose bytes it held.
#[test]
fn damage_that_a_reader_meets_is_told_with_its_object_and_its_file() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    fs::create_dir(dir.join("d")).expect("there is room");
    let bytes: Vec<u8> = (0..100_000u32)
        .flat_map(|number| {
            number
                .wrapping_mul(number)
                .wrapping_mul(2_654_435_761)
                .to_le_bytes()
        })
        .collect();
    fs::write(dir.join("d/hit"), &bytes).expect("there is room");
    fs::write(dir.join("whole"), "whole").expect("there is room");
    home.done(&["unmount", text(&dir)]);
    let packs = home.folder.path().join("data/tenure/bucket/drives/work/packs");
    let packs = fs::read_dir(packs).expect("it is there").flatten();
    for pack in packs.filter(|pack| pack.metadata().is_ok_and(|pack| pack.len() > 300_000)) {
        let pack = File::options()
            .write(true)
            .open(pack.path())
            .expect("it is there");
        pack.write_all_at(&[0; 4096], 200_000).expect("it can be written");
    }
    home.mount("work", "m", &[]);
    for _ in 0..2 {
        let read = fs::read(dir.join("d/hit")).expect_err("it is damaged");
        assert_eq!(read.raw_os_error(), Some(5));
    }
    assert_eq!(fs::read(dir.join("whole")).expect("it is whole"), b"whole");
    let notices = home.status(&dir)["notices"].to_string();
    assert!(
        notices.contains("packs/") && notices.contains("/d/hit"),
        "{notices}"
    );
    home.done(&["unmount", text(&dir)]);
}

/// Guarantee 4: once the lock is gone from the bucket, anybody may own the drive: no sync is acknowledged any more, and what was
/// synced before is there for the next owner.
#[test]
fn a_mount_whose_lock_was_removed_says_of_nothing_that_it_is_durable() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    fs::write(dir.join("before"), "synced").expect("there is room");
    fs::write(dir.join("large"), vec![7; 300_000]).expect("there is room");
    home.done(&["sync", text(&dir)]);
    fs::remove_file(home.folder.path().join("data/tenure/bucket/drives/work/lock")).expect("it is there");
    fs::write(dir.join("after"), "lost, and said to be").expect("it is staged");
    let refused = home.tenure(&["sync", text(&dir)]);
    assert_ne!(refused.status.code(), Some(0));
    let status = home.status(&dir);
    assert!(status["trouble"].to_string().contains("lock"), "{status}");
    let said = home.done(&["status", text(&dir)]);
    assert!(
        said.contains("are not durable and are lost") && !said.contains("everything is durable"),
        "{said}"
    );
    assert!(!said.contains("newer owner"), "there is none: {said}");
    let kept = home.tenure(&["unmount", text(&dir)]);
    let said = String::from_utf8_lossy(&kept.stderr).into_owned();
    assert_eq!(kept.status.code(), Some(3), "{said}");
    let gives_up = format!("kill {}, which unmounts it", status["pid"]);
    assert!(
        said.contains("cannot be made durable") && said.contains(&gives_up),
        "{said}"
    );
    assert!(!said.contains("0 changes"), "{said}");
    let said = home.done(&["status"]);
    assert!(
        said.contains("nothing more is accepted") && said.contains(&format!("{}: ", text(&dir))),
        "{said}"
    );
    // All of it can still be read, and not from Linux's memory alone.
    for (name, bytes) in [
        ("before", &b"synced"[..]),
        ("after", b"lost, and said to be"),
        ("large", &[7; 300_000]),
    ] {
        let file = File::open(dir.join(name)).expect("it is there");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("it is a file");
        assert_eq!(fs::read(dir.join(name)).expect("it can be copied"), bytes);
    }
    // It has lost the drive, and nobody else can serve it.
    let said = home.refused(&["check", "work"]);
    assert!(
        said.contains(&format!("process {} owned work, has lost it", status["pid"]))
            && said.contains(&format!("hint: tenure unmount {}", text(&dir))),
        "{said}"
    );
    home.kill(&dir);
    let dir = home.mount("work", "m", &[]);
    assert_eq!(fs::read(dir.join("before")).expect("it was synced"), b"synced");
    home.done(&["unmount", text(&dir)]);
    assert!(home.done(&["check", "work", "--deep"]).contains("whole"));
}

/// Guarantee 4: what was moved out of the bucket is as gone as what was removed, and so are folders with what is in them.
#[test]
fn a_mount_whose_files_were_moved_says_of_nothing_that_it_is_durable() {
    for moved in ["work/lock", "work/journal", "work/packs", "work"] {
        let Some(home) = Home::new() else { return };
        let dir = home.mount("work", "m", &["--create"]);
        let bulk = vec![7; 300_000];
        fs::write(dir.join("before"), &bulk).expect("there is room");
        home.done(&["sync", text(&dir)]);
        let drives = home.folder.path().join("data/tenure/bucket/drives");
        let away = home.folder.path().join("away");
        fs::rename(drives.join(moved), &away).expect("it is on the same disk");
        fs::write(dir.join("after"), vec![8; 300_000]).expect("it is staged");
        let synced = home.tenure(&["sync", text(&dir)]);
        assert_ne!(synced.status.code(), Some(0), "{moved}");
        home.kill(&dir);
        // Whatever stands there now has no more of it.
        if drives.join(moved).is_dir() {
            fs::remove_dir_all(drives.join(moved)).expect("it is a folder");
        }
        fs::rename(&away, drives.join(moved)).expect("it is put back");
        let dir = home.mount("work", "m", &[]);
        assert_eq!(
            fs::read(dir.join("before")).expect("it was synced"),
            bulk,
            "{moved}"
        );
        home.done(&["unmount", text(&dir)]);
        assert!(
            home.done(&["check", "work", "--deep"]).contains("whole"),
            "{moved}"
        );
    }
}

/// Guarantee 4: who has lost the drive writes nothing into what is another's by then, and can be read all the same.
#[test]
fn a_mount_whose_lock_was_removed_touches_nothing_of_the_next_owner() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    let bytes = |seed: u32, len: u32| -> Vec<u8> {
        (0..len)
            .map(|at| ((at ^ seed).wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect()
    };
    fs::write(dir.join("synced"), bytes(1, 3 << 20)).expect("there is room");
    home.done(&["sync", text(&dir)]);
    fs::remove_file(home.folder.path().join("data/tenure/bucket/drives/work/lock")).expect("it is there");
    let next = home.folder.path().join("n");
    fs::create_dir(&next).expect("there is room");
    let output = home
        .command_elsewhere(&["mount", "work", text(&next)])
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    // It does not know yet, or has just learned.
    let written = fs::write(dir.join("late"), bytes(2, 9 << 20));
    assert!(
        !home.tenure(&["sync", text(&dir)]).status.success(),
        "{written:?}"
    );
    assert_eq!(
        fs::read(dir.join("synced")).expect("it can be copied"),
        bytes(1, 3 << 20)
    );
    home.kill(&dir);
    assert_eq!(
        fs::read(next.join("synced")).expect("it was synced"),
        bytes(1, 3 << 20)
    );
    home.done(&["unmount", text(&next)]);
    assert!(home.done(&["check", "work", "--deep"]).contains("whole"));
}

/// What is mounted in a mount would stay behind where nobody can reach it: whoever unmounts is told what that is.
#[test]
fn a_mount_with_another_in_it_is_not_taken_away() {
    let Some(home) = Home::new() else { return };
    let outer = home.mount("work", "m", &["--create"]);
    let inner = outer.join("a sub");
    home.done(&["mount", "other", text(&inner), "--create"]);
    for arguments in [&["unmount"][..], &["unmount", "--detach"]] {
        let said = home.refused(&[arguments, &[text(&outer)]].concat());
        let hint = format!(
            "hint: tenure unmount '{}'; then: tenure unmount {}",
            text(&inner),
            text(&outer)
        );
        assert!(said.contains(&hint), "{said}");
    }
    home.done(&["unmount", text(&inner)]);
    home.done(&["unmount", text(&outer)]);
}

/// A mount that was made from inside another one does not keep that from being unmounted.
#[test]
fn the_process_of_a_mount_stays_in_no_directory() {
    let Some(home) = Home::new() else { return };
    let first = home.mount("work", "m", &["--create"]);
    let second = home.folder.path().join("second");
    fs::create_dir(&second).expect("there is room");
    let mounted = home
        .command(&["mount", "other", "../second", "--create"])
        .current_dir(&first)
        .output()
        .expect("the program starts");
    assert!(
        mounted.status.success(),
        "{}",
        String::from_utf8_lossy(&mounted.stderr)
    );
    home.done(&["unmount", text(&first)]);
    fs::write(second.join("file"), b"kept").expect("it is mounted");
    home.done(&["unmount", text(&second)]);
}

/// A hint can be pasted: it means the bucket that was named, and not the default one.
#[test]
fn a_hint_names_the_place_that_was_meant() {
    let home = Home::unmounted();
    let bucket = home.folder.path().join("a bucket");
    let dir = home.folder.path().join("m");
    fs::create_dir(&dir).expect("there is room");
    let place = format!("--bucket '{}'", text(&bucket));
    home.done(&["drive", "create", "work", "--bucket", text(&bucket)]);
    for (arguments, hint) in [
        (
            &["drive", "delete", "work"][..],
            format!("hint: tenure drive delete work {place} --yes"),
        ),
        (
            &["branch", "delete", "work", "main"],
            format!("hint: tenure branch delete work main {place} --yes"),
        ),
        (
            &["fork", "work@none", "new"],
            format!("hint: tenure branch list work {place} shows all of them"),
        ),
        (
            &["check", "none"],
            format!("tenure drive create none {place} makes this one"),
        ),
        (
            &["mount", "other", text(&dir)],
            format!("hint: tenure mount other {} {place} --create", text(&dir)),
        ),
    ] {
        let said = home.refused(&[arguments, &["--bucket", text(&bucket)]].concat());
        assert!(said.contains(&hint), "{said}");
    }
}

/// Guarantee 4: a sync that can never succeed stops the drive, which says so and how what is there is saved.
#[test]
fn a_mount_whose_journal_was_removed_stops_and_says_how_to_go_on() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    fs::write(dir.join("before"), "synced").expect("there is room");
    home.done(&["sync", text(&dir)]);
    let journal = home.folder.path().join("data/tenure/bucket/drives/work/journal");
    let epochs = fs::read_dir(journal).expect("it is there").flatten();
    for epoch in epochs.map(|epoch| epoch.path()) {
        for file in fs::read_dir(epoch).expect("it is there").flatten() {
            fs::remove_file(file.path()).expect("it is there");
        }
    }
    fs::write(dir.join("after"), "staged").expect("it is staged");
    for _ in 0..2 {
        let synced = home.tenure(&["sync", text(&dir)]);
        assert_ne!(synced.status.code(), Some(0));
        let trouble = home.status(&dir)["trouble"].to_string();
        assert!(
            trouble.contains("the drive has stopped") && trouble.contains("removed from the bucket"),
            "{trouble}"
        );
    }
    let kept = home.tenure(&["unmount", text(&dir)]);
    let said = String::from_utf8_lossy(&kept.stderr).into_owned();
    assert_eq!(kept.status.code(), Some(3), "{said}");
    assert!(
        said.contains("hint: copy what you need out of") && said.contains("then kill "),
        "{said}"
    );
    assert_eq!(fs::read(dir.join("after")).expect("it can be copied"), b"staged");
    home.kill(&dir);
}

/// A mount whose directory was renamed, with one above it, is the same mount: listed once, where it is now, and unmounted there.
#[test]
fn a_mount_below_a_renamed_directory_is_listed_once_and_unmounted() {
    let Some(home) = Home::new() else { return };
    let at = |name: &str| home.folder.path().join(name);
    fs::create_dir(at("before")).expect("there is room");
    home.mount("work", "before/m", &["--create"]);
    fs::rename(at("before"), at("after")).expect("it is on the same disk");
    let said = home.done(&["status"]);
    let ours: Vec<_> = said
        .lines()
        .filter(|line| line.contains(text(home.folder.path())))
        .collect();
    assert!(
        ours.len() == 1 && ours[0].contains(text(&at("after/m"))),
        "{said}"
    );
    home.done(&["unmount", text(&at("after/m"))]);
    home.mount("work", "after/m", &[]);
    let pid = home.process(&at("after/m"));
    fs::rename(at("after"), at("before")).expect("it is on the same disk");
    kill_process(pid, Signal::TERM).expect("it is there");
    until("its process ends", || test_kill_process(pid).is_err());
    assert_eq!(
        fs::read_dir(at("before/m"))
            .expect("nothing is mounted there")
            .count(),
        0
    );
}
