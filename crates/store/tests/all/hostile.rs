//! A folder that came from somebody else: links and odd files in it lead nowhere, hang nothing, and are refused by name. And what
//! is made in a folder is nobody else's.

use rustix::fs::{CWD, FileType, Mode};
use std::fmt::Debug;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use tenure_model::Failure;
use tenure_store::{Bucket, DiskFile, FolderBucket, Key};

const OBJECT: &str = "drives/d/epochs/1";

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

/// Puts something that is no plain file at a path.
type Place = fn(&Path, &Path);

/// Changes a file.
type Change = fn(&dyn DiskFile) -> Result<(), Failure>;

fn link(at: &Path, victim: &Path) {
    symlink(victim, at).unwrap();
}

fn dangling(at: &Path, victim: &Path) {
    symlink(victim.with_extension("new"), at).unwrap();
}

fn fifo(at: &Path, _: &Path) {
    rustix::fs::mknodat(CWD, at, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

fn socket(at: &Path, _: &Path) {
    std::os::unix::net::UnixListener::bind(at).unwrap();
}

const ODD: [(&str, Place); 4] = [
    ("a symbolic link", link),
    ("a symbolic link", dangling),
    ("a named pipe", fifo),
    ("a socket", socket),
];

/// Holds a refusal against what it must say: what, where, and what to do.
fn refused<T: Debug>(done: Result<T, impl std::fmt::Display>, what: &str, at: &Path) {
    let why = match done {
        Err(why) => why.to_string(),
        Ok(done) => panic!("{} is {what}, and was used: {done:?}", at.display()),
    };
    assert!(
        why.contains(&format!("{} is {what}", at.display())) && why.contains("remove it"),
        "{why}"
    );
}

fn untouched(victim: &Path) {
    assert_eq!(std::fs::read(victim).unwrap(), b"precious");
    assert!(!victim.with_extension("new").exists(), "nothing is made outside");
}

/// Returns a bucket with a drive's folder, and a file outside that nothing may change.
fn world() -> (tempfile::TempDir, FolderBucket, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let bucket = FolderBucket::create(&folder.path().join("bucket")).unwrap();
    bucket.put_if_absent(&key(OBJECT), b"claim").unwrap();
    let victim = folder.path().join("victim");
    std::fs::write(&victim, b"precious").unwrap();
    (folder, bucket, victim)
}

#[test]
fn what_is_no_plain_file_is_refused_by_name_and_leads_nowhere() {
    for (what, place) in ODD {
        let (folder, bucket, victim) = world();
        let odd = key("drives/d/odd");
        let at = folder.path().join("bucket/drives/d/odd");
        place(&at, &victim);
        let disk = bucket.disk().unwrap();
        refused(bucket.get(&odd), what, &at);
        refused(bucket.size(&odd), what, &at);
        refused(bucket.get_range(&odd, 0, &mut [0]), what, &at);
        refused(disk.open(&odd).map(|file| file.is_some()), what, &at);
        refused(disk.create(&odd).map(|file| file.len()), what, &at);
        refused(disk.lock(&odd, "me"), what, &at);
        // An object that is there already is not replaced, whatever it is.
        bucket.put_if_absent(&odd, b"x").unwrap();
        untouched(&victim);
        assert_eq!(bucket.delete(&odd), Ok(()));
        assert_eq!(
            bucket.get(&odd),
            Ok(None),
            "what was removed is the odd thing itself"
        );
        untouched(&victim);
    }
}

#[test]
fn a_folder_in_the_place_of_an_object_is_refused_by_name() {
    let (folder, bucket, _) = world();
    let odd = key("drives/d/odd");
    let at = folder.path().join("bucket/drives/d/odd");
    std::fs::create_dir(&at).unwrap();
    let what = "a folder in the place of a file";
    refused(bucket.put_if_absent(&odd, b"x"), what, &at);
    assert_eq!(bucket.get(&odd), Ok(None), "it is none");
}

#[test]
fn a_marker_that_is_no_plain_file_is_refused_and_hangs_nothing() {
    for (what, place) in ODD {
        let (folder, bucket, victim) = world();
        drop(bucket);
        let at = folder.path().join("bucket/tenure-bucket");
        std::fs::remove_file(&at).unwrap();
        place(&at, &victim);
        refused(
            FolderBucket::open(&folder.path().join("bucket")).map(drop),
            what,
            &at,
        );
        refused(
            FolderBucket::create(&folder.path().join("bucket")).map(drop),
            what,
            &at,
        );
        untouched(&victim);
    }
}

#[test]
fn a_linked_folder_of_a_bucket_is_not_entered() {
    let what = "a symbolic link";
    for linked in ["drives", "drives/d", "drives/d/epochs"] {
        let (folder, bucket, _) = world();
        drop(bucket);
        let at = folder.path().join("bucket").join(linked);
        let outside = folder.path().join("outside");
        std::fs::rename(&at, &outside).unwrap();
        symlink(&outside, &at).unwrap();
        let bucket = FolderBucket::open(&folder.path().join("bucket")).unwrap();
        let disk = bucket.disk().unwrap();
        refused(bucket.get(&key(OBJECT)), what, &at);
        refused(bucket.list("drives/d/epochs/"), what, &at);
        refused(bucket.children("drives/d/epochs/"), what, &at);
        refused(bucket.put_if_absent(&key("drives/d/epochs/2"), b"x"), what, &at);
        refused(bucket.delete(&key(OBJECT)), what, &at);
        refused(
            disk.create(&key("drives/d/epochs/2")).map(|file| file.len()),
            what,
            &at,
        );
        refused(disk.rename(&key(OBJECT), &key("drives/e")), what, &at);
        refused(disk.lock(&key("drives/d/epochs/lock"), "me"), what, &at);
        let object = outside.join(OBJECT.strip_prefix(linked).unwrap().trim_start_matches('/'));
        assert_eq!(std::fs::read(object).unwrap(), b"claim");
    }
}

#[test]
fn a_linked_folder_for_temporary_files_is_not_written_or_emptied() {
    let (folder, bucket, victim) = world();
    let hidden = folder.path().join("bucket/.tmp");
    std::fs::remove_dir(&hidden).unwrap();
    symlink(folder.path(), &hidden).unwrap();
    refused(
        bucket.put_if_absent(&key("drives/d/x"), b"x"),
        "a symbolic link",
        &hidden,
    );
    drop(bucket);
    FolderBucket::open(&folder.path().join("bucket")).unwrap();
    untouched(&victim);
}

#[test]
fn the_buckets_own_path_may_have_links() {
    let (folder, bucket, _) = world();
    drop(bucket);
    symlink("bucket", folder.path().join("alias")).unwrap();
    let bucket = FolderBucket::open(&folder.path().join("alias")).unwrap();
    assert_eq!(bucket.get(&key(OBJECT)), Ok(Some(b"claim".to_vec())));
}

#[test]
fn a_file_with_a_name_elsewhere_is_read_and_never_written() {
    let (folder, bucket, victim) = world();
    for name in ["lock", "file"] {
        std::fs::hard_link(&victim, folder.path().join("bucket/drives/d").join(name)).unwrap();
    }
    let disk = bucket.disk().unwrap();
    let file = disk.open(&key("drives/d/file")).unwrap().unwrap();
    let named = |done: Result<(), String>| {
        let why = done.unwrap_err();
        assert!(
            why.contains("drives/d/") && why.contains("hard links") && why.contains("cp "),
            "{why}"
        );
    };
    named(
        disk.lock(&key("drives/d/lock"), "me")
            .map(drop)
            .map_err(|why| why.to_string()),
    );
    let changes: [Change; 4] = [
        |file| file.write_at(0, b"x"),
        |file| file.write_durably(0, b"x"),
        |file| file.reserve(100),
        |file| file.truncate(1),
    ];
    for change in changes {
        named(change(&*file).map_err(|why| why.to_string()));
    }
    assert_eq!(bucket.get(&key("drives/d/file")), Ok(Some(b"precious".to_vec())));
    untouched(&victim);
}

#[test]
fn what_is_made_in_a_folder_is_nobody_elses() {
    let folder = tempfile::tempdir().unwrap();
    let given = folder.path().join("given");
    std::fs::create_dir(&given).unwrap();
    std::fs::set_permissions(&given, std::fs::Permissions::from_mode(0o755)).unwrap();
    let made = folder.path().join("made/bucket");
    for root in [&given, &made] {
        let bucket = FolderBucket::create(root).unwrap();
        let disk = bucket.disk().unwrap();
        bucket.put_if_absent(&key(OBJECT), b"claim").unwrap();
        disk.create(&key("drives/d/packs/1.open")).unwrap();
        let _lock = disk.lock(&key("drives/d/lock"), "me").unwrap();
    }
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&given), 0o755, "a folder that was there is left as it is");
    assert_eq!(mode(&made), 0o700);
    for root in [&given, &made] {
        for folder in [".tmp", "drives", "drives/d", "drives/d/epochs", "drives/d/packs"] {
            assert_eq!(mode(&root.join(folder)), 0o700, "{folder}");
        }
        for file in ["tenure-bucket", OBJECT, "drives/d/packs/1.open", "drives/d/lock"] {
            assert_eq!(mode(&root.join(file)), 0o600, "{file}");
        }
    }
}
