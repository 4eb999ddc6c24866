//! Who holds a branch, and who has it next: holders that are killed, stopped, or robbed.
//!
//! How soon is told by the mounts themselves: one gives up two seconds after the lease of a silent holder should be over.

use crate::home::{Home, Server, Stopped, pause, sync, text, until};
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ESTALE: i32 = 116;

/// Options of a mount that ships nothing by itself in the time that a test takes.
const LAZY: [&str; 2] = ["--lag", "60000"];

/// Two machines and a server between them.
struct Net {
    home: Home,
    server: Server,
    tokens: [PathBuf; 2],
}

impl Net {
    fn new() -> Option<Self> {
        let home = Home::new()?;
        let tokens = ["ada", "bob"].map(|agent| home.token(agent, &[]));
        home.done(&["drive", "create", "work"]);
        let server = home.serve_at("127.0.0.1:0", &[]);
        Some(Net { home, server, tokens })
    }

    /// Returns the options of one of the machines.
    fn of(&self, machine: usize) -> [&str; 4] {
        [
            "--server",
            &self.server.address,
            "--token-file",
            text(&self.tokens[machine]),
        ]
    }

    /// Mounts on the second machine; returns where, and what was said meanwhile.
    fn second(&self, what: &str, name: &str, more: &[&str]) -> (PathBuf, String) {
        let dir = self.home.folder.path().join(name);
        fs::create_dir_all(&dir).expect("a place to mount on");
        let arguments = [&["mount", what, text(&dir)][..], &self.of(1), more].concat();
        let output = self.home.command_elsewhere(&arguments).output();
        let output = output.expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        (dir, said)
    }
}

fn save(dir: &Path, name: &str, contents: &str) {
    fs::write(dir.join(name), contents).expect("there is room");
    sync(&dir.join(name));
}

fn read(dir: &Path, name: &str) -> io::Result<String> {
    fs::read_to_string(dir.join(name))
}

fn errno<T>(outcome: io::Result<T>) -> Option<i32> {
    outcome.err().and_then(|error| error.raw_os_error())
}

/// Waits until a mount says that it has lost its branch and that all is saved, and returns what it says.
fn lost(home: &Home, dir: &Path) -> String {
    let mut said = String::new();
    until("the mount is told", || {
        said = home.status(dir)["lost"].as_str().unwrap_or_default().to_owned();
        said.contains("stray branch stray-main")
    });
    said
}

/// The words of the command that a lost mount names, with a place to mount on in it.
fn mount_command<'a>(said: &'a str, dir: &'a Path) -> Vec<&'a str> {
    let (_, command) = said.split_once("tenure ").expect("it names a command");
    command
        .split(' ')
        .map(|word| if word == "DIR" { text(dir) } else { word })
        .collect()
}

#[test]
fn the_branch_of_a_mount_that_was_killed_is_had_within_its_lease_with_everything_that_was_synced() {
    let Some(net) = Net::new() else { return };
    let home = &net.home;
    let dir = home.mount("work", "m", &[&net.of(0)[..], &LAZY].concat());
    for number in 0..20 {
        save(&dir, &format!("synced-{number}"), "synced");
    }
    fs::write(dir.join("unsynced"), "in memory alone").expect("there is room");
    kill_process(home.process(&dir), Signal::KILL).expect("it is there");
    let (next, said) = net.second("work", "n", &[]);
    assert!(said.contains("note: waiting for main, which ada on "), "{said}");
    for number in 0..20 {
        assert_eq!(
            read(&next, &format!("synced-{number}")).ok().as_deref(),
            Some("synced")
        );
    }
    save(&next, "next", "goes on");
    let lines = home.done(&[&["branch", "list", "work"][..], &net.of(1)].concat());
    assert!(
        !lines.contains("stray"),
        "nobody can bring what was in memory: {lines}"
    );
    home.take_away(&dir);
    home.done(&["unmount", text(&next)]);
    assert!(
        home.done(&[&["check", "work", "--deep"][..], &net.of(0)].concat())
            .contains("whole")
    );
}

