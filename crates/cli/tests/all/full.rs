//! A disk that is full: writers are told, nothing that was accepted is lost, and it goes on when there is room.

use crate::home::{Disk, Home, run, text, until};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// Fills what is free with a file of somebody else's.
fn fill(path: &Path) {
    // It ends when nothing more goes in.
    let _ = Command::new("dd")
        .args([
            "if=/dev/zero",
            &format!("of={}", text(path)),
            "bs=64K",
            "status=none",
        ])
        .stderr(std::process::Stdio::null())
        .status();
    run("sync", &[text(path)]);
}

fn is_full(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(28)
}

/// Guarantees 1, 4, 17: a full disk is ENOSPC at write or fsync; reading and deleting go on; with room again, writing does.
#[test]
fn a_full_disk_is_told_and_over_when_there_is_room() {
    let Some(home) = Home::new() else { return };
    let disk = Disk::new(&home, 96);
    let bucket = disk.bucket();
    let at_bucket = ["--bucket", text(&bucket)];
    let dir = home.mount(
        "work",
        "m",
        &[&at_bucket[..], &["--create", "--lag", "200"]].concat(),
    );
    let mut synced = Vec::new();
    let save = |name: &str, fill: u8| -> std::io::Result<()> {
        let file = File::create(dir.join(name))?;
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![fill; 400_000], 0)?;
        file.sync_all()
    };
    for number in 0..5 {
        save(&format!("before-{number}"), number).expect("there is room");
        synced.push((format!("before-{number}"), number));
    }
    fill(&disk.at.join("somebody-elses"));
    let mut number = 5;
    let error = loop {
        match save(&format!("tight-{number}"), number) {
            Ok(()) => synced.push((format!("tight-{number}"), number)),
            Err(error) => break error,
        }
        number += 1;
        assert!(number < 200, "the disk has an end");
    };
    assert!(is_full(&error), "{error}");
    let holds_all = |dir: &Path, synced: &[(String, u8)]| {
        for (name, fill) in synced {
            assert_eq!(
                fs::read(dir.join(name)).expect("it was synced"),
                vec![*fill; 400_000],
                "{name}"
            );
        }
    };
    holds_all(&dir, &synced);
    let status = home.status(&dir);
    assert!(
        status["trouble"].to_string().contains("space"),
        "why it waits is told: {status}"
    );
    fs::remove_file(dir.join("before-0")).expect("deleting goes on");
    File::open(&dir)
        .and_then(|root| root.sync_all())
        .map_or_else(|error| assert!(is_full(&error), "{error}"), |()| ());
    synced.remove(0);

    fs::remove_file(disk.at.join("somebody-elses")).expect("it is there");
    until("it goes on", || save("after", 99).is_ok());
    synced.push(("after".to_owned(), 99));
    until("everything is durable", || {
        home.status(&dir)["unsynced"]["ops"] == 0
    });
    home.kill(&dir);
    let dir = home.mount("work", "m", &at_bucket);
    holds_all(&dir, &synced);
    assert!(!dir.join("before-0").exists());
    home.done(&["unmount", text(&dir)]);
    assert!(
        home.done(&[&["check", "work", "--deep"], &at_bucket[..]].concat())
            .contains("whole")
    );
}

/// A limit on the sizes of files is an error of what is written, and not the end of the mount.
#[test]
fn a_limit_on_file_sizes_ends_no_mount() {
    let Some(home) = Home::new() else { return };
    let dir = home.folder.path().join("m");
    fs::create_dir(&dir).expect("a place to mount on");
    let mut limited = Command::new("sh");
    let line = format!(
        "ulimit -f 122880; exec {} mount work {} --create",
        env!("CARGO_BIN_EXE_tenure"),
        text(&dir)
    );
    limited.args(["-c", &line]);
    assert!(
        home.with_folders(&mut limited)
            .status()
            .expect("sh is there")
            .success()
    );
    fs::write(dir.join("small"), "synced").expect("there is room");
    home.done(&["sync", text(&dir)]);
    // Packs are longer than that (60 MiB).
    let _ = fs::write(dir.join("large"), vec![7; 100 << 20]);
    assert_eq!(fs::read(dir.join("small")).expect("it is served"), b"synced");
    home.kill(&dir);
    let dir = home.mount("work", "m", &[]);
    assert_eq!(fs::read(dir.join("small")).expect("it was synced"), b"synced");
    home.done(&["unmount", text(&dir)]);
}

