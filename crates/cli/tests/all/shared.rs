//! Two mounts of one shared branch, in two processes: what one does the other sees, and neither undoes what the other has done.

use crate::home::{Home, Server, Stopped, pause, run, sync, text, until};
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::Duration;

/// A home with a drive, its server, and two mounts that share a branch of it.
struct Pair {
    home: Home,
    server: Option<Server>,
    one: PathBuf,
    other: PathBuf,
}

impl Pair {
    fn new() -> Option<Self> {
        let home = Home::new()?;
        home.done(&["drive", "create", "work"]);
        let server = home.serve(&[]);
        let at = ["--shared", "--server", server.address.as_str()];
        let (one, other) = (home.mount("work", "one", &at), home.mount("work", "other", &at));
        Some(Pair {
            home,
            server: Some(server),
            one,
            other,
        })
    }

    fn address(&self) -> &str {
        &self.server.as_ref().expect("it serves").address
    }

    /// Ends the server at once and starts the next.
    fn lose_server(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
        self.server = Some(self.home.serve(&[]));
    }

    fn end(&self) {
        for dir in [&self.one, &self.other] {
            self.home.done(&["unmount", text(dir)]);
        }
        let faults = self
            .home
            .done(&["check", "work", "--deep", "--server", self.address()]);
        assert!(!faults.contains("wrong"), "{faults}");
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("it is listed");
    let mut names: Vec<_> = entries
        .map(|entry| {
            entry
                .expect("it is listed")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// Guarantee 22: nothing of a mount's is old.
#[test]
fn what_one_mount_of_a_shared_branch_does_the_other_sees_at_once() {
    let Some(pair) = Pair::new() else { return };
    let dirs = [&pair.one, &pair.other];
    for round in 0..20 {
        let (here, there) = (dirs[round % 2], dirs[(round + 1) % 2]);
        let (file, moved) = (format!("f{round}"), format!("m{round}"));
        assert!(!there.join(&file).exists(), "the other has looked before");
        fs::write(here.join(&file), "first").expect("there is room");
        assert_eq!(
            fs::read_to_string(there.join(&file)).expect("it is there"),
            "first"
        );
        let open = File::open(there.join(&file)).expect("it is there");
        fs::write(here.join(&file), "second, and longer").expect("there is room");
        let mut seen = [0; 64];
        let len = open.read_at(&mut seen, 0).expect("it is open");
        assert_eq!(
            &seen[..len],
            b"second, and longer",
            "an open file is read as it is now"
        );
        assert_eq!(open.metadata().expect("it is open").len(), 18);
        fs::set_permissions(here.join(&file), fs::Permissions::from_mode(0o600)).expect("it is ours");
        let mode = fs::metadata(there.join(&file)).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::rename(here.join(&file), here.join(&moved)).expect("it is there");
        assert!(!there.join(&file).exists() && there.join(&moved).exists());
        assert_eq!(names(there), [moved.as_str()]);
        let ino = |dir: &Path| fs::metadata(dir.join(&moved)).expect("it is there").ino();
        assert_eq!(ino(here), ino(there));
        fs::create_dir(there.join(&file)).expect("the name is free");
        fs::write(here.join(&file).join("below"), [7; 300_000]).expect("the other has made it");
        assert_eq!(
            fs::read(there.join(&file).join("below")).expect("it is there"),
            [7; 300_000]
        );
        fs::remove_dir_all(here.join(&file)).expect("it is there");
        fs::remove_file(there.join(&moved)).expect("it is there");
        assert_eq!(names(here), [""; 0]);
    }
    pair.end();
}

/// Guarantee 23: what two append to one file is all there, each write whole.
#[test]
fn what_two_mounts_append_to_one_file_is_all_there() {
    let Some(pair) = Pair::new() else { return };
    fs::write(pair.one.join("log"), "").expect("there is room");
    let append = |dir: &Path, who: &str| {
        let path = dir.join("log");
        let mut log = File::options().append(true).open(path).expect("it is there");
        for number in 0..200 {
            let line = format!("{who}{number}\n");
            log.write_all(line.as_bytes()).expect("there is room");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| append(&pair.one, "a"));
        scope.spawn(|| append(&pair.other, "b"));
    });
    let log = fs::read_to_string(pair.other.join("log")).expect("it is there");
    for who in ["a", "b"] {
        let lines: Vec<_> = log.lines().filter(|line| line.starts_with(who)).collect();
        let expected: Vec<_> = (0..200).map(|number| format!("{who}{number}")).collect();
        assert_eq!(lines, expected);
    }
    pair.end();
}

/// Guarantee 23: a name that two make at once is made by one.
#[test]
fn a_name_that_two_mounts_make_at_once_is_made_by_one() {
    let Some(pair) = Pair::new() else { return };
    let begin = Barrier::new(2);
    let race = |dir: &Path| {
        let mut won = Vec::new();
        for round in 0..100 {
            begin.wait();
            let name = dir.join(format!("n{round}"));
            won.push(match round % 2 {
                0 => File::options().write(true).create_new(true).open(name).is_ok(),
                _ => fs::create_dir(name).is_ok(),
            });
        }
        won
    };
    let (one, other) = std::thread::scope(|scope| {
        let (one, other) = (scope.spawn(|| race(&pair.one)), scope.spawn(|| race(&pair.other)));
        (one.join().expect("it ends"), other.join().expect("it ends"))
    });
    assert!(one.iter().zip(&other).all(|(one, other)| one != other));
    // Without O_EXCL both have the one file.
    let both = |dir: &Path| {
        for round in 0..100 {
            begin.wait();
            let name = dir.join(format!("both{round}"));
            File::options()
                .append(true)
                .create(true)
                .open(name)
                .and_then(|mut file| file.write_all(b"x"))
                .expect("whoever is first");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| both(&pair.one));
        scope.spawn(|| both(&pair.other));
    });
    for round in 0..100 {
        let file = pair.one.join(format!("both{round}"));
        assert_eq!(fs::metadata(file).expect("it is there").len(), 2);
    }
    pair.end();
}

/// Guarantee 24: a file that has no name any more is there for whoever has it open, on either mount.
#[test]
fn a_file_that_one_mount_removes_stays_for_who_has_it_open_on_the_other() {
    let Some(pair) = Pair::new() else { return };
    fs::write(pair.one.join("file"), "still there").expect("there is room");
    let mut open = File::options()
        .read(true)
        .write(true)
        .open(pair.other.join("file"))
        .expect("it is there");
    fs::remove_file(pair.one.join("file")).expect("it is there");
    let mut text = String::new();
    open.read_to_string(&mut text).expect("it is open");
    assert_eq!(text, "still there");
    open.write_all(b", and written").expect("it is open");
    open.seek(SeekFrom::Start(0)).expect("it is a file");
    text.clear();
    open.read_to_string(&mut text).expect("it is open");
    assert_eq!(text, "still there, and written");
    assert!(!pair.other.join("file").exists());
    drop(open);
    until("nobody has it open, and it is gone", || {
        pair.home.status(&pair.one)["inodes"] == 1
    });
    pair.end();
}

/// Guarantee 25: locks of both kinds hold between mounts, are told apart, and end with their holder.
#[test]
fn locks_hold_between_mounts_and_end_with_a_killed_one() {
    let Some(pair) = Pair::new() else { return };
    fs::write(pair.one.join("lock"), "x").expect("there is room");
    let open = |dir: &Path| {
        let file = File::options().read(true).write(true).open(dir.join("lock"));
        file.expect("it is there")
    };
    let (one, other) = (open(&pair.one), open(&pair.other));
    let now = FlockOperation::NonBlockingLockExclusive;
    flock(&one, now).expect("it is free");
    assert_eq!(flock(&other, now), Err(Errno::AGAIN));
    fcntl_lock(&other, now).expect("the two kinds do not see each other");
    assert_eq!(fcntl_lock(&one, now), Err(Errno::AGAIN));
    fcntl_lock(&other, FlockOperation::Unlock).expect("it is ours");
    fcntl_lock(&one, now).expect("it was given back");
    drop(open(&pair.one));
    fcntl_lock(&other, now).expect("a close of the file by its process gives it back");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| flock(&other, FlockOperation::LockExclusive));
        flock(&one, FlockOperation::Unlock).expect("it is ours");
        waits.join().expect("it ends").expect("it was given back");
    });
    // A holder whose process is killed holds nothing.
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| flock(&one, FlockOperation::LockExclusive));
        pair.home.kill(&pair.other);
        waits.join().expect("it ends").expect("the holder is gone");
    });
    fs::write(pair.one.join("after"), "it goes on").expect("there is room");
    drop((one, other));
    pair.home.done(&["unmount", text(&pair.one)]);
}

