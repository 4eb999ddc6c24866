//! A bucket's folder in which something stands that has no place there: it is named, hangs nothing, and takes no more than was in its
//! place. And sockets with long paths.

use crate::home::{Home, run, text};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the first file in a folder of the drive whose name ends so.
fn find(home: &Home, folder: &str, end: &str) -> PathBuf {
    let at = drive(home).join(folder);
    let mut names: Vec<_> = fs::read_dir(at).expect("it is there").flatten().collect();
    names.sort_by_key(fs::DirEntry::file_name);
    let found = names
        .into_iter()
        .rev()
        .find(|name| name.file_name().to_string_lossy().ends_with(end));
    found.expect("there is one").path()
}

fn drive(home: &Home) -> PathBuf {
    home.folder.path().join("data/tenure/bucket/drives/work")
}

/// Puts something in the place of what is at a path, and returns where that is now.
fn replace(home: &Home, path: &Path, with: &str) -> PathBuf {
    let kept = home.folder.path().join("kept");
    fs::rename(path, &kept).expect("it is on the same disk");
    match with {
        "fifo" => run("mkfifo", &[text(path)]),
        "file" => fs::write(path, "something").expect("there is room"),
        _ => {
            fs::create_dir(path).expect("there is room");
            fs::write(path.join("inside"), "something").expect("there is room");
        }
    }
    kept
}

/// Guarantees 12, 21: what stands in the place of a pack that was being filled is left as it is, and all but what that held is there.
#[test]
fn what_is_no_file_in_the_place_of_an_open_pack_takes_only_what_that_held() {
    for with in ["fifo", "folder"] {
        let Some(home) = Home::new() else { return };
        let dir = home.mount("work", "m", &["--create"]);
        fs::write(dir.join("small"), "in the journal").expect("there is room");
        let bulk: Vec<u8> = (0..3_000_000u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        fs::write(dir.join("bulk"), &bulk).expect("there is room");
        home.done(&["sync", text(&dir)]);
        home.kill(&dir);
        let pack = find(&home, "packs", ".open");
        let kept = replace(&home, &pack, with);
        for _ in 0..2 {
            let mounted = home.tenure(&["mount", "work", text(&dir)]);
            let said = String::from_utf8_lossy(&mounted.stderr).into_owned();
            assert!(mounted.status.success(), "{with}: {said}");
            assert!(
                said.contains("that were synced cannot be read") && said.contains(".open"),
                "{with}: {said}"
            );
            assert_eq!(
                fs::read(dir.join("small")).expect("it is in the journal"),
                b"in the journal"
            );
            let read = fs::read(dir.join("bulk")).expect_err("it is away");
            assert_eq!(read.raw_os_error(), Some(5), "{with}");
            home.done(&["unmount", text(&dir)]);
        }
        if with == "fifo" {
            fs::remove_file(&pack).expect("it is there");
        } else {
            fs::remove_dir_all(&pack).expect("it is there");
        }
        fs::rename(&kept, &pack).expect("it is put back");
        home.mount("work", "m", &[]);
        assert!(fs::read(dir.join("bulk")).expect("it is back") == bulk);
        home.done(&["unmount", text(&dir)]);
        assert!(home.done(&["check", "work", "--deep"]).contains("whole"));
    }
}

/// Guarantee 12: the state before and the journal make up for it, as for any damage to a manifest.
#[test]
fn a_folder_in_the_place_of_the_newest_manifest_keeps_no_drive_shut() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    fs::write(dir.join("file"), "synced").expect("there is room");
    home.done(&["unmount", text(&dir)]);
    let manifest = find(&home, "manifests", "");
    replace(&home, &manifest, "folder");
    for _ in 0..2 {
        let mounted = home.tenure(&["mount", "work", text(&dir)]);
        let said = String::from_utf8_lossy(&mounted.stderr).into_owned();
        assert!(mounted.status.success(), "{said}");
        assert_eq!(fs::read(dir.join("file")).expect("it was synced"), b"synced");
        home.done(&["unmount", text(&dir)]);
    }
}

/// Guarantee 21: a file where a folder of the bucket belongs is named, by whatever command meets it.
#[test]
fn a_file_in_the_place_of_a_folder_is_named() {
    let home = Home::unmounted();
    home.done(&["drive", "create", "work"]);
    home.done(&["drive", "create", "other"]);
    let refused = |arguments: &[&str], at: &Path| {
        let output = home.tenure(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {said}");
        let named = format!("{} is a file in the place of a folder", text(at));
        assert!(
            said.contains(&named) && said.contains(&format!("hint: ls -ld {}", text(at))),
            "{arguments:?}: {said}"
        );
    };
    let at = drive(&home);
    let kept = replace(&home, &at, "file");
    for arguments in [
        &["check", "work"][..],
        &["drive", "create", "work"],
        &["drive", "delete", "work", "--yes"],
    ] {
        refused(arguments, &at);
    }
    assert_eq!(home.done(&["drive", "list"]), "other\n", "it hides no other");
    fs::remove_file(&at).expect("it is there");
    fs::rename(kept, &at).expect("it is put back");
    let hidden = home.folder.path().join("data/tenure/bucket/.tmp");
    fs::remove_dir_all(&hidden).expect("it is there");
    fs::write(&hidden, "something").expect("there is room");
    refused(&["drive", "create", "more"], &hidden);
}

/// A drive is served and reached however long the path of the folder for sockets is, and that of the bucket.
#[test]
fn sockets_are_reached_however_long_their_paths_are() {
    let Some(home) = Home::new() else { return };
    let deep = home.folder.path().join("d".repeat(120)).join("e".repeat(120));
    let in_deep = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        let output = command
            .env("XDG_RUNTIME_DIR", &deep)
            .output()
            .expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let bucket = deep.join("bucket");
    let dir = home.folder.path().join("m");
    fs::create_dir(&dir).expect("there is room");
    let at_bucket = ["--bucket", text(&bucket)];
    in_deep(&[&["mount", "work", text(&dir), "--create"], &at_bucket[..]].concat());
    // By the mount's process, which has the drive.
    in_deep(&[&["fork", "work", "attempt"], &at_bucket[..]].concat());
    assert!(in_deep(&[&["branch", "list", "work"], &at_bucket[..]].concat()).contains("attempt"));
    let socket = format!("unix:{}", text(&deep.join("socket")));
    in_deep(&["unmount", text(&dir)]);
    let mut server = home.command(&[&["serve", "--listen", &socket], &at_bucket[..]].concat());
    let mut server = server
        .env("XDG_RUNTIME_DIR", &deep)
        .spawn()
        .expect("the program starts");
    crate::home::until("it listens", || {
        fs::metadata(deep.join("socket")).is_ok_and(|found| found.mode() & 0o777 == 0o600)
    });
    let listed = in_deep(&["branch", "list", "work", "--server", &socket]);
    server.kill().expect("it is ours");
    server.wait().expect("it is ours");
    assert!(listed.contains("attempt"), "{listed}");
}
