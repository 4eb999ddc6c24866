//! Branches that become another state while they are mounted: what is open stays open, what is read is what they are, and nothing that
//! was synced is lost.

use crate::home::{Home, pause, sync, text, until};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn read(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn write(dir: &Path, name: &str, bytes: &str) {
    fs::write(dir.join(name), bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("it can be listed");
    let mut names: Vec<_> = entries
        .map(|entry| {
            entry
                .expect("it can be listed")
                .file_name()
                .into_string()
                .expect("it is text")
        })
        .collect();
    names.sort();
    names
}

fn json(home: &Home, arguments: &[&str]) -> Value {
    serde_json::from_str(&home.done(&[arguments, &["--json"]].concat())).expect("it is JSON")
}

/// A program that has a file mapped into its memory, and says what it sees there.
struct Mapping(Child);

impl Mapping {
    fn of(path: &Path) -> Self {
        let program = "import mmap, sys\n\
                       f = open(sys.argv[1], 'rb')\n\
                       m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n\
                       for line in sys.stdin: print(m[:int(line)].decode(), flush=True)";
        let child = Command::new("python3")
            .args(["-c", program, text(path)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Mapping(child.expect("python3 is there"))
    }

    /// Returns the first bytes of the file as the program sees them.
    fn text(&mut self, len: usize) -> String {
        let (ask, answer) = (self.0.stdin.as_mut(), self.0.stdout.as_mut());
        writeln!(ask.expect("it is piped"), "{len}").expect("it listens");
        let mut line = vec![0; len + 1];
        let answered = answer.expect("it is piped").read_exact(&mut line);
        answered.expect("it answers");
        String::from_utf8(line[..len].to_vec()).expect("it is text")
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that has files of a mount open, as an editor has.
struct Editor {
    changed: File,
    removed: File,
    mapped: Mapping,
    inode: u64,
}

/// Goes back to a checkpoint under an editor, and looks at what that sees.
fn goes_back_under_an_editor(home: &Home, place: &[&str]) {
    let dir = home.mount("work", "main", place);
    write(&dir, "changed", "before");
    fs::create_dir(dir.join("src")).expect("there is room");
    write(&dir, "src/gone", "back again");
    sync(&dir);
    home.done(&[&["checkpoint", "work", "good"], place].concat());
    write(&dir, "changed", "after, and longer");
    write(&dir, "removed", "only here");
    fs::remove_file(dir.join("src/gone")).expect("it is there");
    write(&dir, "unsynced", "nobody has synced it");
    let changed = File::options()
        .read(true)
        .write(true)
        .open(dir.join("changed"))
        .expect("it is there");
    let mut editor = Editor {
        mapped: Mapping::of(&dir.join("changed")),
        inode: changed.metadata().expect("it is there").ino(),
        changed,
        removed: File::options()
            .read(true)
            .write(true)
            .open(dir.join("removed"))
            .expect("it is there"),
    };
    assert_eq!(editor.mapped.text(5), "after");
    let mut listing = fs::read_dir(&dir).expect("it can be listed");
    listing.next();
    // What the kernel remembers of what is there, and of what is not.
    assert_eq!(names(&dir), ["changed", "removed", "src", "unsynced"]);
    assert!(fs::metadata(dir.join("src/gone")).is_err());

    let before = json(home, &[&["undo", "work", "--to", "good"], place].concat())["before"].clone();
    let before = before.as_str().expect("it is named");
    assert_eq!(names(&dir), ["changed", "src"]);
    assert_eq!(read(&dir, "src/gone"), "back again");
    assert_eq!(read(&dir, "changed"), "before");
    let mut said = String::new();
    let mut open = &editor.changed;
    open.seek(SeekFrom::Start(0)).expect("it can be sought");
    open.read_to_string(&mut said).expect("it can be read");
    assert_eq!(said, "before", "who has it open sees what it is");
    assert_eq!(editor.mapped.text(6), "before", "and so does who has mapped it");
    let metadata = editor.changed.metadata().expect("it is there");
    assert_eq!((metadata.ino(), metadata.len()), (editor.inode, 6));
    // What is gone and open is a file without a name.
    let mut bytes = [0; 9];
    editor.removed.read_exact_at(&mut bytes, 0).expect("it stays");
    assert_eq!(&bytes, b"only here");
    editor
        .removed
        .write_all_at(b"ONLY", 0)
        .expect("it can be written");
    assert_eq!(editor.removed.metadata().expect("it stays").nlink(), 0);
    assert!(listing.by_ref().all(|entry| entry.is_ok()), "a listing goes on");
    drop(listing);
    // The program goes on.
    editor
        .changed
        .write_all_at(b"BEFORE", 0)
        .expect("it can be written");
    editor.changed.sync_all().expect("it can be synced");
    assert_eq!(read(&dir, "changed"), "BEFORE");
    write(&dir, "src/new", "made later");
    drop(editor);
    sync(&dir);
    // What was there before is, too, and all that was not synced.
    home.done(&[&["undo", "work", "--to", before], place].concat());
    assert_eq!(names(&dir), ["changed", "removed", "src", "unsynced"]);
    assert_eq!(read(&dir, "unsynced"), "nobody has synced it");
    assert_eq!(read(&dir, "changed"), "after, and longer");
    assert_eq!(read(&dir, "removed"), "only here");
    home.done(&["unmount", text(&dir)]);
    let dir = home.mount("work", "main", place);
    assert_eq!(names(&dir), ["changed", "removed", "src", "unsynced"]);
    assert_eq!(read(&dir, "changed"), "after, and longer");
    home.done(&["unmount", text(&dir)]);
    let found = home.done(&[&["check", "work", "--deep"], place].concat());
    assert!(!found.contains("wrong"), "{found}");
}

#[test]
fn a_mounted_branch_goes_back_under_an_editor() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "work"]);
    goes_back_under_an_editor(&home, &[]);
}

#[test]
fn a_branch_that_is_mounted_through_a_server_goes_back_under_an_editor() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "work"]);
    let server = home.serve(&[]);
    let address = server.address.clone();
    goes_back_under_an_editor(&home, &["--server", &address]);
}