/// Guarantee 25: who waits for a lock can be ended, and has none then.
#[test]
fn who_waits_for_a_lock_of_another_mount_can_be_ended() {
    let Some(pair) = Pair::new() else { return };
    fs::write(pair.one.join("lock"), "x").expect("there is room");
    let holder = File::open(pair.one.join("lock")).expect("it is there");
    flock(&holder, FlockOperation::LockExclusive).expect("it is free");
    let lock = pair.other.join("lock");
    let mut waits = std::process::Command::new("flock")
        .args([text(&lock), "true"])
        .spawn()
        .expect("util-linux has it");
    until("it waits for the lock", || {
        let stack = fs::read_to_string(format!("/proc/{}/wchan", waits.id())).unwrap_or_default();
        stack.contains("fuse") || stack.contains("request_wait")
    });
    let pid = rustix::process::Pid::from_child(&waits);
    kill_process(pid, Signal::TERM).expect("it is there");
    assert!(!waits.wait().expect("it ends").success());
    drop(holder);
    run("flock", &["--nonblock", text(&lock), "true"]);
    pair.end();
}

/// Guarantee 26: the server is killed and started again: both mounts go on, with all that they were told.
#[test]
fn mounts_of_a_shared_branch_go_on_at_the_next_server_with_all_that_they_did() {
    let Some(mut pair) = Pair::new() else { return };
    for round in 0..3 {
        let dir = format!("d{round}");
        fs::create_dir(pair.one.join(&dir)).expect("there is room");
        let held = File::create(pair.one.join(&dir).join("held")).expect("there is room");
        flock(&held, FlockOperation::NonBlockingLockExclusive).expect("it is free");
        for number in 0..50 {
            let (here, there) = match number % 2 {
                0 => (&pair.one, &pair.other),
                _ => (&pair.other, &pair.one),
            };
            let path = Path::new(&dir).join(format!("f{number}"));
            fs::write(here.join(&path), format!("{number}")).expect("there is room");
            fs::rename(there.join(&path), there.join(&dir).join(format!("g{number}"))).expect("it is there");
        }
        if round == 1 {
            sync(&pair.other.join(&dir).join("g1"));
        }
        pair.lose_server();
        for number in 0..50 {
            let path = Path::new(&dir).join(format!("g{number}"));
            for mount in [&pair.one, &pair.other] {
                let text = fs::read_to_string(mount.join(&path)).expect("it was done before");
                assert_eq!(text, format!("{number}"));
            }
        }
        assert_eq!(names(&pair.other.join(&dir)).len(), 51);
        let locked = File::open(pair.other.join(&dir).join("held")).expect("it is there");
        let taken = flock(&locked, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(taken, Err(Errno::AGAIN), "its holder has gone on");
    }
    pair.end();
}

/// Guarantee 26: a mount that is killed or stopped takes nothing along that was synced, and nobody with it.
#[test]
fn a_mount_beside_a_killed_and_beside_a_stopped_one_goes_on() {
    let Some(pair) = Pair::new() else { return };
    // Where two have worked just now nothing is lent to either.
    fs::write(pair.one.join("first"), "of the one").expect("there is room");
    fs::write(pair.other.join("synced"), "of the other").expect("there is room");
    sync(&pair.other.join("synced"));
    let stopped = Stopped::new(pair.home.process(&pair.other));
    fs::write(pair.one.join("meanwhile"), "of the one").expect("nobody is asked");
    fs::rename(pair.one.join("synced"), pair.one.join("moved")).expect("nobody is asked");
    drop(stopped);
    assert_eq!(names(&pair.other), ["first", "meanwhile", "moved"]);
    pair.home.kill(&pair.other);
    fs::write(pair.one.join("after"), "it goes on").expect("there is room");
    assert_eq!(names(&pair.one), ["after", "first", "meanwhile", "moved"]);
    let at = ["--shared", "--server", pair.address()];
    let again = pair.home.mount("work", "other", &at);
    assert_eq!(
        fs::read_to_string(again.join("moved")).expect("it was synced"),
        "of the other"
    );
    pair.end();
}

/// Guarantee 26: nobody waits for a mount that does nothing, and it goes on at the next server.
#[test]
fn a_mount_that_does_nothing_when_its_server_is_lost_is_missed_by_nobody() {
    let Some(mut pair) = Pair::new() else { return };
    fs::write(pair.one.join("before"), "of the one").expect("there is room");
    assert_eq!(names(&pair.other), ["before"]);
    pair.lose_server();
    for round in 0..20 {
        fs::write(pair.one.join(format!("f{round:02}")), "x").expect("the next server answers");
        pause(Duration::from_millis(300));
    }
    assert_eq!(names(&pair.other).len(), 21);
    fs::write(pair.other.join("after"), "it goes on").expect("it goes on");
    pair.end();
}

/// Guarantees 14, 25: whose process is stopped for longer than a lease loses its locks once another wants them, and is told.
#[test]
fn a_mount_that_was_stopped_for_too_long_has_no_lock_any_more_and_is_told() {
    let Some(pair) = Pair::new() else { return };
    fs::write(pair.other.join("file"), "of the other").expect("there is room");
    sync(&pair.other.join("file"));
    let held = File::options()
        .append(true)
        .open(pair.other.join("file"))
        .expect("it is there");
    flock(&held, FlockOperation::NonBlockingLockExclusive).expect("it is free");
    // Once it is stopped, who looks into what is lent to it waits for its lease to end.
    let wanted = File::open(pair.one.join("file")).expect("it is there");
    let stopped = Stopped::new(pair.home.process(&pair.other));
    let is_had = || flock(&wanted, FlockOperation::NonBlockingLockExclusive).is_ok();
    assert!(!is_had(), "its holder was heard just now");
    until("the lock of a silent holder is had", is_had);
    fs::write(pair.one.join("file"), "of the one").expect("nobody is asked");
    drop(stopped);
    let stale = |outcome: std::io::Result<()>| {
        let error = outcome.expect_err("it is over");
        assert_eq!(error.raw_os_error(), Some(Errno::STALE.raw_os_error()));
    };
    stale((&held).write_all(b"late"));
    stale(held.sync_all());
    stale(fs::write(pair.other.join("new"), "late"));
    until("the mount says so", || {
        pair.home.status(&pair.other)["lost"].is_string()
    });
    let text_of = fs::read_to_string(pair.one.join("file")).expect("it is there");
    assert_eq!(text_of, "of the one");
    assert_eq!(names(&pair.one), ["file"]);
    drop((held, wanted));
    pair.end();
}

/// Guarantee 26: a mount that is stopped loses what is lent to it when another needs that, and what it had not synced is kept.
#[test]
fn a_mount_that_was_stopped_while_it_had_a_directory_is_told_and_others_have_it() {
    let Some(pair) = Pair::new() else { return };
    fs::write(pair.other.join("synced"), "of the other").expect("there is room");
    sync(&pair.other.join("synced"));
    fs::write(pair.other.join("unsynced"), "late").expect("there is room");
    let stopped = Stopped::new(pair.home.process(&pair.other));
    fs::write(pair.one.join("meanwhile"), "of the one").expect("the other is waited for, and loses it");
    drop(stopped);
    let is_told = || {
        fs::read_dir(&pair.other)
            .is_err_and(|error| error.raw_os_error() == Some(Errno::STALE.raw_os_error()))
    };
    until("the stopped mount is told", is_told);
    let kept = names(&pair.one);
    assert!(
        kept.starts_with(&["meanwhile".to_owned(), "synced".to_owned()]),
        "{kept:?}"
    );
    pair.home.done(&["unmount", text(&pair.other)]);
    if kept.len() == 2 {
        let lines = pair
            .home
            .done(&["branch", "list", "work", "--server", pair.address()]);
        assert!(lines.contains("stray-main"), "{lines}");
    }
    let at = ["--shared", "--server", pair.address()];
    pair.home.mount("work", "other", &at);
    pair.end();
}

/// A mount that has lost its session counts as lost what nobody else knows of, and not what the owner has in order.
#[test]
fn a_lost_mount_counts_nothing_as_lost_that_the_owner_knows() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "work"]);
    let server = home.serve(&[]);
    let at = ["--shared", "--lag", "60000", "--server", server.address.as_str()];
    let (one, other) = (home.mount("work", "one", &at), home.mount("work", "other", &at));
    for dir in ["a", "b"] {
        fs::create_dir(other.join(dir)).expect("there is room");
    }
    fs::write(other.join("a/file"), "of the other").expect("there is room");
    sync(&other);
    // From one directory to another it is the owner that moves it, and nobody syncs that.
    fs::rename(other.join("a/file"), other.join("b/file")).expect("it is there");
    assert_eq!(names(&one.join("b")), ["file"]);
    assert_ne!(home.status(&other)["unsynced"]["ops"], 0);
    let stopped = Stopped::new(home.process(&other));
    fs::write(one.join("b/meanwhile"), "of the one").expect("the other is waited for, and loses it");
    fs::write(one.join("a/meanwhile"), "of the one").expect("the other is waited for, and loses it");
    drop(stopped);
    until("the mount says so", || home.status(&other)["lost"].is_string());
    let status = home.status(&other);
    assert_eq!(status["unsynced"]["ops"], 0, "{status}");
    assert_eq!(names(&one.join("b")), ["file", "meanwhile"]);
    for dir in [&one, &other] {
        home.done(&["unmount", text(dir)]);
    }
}