/// Guarantees 12, 17: a drive that has filled its own disk is looked at in place, and nothing is written for that; and it is mounted
/// there to be emptied.
#[test]
fn a_drive_that_filled_its_disk_is_read_in_place_and_opened_to_be_emptied() {
    let Some(home) = Home::new() else { return };
    let disk = Disk::new(&home, 96);
    let bucket = disk.bucket();
    let at_bucket = ["--bucket", text(&bucket)];
    let told = |arguments: &[&str]| home.tenure(&[arguments, &at_bucket[..]].concat());
    let dir = home.mount("work", "m", &[&at_bucket[..], &["--create"]].concat());
    fs::write(dir.join("small"), "synced").expect("there is room");
    home.done(&["sync", text(&dir)]);
    home.done(&[&["checkpoint", "work", "c1"], &at_bucket[..]].concat());
    let big =
        fs::write(dir.join("big"), noise(200 << 20)).and_then(|()| File::open(dir.join("big"))?.sync_all());
    assert!(big.is_err_and(|error| is_full(&error)));
    fs::remove_file(dir.join("big")).expect("deleting goes on");
    fill(&disk.at.join("somebody-elses"));
    let said = home.done(&["unmount", text(&dir)]);
    assert!(said.contains("everything is durable"), "{said}");

    fill(&disk.at.join("more"));
    let names = || {
        let listed = Command::new("find")
            .arg(&bucket)
            .args(["-printf", "%p %s %T@\n"])
            .output();
        String::from_utf8(listed.expect("find is there").stdout).expect("it is text")
    };
    let before = names();
    for arguments in [
        &["drive", "list"][..],
        &["drive", "show", "work"],
        &["check", "work", "--deep"],
        &["branch", "list", "work"],
        &["diff", "work@c1", "work"],
        &["du", "work"],
    ] {
        let looked = told(arguments);
        let said = String::from_utf8_lossy(&looked.stderr).into_owned();
        assert!(looked.status.success(), "{arguments:?}: {said}");
        assert!(
            arguments[1] == "list" || said.contains("only read"),
            "{arguments:?}: {said}"
        );
    }
    let looked = home.mount("work", "m", &[&at_bucket[..], &["--read-only"]].concat());
    assert_eq!(fs::read(looked.join("small")).expect("it was synced"), b"synced");
    assert_eq!(home.status(&looked)["read_only"], true);
    // Another one may look at the same time, and who would change it waits.
    assert!(told(&["check", "work"]).status.success());
    let refused = told(&["fork", "work", "attempt"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    home.done(&["unmount", text(&looked)]);
    assert_eq!(names(), before, "nothing was written");

    let dir = home.mount("work", "m", &at_bucket);
    assert_eq!(fs::read(dir.join("small")).expect("it was synced"), b"synced");
    fs::remove_file(dir.join("small")).expect("deleting goes on");
    home.done(&["sync", text(&dir)]);
    home.done(&["unmount", text(&dir)]);
    let dir = home.mount("work", "m", &at_bucket);
    assert!(!dir.join("small").exists(), "it was deleted durably");
    home.done(&["unmount", text(&dir)]);
    assert!(told(&["check", "work", "--deep"]).status.success());
}

/// Saves files in a mount until there is no room, and returns how many went in.
fn save_until_full(dir: &Path, round: usize) -> usize {
    let bytes = noise(100_000);
    for number in 0.. {
        // Each is another one.
        let begin = format!("{round} {number}");
        let saved = File::create(dir.join(format!("file-{round}-{number}"))).and_then(|mut file| {
            std::io::Write::write_all(&mut file, begin.as_bytes())?;
            std::io::Write::write_all(&mut file, &bytes[number..])?;
            file.sync_all()
        });
        if let Err(error) = saved {
            assert!(is_full(&error), "{error}");
            return number;
        }
    }
    unreachable!("a disk has an end")
}

/// Guarantee 17: what was deleted on a disk that a drive has filled to its last block is room again once it was reclaimed, as often as
/// one likes, and whatever has become of its mounts meanwhile.
#[test]
fn a_drive_that_fills_its_disk_again_and_again_is_emptied_each_time() {
    let Some(home) = Home::new() else { return };
    let disk = Disk::new(&home, 96);
    let bucket = disk.bucket();
    let at_bucket = ["--bucket", text(&bucket)];
    let mut dir = home.mount("work", "m", &[&at_bucket[..], &["--create"]].concat());
    fs::write(dir.join("kept"), "kept").expect("there is room");
    home.done(&["sync", text(&dir)]);
    for round in 0..6 {
        let count = save_until_full(&dir, round);
        assert!(count > 200, "round {round}: {count} files of 100 kB went in");
        // Somebody else takes the last blocks.
        fill(&disk.at.join("somebody-elses"));
        if round % 3 == 0 {
            home.kill(&dir);
            fill(&disk.at.join("more"));
            dir = home.mount("work", "m", &at_bucket);
        }
        for entry in fs::read_dir(&dir).expect("it is served").flatten() {
            if entry.file_name() != "kept" {
                fs::remove_file(entry.path()).expect("deleting goes on");
            }
        }
        home.done(&["sync", text(&dir)]);
        if round % 3 == 1 {
            home.done(&["unmount", text(&dir)]);
            fill(&disk.at.join("more"));
            dir = home.mount("work", "m", &at_bucket);
        }
        // For some seconds a mount may still name what it had placed and not written.
        until("what was deleted is given back", || {
            home.done(&[&["reclaim", "work"], &at_bucket[..]].concat());
            disk.free() > 48 << 20
        });
        for name in ["somebody-elses", "more"] {
            // One that found no room at all is there as well, or not.
            let _ = fs::remove_file(disk.at.join(name));
        }
    }
    home.done(&["unmount", text(&dir)]);
    let told = home.done(&[&["check", "work", "--deep"], &at_bucket[..]].concat());
    assert!(told.contains("whole"), "{told}");
}

/// Returns bytes that nothing makes shorter and of which none are the same.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend_from_slice(&(state >> 16).to_le_bytes()[..4]);
    }
    bytes
}

