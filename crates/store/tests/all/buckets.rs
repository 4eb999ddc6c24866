//! One suite over every bucket; and what a folder does besides.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tenure_model::{Failure, Refusal};
use tenure_store::faulty::{CallKind, Fault, Plan};
use tenure_store::{Bucket, FaultyBucket, FolderBucket, Key, MemoryBucket, OpenError, Put, conformance};

fn check(bucket: &dyn Bucket) {
    conformance::check_bucket(bucket);
    let disk = bucket.disk().unwrap();
    conformance::check_disk(bucket, &disk);
    a_group_without_objects_is_gone(bucket);
}

fn a_group_without_objects_is_gone(bucket: &dyn Bucket) {
    bucket
        .put_if_absent(&key("group/deep/down/object"), b"x")
        .unwrap();
    bucket.put_if_absent(&key("group/object"), b"x").unwrap();
    bucket.delete(&key("group/deep/down/object")).unwrap();
    assert_eq!(bucket.children("group/"), Ok(vec!["object".to_owned()]));
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

#[test]
fn a_bucket_in_memory_conforms() {
    check(&MemoryBucket::new());
}

#[test]
fn a_folder_bucket_conforms() {
    let folder = tempfile::tempdir().unwrap();
    check(&FolderBucket::create(folder.path()).unwrap());
}

#[test]
fn a_folder_bucket_on_tmpfs_conforms() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    check(&FolderBucket::create(folder.path()).unwrap());
}

#[test]
fn a_faulty_bucket_without_a_plan_conforms() {
    check(&FaultyBucket::new(Arc::new(MemoryBucket::new()), Plan::none()));
}

#[test]
fn a_bucket_in_memory_conforms_after_it_was_copied_and_lost_power() {
    let bucket = MemoryBucket::new();
    check(&bucket.copy());
    check(&bucket.after_power_loss(1));
}

#[test]
fn a_file_that_was_removed_while_it_was_written_is_not_said_to_be_durable() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = FolderBucket::create(folder.path()).unwrap();
    let key = key("drives/work/packs/1.open");
    let file = bucket.disk().unwrap().create(&key).unwrap();
    file.write_at(0, b"synced").unwrap();
    assert_eq!(file.sync(), Ok(()));
    std::fs::remove_file(folder.path().join(key.as_str())).unwrap();
    for synced in [file.sync(), file.settle(), file.write_durably(6, b" later")] {
        let failure = synced.unwrap_err();
        assert!(
            matches!(&failure, Failure::Corrupt(why) if why.contains(key.as_str()) && why.contains("removed")),
            "{failure}"
        );
    }
    let mut bytes = [0; 12];
    file.read_parts(0, &mut [std::io::IoSliceMut::new(&mut bytes)])
        .unwrap();
    assert_eq!(&bytes, b"synced later", "it can be copied");
}

#[test]
fn a_file_or_a_lock_that_was_moved_is_gone_and_one_that_the_program_renames_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = FolderBucket::create(folder.path()).unwrap();
    let at = |name: &str| folder.path().join("drives/work").join(name);
    let open = key("drives/work/packs/1.open");
    let file = bucket.disk().unwrap().create(&open).unwrap();
    let lock = bucket
        .disk()
        .unwrap()
        .lock(&key("drives/work/lock"), "this test")
        .unwrap();
    file.write_at(0, b"synced").unwrap();
    assert_eq!(file.sync(), Ok(()));
    let sealed = key("drives/work/packs/1-sealed");
    bucket.disk().unwrap().rename(&open, &sealed).unwrap();
    assert_eq!(file.sync(), Ok(()), "by the program itself");
    assert!(lock.is_held());

    let away = folder.path().join("away");
    for from in ["packs/1-sealed", "packs", ""] {
        std::fs::rename(at(from), &away).unwrap();
        let failure = file.sync().unwrap_err();
        assert!(
            matches!(&failure, Failure::Corrupt(why) if why.contains(sealed.as_str()) && why.contains("moved")),
            "{from}: {failure}"
        );
        std::fs::rename(&away, at(from)).unwrap();
        assert_eq!(file.sync(), Ok(()), "{from} is back");
    }
    std::fs::rename(at("lock"), at("unlocked")).unwrap();
    assert!(!lock.is_held());
    std::fs::copy(at("unlocked"), at("lock")).unwrap();
    assert!(!lock.is_held(), "a copy of it is another file");
}