/// Guarantees 22 and 23: what each does where it works alone the other sees, and changes in turn.
#[test]
fn two_mounts_that_work_in_each_others_directories_in_turn_see_all_that_was_done() {
    let Some(pair) = Pair::new() else { return };
    let dirs = [&pair.one, &pair.other];
    for round in 0..2 {
        let work = |at: usize| {
            let dir = dirs[at].join(format!("d{}", (at + round) % 2));
            fs::create_dir_all(dir.join(format!("below{round}"))).expect("there is room");
            for number in 0..100 {
                let file = dir.join(format!("below{round}")).join(format!("f{number}"));
                fs::write(&file, format!("{at} {number}")).expect("there is room");
                fs::rename(&file, dir.join(format!("r{round}-{number}"))).expect("it is there");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| work(0));
            scope.spawn(|| work(1));
        });
        let lent = pair
            .home
            .done(&["delegations", "work", "--json", "--server", pair.address()]);
        let lent: serde_json::Value = serde_json::from_str(&lent).expect("it is JSON");
        let count = |at: usize| lent[at]["directories"].as_u64().expect("it is a number");
        assert!(count(0) + count(1) > 0, "{lent}");
        for (at, here) in dirs.iter().enumerate() {
            let by = (at + 1) % 2;
            let dir = here.join(format!("d{}", (by + round) % 2));
            for number in 0..100 {
                let text = fs::read_to_string(dir.join(format!("r{round}-{number}")))
                    .expect("the other has made it");
                assert_eq!(text, format!("{by} {number}"));
            }
        }
    }
    for here in dirs {
        assert_eq!(names(here), ["d0", "d1"]);
    }
    fs::remove_dir_all(pair.one.join("d1")).expect("it is there");
    fs::remove_dir_all(pair.other.join("d0")).expect("it is there");
    assert_eq!((names(&pair.one), names(&pair.other)), (vec![], vec![]));
    pair.end();
}

