//! What a Linux program may ask of files, over a real mount, as far as the public suites do not ask it.

use crate::home::{Home, run, text};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags, SeekFrom, XattrFlags,
};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

fn write(path: &Path, content: &str) {
    fs::write(path, content).expect("there is room");
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("it is there")
}

/// Guarantee 5: a rename refuses what is there, exchanges two, or leaves a whiteout, as it was asked to.
#[test]
fn renames_do_what_their_flags_say() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    let (a, b) = (dir.join("a"), dir.join("b"));
    let rename = |flags| rustix::fs::renameat_with(CWD, &a, CWD, &b, flags);
    write(&a, "a");
    write(&b, "b");
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename(RenameFlags::EXCHANGE).expect("both are there");
    assert_eq!((read(&a), read(&b)), ("b".into(), "a".into()));
    fs::remove_file(&b).expect("it is there");
    rename(RenameFlags::NOREPLACE).expect("nothing is in the way");
    write(&a, "again");
    rename(RenameFlags::WHITEOUT).expect("root may");
    let whiteout = fs::symlink_metadata(&a).expect("it is there");
    assert_eq!((whiteout.rdev(), whiteout.mode() & 0o170_000), (0, 0o020_000));
    home.done(&["unmount", text(&dir)]);
}

/// Guarantee 5: a file stays readable and writable after its last name went, and one without a name can get one.
#[test]
fn files_without_a_name_live_as_long_as_they_are_open() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    let gone = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(dir.join("gone"));
    let gone = gone.expect("there is room");
    gone.write_all_at(b"still", 0).expect("there is room");
    fs::remove_file(dir.join("gone")).expect("it is there");
    gone.write_all_at(b" here", 5)
        .and_then(|()| gone.sync_all())
        .expect("it is open");
    let mut bytes = [0; 10];
    gone.read_exact_at(&mut bytes, 0).expect("it is open");
    assert_eq!(&bytes, b"still here");

    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let unnamed = rustix::fs::openat(CWD, &dir, flags, Mode::from_raw_mode(0o600)).expect("it is supported");
    rustix::io::pwrite(&unnamed, b"named late", 0).expect("there is room");
    assert_eq!(fs::read_dir(&dir).expect("it is there").count(), 0);
    let named = rustix::fs::linkat(&unnamed, "", CWD, dir.join("named"), AtFlags::EMPTY_PATH);
    named.expect("root may");
    assert_eq!(read(&dir.join("named")), "named late");
    drop((gone, unnamed));
    home.done(&["unmount", text(&dir)]);
}

/// Guarantee 5: holes are holes, can be found, and are made.
#[test]
fn holes_are_found_and_made() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    let file = File::create(dir.join("sparse")).expect("there is room");
    file.write_all_at(&[1; 4096], 5 << 30)
        .expect("files may be large");
    let seek = |from| rustix::fs::seek(&file, from).expect("it is supported");
    assert_eq!(seek(SeekFrom::Data(0)), 5 << 30);
    assert_eq!(seek(SeekFrom::Hole(5 << 30)), (5 << 30) + 4096);
    file.write_all_at(&[2; 12_288], 0).expect("there is room");
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 4096, 4096).expect("it is supported");
    assert_eq!(seek(SeekFrom::Hole(0)), 4096);
    assert_eq!(seek(SeekFrom::Data(4096)), 8192);
    assert!(fs::metadata(dir.join("sparse")).expect("it is there").blocks() * 512 < 1 << 20);
    drop(file);
    home.done(&["unmount", text(&dir)]);
}

/// Guarantee 5: `flock` and `fcntl` locks keep others out, and know nothing of each other.
#[test]
fn locks_of_both_kinds_are_told_apart() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    let path = dir.join("locked");
    let (one, two) = (
        File::create(&path).expect("there is room"),
        File::create(&path).expect("it is there"),
    );
    rustix::fs::flock(&one, FlockOperation::NonBlockingLockExclusive).expect("it is free");
    let second = rustix::fs::flock(&two, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(second, Err(Errno::WOULDBLOCK));
    // Of this process, so only another one is kept out: the shell.
    rustix::fs::fcntl_lock(&two, FlockOperation::NonBlockingLockExclusive).expect("the other kind is free");
    let other = Command::new("flock").args(["-n", text(&path), "true"]).status();
    assert!(!other.expect("flock is there").success());
    drop((one, two));
    let other = Command::new("flock").args(["-n", text(&path), "true"]).status();
    assert!(other.expect("flock is there").success());
    home.done(&["unmount", text(&dir)]);
}