#[test]
fn a_folder_bucket_is_found_again_with_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/bucket");
    let bucket = FolderBucket::create(&path).unwrap();
    bucket.put_if_absent(&key("drives/a/b"), b"kept").unwrap();
    drop(bucket);
    let bucket = FolderBucket::open(&path).unwrap();
    assert_eq!(bucket.get(&key("drives/a/b")), Ok(Some(b"kept".to_vec())));
    assert!(
        FolderBucket::create(&path).is_ok(),
        "creating what is a bucket opens it"
    );
}

#[test]
fn what_a_crash_left_unfinished_is_removed_at_the_next_opening() {
    let folder = tempfile::tempdir().unwrap();
    FolderBucket::create(folder.path()).unwrap();
    let left = folder.path().join(".tmp/999999-0");
    std::fs::write(&left, b"half an obj").unwrap();
    let bucket = FolderBucket::open(folder.path()).unwrap();
    assert!(!left.exists());
    let keys = bucket.list("").unwrap();
    assert_eq!(keys, [key("tenure-bucket")], "what is hidden is no object");
}

fn refusal(opened: Result<FolderBucket, OpenError>) -> String {
    match opened {
        Err(OpenError::Refused(Refusal::Because(why))) => why,
        Err(other) => panic!("not refused in words: {other:?}"),
        Ok(_) => panic!("not refused"),
    }
}

#[test]
fn a_folder_that_is_no_bucket_is_refused_with_what_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    let why = refusal(FolderBucket::open(folder.path()));
    assert_eq!(
        why,
        format!("the folder {place} is not a bucket: it has no `tenure-bucket`")
    );
    let why = refusal(FolderBucket::open(&folder.path().join("none")));
    assert_eq!(
        why,
        format!("there is no folder {place}/none: make a bucket there first")
    );
    std::fs::write(folder.path().join("file"), "").unwrap();
    let why = refusal(FolderBucket::open(&folder.path().join("file")));
    assert_eq!(
        why,
        format!("{place}/file is not a folder: a bucket on this machine is one")
    );
    let why = refusal(FolderBucket::create(folder.path()));
    assert_eq!(
        why,
        format!(
            "the folder {place} holds other things, such as `file`: give an empty folder for a new bucket"
        )
    );
    assert!(
        !folder.path().join("tenure-bucket").exists(),
        "a refusal changes nothing"
    );
}

#[test]
fn a_newer_format_and_a_damaged_marker_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("tenure-bucket");
    let place = folder.path().display().to_string();
    std::fs::write(&marker, "tenure bucket\nformat 7\n").unwrap();
    let why = refusal(FolderBucket::open(folder.path()));
    assert_eq!(
        why,
        format!(
            "the folder {place} is a bucket of format 7, as its `tenure-bucket` says, and this program reads formats up to 1: use a newer tenure"
        )
    );
    for damaged in [
        "",
        "something else",
        "tenure bucket\nformat x\n",
        "tenure bucket\nformat 0\n",
        "tenure bucket\nformat 1\n",
        "tenure bucket\nformat 1\nThe drives of Ten",
    ] {
        std::fs::write(&marker, damaged).unwrap();
        assert!(refusal(FolderBucket::open(folder.path())).contains(&place));
        assert!(refusal(FolderBucket::create(folder.path())).contains(&place));
    }
}

#[test]
fn a_new_file_system_with_its_lost_and_found_becomes_a_bucket() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("lost+found")).unwrap();
    let bucket = FolderBucket::create(folder.path()).unwrap();
    assert_eq!(bucket.children(""), Ok(vec!["tenure-bucket".to_owned()]));
}

