//! Processes that are killed while they work: the mount's, the server's, and both at once.

use crate::home::{Home, Server, text};
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    Mount,
    Server,
    Both,
}

/// Writes and syncs one file after the other until `stop` or until the mount is gone, and counts those that were
/// acknowledged.
fn write_on(dir: &Path, round: u32, stop: &AtomicBool, acknowledged: &AtomicU64) {
    for number in 0.. {
        let saved = File::create(dir.join(format!("file-{round}-{number}"))).and_then(|mut file| {
            file.write_all(content(round, number).as_bytes())?;
            file.sync_all()
        });
        if saved.is_err() || stop.load(Ordering::Relaxed) {
            return;
        }
        acknowledged.store(number + 1, Ordering::Relaxed);
    }
}

fn content(round: u32, number: u64) -> String {
    format!("{round} {number}\n").repeat(1 + number as usize % 700)
}

/// Lets a writer work, kills in the midst of it, and returns the mount and the server that there are afterwards.
fn kill_one(home: &Home, dir: PathBuf, server: Server, round: u32, killed: Killed) -> (PathBuf, Server, u64) {
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let count = || acknowledged.load(Ordering::Relaxed);
    let wait_for = |many: u64| {
        while count() < many {
            std::thread::yield_now()
        }
    };
    let process = home.process(&dir);
    let (dir, server) = std::thread::scope(|scope| {
        scope.spawn(|| write_on(&dir, round, &stop, &acknowledged));
        wait_for(50);
        if killed != Killed::Server {
            kill_process(process, Signal::KILL).expect("it is there");
        }
        let server = match killed {
            Killed::Mount => server,
            Killed::Server | Killed::Both => {
                server.kill();
                home.serve(&[])
            }
        };
        if killed == Killed::Server {
            // The mount goes on with the next server, and with it whoever writes.
            wait_for(count() + 50);
            stop.store(true, Ordering::Relaxed);
            return (dir.clone(), server);
        }
        home.take_away(&dir);
        (home.mount("work", "m", &["--server", &server.address]), server)
    });
    (dir, server, count())
}

/// Guarantees 1, 3: whoever is killed in the midst of it, everything that was acknowledged is there.
#[test]
fn what_was_synced_survives_a_killed_mount_a_killed_server_and_both() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "work"]);
    let mut server = home.serve(&[]);
    let mut dir = home.mount("work", "m", &["--server", &server.address]);
    let mut synced = Vec::new();
    for (round, killed) in (0..).zip([Killed::Mount, Killed::Server, Killed::Both, Killed::Server]) {
        let count;
        (dir, server, count) = kill_one(&home, dir, server, round, killed);
        synced.push(count);
        for (round, count) in (0..).zip(&synced) {
            for number in 0..*count {
                let found = fs::read_to_string(dir.join(format!("file-{round}-{number}")));
                assert_eq!(
                    found.expect("it was synced"),
                    content(round, number),
                    "after {killed:?}"
                );
            }
        }
    }
    home.done(&["unmount", text(&dir)]);
    assert!(
        home.done(&["check", "work", "--deep", "--server", &server.address])
            .contains("whole")
    );
}

/// Guarantees 1, 10: a drive that another process serves is not lost with its folder's lock: whoever comes next takes it, and its
/// branch at once.
#[test]
fn after_both_were_killed_the_drive_is_mounted_from_its_folder_alone() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "work"]);
    let server = home.serve(&[]);
    let dir = home.mount("work", "m", &["--server", &server.address]);
    fs::write(dir.join("file"), "synced").expect("there is room");
    crate::home::sync(&dir.join("file"));
    kill_process(home.process(&dir), Signal::KILL).expect("it is there");
    server.kill();
    home.take_away(&dir);
    let output = home.tenure(&["mount", "work", text(&dir)]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && !said.contains("waiting for"),
        "nobody holds it any more: {said}"
    );
    assert_eq!(
        fs::read_to_string(dir.join("file")).expect("it was synced"),
        "synced"
    );
    home.done(&["unmount", text(&dir)]);
}

/// A way to make a file of a name, and to sync it.
type Way<'a> = &'a dyn Fn(&str);

/// Starts a program that stores what a file is to hold in its mapped memory, and stays.
fn mapping(path: &Path, content: &str) -> Child {
    let program = "import mmap, sys, time\n\
                   f = open(sys.argv[1], 'r+b')\n\
                   f.truncate(len(sys.argv[2]))\n\
                   m = mmap.mmap(f.fileno(), 0)\n\
                   m[:] = sys.argv[2].encode()\n\
                   print('stored', flush=True)\n\
                   time.sleep(600)";
    let mut child = Command::new("python3")
        .args(["-c", program, text(path), content])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut line = String::new();
    let told = BufReader::new(child.stdout.as_mut().expect("it is piped")).read_line(&mut line);
    assert_eq!(told.expect("it answers"), "stored\n".len());
    child
}

