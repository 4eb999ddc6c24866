//! Drives that a server has: commands that name the server speak of its drives, and of no others.

use crate::home::{Home, text};
use std::fs;

/// Which drives there are, making one and deleting one concern the server that is named, and not the bucket that would be
/// used without it.
#[test]
fn the_drives_of_a_server_are_listed_made_and_deleted_there() {
    let home = Home::unmounted();
    let bucket = home.folder.path().join("of-the-server");
    let at_bucket = ["--bucket", text(&bucket)];
    home.done(&["drive", "create", "here"]);
    home.done(&[&["drive", "create", "there"], &at_bucket[..]].concat());
    let server = home.serve(&at_bucket);
    let at_server = ["--server", server.address.as_str()];
    let on = |arguments: &[&str], place: &[&str]| home.done(&[arguments, place].concat());

    assert_eq!(on(&["drive", "list"], &at_server), "there\n");
    on(&["drive", "create", "made"], &at_server);
    assert_eq!(on(&["drive", "list"], &at_server), "made\nthere\n");
    assert_eq!(on(&["drive", "list"], &at_bucket), "made\nthere\n");
    assert_eq!(home.done(&["drive", "list"]), "here\n");
    let again = home.refused(&[&["drive", "create", "made"], &at_server[..]].concat());
    assert!(again.contains("there is a drive made already"), "{again}");

    home.done(&["drive", "create", "there"]);
    on(&["drive", "delete", "there", "--yes"], &at_server);
    assert_eq!(on(&["drive", "list"], &at_server), "made\n");
    assert_eq!(home.done(&["drive", "list"]), "here\nthere\n");

    let silent = home.tenure(&["drive", "list", "--server", "unix:/nowhere/socket"]);
    assert_eq!(silent.status.code(), Some(3), "nobody answers there");
}

/// A drive that a mount makes is the server's, and one that is mounted is not deleted.
#[test]
fn a_mount_makes_its_drive_at_the_server_that_is_named() {
    let Some(home) = Home::new() else { return };
    let bucket = home.folder.path().join("of-the-server");
    home.done(&["drive", "create", "first", "--bucket", text(&bucket)]);
    let server = home.serve(&["--bucket", text(&bucket)]);
    let at_server = ["--server", server.address.as_str()];
    let dir = home.mount("work", "m", &[&["--create"], &at_server[..]].concat());
    fs::write(dir.join("file"), "of the server").expect("there is room");
    assert_eq!(
        home.status(&dir)["owner_pid"],
        server.process().as_raw_nonzero().get()
    );
    let held = home.refused(&[&["drive", "delete", "work", "--yes"], &at_server[..]].concat());
    assert!(held.contains("holds it"), "{held}");
    home.done(&["unmount", text(&dir)]);
    assert_eq!(
        home.tenure(&["drive", "list"]).status.code(),
        Some(1),
        "nothing was made here"
    );

    // Where it is, it is mounted as it is.
    home.mount("work", "m", &[&["--create"], &at_server[..]].concat());
    assert_eq!(
        fs::read_to_string(dir.join("file")).expect("it is there"),
        "of the server"
    );
    home.done(&["unmount", text(&dir)]);
}