#[test]
fn a_key_cannot_leave_the_folder_or_hide() {
    for text in [
        "", "/", "a//b", "../a", "a/..", ".tmp/x", "a/.b", "a b", "a/b/", "ä", "a\0b",
    ] {
        assert!(Key::parse(text).is_err(), "{text:?}");
    }
    assert!(Key::parse(&"a".repeat(201)).is_err());
    assert!(Key::parse(&"a/".repeat(300)).is_err());
    assert_eq!(key("drives/a.b/x_-1").as_str(), "drives/a.b/x_-1");
}

#[test]
fn a_put_that_has_no_room_says_so_and_leaves_nothing() {
    let bucket = MemoryBucket::new();
    bucket.limit_space(Some(1000));
    assert!(matches!(
        bucket.put_if_absent(&key("big"), &[0; 1000]),
        Err(Failure::NoSpace(_))
    ));
    assert_eq!(bucket.get(&key("big")), Ok(None));
    assert_eq!(bucket.put_if_absent(&key("small"), &[0; 100]), Ok(Put::Created));
}

#[test]
fn a_folder_that_cannot_be_written_fails_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = FolderBucket::create(folder.path()).unwrap();
    bucket.put_if_absent(&key("drives/a"), b"x").unwrap();
    // A plain file where a folder should be stands for a folder that cannot be made, for root too.
    std::fs::write(folder.path().join("blocked"), "").unwrap();
    let failed = bucket.put_if_absent(&key("blocked/b"), b"x").unwrap_err();
    let place = folder.path().display();
    assert!(
        failed.to_string().contains(&format!("{place}/blocked")),
        "{failed}"
    );
    std::fs::remove_file(folder.path().join("blocked")).unwrap();
    assert_eq!(bucket.put_if_absent(&key("blocked/b"), b"x"), Ok(Put::Created));
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_folder_that_was_removed_in_between_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = FolderBucket::create(folder.path()).unwrap();
    bucket.put_if_absent(&key("drives/a/b/1"), b"x").unwrap();
    std::fs::remove_dir_all(folder.path().join("drives")).unwrap();
    assert_eq!(bucket.put_if_absent(&key("drives/a/b/2"), b"x"), Ok(Put::Created));
    assert_eq!(bucket.list("drives/"), Ok(vec![key("drives/a/b/2")]));
    let disk = bucket.disk().unwrap();
    std::fs::remove_dir_all(folder.path().join("drives")).unwrap();
    assert!(disk.create(&key("drives/a/b/3")).is_ok());
}

#[test]
fn a_put_whose_reply_is_lost_is_unknown_and_may_have_happened() {
    let bucket = FaultyBucket::new(
        Arc::new(MemoryBucket::new()),
        Plan::none()
            .at(0, Fault::LoseReply)
            .at(1, Fault::LoseRequest)
            .at(2, Fault::ClaimExists),
    );
    assert!(matches!(
        bucket.put_if_absent(&key("a"), b"x"),
        Err(Failure::Unknown(_))
    ));
    assert!(matches!(
        bucket.put_if_absent(&key("b"), b"x"),
        Err(Failure::Unknown(_))
    ));
    assert_eq!(bucket.put_if_absent(&key("c"), b"x"), Ok(Put::Exists));
    assert_eq!(bucket.get(&key("a")), Ok(Some(b"x".to_vec())));
    assert_eq!(bucket.get(&key("b")), Ok(None));
    assert_eq!(bucket.get(&key("c")), Ok(Some(b"x".to_vec())));
}

#[test]
fn an_outage_stops_everything_and_ends() {
    let bucket = FaultyBucket::new(Arc::new(MemoryBucket::new()), Plan::none());
    bucket.set_outage(true);
    assert!(matches!(
        bucket.put_if_absent(&key("a"), b"x"),
        Err(Failure::DidNotHappen(_))
    ));
    assert!(bucket.get(&key("a")).is_err());
    assert!(bucket.disk().unwrap().create(&key("f")).is_err());
    bucket.set_outage(false);
    assert_eq!(bucket.get(&key("a")), Ok(None));
}

