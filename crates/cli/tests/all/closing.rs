//! What a person hears who unmounts, where the mount's process cannot give back the drive as it should be.

use crate::home::{Home, text};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns bytes of which no two runs are the same, too many to ride in the journal.
fn bulk(seed: u32) -> Vec<u8> {
    (0..200_000u32)
        .map(|at| ((at ^ (seed << 24)).wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

/// Returns a folder of the home's drive.
fn folder(home: &Home, name: &str) -> PathBuf {
    home.folder
        .path()
        .join("data/tenure/bucket/drives/work")
        .join(name)
}

/// Removes the packs that are being filled.
fn remove_open_packs(home: &Home) {
    let packs = fs::read_dir(folder(home, "packs"))
        .expect("it is there")
        .flatten();
    let open = packs
        .map(|pack| pack.path())
        .filter(|pack| pack.extension().is_some_and(|end| end == "open"));
    let removed = open
        .map(|pack| fs::remove_file(pack).expect("it is there"))
        .count();
    assert!(removed > 0, "one is being filled");
}

/// Mounts a drive with a file that was synced.
fn mounted(home: &Home) -> PathBuf {
    let dir = home.mount("work", "m", &["--create"]);
    fs::write(dir.join("synced"), bulk(1)).expect("there is room");
    home.done(&["sync", text(&dir)]);
    dir
}

/// Unmounts what cannot be closed, and returns what is said.
fn not_closed(home: &Home, dir: &Path) -> String {
    let ended = home.tenure(&["unmount", text(dir)]);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success(), "{said}");
    assert_eq!(
        String::from_utf8_lossy(&ended.stdout),
        "",
        "nothing is said to be durable"
    );
    assert!(
        said.contains("did not end well")
            && said.contains("hint: tenure check work --deep says what of it is there"),
        "{said}"
    );
    said
}

/// Guarantee 4: what was synced and then removed is not said to be durable by who unmounts, nor to be whole by a check.
#[test]
fn who_unmounts_hears_that_what_was_synced_was_removed() {
    let Some(home) = Home::new() else { return };
    let dir = mounted(&home);
    assert!(
        home.done(&["check", "work", "--deep"])
            .contains("to the last byte")
    );
    remove_open_packs(&home);
    let checked = home.tenure(&["check", "work", "--deep"]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(
        !checked.status.success() && said.contains(".open: it is missing"),
        "{said}"
    );
    // What is little needs no pack.
    fs::write(dir.join("little"), "kept").expect("there is room");
    home.done(&["sync", text(&dir)]);
    let said = not_closed(&home, &dir);
    assert!(
        said.contains("it was removed from the bucket, or moved, while it was written"),
        "{said}"
    );
    home.mount("work", "m", &[]);
    assert_eq!(
        fs::read_to_string(dir.join("little")).ok().as_deref(),
        Some("kept")
    );
    home.done(&["unmount", text(&dir)]);
}

/// Guarantee 4: a sync into a file that was removed is not acknowledged, and what was written can be copied.
#[test]
fn a_sync_into_a_pack_that_was_removed_fails_and_all_can_still_be_read() {
    let Some(home) = Home::new() else { return };
    let dir = mounted(&home);
    remove_open_packs(&home);
    fs::write(dir.join("later"), bulk(2)).expect("it is staged");
    for _ in 0..2 {
        assert!(!home.tenure(&["sync", text(&dir)]).status.success());
    }
    let why = home.status(&dir)["lost"].to_string();
    assert!(
        why.contains("removed from the bucket") && why.contains("may be lost"),
        "{why}"
    );
    for (name, bytes) in [("synced", bulk(1)), ("later", bulk(2))] {
        let file = fs::File::open(dir.join(name)).expect("it is there");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("it is a file");
        assert!(
            fs::read(dir.join(name)).expect("it can be copied") == bytes,
            "{name}"
        );
    }
    let kept = home.tenure(&["unmount", text(&dir)]);
    let said = String::from_utf8_lossy(&kept.stderr).into_owned();
    assert!(
        kept.status.code() == Some(3) && said.contains("cannot be made durable"),
        "{said}"
    );
    home.kill(&dir);
}

/// Who is in the way of the next owner is told to who unmounts, while they may still know what they did.
#[test]
fn who_unmounts_hears_what_keeps_the_next_owner_out() {
    let Some(home) = Home::new() else { return };
    let dir = mounted(&home);
    let epochs = fs::read_dir(folder(&home, "journal"))
        .expect("it is there")
        .flatten();
    let last = epochs
        .map(|epoch| epoch.path())
        .max()
        .expect("a mount has an epoch");
    let sealed = last.join("sealed");
    fs::create_dir(&sealed).expect("there is room");
    let said = not_closed(&home, &dir);
    assert!(
        said.contains("sealed is a folder in the place of a file"),
        "{said}"
    );
    fs::remove_dir(&sealed).expect("it is empty");
    home.mount("work", "m", &[]);
    assert!(fs::read(dir.join("synced")).expect("it was synced") == bulk(1));
    home.done(&["unmount", text(&dir)]);
    assert!(home.done(&["check", "work", "--deep"]).contains("whole"));
}
