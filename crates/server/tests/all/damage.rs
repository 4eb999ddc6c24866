//! Damage: what `check` finds and names, and what still works beside it.

use crate::world::{Holder, content, create, drive_name, open, options, try_open};
use std::sync::Arc;
use tenure_journal::{Claimant, Means, Opening};
use tenure_model::Failure;
use tenure_server::{Drive, Options};
use tenure_store::{Bucket, Cache, Key, MemoryBucket};
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
fn a_check_names_a_pack_that_is_gone_although_what_it_held_is_kept_nearer() {
    let (bucket, one, _) = two_files();
    let options = Options {
        cache: Some(Arc::new(Cache::in_memory())),
        ..options(&Arc::default())
    };
    let drive = Drive::open(Arc::new(bucket.clone()), &drive_name(), options).unwrap();
    let reader = Holder::reader(&drive, "main");
    assert_eq!(reader.read("one").len(), 500_000);
    bucket.delete(&one).unwrap();
    assert_eq!(reader.read("one").len(), 500_000);
    for deep in [false, true] {
        let faults = drive.check(deep).unwrap();
        let names = |what: &str| faults.iter().any(|fault| fault.contains(what));
        assert!(
            names(one.as_str()) && (names("/one cannot be read whole") || !deep),
            "{faults:?}"
        );
    }
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

/// Makes a drive whose owner was killed while both files were in a pack that was being filled, and returns that.
fn killed_while_filling() -> (MemoryBucket, Key, Vec<u8>) {
    let bucket = MemoryBucket::new();
    let drive = create(&bucket);
    let mut holder = Holder::hosted(&drive, "main");
    holder.file("one", &content(1, 500_000));
    holder.file("two", &content(2, 500_000));
    holder.ship();
    drop((holder, drive));
    let left = bucket.copy();
    let is_open = |key: &Key| key.as_str().ends_with(".open") && left.size(key).unwrap() > Some(500_000);
    let open_pack = packs(&left).into_iter().find(is_open).unwrap();
    let bytes = left.get(&open_pack).unwrap().unwrap();
    (left, open_pack, bytes)
}

/// What becomes of an object's bytes.
type Change = fn(&mut Vec<u8>);

/// Opens a drive of which files are lost: exactly they fail, by the name of `pack`, and everybody is told.
fn only_lost(bucket: &MemoryBucket, pack: &Key, lost: &[&str]) {
    let drive = open(bucket);
    let told = drive.notices().join("\n");
    assert!(told.contains(pack.as_str()) && told.contains("restore"), "{told}");
    let reader = Holder::reader(&drive, "main");
    let faults = drive.check(false).unwrap().join("\n");
    assert!(faults.contains(pack.as_str()), "{faults}");
    for (name, seed) in [("one", 1), ("two", 2)] {
        let is_lost = lost.contains(&name);
        assert_eq!(
            told.contains(&format!("/{name} of branch main")),
            is_lost,
            "{told}"
        );
        assert_eq!(
            faults.contains(&format!("branch main: /{name} cannot be read whole")),
            is_lost,
            "{faults}"
        );
        match reader.try_read(name) {
            Ok(bytes) => assert!(!is_lost && bytes == content(seed, 500_000), "{name}"),
            Err(error) => assert!(
                is_lost && error.to_string().contains(pack.as_str()),
                "{name}: {error}"
            ),
        }
    }
    drive.close().unwrap();
}

#[test]
fn a_pack_that_was_being_filled_and_is_damaged_takes_only_what_it_held_until_it_is_put_back() {
    let (left, open_pack, bytes) = killed_while_filling();
    let changes: [(Change, &[&str]); 3] = [
        (|bytes| bytes[250_000] ^= 1, &["one"]),
        (|bytes| bytes.truncate(700_000), &["two"]),
        (Vec::clear, &["one", "two"]),
    ];
    for (change, lost) in changes {
        let bucket = left.copy();
        let mut damaged = bytes.clone();
        change(&mut damaged);
        bucket.damage(&open_pack, |bytes| bytes.clone_from(&damaged));
        // What is left of it is kept through every later life.
        for _ in 0..3 {
            only_lost(&bucket, &open_pack, lost);
            assert_eq!(bucket.get(&open_pack), Ok(Some(damaged.clone())));
        }
        bucket.damage(&open_pack, |there| there.clone_from(&bytes));
        healed(&bucket);
    }
}

#[test]
fn a_pack_that_was_being_filled_and_is_gone_is_missed_until_it_is_put_back() {
    let (bucket, open_pack, bytes) = killed_while_filling();
    bucket.delete(&open_pack).unwrap();
    for _ in 0..3 {
        only_lost(&bucket, &open_pack, &["one", "two"]);
    }
    bucket.put_if_absent(&open_pack, &bytes).unwrap();
    healed(&bucket);
}

/// A list that is deleted is not known to have been there; what may be needed stays without it, and is taken once both are back.
#[test]
fn what_is_put_back_of_a_pack_whose_list_was_deleted_is_kept() {
    let (bucket, open_pack, bytes) = killed_while_filling();
    bucket.delete(&open_pack).unwrap();
    only_lost(&bucket, &open_pack, &["one", "two"]);
    let is_list = |key: &Key| key.as_str().contains(".lost.");
    let list = packs(&bucket).into_iter().find(is_list).unwrap();
    let listed = bucket.get(&list).unwrap().unwrap();
    bucket.delete(&list).unwrap();
    bucket.put_if_absent(&open_pack, &bytes).unwrap();
    for _ in 0..3 {
        let drive = open(&bucket);
        let told = drive.notices().join("\n");
        assert!(
            told.contains(&format!("{open_pack} is left as it is")) && told.contains("restore"),
            "{told}"
        );
        drive.close().unwrap();
        assert_eq!(bucket.get(&open_pack), Ok(Some(bytes.clone())));
    }
    bucket.put_if_absent(&list, &listed).unwrap();
    healed(&bucket);
}

#[test]
fn a_file_among_the_packs_that_is_none_is_noted_and_is_no_fault() {
    let (bucket, ..) = two_files();
    for name in ["junk", "folder/junk"] {
        let junk = Key::parse(&format!("drives/work/packs/{name}")).unwrap();
        bucket.put_if_absent(&junk, b"12345").unwrap();
    }
    let drive = open(&bucket);
    for deep in [false, true] {
        let told = drive.check(deep).unwrap();
        let expected = [
            "note: drives/work/packs/folder/: it is no folder of a drive, and nothing reads it",
            "note: drives/work/packs/junk (5 bytes): it is no object of a drive, and nothing reads it",
        ];
        assert_eq!(told, expected);
    }
}

fn healed(bucket: &MemoryBucket) {
    for _ in 0..2 {
        let drive = open(bucket);
        let reader = Holder::reader(&drive, "main");
        assert_eq!(reader.read("one"), content(1, 500_000));
        assert_eq!(reader.read("two"), content(2, 500_000));
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
        drive.close().unwrap();
    }
}

#[test]
fn a_check_of_the_usual_depth_finds_a_damaged_claim_and_a_damaged_manifest() {
    let (bucket, keys) = two_lives();
    for folder in ["/epochs/", "/manifests/"] {
        let is_object = |key: &&Key| key.as_str().contains(folder) && bucket.size(key).unwrap() > Some(0);
        let key = keys.iter().find(is_object).unwrap();
        let copy = bucket.copy();
        copy.damage(key, |bytes| bytes[30] ^= 1);
        let faults = open(&copy).check(false).unwrap();
        assert!(
            faults.iter().any(|fault| fault.contains(key.as_str())),
            "{key}: {faults:?}"
        );
    }
}

/// Takes away what the journal holds, as is done once a state has made it unnecessary.
fn forget_journal(bucket: &MemoryBucket) {
    for key in bucket.list("drives/work/journal/").unwrap() {
        if !key.as_str().ends_with("sealed") {
            bucket.delete(&key).unwrap();
        }
    }
}

#[test]
fn a_damaged_state_is_refused_by_name() {
    let (bucket, ..) = two_files();
    forget_journal(&bucket);
    for key in packs(&bucket) {
        damage(&bucket, &key, |bytes| {
            bytes.iter_mut().for_each(|byte| *byte ^= 0x55)
        });
    }
    let error = try_open(Arc::new(bucket)).map(drop).unwrap_err();
    assert!(matches!(error, Error::Failed(Failure::Corrupt(_))), "{error}");
    assert!(error.to_string().contains("drives/work/packs/"), "{error}");
}

/// Who cannot read a drive's own state has claimed nothing, however often it is tried.
#[test]
fn a_drive_whose_state_cannot_be_read_is_not_claimed() {
    let (bucket, one, two) = two_files();
    forget_journal(&bucket);
    for key in packs(&bucket) {
        if key != one && key != two {
            bucket.delete(&key).unwrap();
        }
    }
    let claims = || bucket.list("drives/work/epochs/").unwrap();
    let before = claims();
    for _ in 0..3 {
        let error = try_open(Arc::new(bucket.clone()))
            .err()
            .expect("its state is gone");
        assert!(error.to_string().contains("the drive's own state"), "{error}");
        assert_eq!(claims(), before);
    }
}

/// A manifest that is passed over is told, whatever it was.
#[test]
fn a_drive_that_falls_back_to_an_older_manifest_says_so() {
    let (bucket, ..) = two_files();
    let newest = bucket.list("drives/work/manifests/").unwrap().pop().unwrap();
    damage(&bucket, &newest, |bytes| bytes[40] ^= 1);
    let drive = open(&bucket);
    let notices = drive.notices();
    assert!(
        notices.iter().any(|notice| notice.contains(newest.as_str())),
        "{notices:?}"
    );
}

/// What an older manifest and the journal make up for keeps no drive from being opened.
#[test]
fn a_drive_whose_newest_state_is_damaged_falls_back_to_the_one_before() {
    let (bucket, one, two) = two_files();
    let of_files = [one, two];
    let newest = packs(&bucket).into_iter().rfind(|key| !of_files.contains(key));
    let newest = newest.expect("the state is in packs of its own");
    damage(&bucket, &newest, |bytes| {
        bytes.iter_mut().for_each(|byte| *byte ^= 0x55)
    });
    let drive = open(&bucket);
    let notices = drive.notices();
    assert!(
        notices.iter().any(|notice| notice.contains(newest.as_str())),
        "{notices:?}"
    );
    let reader = Holder::reader(&drive, "main");
    for name in ["one", "two"] {
        assert_eq!(reader.read(name).len(), 500_000);
    }
    drive.close().unwrap();
    // What was damaged is in no newer state.
    bucket.delete(&newest).unwrap();
    open(&bucket).close().unwrap();
}

/// Makes a drive that was killed after its last fold, and returns the pack of that fold's pages.
fn killed_behind_a_fold() -> (MemoryBucket, Key) {
    let (bucket, one, two) = two_files();
    let of_files = [one, two];
    let newest = packs(&bucket).into_iter().rfind(|key| !of_files.contains(key));
    let drive = open(&bucket);
    let mut holder = Holder::hosted(&drive, "main");
    holder.file("three", &content(3, 100));
    holder.ship();
    drop((holder, drive));
    (bucket.copy(), newest.expect("the state is in packs of its own"))
}

/// Whether opening meets the page or not: what the manifest before and the journal have is not lost with it.
#[test]
fn one_damaged_byte_in_the_newest_pages_takes_nothing() {
    let (left, newest) = killed_behind_a_fold();
    let len = left.size(&newest).unwrap().unwrap() as usize;
    for at in (0..len).step_by(len / 12) {
        let bucket = left.copy();
        bucket.damage(&newest, |bytes| bytes[at] ^= 1);
        let drive = open(&bucket);
        let told = drive.notices().join("\n");
        assert!(told.contains(newest.as_str()), "byte {at}: {told}");
        let holder = Holder::hosted(&drive, "main");
        assert_eq!(holder.names(), ["one", "three", "two"], "byte {at}");
        for (name, len) in [("one", 500_000), ("two", 500_000), ("three", 100)] {
            assert_eq!(holder.read(name).len(), len, "byte {at}");
        }
        holder.give_back();
        drive.close().unwrap();
        // What was damaged is in no newer state.
        bucket.delete(&newest).unwrap();
        assert_eq!(Holder::reader(&open(&bucket), "main").names().len(), 3);
    }
}

/// Where nothing makes up for a damaged page, it takes what it held, and not the drive.
#[test]
fn a_damaged_page_that_nothing_makes_up_for_keeps_no_drive_shut() {
    let (bucket, one, two) = two_files();
    let drive = open(&bucket);
    let mut holder = Holder::hosted(&drive, "main");
    holder.file("three", &content(3, 100));
    holder.ship();
    holder.give_back();
    drive.close().unwrap();
    forget_journal(&bucket);
    let of_files = [one, two];
    let newest = packs(&bucket).into_iter().rfind(|key| !of_files.contains(key));
    let newest = newest.expect("the state is in packs of its own");
    // The pages of the branch come before those of the drive's own state.
    damage(&bucket, &newest, |bytes| bytes[0] ^= 1);
    let drive = open(&bucket);
    let faults = drive.check(true).unwrap().join("\n");
    assert!(faults.contains(newest.as_str()), "{faults}");
}

/// The chain proves its bytes, so that it is not damaged.
#[test]
fn a_record_that_only_a_newer_program_reads_is_refused_as_newer_by_its_number() {
    let bucket = MemoryBucket::new();
    create(&bucket).close().unwrap();
    let options = options(&Arc::default());
    let claimant = Claimant {
        who: "a newer program".to_owned(),
        after: None,
        means: Means::new(options.clock.clone(), options.draw.clone()),
    };
    let opening = Opening::begin(Arc::new(bucket.clone()), &drive_name(), claimant).unwrap();
    let replayed = opening.replay(&mut |_, _| Ok(())).unwrap();
    let journal = opening.go_on(replayed).unwrap();
    let at = journal.append_now(vec![200]).unwrap();
    drop(journal);
    let refused = try_open(Arc::new(bucket)).map(drop).unwrap_err();
    let named = format!("record {} of the journal of work", at.seq);
    assert!(
        matches!(&refused, Error::Failed(Failure::Newer(why)) if why.starts_with(&named)),
        "{refused:?}"
    );
}
