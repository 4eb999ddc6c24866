//! What every bucket and every disk must do, as checks that panic when one does not. Run on all of them.

use crate::bucket::{Bucket, OpenError, Put};
use crate::disk::{BLOCK_LEN, Disk};
use crate::{Aligned, Key};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tenure_model::{Failure, Refusal};

/// Checks everything that is asked of a bucket. `bucket` is an empty one, but for its marker.
pub fn check_bucket(bucket: &dyn Bucket) {
    check_bucket_alone(bucket);
    one_of_many_writers_creates(bucket);
}

/// Checks what is asked of a bucket that one thread uses: not who wins a race.
pub fn check_bucket_alone(bucket: &dyn Bucket) {
    an_object_is_put_once(bucket);
    an_object_may_be_empty(bucket);
    parts_are_read_exactly(bucket);
    keys_are_listed_in_order(bucket);
    deleting_is_idempotent(bucket);
    requests_are_counted(bucket);
}

/// Checks everything that is asked of a disk. `disk` belongs to `bucket`.
pub fn check_disk(bucket: &dyn Bucket, disk: &Arc<dyn Disk>) {
    a_file_is_created_once(&**disk);
    a_file_holds_what_was_written(&**disk);
    room_is_reserved_as_zeros(&**disk);
    a_file_is_renamed_to_a_free_key(bucket, &**disk);
    a_file_is_removed(bucket, &**disk);
    a_lock_is_exclusive(&**disk);
    let space = disk.space().expect("a disk says how much room it has");
    assert!(space.free <= space.total && space.total > 0);
}

fn key(text: &str) -> Key {
    Key::parse(text).expect("a literal key")
}

fn an_object_is_put_once(bucket: &dyn Bucket) {
    let key = key("drives/one/once");
    assert_eq!(bucket.get(&key), Ok(None), "nothing is there before a put");
    assert_eq!(bucket.size(&key), Ok(None));
    assert_eq!(bucket.put_if_absent(&key, b"first"), Ok(Put::Created));
    assert_eq!(bucket.put_if_absent(&key, b"second"), Ok(Put::Exists));
    assert_eq!(
        bucket.get(&key),
        Ok(Some(b"first".to_vec())),
        "a put never overwrites"
    );
    assert_eq!(bucket.size(&key), Ok(Some(5)));
}

fn an_object_may_be_empty(bucket: &dyn Bucket) {
    let key = key("drives/one/empty");
    assert_eq!(bucket.put_if_absent(&key, b""), Ok(Put::Created));
    assert_eq!(bucket.get(&key), Ok(Some(Vec::new())));
    assert_eq!(bucket.size(&key), Ok(Some(0)));
}

fn parts_are_read_exactly(bucket: &dyn Bucket) {
    let key = key("drives/one/parts");
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    assert_eq!(bucket.put_if_absent(&key, &bytes), Ok(Put::Created));
    let mut into = vec![0; 70_000];
    assert_eq!(bucket.get_range(&key, 12_345, &mut into), Ok(()));
    assert_eq!(into, bytes[12_345..82_345]);
    let (mut front, mut back) = ([0; 7], [0; 9]);
    let parts = &mut [
        std::io::IoSliceMut::new(&mut front),
        std::io::IoSliceMut::new(&mut back),
    ];
    assert_eq!(bucket.get_parts(&key, 99_984, parts), Ok(()));
    assert_eq!([&front[..], &back[..]].concat(), bytes[99_984..]);
    for len in [1, 64, 99_999, 100_000, 100_001] {
        let end = bytes[bytes.len().saturating_sub(len)..].to_vec();
        assert_eq!(bucket.get_end(&key, len), Ok(Some((end, 100_000))));
    }
    assert_eq!(bucket.get_end(&self::key("drives/one/none"), 10), Ok(None));
    for (at, len) in [(99_999, 2), (100_000, 1), (u64::MAX, 1), (0, 100_001)] {
        let read = bucket.get_range(&key, at, &mut vec![0; len]);
        assert!(
            matches!(read, Err(Failure::Corrupt(_))),
            "a short read is never data: {read:?}"
        );
    }
    let missing = bucket.get_range(&self::key("drives/one/none"), 0, &mut [0]);
    assert!(
        matches!(missing, Err(Failure::Corrupt(_))),
        "a missing object is corrupt: {missing:?}"
    );
}