#[test]
fn a_branch_that_is_mounted_over_the_network_goes_back_under_an_editor() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "work"]);
    let token = home.token("ada", &[]);
    let server = home.serve_at("127.0.0.1:0", &[]);
    let address = server.address.clone();
    goes_back_under_an_editor(&home, &["--server", &address, "--token-file", text(&token)]);
}

/// Writes and syncs files until it is told to end; counts what was acknowledged, and returns it in its order.
fn sync_all_the_time(dir: &Path, is_over: &AtomicBool, count: &AtomicUsize) -> Vec<String> {
    let mut done = Vec::new();
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("synced-{number}");
        let file = File::create(dir.join(&name));
        let written = file.and_then(|mut file| {
            file.write_all(name.as_bytes())?;
            file.sync_all()
        });
        match written {
            Ok(()) => {
                done.push(name);
                count.store(done.len(), Ordering::SeqCst);
            }
            // Its directory may be gone for a moment, and be there again.
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{name}: {error}"),
        }
    }
    done
}

#[test]
fn what_is_synced_during_fifty_merges_is_all_there() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "main", &["--create"]);
    write(&dir, "both", "base\n");
    sync(&dir);
    home.done(&["fork", "work", "attempt"]);
    let attempt = home.mount("work@attempt", "attempt", &[]);
    let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let done = std::thread::scope(|scope| {
        let writer = scope.spawn(|| sync_all_the_time(&dir, &is_over, &count));
        for number in 0..50 {
            write(&attempt, &format!("merged-{number}"), &format!("{number}"));
            write(&attempt, "both", &format!("base\n{number}\n"));
            sync(&attempt);
            let told = json(&home, &["merge", "work@attempt", "main"]);
            assert_eq!(
                (&told["done"], &told["conflicts"]),
                (&true.into(), &0.into()),
                "{told}"
            );
            assert_eq!(read(&dir, &format!("merged-{number}")), number.to_string());
            assert_eq!(read(&dir, "both"), format!("base\n{number}\n"));
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().expect("it writes")
    });
    assert!(done.len() > 50, "it has gone on: {}", done.len());
    let hold = |dir: &Path| {
        for name in &done {
            assert_eq!(&read(dir, name), name);
        }
        assert_eq!(read(dir, "merged-49"), "49");
    };
    hold(&dir);
    home.kill(&dir);
    hold(&home.mount("work", "main", &[]));
}

