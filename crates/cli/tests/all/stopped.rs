//! Processes that stop for a while, as a laptop or a virtual machine does: everything goes on afterwards, nothing that was
//! synced is lost, and whoever waits meanwhile can be ended.

use crate::home::{Disk, Home, Server, Stopped, pause, run, sync, text, until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long processes are stopped: half a second, or so many as `TENURE_STOP_SECONDS` says.
fn stop_time() -> Duration {
    let seconds = std::env::var("TENURE_STOP_SECONDS").ok();
    let seconds = seconds.and_then(|text| text.parse().ok());
    seconds.map_or(Duration::from_millis(500), Duration::from_secs)
}

/// A program that waits for a mount that does not answer.
struct Caller(Child);

impl Caller {
    fn begin(script: &str, dir: &Path) -> Self {
        let child = Command::new("sh").args(["-c", script, text(dir)]).spawn();
        Caller(child.expect("sh is there"))
    }

    fn start(script: &str, dir: &Path) -> Self {
        let caller = Caller::begin(script, dir);
        pause(Duration::from_millis(100));
        caller
    }

    /// A signal ends it at once, although nothing answers.
    fn ends_by(mut self, signal: Signal) {
        assert!(self.0.try_wait().expect("it is ours").is_none(), "it waits");
        // To the group of nobody else: the shell has replaced itself by the program that waits.
        kill_process(Pid::from_child(&self.0), signal).expect("it is there");
        until("a signal ends who waits", || {
            self.0.try_wait().expect("it is ours").is_some()
        });
    }

    fn succeeds(mut self) {
        assert!(self.0.wait().expect("it is ours").success());
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

/// Waits for what must come within a second.
fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..20 {
        if is_so() {
            return;
        }
        pause(Duration::from_millis(50));
    }
    panic!("not within a second: {what}");
}

/// Writes and syncs, so that something is acknowledged; returns nothing when it cannot.
fn save(dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(name), text).expect("there is room");
    sync(&dir.join(name));
}

fn holds(dir: &Path, name: &str, text: &str) {
    assert_eq!(fs::read_to_string(dir.join(name)).expect("it was synced"), text);
}

/// Guarantees 1, 14: the process of a mount is stopped; callers wait, can be ended, or go on when it goes on.
#[test]
fn a_mount_whose_process_was_stopped_goes_on_and_its_callers_can_be_ended() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    save(&dir, "before", "synced");
    let mut open = File::create(dir.join("open")).expect("there is room");
    let stopped = Stopped::new(home.process(&dir));
    let interrupted = Caller::start("exec stat \"$0/unknown-1\"", &dir);
    let killed = Caller::start(
        "exec dd if=/dev/zero of=\"$0/unknown-2\" bs=1 count=1 status=none",
        &dir,
    );
    let patient = Caller::start("echo later >\"$0/later\" && sync \"$0/later\"", &dir);
    pause(stop_time());
    interrupted.ends_by(Signal::INT);
    killed.ends_by(Signal::KILL);
    drop(stopped);
    patient.succeeds();
    open.write_all(b"still open").expect("it goes on");
    open.sync_all().expect("it goes on");
    home.kill(&dir);
    let dir = home.mount("work", "m", &[]);
    holds(&dir, "before", "synced");
    holds(&dir, "later", "later\n");
    holds(&dir, "open", "still open");
    home.done(&["unmount", text(&dir)]);
    assert!(home.done(&["check", "work", "--deep"]).contains("whole"));
}

