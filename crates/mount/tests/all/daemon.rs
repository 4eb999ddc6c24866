//! A daemon in a process of its own: killed, and without root.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Lines, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Barrier};

use tempfile::TempDir;
use tenure_mount::kernel::{MountError, Options, Session, Transport, Unmount, unmount};

use crate::memory::{Memory, WAITS};
use crate::mounted::{has_fuse, mounts, transports};

/// Names the mount point to the process that is to serve it.
const SERVE: &str = "TENURE_TEST_SERVE";
/// Is set where that process is to use io_uring.
const BY_RING: &str = "TENURE_TEST_BY_RING";
/// The test that such a process runs.
const ARGUMENTS: [&str; 3] = [
    "--exact",
    "daemon::serves_the_directory_that_it_is_told_to",
    "--nocapture",
];

/// What the other processes of these tests run; in the tests' own process it has nothing to do.
#[test]
fn serves_the_directory_that_it_is_told_to() {
    let Some(dir) = std::env::var_os(SERVE) else {
        return;
    };
    let transport = if std::env::var_os(BY_RING).is_some() {
        Transport::Ring
    } else {
        Transport::Device
    };
    let options = Options {
        transport,
        ..Options::default()
    };
    match Session::mount(&options, Path::new(&dir), Arc::new(Memory::default())) {
        Ok(session) => {
            println!("\nmounted");
            // Whoever closes the input wants the daemon to unmount by itself.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            session.unmount(Unmount::Idle).unwrap();
            session.join();
            println!("\nunmounted");
        }
        Err(error) => println!("\nfailed: {error}"),
    }
}

fn start(command: &mut Command, dir: &Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    let command = command.args(ARGUMENTS).env(SERVE, dir).stdin(Stdio::piped());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

/// Returns the next line that says what became of the mount.
fn said(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let is_ours = |line: &String| {
        ["mounted", "unmounted", "failed"]
            .iter()
            .any(|word| line.starts_with(word))
    };
    lines.map(Result::unwrap).find(is_ours).unwrap_or_default()
}

/// A mount point from which a failed test takes what it left mounted.
struct Point(TempDir);

impl Drop for Point {
    fn drop(&mut self) {
        let _ = unmount(self.0.path(), Unmount::Force);
    }
}

#[test]
fn a_killed_daemon_leaves_enotconn_and_can_be_unmounted_and_mounted_again() {
    for transport in transports() {
        let point = Point(TempDir::new().unwrap());
        let dir = point.0.path();
        let mut command = Command::new(std::env::current_exe().unwrap());
        if transport == Transport::Ring {
            command.env(BY_RING, "1");
        }
        let (mut child, mut lines) = start(&mut command, dir);
        assert_eq!(said(&mut lines), "mounted");
        fs::write(dir.join("f"), b"x").unwrap();
        // One call waits in the daemon when that is killed.
        let mut waiting = Command::new("stat");
        waiting.arg(dir.join(WAITS)).stderr(Stdio::piped());
        let mut waiting = waiting.spawn().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(waiting.wait().unwrap().code(), Some(1));
        // Rings are taken down a moment after their process; calls made until then fail in other ways.
        let mut errors = std::iter::repeat_with(|| fs::read_dir(dir).unwrap_err().raw_os_error().unwrap());
        let error = errors.find(|error| ![libc::ECONNABORTED, libc::ECANCELED].contains(error));
        assert_eq!(error, Some(libc::ENOTCONN));
        let options = Options {
            transport,
            ..Options::default()
        };
        let again = Session::mount(&options, dir, Arc::new(Memory::default()));
        assert!(matches!(again, Err(MountError::Stale(_))), "{again:?}");
        unmount(dir, Unmount::Detach).unwrap();
        let session = Session::mount(&options, dir, Arc::new(Memory::default())).unwrap();
        session.unmount(Unmount::Detach).unwrap();
        session.join();
    }
}

/// Becomes a user without rights, in a view of the machine where everybody may open the device.
const AS_NOBODY: &str = "mknod fuse c 10 229 && chmod 666 fuse && mount --bind fuse /dev/fuse && \
                         exec setpriv --reuid=65534 --regid=65534 --clear-groups -- ./tests \"$@\"";

#[test]
fn a_user_who_is_not_root_mounts_with_fusermount3() {
    let found = Command::new("fusermount3")
        .arg("-V")
        .stdout(Stdio::null())
        .status()
        .is_ok();
    if !has_fuse() || !found || !rustix::process::geteuid().is_root() {
        println!("skipped: needs root, to become somebody else, and fusermount3");
        return;
    }
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(std::env::current_exe().unwrap(), dir.path().join("tests")).unwrap();
    let point = dir.path().join("point");
    fs::create_dir(&point).unwrap();
    std::os::unix::fs::chown(&point, Some(65534), Some(65534)).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", AS_NOBODY, "sh"])
        .current_dir(dir.path());
    let (mut child, mut lines) = start(&mut command, &point);
    assert_eq!(said(&mut lines), "mounted");
    let inside = format!("/proc/{}/root{}", child.id(), point.display());
    let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", child.id())).unwrap();
    assert!(mounts.contains(" - fuse.tenure tenure "), "{mounts}");
    assert_eq!(
        fs::read_dir(inside).unwrap_err().kind(),
        ErrorKind::PermissionDenied,
        "root is not its user"
    );
    drop(child.stdin.take());
    assert_eq!(said(&mut lines), "unmounted");
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_reasons_not_to_mount_say_what_to_do() {
    for mut mount in mounts() {
        let memory = mount.memory.clone();
        let refused = |path: &Path| {
            Session::mount(&Options::default(), path, memory.clone())
                .map(|_| ())
                .unwrap_err()
                .to_string()
        };
        assert!(refused(&mount.path("none")).contains("does not exist: make it"));
        fs::write(mount.path("file"), b"").unwrap();
        assert!(refused(&mount.path("file")).contains("is not a directory"));
        assert!(refused(mount.dir.path()).contains("unmount that first"));
        fs::create_dir_all(mount.path("full/inner")).unwrap();
        assert!(refused(&mount.path("full")).contains("is not empty"));
        mount.unmount();
    }
}

#[test]
fn of_two_who_mount_on_one_directory_at_once_one_is_refused() {
    if !has_fuse() {
        return;
    }
    for _ in 0..20 {
        let point = Point(TempDir::new().unwrap());
        let start = Barrier::new(2);
        let mount = || {
            start.wait();
            Session::mount(&Options::default(), point.0.path(), Arc::new(Memory::default()))
        };
        let (one, other) = std::thread::scope(|scope| {
            let (one, other) = (scope.spawn(mount), scope.spawn(mount));
            (one.join().unwrap(), other.join().unwrap())
        });
        let session = match (one, other) {
            (Ok(session), Err(MountError::Busy(_))) | (Err(MountError::Busy(_)), Ok(session)) => session,
            both => panic!("{both:?}"),
        };
        session.unmount(Unmount::Detach).unwrap();
        session.join();
    }
}