/// A bucket on a file system that is read-only is looked at as one that is full.
#[test]
fn a_drive_on_a_read_only_file_system_is_read_in_place() {
    let Some(home) = Home::new() else { return };
    let disk = Disk::new(&home, 96);
    let bucket = disk.bucket();
    let at_bucket = ["--bucket", text(&bucket)];
    let dir = home.mount("work", "m", &[&at_bucket[..], &["--create"]].concat());
    fs::write(dir.join("small"), "synced").expect("there is room");
    home.done(&["sync", text(&dir)]);
    home.kill(&dir);
    let remount = || {
        Command::new("mount")
            .args(["-o", "remount,ro", text(&disk.at)])
            .stderr(std::process::Stdio::null())
            .status()
    };
    until("what was killed has closed its files", || {
        remount().is_ok_and(|status| status.success())
    });
    let dir = home.mount("work", "m", &[&at_bucket[..], &["--read-only"]].concat());
    assert_eq!(fs::read(dir.join("small")).expect("it was synced"), b"synced");
    home.done(&["unmount", text(&dir)]);
    assert!(
        home.done(&[&["check", "work", "--deep"], &at_bucket[..]].concat())
            .contains("whole")
    );
    let refused = home.tenure(&[&["mount", "work", text(&dir)], &at_bucket[..]].concat());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(
        said.contains("read-only: mount it writable") && said.contains("--read-only"),
        "{said}"
    );
    run("mount", &["-o", "remount,rw", text(&disk.at)]);
}
