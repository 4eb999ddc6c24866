//! Who changes a file that is somebody else's takes its privileges away, as on other Linux file systems, and the kernel
//! believes it at once.

use crate::home::{Home, run, text};
use rustix::process::{Gid, Uid};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes a file of root's that anybody may write.
fn shared(file: &Path, mode: u32) {
    fs::write(file, vec![7; 20_000]).expect("there is room");
    fs::set_permissions(file, Permissions::from_mode(mode)).expect("it is root's");
}

/// What changes the file `$0`; FUSE knows no collapse and no insert.
const CHANGES: [&str; 8] = [
    "echo x >>\"$0\"",
    "dd if=/dev/zero of=\"$0\" bs=10 count=1 conv=notrunc status=none",
    "truncate -s 100 \"$0\"",
    ": >\"$0\"",
    "fallocate -l 100000 \"$0\"",
    "fallocate -n -l 100000 \"$0\"",
    "fallocate -p -o 0 -l 4096 \"$0\"",
    "fallocate -z -o 0 -l 4096 \"$0\"",
];

/// Makes each change of the file `$0` to a file of each mode, as a user who owns nothing and as root, and prints what the mode
/// is then. All in one shell: whoever starts a process holds, for a moment, what other tests have open.
const EACH_CHANGE: &str = r#"
set -e
file=$0
for change do
    for mode in 6777 4777 2767 666; do
        for user in "setpriv --reuid=65534 --regid=65534 --clear-groups" ""; do
            head -c 20000 /dev/zero >"$file"
            chmod $mode "$file"
            seen=$($user sh -c "$change; stat -c %a \"\$0\"" "$file")
            echo "$seen$(test -n "$user" || echo " by root"): $mode, $change"
        done
    done
done
"#;

#[test]
fn a_change_by_another_user_takes_set_id_bits_away_and_everybody_sees_it_at_once() {
    let Some(home) = Home::new() else { return };
    fs::set_permissions(home.folder.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let dir = home.mount("work", "m", &["--create", "--allow-other"]);
    let file = dir.join("file");
    let mut command = Command::new("sh");
    let made = command
        .args(["-ec", EACH_CHANGE, text(&file)])
        .args(CHANGES)
        .output();
    let made = made.expect("sh is there");
    assert!(made.status.success(), "{made:?}");
    let mut expected = String::new();
    for change in CHANGES {
        // Without execution by the group, sgid is no privilege.
        for (before, after) in [("6777", "777"), ("4777", "777"), ("2767", "2767"), ("666", "666")] {
            expected += &format!("{after}: {before}, {change}\n{before} by root: {before}, {change}\n");
        }
    }
    assert_eq!(String::from_utf8_lossy(&made.stdout), expected);
    home.done(&["unmount", text(&dir)]);
}

/// What a user who owns nothing copies over a file with copy_file_range(2).
fn copy_as_nobody(from: PathBuf, to: PathBuf) -> u32 {
    let copier = std::thread::spawn(move || {
        // The whole process stays root: these are the thread's alone.
        rustix::thread::set_thread_groups(&[]).expect("root may");
        rustix::thread::set_thread_gid(Gid::from_raw(65534)).expect("root may");
        rustix::thread::set_thread_uid(Uid::from_raw(65534)).expect("root may");
        let from = File::open(from).expect("anybody may read it");
        let to = File::options()
            .write(true)
            .open(to)
            .expect("anybody may write it");
        let copied = rustix::fs::copy_file_range(&from, None, &to, None, 5000);
        assert_eq!(copied, Ok(5000));
        to.metadata().expect("it is open").mode() & 0o7777
    });
    copier.join().expect("it copies")
}

/// A range that is shared takes away what a write of its bytes would: suid, sgid and capabilities.
#[test]
fn a_copied_range_takes_privileges_away() {
    let Some(home) = Home::new() else { return };
    fs::set_permissions(home.folder.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let dir = home.mount("work", "m", &["--create", "--allow-other"]);
    let (file, source) = (dir.join("file"), dir.join("source"));
    shared(&file, 0o6777);
    shared(&source, 0o644);
    run("setcap", &["cap_net_raw+ep", text(&file)]);
    assert_eq!(copy_as_nobody(source, file.clone()), 0o777);
    let left = Command::new("getcap")
        .arg(&file)
        .output()
        .expect("getcap is there");
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
    home.done(&["unmount", text(&dir)]);
}