/// The kernel still believes the old size when a program appends through a handle that it has had open all the while.
#[test]
fn who_appends_while_a_branch_becomes_another_state_appends_behind_what_has_come() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "main", &["--create"]);
    write(&dir, "app.log", "start\n");
    write(&dir, "taken", "start\n");
    sync(&dir);
    home.done(&["fork", "work", "attempt"]);
    let open = |name| {
        let file = File::options().append(true).open(dir.join(name));
        file.expect("it is there")
    };
    let (mut log, mut taken) = (open("app.log"), open("taken"));
    log.write_all(b"ours 1\n").expect("it is written");
    let attempt = home.mount("work@attempt", "attempt", &[]);
    write(&attempt, "app.log", "start\ntheirs\n");
    write(&attempt, "taken", &"theirs\n".repeat(2000));
    write(&attempt, ".tenureattributes", "*.log merge=union\n");
    sync(&attempt);
    sync(&dir);
    home.done(&["checkpoint", "work", "before"]);
    home.done(&["merge", "work@attempt", "main"]);
    log.write_all(b"ours 2\n").expect("it is written");
    taken.write_all(b"ours\n").expect("it is written");
    taken.write_all(b"again\n").expect("it is written");
    let lines: Vec<_> = read(&dir, "app.log").lines().map(str::to_owned).collect();
    for line in ["start", "ours 1", "theirs", "ours 2"] {
        assert_eq!(
            lines.iter().filter(|found| *found == line).count(),
            1,
            "{lines:?}"
        );
    }
    assert_eq!(
        read(&dir, "taken"),
        format!("{}ours\nagain\n", "theirs\n".repeat(2000))
    );
    home.done(&["undo", "work", "--to", "before"]);
    taken.write_all(b"after\n").expect("it is written");
    log.write_all(b"after\n").expect("it is written");
    assert_eq!(read(&dir, "taken"), "start\nafter\n");
    assert_eq!(read(&dir, "app.log"), "start\nours 1\nafter\n");
    home.kill(&dir);
    home.mount("work", "main", &[]);
}

#[test]
fn what_is_synced_before_an_undo_is_in_what_the_branch_was() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "main", &["--create"]);
    sync(&dir);
    home.done(&["checkpoint", "work", "empty"]);
    let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut undone = Vec::new();
    let done = std::thread::scope(|scope| {
        let writer = scope.spawn(|| sync_all_the_time(&dir, &is_over, &count));
        for number in 0..25 {
            write(&dir, &format!("mine-{number}"), "mine");
            let begun = count.load(Ordering::SeqCst);
            let told = json(&home, &["undo", "work", "--to", "empty"]);
            undone.push((begun, told["before"].as_str().expect("it is named").to_owned()));
            assert!(
                !dir.join(format!("mine-{number}")).exists(),
                "the mount shows it at once"
            );
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().expect("it writes")
    });
    assert!(done.len() > 25, "it has gone on: {}", done.len());
    // What was acknowledged before an undo began and after the one before is in what that undo has kept, or still there.
    home.done(&["unmount", text(&dir)]);
    let mut kept: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (_, before) in &undone {
        let at = home.mount(&format!("work@{before}"), "before", &["--read-only"]);
        kept.insert(before, names(&at));
        home.done(&["unmount", text(&at)]);
    }
    let dir = home.mount("work", "main", &[]);
    let now = names(&dir);
    for (at, name) in done.iter().enumerate() {
        let is_kept = kept.values().any(|names| names.contains(name));
        let next = undone.iter().find(|(begun, _)| *begun > at);
        let is_there = match next {
            Some((_, before)) => kept[before.as_str()].contains(name) || is_kept,
            None => now.contains(name) || is_kept,
        };
        assert!(is_there, "{name} was synced and is nowhere");
    }
}