/// Guarantee 1: every way to ask for it is a sync, and one of a file covers all names before it.
#[test]
fn every_kind_of_sync_survives_a_killed_process() {
    let Some(home) = Home::new() else { return };
    // Nothing becomes durable by itself in time.
    let dir = home.mount("work", "m", &["--create", "--lag", "60000"]);
    let made = |name: &str, flags: u32| {
        let mut options = File::options();
        options.create(true).write(true).custom_flags(flags as i32);
        let mut file = options.open(dir.join(name)).expect("there is room");
        file.write_all(name.as_bytes()).expect("there is room");
        file
    };
    let ways: [(&str, Way<'_>); 7] = [
        ("fsync", &|name| made(name, 0).sync_all().expect("it syncs")),
        ("fdatasync", &|name| made(name, 0).sync_data().expect("it syncs")),
        ("o_sync", &|name| {
            drop(made(name, rustix::fs::OFlags::SYNC.bits()))
        }),
        ("o_dsync", &|name| {
            drop(made(name, rustix::fs::OFlags::DSYNC.bits()))
        }),
        ("command", &|name| {
            made(name, 0);
            home.done(&["sync", text(&dir)]);
        }),
        ("root", &|name| {
            made(name, 0);
            crate::home::sync(&dir);
        }),
        ("mapped", &|name| {
            drop(made(name, 0).set_len(0));
            let mut program = mapping(&dir.join(name), name);
            home.done(&["sync", text(&dir)]);
            program.kill().expect("it is there");
            program.wait().expect("it ends");
        }),
    ];
    for (number, (name, way)) in ways.iter().enumerate() {
        if number > 0 {
            home.mount("work", "m", &["--lag", "60000"]);
        }
        fs::create_dir(dir.join(format!("before-{name}"))).expect("there is room");
        way(name);
        home.kill(&dir);
        home.mount("work", "m", &["--lag", "60000"]);
        assert_eq!(fs::read_to_string(dir.join(name)).expect("it was synced"), **name);
        assert!(
            dir.join(format!("before-{name}")).is_dir(),
            "names before it are there"
        );
        home.done(&["unmount", text(&dir)]);
    }
}

/// Guarantee 2: what nobody syncs is durable within the lag; until then `status` says what is not.
#[test]
fn what_nobody_syncs_is_durable_within_the_lag() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create", "--lag", "300"]);
    for round in 0..3 {
        fs::write(dir.join("file"), format!("round {round}")).expect("there is room");
        let status = home.status(&dir);
        assert_eq!(status["lag_max_ms"], 300);
        assert_ne!(
            (&status["unsynced"]["ops"], &status["unsynced"]["bytes"]),
            (&0.into(), &0.into()),
            "{status}"
        );
        crate::home::pause(std::time::Duration::from_millis(600));
        assert_eq!(home.status(&dir)["unsynced"]["ops"], 0);
        home.kill(&dir);
        home.mount("work", "m", &["--lag", "300"]);
        let found = fs::read_to_string(dir.join("file")).expect("the lag was over");
        assert_eq!(found, format!("round {round}"));
    }
    home.done(&["unmount", text(&dir)]);
}

/// Guarantee 10: who lost the branch while its server was away is told so by the next owner, wherever that answers, says
/// nothing more to be durable, and brings what was not.
#[test]
fn a_mount_that_lost_its_branch_while_its_server_was_away_is_told() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "work"]);
    let server = home.serve(&[]);
    let address = server.address.clone();
    let [dir, idle] = [("m", "work"), ("i", "work@idle")].map(|(name, what)| {
        if name == "i" {
            home.done(&["fork", "work", "idle", "--server", &address]);
        }
        home.mount(what, name, &["--server", &address, "--lag", "60000"])
    });
    fs::write(dir.join("synced"), "synced").expect("there is room");
    crate::home::sync(&dir.join("synced"));
    fs::write(dir.join("lost"), "lost").expect("it is staged");
    server.kill();
    // Each takes five seconds: a holder that nobody has heard of is waited for.
    let heir = home.mount("work", "n", &[]);
    let other = home.mount("work@idle", "o", &[]);
    let _server = home.serve(&[]);
    for dir in [&dir, &idle] {
        crate::home::until("it is told", || !home.status(dir)["lost"].is_null());
        let status = home.status(dir);
        assert!(
            status["trouble"].to_string().contains("another session"),
            "{status}"
        );
        let written = fs::write(dir.join("more"), "more").expect_err("nothing is accepted");
        assert_eq!(written.raw_os_error(), Some(116));
        let synced = File::open(dir).and_then(|dir| dir.sync_all());
        assert_eq!(synced.expect_err("nothing is durable").raw_os_error(), Some(116));
    }
    crate::home::until("what was not durable is saved", || {
        home.status(&dir)["lost"]
            .to_string()
            .contains("in the stray branch")
    });
    let said = home.done(&["unmount", text(&dir)]);
    let (_, stray) = said.split_once("tenure mount ").expect("it names the stray");
    let stray = home.mount(stray.split(' ').next().expect("it has a name"), "s", &[]);
    assert_eq!(
        fs::read_to_string(stray.join("lost")).expect("it was saved"),
        "lost"
    );
    home.done(&["unmount", text(&stray)]);
    // Who has lost nothing is let go.
    let said = home.done(&["unmount", text(&idle)]);
    assert!(
        said.contains("everything is durable") && said.contains("another session"),
        "{said}"
    );
    assert_eq!(
        fs::read_to_string(heir.join("synced")).expect("it was synced"),
        "synced"
    );
    home.done(&["unmount", text(&other)]);
    home.done(&["unmount", text(&heir)]);
}

