//! A bucket that nobody may write for a while: what cannot be made durable is never said to be, and it heals by itself.

use crate::home::{Disk, Home, run, text, until};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Lets nothing in a folder be written or renamed, not even by root, until this goes.
struct Forbidden<'a>(&'a Path);

impl<'a> Forbidden<'a> {
    fn new(folder: &'a Path) -> Self {
        run("chattr", &["-R", "+i", text(folder)]);
        Forbidden(folder)
    }
}

impl Drop for Forbidden<'_> {
    fn drop(&mut self) {
        run("chattr", &["-R", "-i", text(self.0)]);
    }
}

fn fails(outcome: std::io::Result<()>) {
    assert_eq!(outcome.expect_err("it cannot be durable").raw_os_error(), Some(5));
}

/// Guarantees 1, 4, 17: every sync fails while the bucket cannot be written; when it can be, everything that was written is
/// made durable, and nobody has to do anything for it.
#[test]
fn a_bucket_that_cannot_be_written_for_a_while_loses_nothing_and_heals_by_itself() {
    let Some(home) = Home::new() else { return };
    let disk = Disk::new(&home, 128);
    let bucket = disk.bucket();
    let at_bucket = ["--bucket", text(&bucket)];
    let dir = home.mount(
        "work",
        "m",
        &[&at_bucket[..], &["--create", "--lag", "100"]].concat(),
    );
    let file = File::create(dir.join("file")).expect("there is room");
    file.write_all_at(b"synced ", 0).expect("there is room");
    file.sync_all().expect("it can be written");

    let forbidden = Forbidden::new(&bucket);
    file.write_all_at(b"waits", 7).expect("it is staged");
    // Neither does asking again make it true.
    (0..3).for_each(|_| fails(file.sync_all()));
    fs::create_dir(dir.join("below")).expect("names are lent");
    fails(File::open(dir.join("below")).expect("it is there").sync_all());
    let other = File::create(dir.join("below/other")).expect("names are lent");
    other.write_all_at(&vec![7; 3_000_000], 0).expect("it is staged");
    fails(other.sync_all());
    assert_eq!(
        fs::read(dir.join("file")).expect("reading goes on"),
        b"synced waits"
    );
    let status = home.status(&dir);
    assert!(
        status["trouble"].to_string().contains("held immutable"),
        "{status}"
    );
    assert_ne!(status["unsynced"]["ops"], 0);
    assert_eq!(home.tenure(&["sync", text(&dir)]).status.code(), Some(3));
    assert_eq!(
        home.tenure(&["unmount", text(&dir)]).status.code(),
        Some(3),
        "it stays"
    );
    drop(forbidden);

    until("everything is durable", || {
        home.status(&dir)["unsynced"]["ops"] == 0
    });
    assert!(home.status(&dir)["trouble"].is_null());
    home.kill(&dir);
    let dir = home.mount("work", "m", &at_bucket);
    assert_eq!(fs::read(dir.join("file")).expect("it healed"), b"synced waits");
    assert_eq!(
        fs::read(dir.join("below/other")).expect("it healed"),
        vec![7; 3_000_000]
    );
    home.done(&["unmount", text(&dir)]);
    assert!(
        home.done(&[&["check", "work", "--deep"], &at_bucket[..]].concat())
            .contains("whole")
    );
}

/// Guarantee 4: more than fits in memory is refused at the write, not swallowed; what a write took is kept.
#[test]
fn writers_of_much_are_told_that_the_bucket_cannot_be_written() {
    let Some(home) = Home::new() else { return };
    let disk = Disk::new(&home, 256);
    let bucket = disk.bucket();
    let at_bucket = ["--bucket", text(&bucket)];
    let dir = home.mount("work", "m", &[&at_bucket[..], &["--create"]].concat());
    let mut file = File::create(dir.join("file")).expect("there is room");
    file.write_all(b"synced")
        .and_then(|()| file.sync_all())
        .expect("it can be written");
    let forbidden = Forbidden::new(&bucket);
    let piece = |number: u64| vec![number as u8; 1 << 20];
    let mut taken = 0;
    let error = loop {
        match file.write_all_at(&piece(taken), taken << 20) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 200, "memory has an end");
    };
    assert_eq!(error.raw_os_error(), Some(5));
    drop(forbidden);
    until("it goes on", || file.sync_all().is_ok());
    until("nothing is wrong any more", || {
        home.status(&dir)["trouble"].is_null()
    });
    home.kill(&dir);
    let dir = home.mount("work", "m", &at_bucket);
    let bytes = fs::read(dir.join("file")).expect("it was synced");
    for number in 0..taken {
        let at = (number << 20) as usize;
        assert!(bytes[at..at + (1 << 20)] == piece(number)[..], "piece {number}");
    }
    home.done(&["unmount", text(&dir)]);
}

/// Who may not write to a bucket is answered by the owner of the drive: its lock says where that is.
#[test]
fn a_drive_whose_bucket_cannot_be_written_is_checked_by_its_owner() {
    let Some(home) = Home::new() else { return };
    let disk = Disk::new(&home, 128);
    let bucket = disk.bucket();
    let at_bucket = ["--bucket", text(&bucket)];
    let dir = home.mount("work", "m", &[&at_bucket[..], &["--create"]].concat());
    fs::write(dir.join("file"), vec![7; 3_000_000]).expect("there is room");
    home.done(&["sync", text(&dir)]);
    let forbidden = Forbidden::new(&bucket);
    for depth in [&["check", "work"][..], &["check", "work", "--deep"]] {
        let said = home.done(&[depth, &at_bucket[..]].concat());
        assert!(said.contains("work is whole"), "{said}");
    }
    drop(forbidden);
    home.done(&["unmount", text(&dir)]);
}

/// A mount's log and its note of what is not durable are in the state folder: without a log there is no mount, without a note there
/// is one that says so.
#[test]
fn a_state_folder_that_cannot_be_written_costs_a_mount_its_note() {
    let Some(home) = Home::new() else { return };
    let disk = Disk::new(&home, 8);
    let dir = home.folder.path().join("m");
    let mount = || {
        let mut command = home.command(&["mount", "work", text(&dir), "--create"]);
        let mounted = command.env("XDG_STATE_HOME", &disk.at).output();
        let mounted = mounted.expect("the program starts");
        let said = String::from_utf8_lossy(&mounted.stderr).into_owned();
        (mounted.status.success(), said)
    };
    assert_eq!(mount(), (true, String::new()));
    home.done(&["unmount", text(&dir)]);
    let state = disk.at.join("tenure");
    let _forbidden = Forbidden::new(&state);
    let (is_mounted, said) = mount();
    assert!(!is_mounted && said.contains("cannot write the log"), "{said}");
    assert!(said.contains("XDG_STATE_HOME=/some/folder"), "{said}");
    let names = fs::read_dir(&state).expect("it is there").flatten();
    let mut logs = names
        .map(|name| name.path())
        .filter(|path| path.extension().is_some());
    run("chattr", &["-i", text(&logs.next().expect("it has a log"))]);
    let (is_mounted, said) = mount();
    assert!(
        is_mounted && said.contains("nobody will say how much was lost"),
        "{said}"
    );
    home.done(&["unmount", text(&dir)]);
}
