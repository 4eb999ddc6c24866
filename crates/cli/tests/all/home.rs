//! What the tests over real mounts stand on: a home of their own, the program as a person starts it, and a small disk.
//!
//! They need the right to mount (root and `/dev/fuse`); without it they say so and end.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A machine's home: a bucket, logs and sockets, and places to mount on.
pub(crate) struct Home {
    pub(crate) folder: tempfile::TempDir,
}

impl Home {
    /// Returns an empty home, or none where nothing can be mounted.
    pub(crate) fn new() -> Option<Self> {
        let can_mount = rustix::process::geteuid().is_root()
            && File::options().read(true).write(true).open("/dev/fuse").is_ok();
        if !can_mount {
            println!("skipped: mounting takes root and /dev/fuse");
            return None;
        }
        Some(Home::unmounted())
    }

    /// Returns an empty home in which nothing is mounted.
    pub(crate) fn unmounted() -> Self {
        Home {
            folder: tempfile::tempdir().expect("a scratch folder"),
        }
    }

    pub(crate) fn tenure(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program starts")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        self.with_folders(command.args(arguments));
        command
    }

    /// As `command`, of somebody who knows nothing of what this home's mounts have noted: on another machine.
    pub(crate) fn command_elsewhere(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        for folder in ["STATE_HOME", "RUNTIME_DIR"] {
            let elsewhere = self.folder.path().join("elsewhere").join(folder);
            command.env(format!("XDG_{folder}"), elsewhere);
        }
        command
    }

    /// Lets a command have its files here.
    pub(crate) fn with_folders<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let at = |name: &str| self.folder.path().join(name);
        command
            .env("XDG_CACHE_HOME", at("cache"))
            .env("XDG_DATA_HOME", at("data"))
            .env("XDG_STATE_HOME", at("state"))
            .env("XDG_RUNTIME_DIR", at("run"))
    }

    /// Starts `tenure serve` for the home's bucket, and returns once it listens.
    pub(crate) fn serve(&self, more: &[&str]) -> Server {
        let address = format!("unix:{}", text(&self.folder.path().join("socket")));
        let mut child = self
            .command(&["serve", "--listen", &address])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut said = String::new();
        let out = child.stdout.take().expect("it is piped");
        let heard = std::io::BufReader::new(out).read_line(&mut said);
        assert!(heard.is_ok() && said.contains("serving"), "{said}");
        Server {
            child,
            address,
            fingerprint: String::new(),
        }
    }

    /// Starts `tenure serve` at a port, for those who have a token of this home, and returns once it listens.
    pub(crate) fn serve_at(&self, address: &str, more: &[&str]) -> Server {
        let mut child = self
            .command(&[
                "serve",
                "--listen",
                address,
                "--tokens",
                text(&self.tokens()),
                "--json",
            ])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let out = child.stdout.take().expect("it is piped");
        let lines = std::io::BufReader::new(out).lines().map_while(Result::ok);
        let mut said = String::new();
        for line in lines {
            said.push_str(&line);
            if line == "}" {
                break;
            }
        }
        let said: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Server {
            child,
            address: word(&said["addresses"][0]),
            fingerprint: word(&said["fingerprint"]),
        }
    }

    /// Returns the file of those who may come in by the network.
    pub(crate) fn tokens(&self) -> PathBuf {
        self.folder.path().join("tokens")
    }

    /// Lets an agent come in by the network, and returns the file with his token.
    pub(crate) fn token(&self, agent: &str, more: &[&str]) -> PathBuf {
        let tokens = self.tokens();
        let new = ["token", "new", agent, "--add-to", text(&tokens)];
        let token = self.done(&[&new, more].concat());
        self.secret(&format!("{agent}.token"), &token)
    }

    /// Writes a file that nobody else can read.
    pub(crate) fn secret(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, contents).expect("there is room");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        path
    }

    /// Returns the process of a mount.
    pub(crate) fn process(&self, dir: &Path) -> Pid {
        let pid = self.status(dir)["pid"].as_i64();
        pid.and_then(|pid| Pid::from_raw(pid as i32))
            .expect("it has a process")
    }

    /// Runs a command that must succeed, and returns what it printed.
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let output = self.tenure(arguments);
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "tenure {arguments:?}: {out}{err}");
        out.into_owned()
    }

    /// Runs a command that must be refused, and returns why.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let output = self.tenure(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "tenure {arguments:?}: {text}");
        text
    }

    pub(crate) fn mount(&self, what: &str, name: &str, more: &[&str]) -> PathBuf {
        let dir = self.folder.path().join(name);
        fs::create_dir_all(&dir).expect("a place to mount on");
        let mut arguments = vec!["mount", what, text(&dir)];
        arguments.extend(more);
        self.done(&arguments);
        dir
    }

    pub(crate) fn status(&self, dir: &Path) -> Value {
        serde_json::from_slice(&fs::read(dir.join(".tenure/status")).expect("a mount answers"))
            .expect("it is JSON")
    }

    /// Kills the process of a mount and takes the dead mount away.
    pub(crate) fn kill(&self, dir: &Path) {
        kill_process(self.process(dir), Signal::KILL).expect("it is there");
        self.take_away(dir);
    }

    /// Waits until nobody serves a mount any more, and takes it away.
    pub(crate) fn take_away(&self, dir: &Path) {
        // What was asked before the end is answered ECONNABORTED; from then on nobody is connected.
        while fs::metadata(dir).err().and_then(|error| error.raw_os_error()) != Some(107) {
            std::thread::yield_now();
        }
        self.done(&["unmount", text(dir)]);
    }
}