#[test]
fn a_holder_or_an_owner_that_is_killed_around_an_undo_loses_nothing_that_was_synced() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "work"]);
    let server = home.serve(&[]);
    let address = server.address.clone();
    let place = ["--server", address.as_str()];
    let mut server = Some(server);
    let dir = home.mount("work", "main", &place);
    write(&dir, "kept", "kept");
    sync(&dir);
    home.done(&[&["checkpoint", "work", "good"], &place[..]].concat());
    for wait in [0, 1, 2, 4, 8, 16] {
        write(&dir, "more", "more");
        sync(&dir);
        let mut undo = home
            .command(&[&["undo", "work", "--to", "good"], &place[..]].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        pause(Duration::from_millis(10 + wait));
        server.take().expect("one serves").kill();
        server = Some(home.serve(&[]));
        // Whether it was done or not, the mount goes on and says the same as the branch.
        undo.wait().expect("it ends");
        until("the mount goes on", || {
            fs::write(dir.join("next"), "next").is_ok()
        });
        sync(&dir);
        let here = names(&dir);
        assert!(
            here == ["kept", "next"] || here == ["kept", "more", "next"],
            "{here:?}"
        );
        let read_only = home.mount("work", "look", &[&["--read-only"], &place[..]].concat());
        assert_eq!(names(&read_only), here);
        home.done(&["unmount", text(&read_only)]);
        fs::remove_file(dir.join("next")).expect("it is there");
        sync(&dir);
    }
    // A holder that is stopped is not waited for longer than its lease.
    write(&dir, "more", "more");
    sync(&dir);
    let process = home.process(&dir);
    kill_process(process, Signal::STOP).expect("it is there");
    home.done(&[&["undo", "work", "--to", "good"], &place[..]].concat());
    kill_process(process, Signal::CONT).expect("it is there");
    until("it is told", || {
        let written = fs::write(dir.join("late"), "late");
        written.is_err_and(|error| error.raw_os_error() == Some(rustix::io::Errno::STALE.raw_os_error()))
    });
}

#[test]
fn a_fork_has_what_a_mount_of_another_machine_has_written() {
    let Some(home) = Home::new() else { return };
    home.done(&["drive", "create", "work"]);
    let server = home.serve(&[]);
    let place = ["--server", server.address.as_str()];
    let dir = home.mount("work", "main", &[&["--lag", "60000"], &place[..]].concat());
    write(&dir, "unsynced", "nobody has synced it");
    // Another machine is one of another name.
    let script = "hostname far-away && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--uts", "sh", "-c", script, env!("CARGO_BIN_EXE_tenure")])
        .args([&["fork", "work", "far", "--sync"], &place[..]].concat());
    let forked = home
        .with_folders(&mut command)
        .output()
        .expect("the program starts");
    assert!(forked.status.success(), "{forked:?}");
    let far = home.mount("work@far", "far", &place);
    assert_eq!(read(&far, "unsynced"), "nobody has synced it");
    write(&dir, "later", "it goes on");
    assert_eq!(names(&dir), ["later", "unsynced"]);
    home.done(&["unmount", text(&far)]);
    home.done(&["unmount", text(&dir)]);
}

#[test]
fn a_command_that_succeeds_is_committed_into_the_branch_where_it_is_mounted() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "main", &["--create"]);
    write(&dir, "file", "one\ntwo\nthree\n");
    sync(&dir);
    let run = |script: &str| {
        let arguments = [
            "run", "--fork", "work", "--name", "try", "--commit", "--stat", "--", "sh", "-c", script,
        ];
        home.tenure(&arguments)
    };
    let branches = || {
        json(&home, &["branch", "list", "work"])
            .as_array()
            .map_or(0, Vec::len)
    };
    let ran = run("sed -i s/one/ONE/ file; echo made >made");
    assert!(ran.status.success(), "{ran:?}");
    assert!(
        String::from_utf8_lossy(&ran.stdout).contains("taken  made"),
        "{ran:?}"
    );
    assert_eq!(
        (read(&dir, "file").as_str(), read(&dir, "made").as_str()),
        ("ONE\ntwo\nthree\n", "made\n")
    );
    let there = branches();
    let ran = run("echo half >half; exit 7");
    assert_eq!(ran.status.code(), Some(7), "{ran:?}");
    assert!(!dir.join("half").exists(), "what has failed is not committed");
    home.done(&["branch", "delete", "work", "try", "--yes"]);
    // Both sides change one line.
    let ran = run(&format!(
        "echo theirs >file; echo ours >{}; sync {0}",
        text(&dir.join("file"))
    ));
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let (out, err) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(out.contains("conflict, changed on both sides  file"), "{out}");
    assert!(err.contains("work@try is kept"), "{err}");
    assert_eq!(
        (read(&dir, "file").as_str(), read(&dir, "file~try").as_str()),
        ("ours\n", "theirs\n")
    );
    assert!(branches() > there);
    home.done(&["checkpoint", "work", "point"]);
    let refused = home.refused(&["run", "--fork", "work@point", "--commit", "--", "true"]);
    assert!(refused.contains("is a checkpoint"), "{refused}");
}
