//! Owners that are killed while they reclaim, and next ones that reclaim before they do anything else: again and again, one drive.
//!
//! A few rounds belong to the usual run; `TENURE_KILL_ROUNDS` says how many more are wanted.

use crate::home::{Home, Server, pause, sync, text, until};
use rustix::process::{Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

const ROUNDS: u64 = 6;
const FILE_LEN: usize = 300_000;
/// Names of files: some are written anew in each round, and one is removed.
const NAMES: u64 = 8;
/// Forks and checkpoints that are kept.
const LINES: usize = 4;

fn rounds() -> u64 {
    let said = std::env::var("TENURE_KILL_ROUNDS").ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(ROUNDS)
}

fn bytes(seed: u64) -> Vec<u8> {
    let mut chance = Chance(seed | 1 << 40);
    let words = (0..FILE_LEN / 8).flat_map(|_| chance.next().to_le_bytes());
    words.collect()
}

struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// What each file of a branch or checkpoint holds.
type Files = BTreeMap<String, u64>;

struct Trial<'a> {
    home: &'a Home,
    /// Who serves the drive, if not whoever is first.
    server: Option<Server>,
    chance: Chance,
    main: Files,
    lines: BTreeMap<String, Files>,
}

impl Trial<'_> {
    fn with_server(&self, arguments: &[&str]) -> Vec<String> {
        let mut all: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        if let Some(server) = &self.server {
            all.extend(["--server".to_owned(), server.address.clone()]);
        }
        all
    }

    fn done(&self, arguments: &[&str]) -> String {
        let all = self.with_server(arguments);
        self.home
            .done(&all.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn mount(&self, what: &str, place: &str) -> PathBuf {
        let dir = self.home.folder.path().join(place);
        fs::create_dir_all(&dir).expect("a place to mount on");
        self.done(&["mount", what, text(&dir)]);
        dir
    }

    /// Writes, removes, forks and names; all of it is synced when it returns.
    fn change(&mut self, dir: &Path, round: u64) {
        for _ in 0..3 {
            let name = format!("file-{}", self.chance.below(NAMES));
            let seed = self.chance.below(1 << 30);
            fs::write(dir.join(&name), bytes(seed)).expect("there is room");
            sync(&dir.join(&name));
            self.main.insert(name, seed);
        }
        let gone = format!("file-{}", self.chance.below(NAMES));
        if self.main.remove(&gone).is_some() {
            fs::remove_file(dir.join(&gone)).expect("it is there");
        }
        sync(dir);
        let (name, verb) = if round.is_multiple_of(2) {
            (format!("fork-{round}"), "fork")
        } else {
            (format!("named-{round}"), "checkpoint")
        };
        if self.chance.below(3) == 0 {
            self.done(&[verb, "work", &name]);
            self.lines.insert(name, self.main.clone());
        }
        if self.lines.len() > LINES {
            let at = self.chance.below(self.lines.len() as u64) as usize;
            let name = self.lines.keys().nth(at).expect("there are as many").clone();
            self.done(&["branch", "delete", "work", &name, "--yes"]);
            self.lines.remove(&name);
        }
    }

    /// Begins to reclaim, and kills whoever owns the drive, who asked for it, or both.
    fn kill(&mut self, dir: &Path) {
        let arguments = self.with_server(&["reclaim", "work", "--full"]);
        let mut command = self.home.command(&[]);
        let mut asker: Child = command
            .args(&arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mount = self.home.process(dir);
        pause(Duration::from_millis(self.chance.below(100)));
        let (is_asker, is_owner) =
            [(true, false), (false, true), (true, true)][self.chance.below(3) as usize];
        if is_asker {
            asker.kill().expect("it is ours");
        }
        let mut is_mount = is_owner;
        if let Some(server) = self.server.take_if(|_| is_owner) {
            server.kill();
            self.server = Some(self.home.serve(&[]));
            // It goes on with the next server, or ends as well.
            is_mount = self.chance.below(2) == 0;
        }
        if is_mount {
            kill_process(mount, Signal::KILL).expect("it is there");
            self.home.take_away(dir);
        } else {
            self.home.done(&["unmount", text(dir)]);
        }
        asker.wait().expect("it is ours");
    }

    fn hold(&self, dir: &Path, files: &Files, what: &str) {
        let mut names: Vec<_> = fs::read_dir(dir)
            .expect("it is mounted")
            .map(|entry| {
                entry
                    .expect("it is read")
                    .file_name()
                    .into_string()
                    .expect("it is text")
            })
            .collect();
        names.sort_unstable();
        assert!(
            names.iter().eq(files.keys()),
            "{what}: {names:?}, and not {files:?}"
        );
        for (name, seed) in files {
            let found = fs::read(dir.join(name)).unwrap_or_else(|error| panic!("{what}: {name}: {error}"));
            assert!(found == bytes(*seed), "{what}: {name} holds something else");
        }
    }

    fn round(&mut self, round: u64) {
        let what = format!("round {round}");
        let dir = self.mount("work", "main");
        self.hold(&dir, &self.main, &what);
        self.change(&dir, round);
        self.kill(&dir);
        // Whoever asked for it may have ended alone.
        until("nobody reclaims it any more", || {
            let all = self.with_server(&["reclaim", "work", "--full"]);
            let output = self
                .home
                .tenure(&all.iter().map(String::as_str).collect::<Vec<_>>());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_done = output.status.success();
            assert!(
                is_done || said.contains("is being reclaimed just now"),
                "{what}: {said}"
            );
            is_done
        });
        let checked = self.done(&["check", "work", "--deep"]);
        assert!(checked.contains("is whole"), "{what}: {checked}");
        if (round + 1).is_multiple_of(8) {
            for (name, files) in &self.lines {
                let dir = self.mount(&format!("work@{name}"), "line");
                self.hold(&dir, files, &format!("{what}, {name}"));
                self.home.done(&["unmount", text(&dir)]);
            }
        }
    }
}

fn try_all(is_served: bool) {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "work"]);
    let mut trial = Trial {
        home: &home,
        server: is_served.then(|| home.serve(&[])),
        chance: Chance(rounds() + 77),
        main: Files::new(),
        lines: BTreeMap::new(),
    };
    for round in 0..rounds() {
        trial.round(round);
        if (round + 1).is_multiple_of(50) {
            println!("{} rounds", round + 1);
        }
    }
}

/// Guarantee 38: whoever is killed while a mount's own process reclaims, all that was synced is there, and nothing more is needed.
#[test]
fn a_mount_that_is_killed_while_it_reclaims_leaves_all_that_is_needed() {
    try_all(false);
}

/// Guarantee 38, of a drive that a server has.
#[test]
fn a_server_that_is_killed_while_it_reclaims_leaves_all_that_is_needed() {
    try_all(true);
}
