//! Damage: what `check` finds and names, and what still works beside it.

use crate::world::{Holder, content, create, open, try_open};
use std::sync::Arc;
use tenure_model::Failure;
use tenure_store::{Bucket, Key, MemoryBucket};
use tenure_wire::{Error, Owner};

fn packs(bucket: &MemoryBucket) -> Vec<Key> {
    bucket.list("drives/work/packs/").unwrap()
}

/// Replaces an object by what `change` makes of its bytes.
fn damage(bucket: &MemoryBucket, key: &Key, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = bucket.get(key).unwrap().unwrap();
    change(&mut bytes);
    bucket.delete(key).unwrap();
    bucket.put_if_absent(key, &bytes).unwrap();
}

/// Makes a drive with two files in two packs, and returns the packs of each.
fn two_files() -> (MemoryBucket, Key, Key) {
    let bucket = MemoryBucket::new();
    let drive = create(&bucket);
    let mut holder = Holder::hosted(&drive, "main");
    let mut of_file = Vec::new();
    for name in ["one", "two"] {
        let before = packs(&bucket);
        holder.file(
            name,
            &content(name.len() as u64 + u64::from(name.as_bytes()[0]), 500_000),
        );
        holder.ship();
        drive.fold().unwrap();
        let new = packs(&bucket).into_iter().filter(|key| !before.contains(key));
        of_file.push(new.max_by_key(|key| bucket.size(key).unwrap()).unwrap());
    }
    holder.give_back();
    drive.close().unwrap();
    let [one, two] = of_file.try_into().unwrap();
    (bucket, one, two)
}

#[test]
fn a_damaged_pack_is_named_and_only_what_it_holds_fails() {
    let (bucket, one, _) = two_files();
    damage(&bucket, &one, |bytes| bytes[100_000] ^= 1);
    let drive = open(&bucket);
    assert_eq!(
        drive.check(false).unwrap(),
        [""; 0],
        "without looking at every byte nothing is seen"
    );
    let faults = drive.check(true).unwrap();
    assert!(
        faults.iter().any(|fault| fault.contains(one.as_str())),
        "{faults:?}"
    );
    assert!(
        faults
            .iter()
            .any(|fault| fault.contains("branch main: /one cannot be read whole")),
        "{faults:?}"
    );
    assert!(!faults.iter().any(|fault| fault.contains("/two")), "{faults:?}");

    let reader = Holder::reader(&drive, "main");
    assert!(matches!(
        reader.try_read("one"),
        Err(Error::Failed(Failure::Corrupt(_)))
    ));
    assert_eq!(reader.read("two").len(), 500_000);
    let mut holder = Holder::hosted(&drive, "main");
    holder.unlink("one");
    holder.file("three", &content(3, 500_000));
    holder.ship();
    holder.give_back();
    drive.close().unwrap();
}

#[test]
fn a_pack_that_is_gone_is_named_and_only_what_it_holds_fails() {
    let (bucket, _, two) = two_files();
    bucket.delete(&two).unwrap();
    let drive = open(&bucket);
    for deep in [false, true] {
        let faults = drive.check(deep).unwrap();
        assert!(
            faults.iter().any(|fault| fault.contains(two.as_str())),
            "{faults:?}"
        );
        assert!(
            faults
                .iter()
                .any(|fault| fault.contains("branch main: /two cannot be read whole")),
            "{faults:?}"
        );
        assert!(!faults.iter().any(|fault| fault.contains("/one")), "{faults:?}");
    }
    let reader = Holder::reader(&drive, "main");
    assert_eq!(reader.read("one").len(), 500_000);
    assert!(
        reader
            .try_read("two")
            .unwrap_err()
            .to_string()
            .contains(two.as_str())
    );
}

#[test]
fn a_short_pack_is_corrupt_and_never_data() {
    let (bucket, one, _) = two_files();
    damage(&bucket, &one, |bytes| bytes.truncate(bytes.len() / 2));
    let drive = open(&bucket);
    assert!(
        Holder::reader(&drive, "main")
            .try_read("one")
            .unwrap_err()
            .to_string()
            .contains(one.as_str())
    );
    let faults = drive.check(true).unwrap();
    assert!(
        faults.iter().any(|fault| fault.contains(one.as_str())),
        "{faults:?}"
    );
}