#[test]
fn a_halted_process_changes_nothing_more() {
    let memory = MemoryBucket::new();
    let bucket = FaultyBucket::new(Arc::new(memory.clone()), Plan::none().at(1, Fault::Halt));
    assert_eq!(bucket.put_if_absent(&key("a"), b"x"), Ok(Put::Created));
    assert!(bucket.put_if_absent(&key("b"), b"x").is_err());
    assert!(bucket.put_if_absent(&key("c"), b"x").is_err());
    assert_eq!(memory.list("").unwrap(), [key("a"), key("tenure-bucket")]);
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let outcomes = |seed: u64| -> Vec<bool> {
        let plan = Plan::none().at_random(seed, 4, &[Fault::Refuse, Fault::LoseReply]);
        let bucket = FaultyBucket::new(Arc::new(MemoryBucket::new()), plan);
        (0..200)
            .map(|n| bucket.put_if_absent(&key(&format!("k{n}")), b"x").is_ok())
            .collect()
    };
    assert_eq!(outcomes(7), outcomes(7));
    assert_ne!(outcomes(7), outcomes(8));
    let failed = outcomes(7).iter().filter(|ok| !**ok).count();
    assert!((20..80).contains(&failed), "about one in four fails: {failed}");
}

#[test]
fn calls_are_told_before_they_are_made() {
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = told.clone();
    let on_call = Box::new(move |call: &tenure_store::faulty::Call| notes.lock().unwrap().push(call.clone()));
    let bucket = FaultyBucket::watched(Arc::new(MemoryBucket::new()), Plan::none(), Some(on_call));
    bucket.put_if_absent(&key("a"), b"x").unwrap();
    bucket.list("drives/").unwrap();
    let told = told.lock().unwrap();
    assert_eq!(*told, bucket.calls());
    let kinds: Vec<CallKind> = told.iter().map(|call| call.kind).collect();
    assert_eq!(kinds, [CallKind::Put, CallKind::List]);
}

#[test]
fn a_power_failure_takes_only_what_was_not_synced() {
    let bucket = MemoryBucket::new();
    let file = bucket.disk().unwrap().create(&key("file")).unwrap();
    file.write_at(0, &[1; 8192]).unwrap();
    file.sync().unwrap();
    file.write_at(4096, &[2; 8192]).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let bytes = bucket.after_power_loss(seed).get(&key("file")).unwrap().unwrap();
        assert!(
            bytes[..4096].iter().all(|byte| *byte == 1),
            "what was synced stays"
        );
        assert!(bytes[4096..8192].iter().all(|byte| matches!(byte, 1 | 2)));
        for sector in bytes.chunks(512) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is whole");
        }
        seen.insert(bytes);
    }
    assert!(seen.len() > 10, "many outcomes are tried: {}", seen.len());
}

#[test]
fn a_lock_whose_file_was_deleted_in_between_keeps_one_holder() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = FolderBucket::create(folder.path()).unwrap();
    let disk = bucket.disk().unwrap();
    let lock = key("drives/a/lock");
    let holders = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let mut times = 0;
                while times < 50 {
                    let Ok(held) = disk.lock(&lock, "me") else {
                        continue;
                    };
                    times += 1;
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                    std::thread::yield_now();
                    holders.fetch_sub(1, Ordering::SeqCst);
                    // Who deletes a lock holds it, and has done what it held it for.
                    bucket.delete(&lock).unwrap();
                    drop(held);
                }
            });
        }
    });
}

/// Memory is asked for only once the length is one that an object can have.
#[test]
fn an_object_that_is_too_long_is_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let bucket = FolderBucket::create(place.path()).unwrap();
    bucket.put_if_absent(&key("drives/a/claim"), b"x").unwrap();
    let file = std::fs::File::options()
        .write(true)
        .open(place.path().join("drives/a/claim"));
    file.unwrap().set_len(100 << 30).unwrap();
    let failure = bucket.get(&key("drives/a/claim")).unwrap_err();
    assert!(
        matches!(&failure, Failure::Corrupt(why) if why.starts_with("drives/a/claim: it is too long")),
        "{failure}"
    );
}