fn keys_are_listed_in_order(bucket: &dyn Bucket) {
    let texts = [
        "list/b/2",
        "list/b/10",
        "list/a",
        "list/b-c",
        "list/c/d/e",
        "listed",
    ];
    for text in texts {
        assert_eq!(bucket.put_if_absent(&key(text), b"x"), Ok(Put::Created));
    }
    let list = |under: &str| -> Vec<String> {
        let keys = bucket.list(under).expect("a bucket can be listed");
        keys.iter().map(|key| key.as_str().to_owned()).collect()
    };
    assert_eq!(
        list("list/"),
        ["list/a", "list/b-c", "list/b/10", "list/b/2", "list/c/d/e"]
    );
    assert_eq!(list("list/b/"), ["list/b/10", "list/b/2"]);
    assert_eq!(list("none/"), [""; 0]);
    assert!(list("").contains(&"listed".to_owned()));
    assert_eq!(
        bucket.children("list/"),
        Ok(["a", "b", "b-c", "c"].map(str::to_owned).to_vec())
    );
    assert_eq!(bucket.children("list/c/"), Ok(vec!["d".to_owned()]));
    assert_eq!(bucket.children("none/"), Ok(Vec::new()));
    assert_eq!(
        bucket.get(&key("list/b")),
        Ok(None),
        "a group of keys is not an object"
    );
}

fn deleting_is_idempotent(bucket: &dyn Bucket) {
    let key = key("drives/one/deleted/deep/down");
    assert_eq!(bucket.delete(&key), Ok(()));
    for body in [b"first", b"other"] {
        assert_eq!(bucket.put_if_absent(&key, body), Ok(Put::Created));
        assert_eq!(bucket.get_range(&key, 0, &mut [0; 5]), Ok(()));
        assert_eq!(bucket.get(&key), Ok(Some(body.to_vec())));
        assert_eq!(bucket.delete(&key), Ok(()));
        assert_eq!(bucket.get(&key), Ok(None));
        assert!(
            bucket.get_range(&key, 0, &mut [0; 5]).is_err(),
            "what was deleted is not read"
        );
    }
}

fn one_of_many_writers_creates(bucket: &dyn Bucket) {
    for round in 0..20 {
        let key = key(&format!("drives/one/race/{round}"));
        let created = AtomicUsize::new(usize::MAX);
        std::thread::scope(|threads| {
            for writer in 0..4 {
                let (key, created) = (&key, &created);
                threads.spawn(move || {
                    let body = format!("writer {writer}");
                    if bucket.put_if_absent(key, body.as_bytes()) == Ok(Put::Created) {
                        let before = created.swap(writer, Ordering::SeqCst);
                        assert_eq!(before, usize::MAX, "two writers created {key}");
                    }
                });
            }
        });
        let winner = format!("writer {}", created.into_inner());
        assert_eq!(bucket.get(&key), Ok(Some(winner.into_bytes())));
    }
}

fn requests_are_counted(bucket: &dyn Bucket) {
    let before = bucket.requests().counts();
    let key = key("drives/one/counted");
    assert_eq!(bucket.put_if_absent(&key, b"x"), Ok(Put::Created));
    assert_eq!(bucket.get(&key), Ok(Some(b"x".to_vec())));
    assert_eq!(bucket.size(&key), Ok(Some(1)));
    assert!(bucket.list("drives/").is_ok());
    assert_eq!(bucket.delete(&key), Ok(()));
    let after = bucket.requests().counts();
    assert_eq!(after.puts - before.puts, 1);
    assert_eq!(after.gets - before.gets, 2);
    assert_eq!(after.lists - before.lists, 1);
    assert_eq!(after.deletes - before.deletes, 1);
    assert_eq!(after.total() - before.total(), 5);
}

fn a_file_is_created_once(disk: &dyn Disk) {
    let key = key("drives/files/once");
    assert!(
        matches!(disk.open(&key), Ok(None)),
        "nothing is there before it is created"
    );
    let file = disk.create(&key).expect("a file is created");
    assert_eq!(file.is_empty(), Ok(true));
    assert!(disk.create(&key).is_err(), "a file is created once");
    assert!(matches!(disk.open(&key), Ok(Some(_))));
}