/// Guarantees 1, 14: the server is stopped; its mounts answer what they have, syncs wait, can be ended, or are true.
#[test]
fn mounts_of_a_server_that_was_stopped_go_on_and_their_callers_can_be_ended() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "work"]);
    let server = home.serve(&[]);
    let dir = home.mount("work", "m", &["--server", &server.address]);
    save(&dir, "before", "synced");
    let stopped = Stopped::new(server.process());
    fs::write(dir.join("meanwhile"), "written").expect("the branch is lent whole");
    holds(&dir, "before", "synced");
    let interrupted = Caller::start("exec sync \"$0/meanwhile\"", &dir);
    let killed = Caller::start("exec sync \"$0/meanwhile\"", &dir);
    let patient = Caller::start("exec sync \"$0/meanwhile\"", &dir);
    pause(stop_time());
    interrupted.ends_by(Signal::INT);
    killed.ends_by(Signal::KILL);
    drop(stopped);
    patient.succeeds();
    save(&dir, "after", "synced too");
    let pid = home.process(&dir);
    kill_process(pid, Signal::KILL).expect("it is there");
    home.take_away(&dir);
    server.kill();
    let dir = home.mount("work", "m", &[]);
    for (name, text) in [
        ("before", "synced"),
        ("meanwhile", "written"),
        ("after", "synced too"),
    ] {
        holds(&dir, name, text);
    }
    home.done(&["unmount", text(&dir)]);
    assert!(home.done(&["check", "work", "--deep"]).contains("whole"));
}

/// Mounts a tree of 300 directories with a file each, of which the mount has read nothing, from a server.
fn cold(home: &Home, options: &[&str]) -> (Server, PathBuf) {
    let dir = home.mount("work", "m", &["--create"]);
    for number in 0..300 {
        let below = dir.join(format!("d-{number}"));
        fs::create_dir(&below).expect("there is room");
        fs::write(below.join("file"), vec![number as u8; 5000]).expect("there is room");
    }
    home.done(&["unmount", text(&dir)]);
    let server = home.serve(&[]);
    let all = [&["--server", &server.address], options].concat();
    let dir = home.mount("work", "m", &all);
    (server, dir)
}

/// What only a stopped server has is waited for, and comes when it goes on; names for ten seconds, so these are stopped for less.
#[test]
fn readers_who_wait_for_a_stopped_server_go_on_with_it() {
    let Some(home) = Home::new() else { return };
    let (server, dir) = cold(&home, &[]);
    let stopped = Stopped::new(server.process());
    let callers: Vec<_> = (0..6)
        .map(|number| {
            Caller::start(
                &format!("exec cat \"$0/d-{}/file\" >/dev/null", number * 40),
                &dir,
            )
        })
        .collect();
    pause(stop_time().min(Duration::from_secs(5)));
    drop(stopped);
    callers.into_iter().for_each(Caller::succeeds);
    assert_eq!(fs::read(dir.join("d-7/file")).expect("it goes on"), vec![7; 5000]);
    home.done(&["unmount", text(&dir)]);
}

/// Guarantee 14: who waits for what only a stopped server has is ended by a signal at once, however many they are and
/// whichever way requests come, and all that the mount has itself goes on.
#[test]
fn who_waits_for_what_a_stopped_server_has_can_be_ended_and_keeps_nobody_out() {
    for options in [&[][..], &["--transport", "ring"]] {
        let Some(home) = Home::new() else { return };
        let (server, dir) = cold(&home, options);
        fs::create_dir(dir.join("own")).expect("there is room");
        fs::write(dir.join("own/file"), "here").expect("there is room");
        let stopped = Stopped::new(server.process());
        let mut callers: Vec<_> = (0..60)
            .map(|number| {
                let script = match number % 3 {
                    0 => format!("exec cat \"$0/d-{}/file\" >/dev/null", number * 4),
                    1 => format!("exec ls -l \"$0/d-{}\" >/dev/null", number * 4),
                    _ => format!("exec stat \"$0/d-{}/none\" 2>/dev/null", number * 4),
                };
                Caller::begin(&script, &dir)
            })
            .collect();
        pause(stop_time().min(Duration::from_secs(5)));
        let mut others = Caller::begin(
            "cat \"$0/own/file\" && echo more >\"$0/own/new\" && ls \"$0/own\"",
            &dir,
        );
        soon("what the mount has goes on", || {
            others.0.try_wait().expect("it is ours").is_some()
        });
        // Where two ask for neighbours of what the mount has, they are answered.
        callers.retain_mut(|caller| caller.0.try_wait().expect("it is ours").is_none());
        assert!(callers.len() > 40, "only {} wait", callers.len());
        for (caller, signal) in callers
            .iter()
            .zip([Signal::KILL, Signal::TERM].into_iter().cycle())
        {
            kill_process(Pid::from_child(&caller.0), signal).expect("it is there");
        }
        soon("signals end all who wait", || {
            callers
                .iter_mut()
                .all(|caller| caller.0.try_wait().expect("it is ours").is_some())
        });
        assert!(
            !home.status(&dir)["trouble"].is_null(),
            "the status is told meanwhile"
        );
        drop(stopped);
        assert_eq!(fs::read(dir.join("d-8/file")).expect("it goes on"), vec![8; 5000]);
        holds(&dir, "own/new", "more\n");
        home.done(&["unmount", text(&dir)]);
    }
}