/// Guarantee 10: a branch is had whole by one, or shared by all who say so.
#[test]
fn a_branch_is_mounted_whole_or_shared() {
    let Some(pair) = Pair::new() else { return };
    let third = pair.home.folder.path().join("third");
    fs::create_dir(&third).expect("there is room");
    let at = ["--server", pair.address()];
    let whole = [&["mount", "work", text(&third)], &at[..]].concat();
    let refused = pair.home.refused(&whole);
    for words in [text(&pair.one), text(&pair.other), "--shared"] {
        assert!(refused.contains(words), "{refused}");
    }
    assert!(
        pair.home.status(&pair.one)["delegation"]
            .as_str()
            .is_some_and(|held| held.contains("shared"))
    );
    for dir in [&pair.one, &pair.other] {
        pair.home.done(&["unmount", text(dir)]);
    }
    pair.home.done(&whole);
    let shared = [&["mount", "work", text(&pair.one), "--shared"], &at[..]].concat();
    let refused = pair.home.refused(&shared);
    assert!(refused.contains(text(&third)), "{refused}");
    pair.home.done(&["unmount", text(&third)]);
}

/// Guarantee 22, over the network, and where the process of the first mount hosts the drive for the second.
#[test]
fn a_branch_is_shared_over_the_network_and_without_a_server() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "work"]);
    let token = home.token("ada", &[]);
    let server = home.serve_at("127.0.0.1:0", &[]);
    let at = [
        "--shared",
        "--server",
        &server.address,
        "--token-file",
        text(&token),
    ];
    let (one, other) = (home.mount("work", "one", &at), home.mount("work", "other", &at));
    fs::write(one.join("file"), [3; 100_000]).expect("there is room");
    assert_eq!(fs::read(other.join("file")).expect("it is there"), [3; 100_000]);
    for dir in [&one, &other] {
        home.done(&["unmount", text(dir)]);
    }
    drop(server);
    let (one, other) = (
        home.mount("work", "one", &["--shared"]),
        home.mount("work", "other", &["--shared"]),
    );
    fs::write(other.join("second"), "seen").expect("there is room");
    assert_eq!(names(&one), ["file", "second"]);
    // Its host ends; the other goes on by itself.
    home.done(&["unmount", text(&one)]);
    fs::write(other.join("third"), "alone").expect("there is room");
    assert_eq!(names(&other), ["file", "second", "third"]);
    home.done(&["unmount", text(&other)]);
}