/// Guarantee 2: the next mount says how much was not durable when the process ended: the first that succeeds, and of this branch
/// alone.
#[test]
fn what_a_killed_mount_had_not_made_durable_is_said_by_the_next_that_succeeds() {
    let Some(home) = Home::new() else { return };
    let mounted = |arguments: &[&str]| {
        let output = home.tenure(&[&["mount"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    };
    let dir = home.mount("work", "m", &["--create", "--lag", "60000"]);
    fs::write(dir.join("synced"), "synced").expect("there is room");
    home.done(&["sync", text(&dir)]);
    fs::create_dir(dir.join("d")).expect("there is room");
    for name in ["a", "b", "c"] {
        fs::write(dir.join("d").join(name), [7; 1000]).expect("there is room");
    }
    let pid = home.process(&dir);
    kill_process(pid, Signal::KILL).expect("it is there");
    crate::home::until("it is gone", || {
        fs::metadata(&dir).is_err_and(|error| error.raw_os_error() == Some(107))
    });

    let (succeeds, said) = mounted(&["work", text(&dir)]);
    assert!(!succeeds, "the dead mount is still there: {said}");
    home.done(&["unmount", text(&dir)]);
    let (succeeds, said) = mounted(&["work", text(&dir), "--lag", "60000"]);
    assert!(succeeds, "{said}");
    assert!(
        said.contains("4 changes of names") && said.contains("2.93 KiB"),
        "{said}"
    );
    home.done(&["unmount", text(&dir)]);
    let (succeeds, said) = mounted(&["work", text(&dir), "--lag", "60000"]);
    assert!(
        succeeds && !said.contains("not durable"),
        "it is said once: {said}"
    );

    fs::write(dir.join("more"), "more").expect("there is room");
    home.kill(&dir);
    fs::remove_dir_all(home.folder.path().join("data")).expect("it is there");
    let (succeeds, said) = mounted(&["work", text(&dir), "--create"]);
    assert!(
        succeeds && !said.contains("not durable"),
        "it is another drive: {said}"
    );
    home.done(&["unmount", text(&dir)]);
}

/// Guarantee 2: contents are counted until they are durable, wherever they are by then; who only looks is told as well, by whatever
/// name the bucket is reached, and nobody of a copy of it.
#[test]
fn what_a_killed_mount_had_not_made_durable_is_counted_to_the_end_and_is_its_buckets_alone() {
    let Some(home) = Home::new() else { return };
    let at = |name: &str| home.folder.path().join(name);
    let mounted = |arguments: &[&str]| {
        let output = home.tenure(&[&["mount", "work"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        home.done(&["unmount", arguments[0]]);
        said
    };
    let dir = home.mount("work", "m", &["--create", "--lag", "60000"]);
    // Much of it is in packs by then, and no record says so.
    fs::write(dir.join("large"), vec![7; 48 << 20]).expect("there is room");
    home.kill(&dir);
    let (bucket, copy, alias) = (at("data/tenure/bucket"), at("copy"), at("alias"));
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([&bucket, &copy])
        .status();
    assert!(copied.expect("cp is there").success());
    std::os::unix::fs::symlink(&bucket, &alias).expect("there is room");

    let said = mounted(&[text(&dir), "--bucket", text(&copy)]);
    assert!(!said.contains("not durable"), "it is another bucket: {said}");
    for _ in 0..2 {
        let said = mounted(&[text(&dir), "--read-only"]);
        assert!(said.contains("48.00 MiB"), "{said}");
    }
    let said = mounted(&[text(&dir), "--bucket", text(&alias)]);
    assert!(said.contains("48.00 MiB"), "{said}");
    let said = mounted(&[text(&dir)]);
    assert!(!said.contains("not durable"), "it is said once: {said}");
}