/// Tells whether Linux holds a process where no signal ends it (proc_pid_stat(5)).
fn is_held(caller: &Caller) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", caller.0.id())).unwrap_or_default();
    stat.contains(") D ")
}

/// Guarantee 14: who waits for a name of which only a stopped server knows whether it is there has a directory's lock; it is
/// given up, and so nobody is held fast behind it for long; how the mount is can be asked all the while, also behind a sync.
#[test]
fn who_waits_for_a_name_of_a_stopped_server_holds_nobody_fast_for_long() {
    let Some(home) = Home::new() else { return };
    let (server, dir) = cold(&home, &[]);
    let stopped = Stopped::new(server.process());
    let syncs = home
        .command(&["sync", text(&dir)])
        .spawn()
        .map(Caller)
        .expect("it starts");
    let waits = |script: &str| Caller::start(script, &dir);
    let creates = waits("exec dd if=/dev/zero of=\"$0/new\" bs=1 count=1 status=none 2>/dev/null");
    let mut all = vec![creates];
    all.extend((0..4).map(|number| waits(&format!("exec stat \"$0/d-{}\" 2>/dev/null >&2", number * 60))));
    assert!(home.done(&["status", text(&dir)]).contains("does not answer"));
    until("nobody waits for a name", || {
        all.iter_mut()
            .all(|caller| caller.0.try_wait().expect("it is ours").is_some())
    });
    assert!(!is_held(&syncs));
    let late = fs::metadata(dir.join("d-170/none")).expect_err("nobody knows");
    assert_eq!(late.raw_os_error(), Some(110), "no longer waited for: {late}");
    drop(stopped);
    syncs.succeeds();
    until("all is well", || fs::metadata(dir.join("d-170/file")).is_ok());
    fs::write(dir.join("new"), "new").expect("it goes on");
    home.done(&["unmount", text(&dir)]);
}

/// Guarantee 14: who asks how much is free, or how the mount is, waits for a stopped server no longer than a while, and
/// keeps nobody out for longer.
#[test]
fn what_a_mount_asks_a_stopped_server_for_people_is_given_up_soon() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "work"]);
    let server = home.serve(&[]);
    let dir = home.mount("work", "m", &["--server", &server.address]);
    save(&dir, "file", "synced");
    let stopped = Stopped::new(server.process());
    let mut callers: Vec<_> = (0..2)
        .map(|_| Caller::start("exec stat -f \"$0\" 2>/dev/null", &dir))
        .collect();
    for caller in &mut callers {
        until("it is given up", || {
            caller.0.try_wait().expect("it is ours").is_some()
        });
    }
    holds(&dir, "file", "synced");
    let status = home.status(&dir);
    assert!(!status["trouble"].is_null(), "{status}");
    drop(stopped);
    Caller::start("exec stat -f \"$0\" >/dev/null", &dir).succeeds();
    until("all is well", || home.status(&dir)["trouble"].is_null());
    home.done(&["unmount", text(&dir)]);
}

/// A disk that takes no writes until this is dropped.
struct Frozen(PathBuf);

impl Frozen {
    fn new(at: &Path) -> Self {
        run("fsfreeze", &["-f", text(at)]);
        Frozen(at.to_owned())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        run("fsfreeze", &["-u", text(&self.0)]);
    }
}