fn a_file_holds_what_was_written(disk: &dyn Disk) {
    let file = disk
        .create(&key("drives/files/written"))
        .expect("a file is created");
    let mut blocks = Aligned::new(3 * BLOCK_LEN);
    blocks
        .iter_mut()
        .zip((0..=250).cycle())
        .for_each(|(byte, value)| *byte = value);
    let read = |offset: u64, len: usize| {
        let mut into = vec![0; len];
        file.read_at(offset, &mut into).map(|()| into)
    };
    assert_eq!(file.write_at(0, &blocks), Ok(()));
    assert_eq!(file.write_durably(3 * BLOCK_LEN as u64, &blocks), Ok(()));
    assert_eq!(file.write_at(5, b"not aligned"), Ok(()));
    assert_eq!(file.sync(), Ok(()));
    assert_eq!(read(5, 11), Ok(b"not aligned".to_vec()));
    assert_eq!(read(16, 100), Ok(blocks[16..116].to_vec()));
    assert_eq!(file.write_at(BLOCK_LEN as u64, &blocks[..BLOCK_LEN]), Ok(()));
    assert_eq!(file.settle(), Ok(()));
    assert_eq!(
        read(BLOCK_LEN as u64, BLOCK_LEN),
        Ok(blocks[..BLOCK_LEN].to_vec())
    );
    assert_eq!(read(3 * BLOCK_LEN as u64, blocks.len()), Ok(blocks.to_vec()));
    assert_eq!(file.len(), Ok(6 * BLOCK_LEN as u64));
    let short = read(6 * BLOCK_LEN as u64 - 1, 2);
    assert!(
        matches!(short, Err(Failure::Corrupt(_))),
        "a short read is never data: {short:?}"
    );
    assert_eq!(file.truncate(10), Ok(()));
    assert_eq!(file.truncate(100), Ok(()), "truncating never extends");
    assert_eq!(file.len(), Ok(10));
}

fn room_is_reserved_as_zeros(disk: &dyn Disk) {
    let file = disk
        .create(&key("drives/files/reserved"))
        .expect("a file is created");
    assert_eq!(file.write_at(0, b"kept"), Ok(()));
    assert_eq!(file.reserve(100_000), Ok(()));
    assert_eq!(file.reserve(50_000), Ok(()));
    assert_eq!(file.len(), Ok(100_000));
    let mut into = vec![1; 100_000];
    assert_eq!(file.read_at(0, &mut into), Ok(()));
    assert_eq!(&into[..4], b"kept");
    assert!(into[4..].iter().all(|byte| *byte == 0));
}

fn a_file_is_renamed_to_a_free_key(bucket: &dyn Bucket, disk: &dyn Disk) {
    let (from, taken, free) = (
        key("drives/files/from"),
        key("drives/files/taken"),
        key("drives/files/free"),
    );
    let file = disk.create(&from).expect("a file is created");
    assert_eq!(file.write_durably(0, b"content"), Ok(()));
    assert_eq!(bucket.put_if_absent(&taken, b"taken"), Ok(Put::Created));
    assert!(disk.rename(&from, &taken).is_err(), "a rename never overwrites");
    assert_eq!(bucket.get(&taken), Ok(Some(b"taken".to_vec())));
    assert_eq!(disk.rename(&from, &free), Ok(()));
    assert_eq!(
        bucket.get(&free),
        Ok(Some(b"content".to_vec())),
        "a file becomes an object"
    );
    assert!(matches!(disk.open(&from), Ok(None)));
    assert!(
        disk.rename(&from, &key("drives/files/other")).is_err(),
        "what is not there is not renamed"
    );
    assert_eq!(bucket.put_if_absent(&free, b"other"), Ok(Put::Exists));
}

fn a_file_is_removed(bucket: &dyn Bucket, disk: &dyn Disk) {
    let key = key("drives/files/removed");
    assert!(disk.create(&key).is_ok());
    assert_eq!(disk.remove(&key), Ok(()));
    assert_eq!(disk.remove(&key), Ok(()));
    assert_eq!(bucket.get(&key), Ok(None));
}

fn a_lock_is_exclusive(disk: &dyn Disk) {
    let key = key("drives/files/lock");
    let lock = disk.lock(&key, "the first holder").expect("a free lock is taken");
    let refused = disk.lock(&key, "the second");
    let by = "the first holder".to_owned();
    assert_eq!(refused.err(), Some(OpenError::Refused(Refusal::Held { by })));
    drop(lock);
    assert!(
        disk.lock(&key, "the second").is_ok(),
        "a lock that was given back is free"
    );
}
