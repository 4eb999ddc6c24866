//! Refusals and failures end with a command that helps, whichever room below says no.

use crate::home::{Home, text};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs a command that must be refused, and returns its hint.
fn hint(home: &Home, arguments: &[&str]) -> String {
    let said = home.refused(arguments);
    let hint = said.lines().find_map(|line| line.strip_prefix("hint: "));
    hint.unwrap_or_else(|| panic!("tenure {arguments:?}: {said}"))
        .to_owned()
}

#[test]
fn what_a_drive_refuses_ends_with_a_command_for_that_drive() {
    let home = Home::unmounted();
    home.done(&["drive", "create", "d1"]);
    home.done(&["checkpoint", "d1", "c1"]);
    for (arguments, begins) in [
        (&["fork", "d1", "main"][..], "tenure branch list d1"),
        (&["checkpoint", "d1@c1", "c2"], "tenure fork d1@c1 NEW"),
        (&["checkpoint", "d1", "c1"], "tenure branch list d1"),
        (&["undo", "d1@c1", "--to", "main"], "tenure "),
        (&["merge", "d1@c1", "nobody"], "tenure branch list d1"),
        (&["branch", "delete", "d1", "main", "--yes"], "tenure "),
        (
            &["branch", "rename", "d1", "none", "new"],
            "tenure branch list d1",
        ),
        (&["branch", "show", "d1", "none"], "tenure branch list d1"),
        (&["drive", "delete", "none", "--yes"], "tenure drive list"),
        (&["drive", "show", "none"], "tenure drive list"),
        (&["drive", "create", "d1"], "tenure mount d1 DIR"),
        (&["diff", "d1@c1", "d1@none"], "tenure branch list d1"),
        (&["log", "d1@none"], "tenure branch list d1"),
        (&["conflicts", "d1@none"], "tenure branch list d1"),
    ] {
        let hint = hint(&home, arguments);
        assert!(hint.starts_with(begins), "{arguments:?}: {hint}");
    }
}

/// Who makes a drive at the same moment as another has lost nothing: it is there, and is named as any that is.
#[test]
fn of_those_who_make_one_drive_at_once_one_has_made_it_and_the_others_hear_that_it_is_there() {
    let home = Home::unmounted();
    for round in 0..3 {
        let name = format!("d{round}");
        let makers: Vec<_> = (0..6)
            .map(|_| {
                let mut command = home.command(&["drive", "create", &name]);
                let piped = command
                    .stdout(std::process::Stdio::piped())
                    .stderr(std::process::Stdio::piped());
                piped.spawn().expect("the program starts")
            })
            .collect();
        let mut made = 0;
        for maker in makers {
            let output = maker.wait_with_output().expect("it is ours");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            match output.status.code() {
                Some(0) => made += 1,
                code => assert!(
                    code == Some(1) && said.contains(&format!("there is a drive {name} already")),
                    "{code:?}: {said}"
                ),
            }
        }
        assert_eq!(made, 1, "{name}");
    }
}

#[test]
fn a_checkpoint_is_not_shared_and_says_how_it_is_looked_at() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "d1"]);
    home.done(&["checkpoint", "d1", "c1"]);
    let dir = home.folder.path().join("m");
    fs::create_dir(&dir).expect("there is room");
    let hint = hint(&home, &["mount", "d1@c1", text(&dir), "--shared"]);
    assert!(
        hint.starts_with(&format!("tenure mount d1@c1 {}", text(&dir))),
        "{hint}"
    );
}