/// Guarantees 1, 14: a sync that waits for the disk keeps nobody else from the mount, and is true when it returns.
#[test]
fn a_disk_that_stopped_keeps_only_those_who_sync() {
    let Some(home) = Home::new() else { return };
    let disk = Disk::new(&home, 96);
    let dir = home.mount(
        "work",
        "m",
        &["--create", "--lag", "60000", "--bucket", text(&disk.bucket())],
    );
    let (ready, is_ready) = channel();
    let (go, wait) = channel::<()>();
    let syncs = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (dir, syncs) = (&dir, &syncs);
        let caller = scope.spawn(move || {
            // Nobody else calls: what it syncs is made durable by the thread that hears of it.
            (0..20).for_each(|number| save(dir, &format!("before-{number}"), "synced"));
            fs::write(dir.join("during"), "synced").expect("there is room");
            let file = File::open(dir.join("during")).expect("it is there");
            let thread = rustix::thread::gettid().as_raw_nonzero();
            ready.send(thread).expect("somebody listens");
            wait.recv().expect("somebody speaks");
            syncs.store(true, Ordering::Release);
            file.sync_all().expect("the disk goes on");
        });
        let thread = is_ready.recv().expect("it comes so far");
        let frozen = Frozen::new(&disk.at);
        go.send(()).expect("it listens");
        until("the caller sleeps in its sync", || {
            let is_there = syncs.load(Ordering::Acquire);
            let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
            is_there && stat.is_ok_and(|stat| stat.contains(") S ") || stat.contains(") D "))
        });
        let mut other = Caller::begin("echo other >\"$0/other\" && grep -q other \"$0/other\"", dir);
        soon("another goes on", || {
            other.0.try_wait().expect("it is ours").is_some()
        });
        assert!(!caller.is_finished());
        drop(frozen);
        other.succeeds();
    });
    home.kill(&dir);
    let dir = home.mount("work", "m", &["--bucket", text(&disk.bucket())]);
    holds(&dir, "during", "synced");
    home.done(&["unmount", text(&dir)]);
}

/// Returns how many processes there are that serve a mount of a directory or open it.
fn opening(dir: &Path) -> usize {
    let processes = fs::read_dir("/proc").expect("it is mounted").flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let begins = [b"mount\0--daemon\0", text(dir).as_bytes(), b"\0"].concat();
    lines
        .filter(|line| line.windows(begins.len()).any(|part| part == begins))
        .count()
}

/// A mount that nobody waits for any more is not opened: the process that would stay ends with the command.
#[test]
fn a_mount_whose_command_is_killed_while_it_opens_leaves_no_process() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    home.done(&["fork", "work", "attempt"]);
    let place = home.folder.path().join("attempt");
    fs::create_dir(&place).expect("there is room");
    let stopped = Stopped::new(home.process(&dir));
    let command = home.command(&["mount", "work@attempt", text(&place)]).spawn();
    let mut command = command.expect("the program starts");
    until("the process that is to stay is there", || opening(&place) == 1);
    // It has begun to wait for the owner that is stopped.
    pause(Duration::from_millis(500));
    command.kill().expect("it is ours");
    command.wait().expect("it is ours");
    soon("nobody opens it any more", || opening(&place) == 0);
    drop(stopped);
    home.done(&["unmount", text(&dir)]);
}

/// Whenever a command that mounts is killed, the directory is mounted and answers, or nothing is mounted on it: nowhere is a mount
/// left whose process has ended.
#[test]
fn a_mount_whose_command_is_killed_at_any_moment_answers_or_is_gone() {
    const STEP: Duration = Duration::from_millis(6);
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &["--create"]);
    home.done(&["unmount", text(&dir)]);
    for round in 0..25 {
        let command = home.command(&["mount", "work", text(&dir)]).spawn();
        let mut command = command.expect("the program starts");
        pause(STEP * round);
        command.kill().expect("it is ours");
        command.wait().expect("it is ours");
        until("it has come or gone", || {
            let is_gone = opening(&dir) == 0;
            let unmounted = home.tenure(&["unmount", text(&dir)]);
            let said = String::from_utf8_lossy(&unmounted.stdout);
            assert!(
                !said.contains("had ended before"),
                "after {:?}: {said}",
                STEP * round
            );
            is_gone || unmounted.status.success()
        });
    }
}