impl Drop for Home {
    /// Leaves no mount behind when a test fails.
    fn drop(&mut self) {
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        let dirs = mounts
            .split(|&byte| byte == b'\n')
            .filter_map(|line| line.split(|&byte| byte == b' ').nth(4));
        for dir in dirs.map(OsStr::from_bytes) {
            if Path::new(dir).starts_with(self.folder.path()) {
                let _ = self.command(&["unmount", "--detach"]).arg(dir).output();
            }
        }
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("scratch paths are text")
}

pub(crate) fn sync(path: &Path) {
    File::open(path)
        .expect("it is there")
        .sync_all()
        .expect("it can be synced");
}

/// A `tenure serve`; it ends with this.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    /// Of its certificate, where it has one.
    pub(crate) fingerprint: String,
}

impl Server {
    pub(crate) fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Kills it at once.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it is there");
        self.child.wait().expect("it is ours");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended needs no end.
        let _ = kill_process(self.process(), Signal::CONT);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that is stopped, until this goes.
pub(crate) struct Stopped(Pid);

impl Stopped {
    /// Stops a process.
    pub(crate) fn new(pid: Pid) -> Self {
        kill_process(pid, Signal::STOP).expect("it is there");
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It may have been killed meanwhile.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// A small ext4 of its own, to be filled and to be forbidden.
pub(crate) struct Disk {
    pub(crate) at: PathBuf,
}

impl Disk {
    /// Makes one of so many MiB in a home and mounts it.
    pub(crate) fn new(home: &Home, mib: u64) -> Self {
        let (image, at) = (home.folder.path().join("image"), home.folder.path().join("disk"));
        File::create(&image)
            .and_then(|file| file.set_len(mib << 20))
            .expect("there is room");
        fs::create_dir(&at).expect("there is room");
        run("mkfs.ext4", &["-q", "-F", text(&image)]);
        run("mount", &["-o", "loop", text(&image), text(&at)]);
        Disk { at }
    }

    /// Returns how many bytes are free.
    pub(crate) fn free(&self) -> u64 {
        let stat = rustix::fs::statvfs(&self.at).expect("it is mounted");
        stat.f_bfree * stat.f_frsize
    }

    /// Returns where a bucket lies on it.
    pub(crate) fn bucket(&self) -> PathBuf {
        self.at.join("bucket")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", text(&self.at)]).status();
    }
}

/// Runs a program of the system that must succeed.
pub(crate) fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "{program} {arguments:?}: {status:?}"
    );
}

/// Asks again and again until it is so; a minute is far more than it takes.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if is_so() {
            return;
        }
        pause(Duration::from_millis(50));
    }
    panic!("it never comes to this: {what}");
}

/// Lets time pass: what is tested is what happens meanwhile.
pub(crate) fn pause(time: Duration) {
    let (_keep, nothing) = std::sync::mpsc::channel::<()>();
    let _ = nothing.recv_timeout(time);
}