/// Runs a shell line as a user who is nobody in particular; tells whether it succeeded.
fn as_nobody(line: &str, dir: &Path) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", line, text(dir)]).uid(65_534).gid(65_534);
    command.stderr(std::process::Stdio::null());
    command.status().expect("sh is there").success()
}

/// Guarantee 8: a mount of root is root's alone, unless others may use it; then permissions say what each may.
#[test]
fn others_may_do_what_the_mount_and_the_permissions_say() {
    let Some(home) = Home::new() else { return };
    fs::set_permissions(home.folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    for (more, may) in [(&["--create"][..], false), (&["--allow-other"][..], true)] {
        let dir = home.mount("work", "m", more);
        write(&dir.join("public"), "for all");
        write(&dir.join("secret"), "for root");
        fs::set_permissions(dir.join("public"), fs::Permissions::from_mode(0o644)).expect("it is ours");
        fs::set_permissions(dir.join("secret"), fs::Permissions::from_mode(0o600)).expect("it is ours");
        assert_eq!(as_nobody("cat \"$0/public\" >/dev/null", &dir), may);
        for refused in [
            "cat \"$0/secret\" >/dev/null",
            "echo >\"$0/public\"",
            "rm -f \"$0/public\"",
            "ls \"$0/.tenure/../secret/\"",
        ] {
            assert!(!as_nobody(refused, &dir), "{refused}");
        }
        home.done(&["unmount", text(&dir)]);
    }
}

/// Guarantee 5: an attribute is set and found only in a namespace that there is (xattr(7)).
#[test]
fn an_attribute_in_no_namespace_is_not_supported() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    let file = dir.join("file");
    write(&file, "");
    let set = |name| rustix::fs::setxattr(&file, name, b"value", XattrFlags::empty());
    for name in ["user.k", "trusted.k", "security.k"] {
        assert_eq!(set(name), Ok(()), "{name}");
    }
    for name in ["foo.k", "user", "system.k"] {
        assert_eq!(set(name), Err(Errno::OPNOTSUPP), "{name}");
        assert_eq!(
            rustix::fs::removexattr(&file, name),
            Err(Errno::OPNOTSUPP),
            "{name}"
        );
        let found = rustix::fs::getxattr(&file, name, &mut [0; 8]);
        assert_eq!(found, Err(Errno::OPNOTSUPP), "{name}");
    }
    assert_eq!(set("user."), Err(Errno::INVAL));
    home.done(&["unmount", text(&dir)]);
}

/// The text of a mount's state is a file like any other to whoever asks what it is.
#[test]
fn the_hidden_status_can_be_looked_at_and_copied() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    let status = dir.join(".tenure/status");
    let seen = || fs::metadata(&status).expect("it is there");
    assert!(seen().is_file() && seen().len() > 0);
    assert_eq!(seen().ino(), seen().ino());
    run("stat", &[text(&status)]);
    run("stat", &["-f", text(&status)]);
    run("df", &[text(&dir.join(".tenure"))]);
    let copy = home.folder.path().join("copy");
    run("cp", &[text(&status), text(&copy)]);
    run("cp", &[text(&status), text(&dir.join("inside"))]);
    let told: serde_json::Value =
        serde_json::from_slice(&fs::read(&copy).expect("it was copied")).expect("it is JSON");
    assert_eq!(told["drive"], "work");
    home.done(&["unmount", text(&dir)]);
}

/// What is hidden takes nothing, by whatever name or call it comes.
#[test]
fn nothing_is_put_into_what_is_hidden_or_made_of_it() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    let (hidden, status, file) = (dir.join(".tenure"), dir.join(".tenure/status"), dir.join("file"));
    fs::write(&file, "here").expect("there is room");
    let errno = |done: std::io::Result<()>| done.err().and_then(|error| error.raw_os_error());
    const EPERM: i32 = 1;
    for (what, done) in [
        ("make", fs::write(hidden.join("new"), "")),
        ("make a folder", fs::create_dir(hidden.join("new"))),
        ("move in", fs::rename(&file, hidden.join("new"))),
        ("move over", fs::rename(&file, &status)),
        ("move out", fs::rename(&status, dir.join("out"))),
        ("link in", fs::hard_link(&file, hidden.join("new"))),
        ("link out", fs::hard_link(&status, dir.join("out"))),
        ("write", fs::write(&status, "mine")),
        ("remove", fs::remove_file(&status)),
        ("move the folder", fs::rename(&hidden, dir.join("out"))),
    ] {
        assert_eq!(errno(done), Some(EPERM), "{what}");
    }
    assert_eq!(fs::read(&file).expect("it is there"), b"here");
    assert!(!dir.join("out").exists());
    home.done(&["unmount", text(&dir)]);
}
