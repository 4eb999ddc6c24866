//! A bucket over another: it does what every bucket does, and the one below stays as it is.

use std::sync::Arc;
use tenure_store::{Bucket, FolderBucket, Key, MemoryBucket, OverlayBucket, Put, conformance};

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

fn over(lower: &(impl Bucket + Clone + 'static)) -> OverlayBucket {
    OverlayBucket::over(Arc::new(lower.clone()))
}

#[test]
fn a_bucket_over_another_conforms() {
    let lower = MemoryBucket::new();
    let bucket = over(&lower);
    conformance::check_bucket(&bucket);
    conformance::check_disk(&bucket, &bucket.disk().unwrap());
    assert_eq!(
        lower.list("").unwrap().len(),
        1,
        "nothing but the marker is below"
    );
}

#[test]
fn what_is_below_shows_until_it_is_changed_above_and_stays_as_it_is() {
    let lower = MemoryBucket::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(20_000).collect();
    lower.put_if_absent(&key("drives/a/pack"), &bytes).unwrap();
    lower.put_if_absent(&key("drives/a/gone"), b"x").unwrap();
    let bucket = over(&lower);
    assert_eq!(
        bucket.put_if_absent(&key("drives/a/pack"), b"y").unwrap(),
        Put::Exists
    );
    assert_eq!(bucket.get(&key("drives/a/pack")).unwrap(), Some(bytes.clone()));

    let disk = bucket.disk().unwrap();
    let file = disk.open(&key("drives/a/pack")).unwrap().unwrap();
    let mut now = bytes.clone();
    for (at, piece) in [(5, 10), (4090, 12), (8192, 4096), (19_990, 30)] {
        file.write_at(at, &vec![7; piece]).unwrap();
        now.resize(now.len().max(at as usize + piece), 0);
        now[at as usize..at as usize + piece].fill(7);
    }
    assert_eq!(bucket.get(&key("drives/a/pack")).unwrap(), Some(now.clone()));
    file.truncate(8200).unwrap();
    file.reserve(30_000).unwrap();
    now.truncate(8200);
    now.resize(30_000, 0);
    disk.rename(&key("drives/a/pack"), &key("drives/a/sealed"))
        .unwrap();
    bucket.delete(&key("drives/a/gone")).unwrap();
    assert_eq!(bucket.get(&key("drives/a/sealed")).unwrap(), Some(now));
    assert_eq!(bucket.children("drives/a/").unwrap(), ["sealed"]);
    assert_eq!(bucket.size(&key("drives/a/gone")).unwrap(), None);

    assert_eq!(lower.get(&key("drives/a/pack")).unwrap(), Some(bytes));
    assert_eq!(lower.children("drives/a/").unwrap(), ["gone", "pack"]);
}

#[test]
fn those_who_only_read_share_the_lock_and_keep_out_who_writes() {
    let folder = tempfile::tempdir().unwrap();
    let lower = FolderBucket::create(folder.path()).unwrap();
    let (disk, lock) = (lower.disk().unwrap(), key("drives/a/lock"));
    let held = disk.lock(&lock, "a writer").unwrap();
    let reader = over(&lower).disk().unwrap();
    let refused = reader.lock(&lock, "a reader").unwrap_err().to_string();
    assert!(refused.contains("a writer"), "{refused}");
    drop(held);
    let first = reader.lock(&lock, "a reader").unwrap();
    let second = over(&lower).disk().unwrap().lock(&lock, "a reader").unwrap();
    std::fs::write(folder.path().join("drives/a/lock"), "process 1 that was killed").unwrap();
    let refused = disk.lock(&lock, "a writer").unwrap_err().to_string();
    let us = format!("process {}, which only looks at it", std::process::id());
    assert!(refused.starts_with(&us), "{refused}");
    drop((first, second));
    assert!(disk.lock(&lock, "a writer").is_ok());
}