/// Writes an object anew, as a newer program would have: of another version, and whole.
fn make_newer(path: &Path) {
    let mut bytes = fs::read(path).expect("it is there");
    let end = bytes.len();
    if bytes.ends_with(b"TNPACK_1") {
        let footer = &mut bytes[end - 64..];
        footer[48] = 9;
        let checksum = crc32c::crc32c(&footer[..52]);
        footer[52..56].copy_from_slice(&checksum.to_le_bytes());
    } else if bytes.starts_with(b"TNSEGM_1") {
        bytes[8] = 9;
        let checksum = crc32c::crc32c(&bytes[..72]);
        bytes[72..76].copy_from_slice(&checksum.to_le_bytes());
    } else {
        bytes[8] = 9;
        let digest = tenure_model::Digest::of(&bytes[..end - 32]);
        bytes[end - 32..].copy_from_slice(&digest.0);
    }
    fs::write(path, bytes).expect("there is room");
}

/// Returns the files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("it is there").flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => found.push(path),
        }
    }
    found.sort();
    found
}

/// Also what nothing needs now is looked at by a check, and is not called damaged.
#[test]
fn no_object_of_a_newer_program_is_called_damaged() {
    let home = Home::unmounted();
    home.done(&["drive", "create", "work"]);
    for name in ["one", "two", "three"] {
        home.done(&["fork", "work", name]);
    }
    let work = home.folder.path().join("data/tenure/bucket/drives/work");
    let has_version =
        |path: &PathBuf| fs::read(path).is_ok_and(|bytes| bytes.len() > 40 && !path.ends_with("lock"));
    let objects: Vec<_> = files(&work).into_iter().filter(has_version).collect();
    let mut kinds = BTreeSet::new();
    for path in &objects {
        let before = fs::read(path).expect("it is there");
        make_newer(path);
        let said = home.refused(&["check", "work", "--deep"]);
        assert!(
            said.contains("newer tenure") && said.contains("hint: tenure --version"),
            "{path:?}: {said}"
        );
        fs::write(path, &before).expect("there is room");
        kinds.insert(before[..4].to_vec());
    }
    // Claims, manifests, seals, segments, and packs, which begin with what they hold.
    assert!(kinds.len() >= 5, "{objects:?}");
    assert!(home.done(&["check", "work", "--deep"]).contains("whole"));
}

/// Of whatever kind the object is that only a newer program reads: it is named, nothing is changed, and the exit code is one.
#[test]
fn whatever_a_newer_program_has_written_is_refused_alike() {
    let home = Home::unmounted();
    let bucket = home.folder.path().join("data/tenure/bucket");
    let work = bucket.join("drives/work");
    let newest = |folder: &str| {
        let mut names: Vec<_> = fs::read_dir(work.join(folder))
            .expect("it is there")
            .flatten()
            .map(|name| name.path())
            .collect();
        names.retain(|path| path.is_file() && path.extension().is_none());
        names.sort();
        names.pop().expect("there is one")
    };
    for kind in ["marker", "claim", "manifest", "seal"] {
        home.done(&["drive", "create", "work"]);
        home.done(&["fork", "work", "attempt"]);
        let path = match kind {
            "marker" => bucket.join("tenure-bucket"),
            "claim" => newest("epochs"),
            "manifest" => newest("manifests"),
            _ => {
                let mut epochs: Vec<_> = fs::read_dir(work.join("journal"))
                    .expect("it is there")
                    .flatten()
                    .map(|name| name.path())
                    .collect();
                epochs.sort();
                epochs.pop().expect("there is one").join("sealed")
            }
        };
        let before = fs::read(&path).expect("it is there");
        if kind == "marker" {
            let text = String::from_utf8(before.clone())
                .expect("it is text")
                .replace("format 1", "format 9");
            fs::write(&path, text).expect("there is room");
        } else {
            make_newer(&path);
        }
        let said = home.refused(&["drive", "show", "work"]);
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("it is text");
        assert!(said.contains(name), "{kind}: {said}");
        assert!(
            said.contains("use a newer tenure") && said.contains("hint: tenure --version"),
            "{kind}: {said}"
        );
        fs::write(&path, before).expect("there is room");
        home.done(&["drive", "delete", "work", "--yes"]);
    }
}