/// On the machine on which it was killed that is known, though its server cannot know it.
#[test]
fn the_branch_of_a_mount_that_was_killed_is_had_at_once_on_its_machine() {
    let Some(net) = Net::new() else { return };
    let home = &net.home;
    let mounted = |dir: &Path| {
        let output = home.tenure(&[&["mount", "work", text(dir)][..], &net.of(0)].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let dir = home.mount("work", "m", &net.of(0));
    save(&dir, "synced", "synced");
    home.kill(&dir);
    let said = mounted(&dir);
    assert!(!said.contains("waiting for"), "{said}");
    assert_eq!(read(&dir, "synced").ok().as_deref(), Some("synced"));
    // One that is stopped may go on.
    let stopped = Stopped::new(home.process(&dir));
    let there = home.folder.path().join("n");
    fs::create_dir(&there).expect("there is room");
    let said = mounted(&there);
    assert!(said.contains("note: waiting for main"), "{said}");
    drop(stopped);
    home.done(&["unmount", text(&there)]);
    home.done(&["unmount", text(&dir)]);
}

#[test]
fn a_mount_that_was_stopped_for_too_long_is_told_and_what_it_had_not_synced_is_a_stray() {
    let Some(net) = Net::new() else { return };
    let home = &net.home;
    let dir = home.mount("work", "m", &[&net.of(0)[..], &LAZY].concat());
    save(&dir, "synced", "synced");
    fs::write(dir.join("unsynced"), vec![7; 300_000]).expect("there is room");
    fs::write(dir.join("synced"), "changed").expect("there is room");
    let open = File::options()
        .write(true)
        .open(dir.join("synced"))
        .expect("it is there");
    let stopped = Stopped::new(home.process(&dir));
    let (next, _) = net.second("work", "n", &[]);
    save(&next, "synced", "of the next");
    drop(stopped);
    let said = lost(home, &dir);
    assert_eq!(errno(open.sync_all()), Some(ESTALE));
    assert_eq!(errno(fs::write(dir.join("new"), "late")), Some(ESTALE));
    assert_eq!(errno(fs::write(dir.join("synced"), "late")), Some(ESTALE));
    assert!(!home.tenure(&["sync", text(&dir)]).status.success());
    drop(open);
    home.done(&["unmount", text(&dir)]);

    let lines = home.done(&[&["branch", "list", "work", "--json"][..], &net.of(0)].concat());
    let lines: serde_json::Value = serde_json::from_str(&lines).expect("it is JSON");
    let strays = lines
        .as_array()
        .expect("it is a list")
        .iter()
        .filter(|line| line["kind"] == "stray");
    let stray = strays
        .map(|line| line["name"].as_str().expect("it has a name"))
        .collect::<Vec<_>>();
    let [stray] = stray[..] else {
        panic!("there is one stray: {lines}")
    };
    home.done(&mount_command(&said, &dir));
    assert_eq!(read(&dir, "synced").ok().as_deref(), Some("changed"));
    assert_eq!(
        fs::read(dir.join("unsynced")).expect("it was saved"),
        vec![7; 300_000]
    );
    assert_eq!(fs::read_dir(&dir).expect("it is a directory").count(), 2);
    home.done(&["unmount", text(&dir)]);
    home.done(&[&["fork", &format!("work@{stray}"), "reviewed"][..], &net.of(0)].concat());
    home.done(&[&["branch", "delete", "work", stray][..], &net.of(0)].concat());

    assert_eq!(read(&next, "synced").ok().as_deref(), Some("of the next"));
    assert_eq!(
        read(&next, "unsynced").map_err(|error| error.kind()),
        Err(io::ErrorKind::NotFound)
    );
    home.done(&["unmount", text(&next)]);
    assert!(
        home.done(&[&["check", "work", "--deep"][..], &net.of(0)].concat())
            .contains("whole")
    );
}

/// It was the owner's end that made the mount's connection end, and nobody waits for the mount as for one that was cut off.
#[test]
fn an_owner_that_dies_just_before_the_mount_changes_nothing() {
    let Some(net) = Net::new() else { return };
    let (home, address) = (&net.home, net.server.address.clone());
    let dir = home.mount("work", "m", &net.of(0));
    save(&dir, "synced", "synced");
    let process = home.process(&dir);
    let Net { home, server, tokens } = net;
    server.kill();
    pause(Duration::from_millis(50));
    kill_process(process, Signal::KILL).expect("it is there");
    let net = Net {
        server: home.serve_at(&address, &[]),
        home,
        tokens,
    };
    let (next, _) = net.second("work", "n", &[]);
    assert_eq!(read(&next, "synced").ok().as_deref(), Some("synced"));
    net.home.take_away(&dir);
    net.home.done(&["unmount", text(&next)]);
}

#[test]
fn a_branch_that_is_held_is_refused_with_who_holds_it_until_when_and_can_be_taken() {
    let Some(net) = Net::new() else { return };
    let home = &net.home;
    let dir = home.mount("work", "m", &[&net.of(0)[..], &LAZY].concat());
    save(&dir, "synced", "synced");
    fs::write(dir.join("unsynced"), "soon a stray").expect("there is room");
    let there = home.folder.path().join("n");
    fs::create_dir(&there).expect("there is room");
    let mount = [&["mount", "work", text(&there)][..], &net.of(1)].concat();
    let refused = home.refused(&mount);
    for words in [
        "ada on ",
        text(&dir),
        "until ",
        "unless it says something",
        "--take",
        "--wait",
    ] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    let refused = home.refused(&[&mount[..], &["--wait", "2s"]].concat());
    assert!(refused.contains("note: waiting for main"), "{refused}");
    let lent = home.done(&[&["delegations", "work"][..], &net.of(1)].concat());
    assert!(lent.contains("main") && lent.contains("ada on "), "{lent}");
    let (next, said) = net.second("work", "n", &["--take"]);
    assert!(said.contains("main was taken from ada on "), "{said}");
    let lent = home.done(&[&["delegations", "work", "--json"][..], &net.of(1)].concat());
    let lent: serde_json::Value = serde_json::from_str(&lent).expect("it is JSON");
    assert!(
        lent[0]["holder"]
            .as_str()
            .is_some_and(|holder| holder.starts_with("bob on ")),
        "{lent}"
    );
    assert_eq!(lent[0]["lease_ms"], 5250);
    assert_eq!(read(&next, "synced").ok().as_deref(), Some("synced"));
    let said = lost(home, &dir);
    home.done(&["unmount", text(&dir)]);
    home.done(&mount_command(&said, &dir));
    assert_eq!(read(&dir, "unsynced").ok().as_deref(), Some("soon a stray"));
    home.done(&["unmount", text(&dir)]);
    home.done(&["unmount", text(&next)]);
    let lent = home.done(&[&["delegations", "work"][..], &net.of(1)].concat());
    assert_eq!(lent, "nothing of work is lent\n");
}

/// Who has nothing to lose is not kept by that, whether its mount has heard of it or not.
#[test]
fn a_mount_with_nothing_to_lose_is_unmounted_right_after_its_branch_was_taken() {
    let Some(net) = Net::new() else { return };
    let home = &net.home;
    for round in 0..3 {
        let dir = home.mount("work", "m", &[&net.of(0)[..], &LAZY].concat());
        save(&dir, "file", &format!("round {round}"));
        let (next, _) = net.second("work", "n", &["--take"]);
        home.done(&["unmount", text(&dir)]);
        home.done(&["unmount", text(&next)]);
    }
}

/// Also of a mount that owns its drive itself, and then serves who has taken the branch.
#[test]
fn a_branch_can_be_taken_from_the_process_that_owns_the_drive() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "m", &[&["--create"][..], &LAZY].concat());
    save(&dir, "synced", "synced");
    fs::write(dir.join("unsynced"), "soon a stray").expect("there is room");
    let there = home.folder.path().join("n");
    fs::create_dir(&there).expect("there is room");
    let refused = home.refused(&["mount", "work", text(&there)]);
    assert!(refused.contains("until its process ends"), "{refused}");
    let next = home.mount("work", "n", &["--take"]);
    let said = lost(&home, &dir);
    assert_eq!(errno(fs::write(dir.join("new"), "late")), Some(ESTALE));
    assert_eq!(read(&next, "synced").ok().as_deref(), Some("synced"));
    let stray = home.folder.path().join("stray");
    fs::create_dir(&stray).expect("there is room");
    home.done(&mount_command(&said, &stray));
    assert_eq!(read(&stray, "unsynced").ok().as_deref(), Some("soon a stray"));
    for dir in [&stray, &next, &dir] {
        home.done(&["unmount", text(dir)]);
    }
    assert!(home.done(&["check", "work", "--deep"]).contains("whole"));
}