/// Makes a drive of which one owner was killed and the last one closed it, and returns what is in it.
fn two_lives() -> (MemoryBucket, Vec<Key>) {
    let bucket = MemoryBucket::new();
    let drive = create(&bucket);
    let mut holder = Holder::hosted(&drive, "main");
    holder.file("one", &content(1, 50_000));
    holder.ship();
    drop((holder, drive));
    let drive = open(&bucket);
    let mut holder = Holder::hosted(&drive, "main");
    holder.file("two", &content(2, 50_000));
    holder.ship();
    holder.give_back();
    drive.close().unwrap();
    let keys = bucket.list("drives/work/").unwrap().into_iter();
    let keys = keys.filter(|key| !key.as_str().ends_with("lock")).collect();
    (bucket, keys)
}

/// Opens a drive in which `key` is not what it was: it is refused by that name, or everything is there and `check` names it.
fn told(bucket: &MemoryBucket, key: &Key, what: &str) {
    let drive = match try_open(Arc::new(bucket.clone())) {
        Ok(drive) => drive,
        Err(error) => {
            let why = error.to_string();
            assert!(
                why.contains(key.as_str()) && why.contains("restore"),
                "{what} {key}: {why}"
            );
            return;
        }
    };
    // What a pack held answers that it is damaged, and only that.
    if !key.as_str().contains("/packs/") {
        let names = Holder::reader(&drive, "main").names();
        assert_eq!(names, ["one", "two"], "{what} {key}");
    }
    let faults = drive.check(true).unwrap();
    // The seal that an owner did not come to write is put by the next one.
    let is_mended = what == "missing" && bucket.size(key).unwrap().is_some();
    assert!(
        is_mended || faults.iter().any(|fault| fault.contains(key.as_str())),
        "{what} {key}: {faults:?}"
    );
    drive
        .close()
        .unwrap_or_else(|error| panic!("{what} {key}: {error}"));
}

#[test]
fn whatever_is_damaged_or_missing_is_named() {
    let (bucket, keys) = two_lives();
    assert_eq!(open(&bucket.copy()).check(true).unwrap(), [""; 0]);
    for key in &keys {
        let is_mark = bucket.size(key).unwrap() == Some(0);
        let is_old_manifest = key.as_str().contains("/manifests/");
        let is_segment = key.as_str().contains("/journal/") && !key.as_str().ends_with("sealed");
        for (what, at) in [("flipped at the begin", 9), ("flipped in the middle", 30)] {
            let copy = bucket.copy();
            if !is_mark && copy.damage(key, |bytes| bytes[at] ^= 1) {
                told(&copy, key, what);
            }
        }
        let copy = bucket.copy();
        if !is_mark && !is_segment && copy.damage(key, |bytes| bytes.truncate(bytes.len() / 2)) {
            told(&copy, key, "cut");
        }
        let copy = bucket.copy();
        copy.delete(key).unwrap();
        // A manifest before the newest, and a mark, are not known to have been there; nothing is lost with them.
        let drive = try_open(Arc::new(copy.clone()));
        match drive {
            Ok(drive) if is_mark || is_old_manifest => {
                assert_eq!(Holder::reader(&drive, "main").names(), ["one", "two"]);
            }
            Err(_) if is_mark => panic!("{key} is needed by nothing"),
            _ => {
                drop(drive);
                let copy = bucket.copy();
                copy.delete(key).unwrap();
                told(&copy, key, "missing");
            }
        }
    }
}

#[test]
fn a_pack_that_was_being_filled_and_is_gone_is_missed_until_it_is_back() {
    let bucket = MemoryBucket::new();
    let drive = create(&bucket);
    let mut holder = Holder::hosted(&drive, "main");
    holder.file("one", &content(1, 500_000));
    holder.ship();
    drop((holder, drive));
    let left = bucket.copy();
    let open_pack = packs(&left)
        .into_iter()
        .find(|key| key.as_str().ends_with(".open"))
        .unwrap();
    let bytes = left.get(&open_pack).unwrap().unwrap();
    left.delete(&open_pack).unwrap();
    for _ in 0..2 {
        let why = try_open(Arc::new(left.clone()))
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(
            why.contains(open_pack.as_str()) && why.contains("restore"),
            "{why}"
        );
    }
    left.put_if_absent(&open_pack, &bytes).unwrap();
    let drive = open(&left);
    assert_eq!(Holder::reader(&drive, "main").read("one"), content(1, 500_000));
    assert_eq!(drive.check(true).unwrap(), [""; 0]);
}

#[test]
fn a_damaged_state_is_refused_by_name() {
    let (bucket, ..) = two_files();
    for key in packs(&bucket) {
        damage(&bucket, &key, |bytes| {
            bytes.iter_mut().for_each(|byte| *byte ^= 0x55)
        });
    }
    let error = try_open(Arc::new(bucket)).map(drop).unwrap_err();
    assert!(matches!(error, Error::Failed(Failure::Corrupt(_))), "{error}");
    assert!(error.to_string().contains("drives/work/packs/"), "{error}");
}
