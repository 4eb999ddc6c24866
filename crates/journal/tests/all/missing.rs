//! Objects that are gone: refused by name before anything is claimed, or everything is there all the same.

use crate::world::{On, TIERS, append, drive, manifest, open, records};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use tenure_journal::{Depth, epoch};
use tenure_model::{Digest, Epoch};
use tenure_store::key::number_text;
use tenure_store::{Bucket, FolderBucket, Key, MemoryBucket};

/// How an owner ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Killed,
    Closed,
}

/// Lives through some epochs, and returns how many records were acknowledged.
fn live(bucket: &Arc<dyn Bucket>, ends: &[End]) -> u64 {
    let mut number = 0;
    for end in ends {
        let (journal, _) = open(bucket).unwrap();
        append(&journal, number + 1, number + 3).unwrap();
        journal.publish(&manifest(&journal, journal.durable())).unwrap();
        append(&journal, number + 4, number + 30).unwrap();
        number += 30;
        if *end == End::Closed {
            journal.publish(&manifest(&journal, journal.durable())).unwrap();
            journal.close().unwrap();
        }
    }
    number
}

fn keys(bucket: &dyn Bucket) -> BTreeSet<Key> {
    let all = bucket.list("drives/work/").unwrap().into_iter();
    all.filter(|key| !key.as_str().ends_with("lock")).collect()
}

/// Opens a drive of which `key` was removed.
fn check(bucket: &Arc<dyn Bucket>, key: &Key, all: u64, what: &str) {
    bucket.delete(key).unwrap();
    let before = keys(&**bucket);
    match open(bucket) {
        Ok((journal, replayed)) => {
            assert_eq!(journal.last().0, all, "{what}: {key} is missing");
            assert_eq!(replayed, records(all + 1 - replayed.len() as u64, all), "{what}");
            let newest = epoch::newest(&**bucket, &drive()).unwrap();
            assert_eq!(journal.epoch(), newest, "{what}: {key} is missing");
        }
        Err(error) => {
            let why = error.to_string();
            assert!(
                why.contains(key.as_str()) && why.contains("restore"),
                "{what}: {key} is missing: {why}"
            );
            assert_eq!(keys(&**bucket), before, "{what}: {key} is missing");
        }
    }
}

const LIVES: [&[End]; 5] = [
    &[End::Killed],
    &[End::Closed],
    &[End::Killed, End::Killed],
    &[End::Closed, End::Killed, End::Killed],
    &[End::Killed, End::Closed, End::Closed],
];

#[test]
fn whichever_object_is_missing_nothing_is_left_out_in_silence() {
    for ends in LIVES {
        let memory = MemoryBucket::new();
        let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
        let all = live(&bucket, ends);
        for key in keys(&memory) {
            let copy: Arc<dyn Bucket> = Arc::new(memory.copy());
            check(&copy, &key, all, &format!("{ends:?}"));
        }
    }
}

#[test]
fn where_every_manifest_is_missing_that_is_said() {
    let mut refused = 0;
    for ends in LIVES {
        let bucket: Arc<dyn Bucket> = Arc::new(MemoryBucket::new());
        let all = live(&bucket, ends);
        for key in bucket.list("drives/work/manifests/").unwrap() {
            bucket.delete(&key).unwrap();
        }
        match open(&bucket) {
            Ok((journal, _)) => assert_eq!(journal.last().0, all, "{ends:?}"),
            Err(error) => {
                let why = error.to_string();
                assert!(
                    why.contains("drives/work/manifests/ holds no manifest: restore"),
                    "{why}"
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "segments that a manifest made needless are gone");
}

#[test]
fn the_same_holds_in_a_folder() {
    let ends = &[End::Killed, End::Killed];
    let folder = || {
        let place = tempfile::tempdir().unwrap();
        let bucket: Arc<dyn Bucket> = Arc::new(FolderBucket::create(place.path()).unwrap());
        let all = live(&bucket, ends);
        (place, bucket, all)
    };
    let (_place, bucket, _) = folder();
    for key in keys(&*bucket) {
        let (_place, bucket, all) = folder();
        check(&bucket, &key, all, "in a folder");
    }
}

#[test]
fn whichever_small_object_is_damaged_everything_is_there_or_it_is_named() {
    for ends in LIVES {
        let memory = MemoryBucket::new();
        let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
        let all = live(&bucket, ends);
        let small = |key: &Key| !key.as_str().contains("/journal/") || key.as_str().ends_with("sealed");
        for key in keys(&memory).into_iter().filter(small) {
            for cut in [false, true] {
                let copy = memory.copy();
                copy.damage(&key, |bytes| {
                    let half = bytes.len() / 2;
                    if cut {
                        bytes.truncate(half);
                    } else if let Some(byte) = bytes.get_mut(half) {
                        *byte ^= 1;
                    }
                });
                let copy: Arc<dyn Bucket> = Arc::new(copy);
                let (journal, replayed) =
                    open(&copy).unwrap_or_else(|error| panic!("{ends:?}: {key}: {error}"));
                assert_eq!(journal.last().0, all, "{ends:?}: {key}");
                assert_eq!(replayed, records(all + 1 - replayed.len() as u64, all));
                journal
                    .publish(&manifest(&journal, journal.durable()))
                    .unwrap_or_else(|error| panic!("{ends:?}: {key}: {error}"));
                append(&journal, all + 1, all + 2).unwrap();
                drop(journal);
                assert_eq!(
                    open(&copy).unwrap().1,
                    records(all + 1, all + 2),
                    "{ends:?}: {key}"
                );
            }
        }
    }
}

#[test]
fn the_only_claim_and_the_only_segment_of_a_killed_owner_are_missed() {
    let n = |number: u64| format!("{number:020}");
    for lost in [format!("epochs/{}", n(1)), format!("journal/{}/{}", n(1), n(1))] {
        let memory = MemoryBucket::new();
        let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
        let (journal, _) = open(&bucket).unwrap();
        append(&journal, 1, 2).unwrap();
        drop(journal);
        let key = Key::parse(&format!("drives/work/{lost}")).unwrap();
        memory.delete(&key).unwrap();
        let why = open(&bucket).err().unwrap().to_string();
        assert!(why.contains(key.as_str()), "{why}");
    }
}

#[test]
fn a_drive_of_owners_that_made_no_marks_is_read_and_its_only_segment_is_missed() {
    let memory = MemoryBucket::new();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let (journal, _) = open(&bucket).unwrap();
    append(&journal, 1, 2).unwrap();
    journal.publish(&manifest(&journal, journal.durable())).unwrap();
    append(&journal, 3, 4).unwrap();
    drop(journal);
    let n = |number: u64| format!("{number:020}");
    let mark = Key::parse(&format!("drives/work/epochs/{}.{}", n(1), n(1))).unwrap();
    assert_eq!(memory.size(&mark), Ok(Some(0)));
    memory.delete(&mark).unwrap();
    let whole: Arc<dyn Bucket> = Arc::new(memory.copy());
    assert_eq!(open(&whole).unwrap().1, records(3, 4));
    let segment = Key::parse(&format!("drives/work/journal/{}/{}", n(1), n(1))).unwrap();
    memory.delete(&segment).unwrap();
    let before = keys(&memory);
    let why = open(&bucket).err().unwrap().to_string();
    assert!(why.contains(segment.as_str()) && why.contains("restore"), "{why}");
    assert_eq!(keys(&memory), before);
}

/// A claim that no owner can have made is named at once, whatever its number; it is neither followed nor taken for the newest.
#[test]
fn a_stray_claim_is_refused_by_name_at_once() {
    for tier in TIERS {
        for number in [1000, 100_000_000, u64::MAX] {
            let bucket = tier.new_bucket();
            live(&bucket, &[End::Killed, End::Closed]);
            let stray = Key::parse(&format!("drives/work/epochs/{number:020}")).unwrap();
            bucket.put_if_absent(&stray, b"").unwrap();
            let before = keys(&*bucket);
            let why = open(&bucket).err().expect("a stray claim").to_string();
            let missing = "drives/work/epochs/00000000000000000003";
            assert!(
                why.contains(stray.as_str()) && why.contains(missing),
                "{tier:?}: {why}"
            );
            assert_eq!(keys(&*bucket), before, "{tier:?}");
            let faults = tenure_journal::audit(&*bucket, &drive(), Depth::Records).unwrap();
            assert!(
                faults.iter().any(|fault| fault.contains(stray.as_str())),
                "{faults:?}"
            );
            assert!(faults.len() < 5, "{faults:?}");
            bucket.delete(&stray).unwrap();
            open(&bucket).unwrap();
        }
    }
}

/// Each try to open what is damaged would use up an epoch, and depose an owner that can read it.
#[test]
fn a_drive_that_cannot_be_read_is_not_claimed() {
    let memory = MemoryBucket::new();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let (journal, _) = open(&bucket).unwrap();
    append(&journal, 1, 4).unwrap();
    drop(journal);
    let segment = Key::parse("drives/work/journal/00000000000000000001/00000000000000000001").unwrap();
    memory.damage(&segment, |bytes| bytes[4096 + 70] ^= 1);
    let before = keys(&memory);
    for _ in 0..2 {
        let why = open(&bucket).err().expect("a damaged segment").to_string();
        assert!(why.contains(segment.as_str()), "{why}");
        assert_eq!(keys(&memory), before);
    }
    memory.damage(&segment, |bytes| bytes[4096 + 70] ^= 1);
    let (journal, replayed) = open(&bucket).unwrap();
    assert_eq!((journal.epoch(), replayed), (Epoch(2), records(1, 4)));
}

/// What a newer program has written is said to be that, and neither claimed nor called damaged.
#[test]
fn a_newer_format_is_refused_by_name_before_anything_is_claimed() {
    let of_files = "journal/00000000000000000001/00000000000000000001";
    let of_objects = "journal/00000000000000000001/00000000000000000000";
    let manifest = "manifests/00000000000000000030";
    for (tier, name) in [
        (On::Files, of_files),
        (On::Objects, of_objects),
        (On::Files, manifest),
        (On::Objects, manifest),
    ] {
        let memory = MemoryBucket::new();
        let bucket = tier.bucket(&memory);
        let end = if name == manifest {
            End::Closed
        } else {
            End::Killed
        };
        live(&bucket, &[end]);
        let key = Key::parse(&format!("drives/work/{name}")).unwrap();
        memory.damage(&key, |bytes| {
            bytes[8] = 9;
            if name == of_files {
                let checksum = crc32c::crc32c(&bytes[..72]);
                bytes[72..76].copy_from_slice(&checksum.to_le_bytes());
            } else {
                let signed = bytes.len() - 32;
                let digest = Digest::of(&bytes[..signed]);
                bytes[signed..].copy_from_slice(&digest.0);
            }
        });
        let before = keys(&memory);
        let why = open(&bucket).err().expect("a newer format").to_string();
        assert!(
            why.starts_with(key.as_str()) && why.contains("version 9") && why.ends_with("use a newer tenure"),
            "{tier:?}: {why}"
        );
        assert_eq!(keys(&memory), before, "{tier:?}: {name}");
    }
}

/// An object that is longer than any that was written is damaged: it is known by its length, before there is memory for it.
#[test]
fn an_object_that_is_too_long_is_named_or_not_needed() {
    let lengthened = |place: &Path, name: &str| {
        let file = std::fs::File::options().write(true).open(place.join(name));
        file.unwrap().set_len(100 << 30).unwrap();
    };
    let first = "00000000000000000001";
    let needed = [format!("drives/work/journal/{first}/{first}")];
    let spared = [
        format!("drives/work/epochs/{first}"),
        format!("drives/work/journal/{first}/sealed"),
        "drives/work/manifests/00000000000000000003".to_owned(),
    ];
    for name in needed.iter().chain(&spared) {
        let place = tempfile::tempdir().unwrap();
        let bucket: Arc<dyn Bucket> = Arc::new(FolderBucket::create(place.path()).unwrap());
        let (journal, _) = open(&bucket).unwrap();
        append(&journal, 1, 3).unwrap();
        journal.publish(&manifest(&journal, journal.durable())).unwrap();
        journal.close().unwrap();
        drop(journal);
        lengthened(place.path(), name);
        let is_named = |fault: &String| fault.contains(name) && fault.contains("too long");
        if spared.contains(name) {
            let (journal, _) = open(&bucket).unwrap_or_else(|error| panic!("{name}: {error}"));
            let faults = tenure_journal::audit(&*bucket, &drive(), Depth::Records).unwrap();
            assert!(faults.iter().any(is_named), "{name}: {faults:?}");
            assert_eq!(journal.last().0, 3);
            journal.publish(&manifest(&journal, journal.durable())).unwrap();
        } else {
            bucket
                .delete(&Key::parse("drives/work/manifests/00000000000000000003").unwrap())
                .unwrap();
            let why = open(&bucket).err().expect("records are in it").to_string();
            assert!(is_named(&why), "{name}: {why}");
        }
    }
}

#[test]
fn a_seal_of_another_epoch_counts_for_a_damaged_one() {
    let memory = MemoryBucket::new();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let all = live(&bucket, &[End::Killed, End::Closed, End::Closed]);
    let mut seals = keys(&memory);
    seals.retain(|key| key.as_str().ends_with("sealed"));
    let (one, other) = (seals.pop_first().unwrap(), seals.pop_last().unwrap());
    let bytes = memory.get(&one).unwrap().unwrap();
    memory.damage(&other, |sealed| sealed.clone_from(&bytes));
    let (journal, replayed) = open(&bucket).unwrap();
    assert_eq!(journal.last().0, all);
    assert_eq!(replayed, records(all + 1 - replayed.len() as u64, all));
}

/// Nothing tells whether an owner has made it: whoever knows is told what to do.
#[test]
fn a_stray_manifest_ahead_of_the_journal_is_named_with_what_to_do() {
    let memory = MemoryBucket::new();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let all = live(&bucket, &[End::Closed]);
    let stray = Key::in_drive(&drive(), &["manifests", &number_text(all + 90)]);
    memory.put_if_absent(&stray, b"\n").unwrap();
    let before = keys(&memory);
    let why = open(&bucket).err().unwrap().to_string();
    for part in [stray.as_str(), "restore", "or remove it"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert_eq!(keys(&memory), before);
    memory.delete(&stray).unwrap();
    assert_eq!(open(&bucket).unwrap().0.last().0, all);
}

#[test]
fn a_journal_whose_segment_was_removed_while_it_is_written_stops_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let bucket: Arc<dyn Bucket> = Arc::new(FolderBucket::create(folder.path()).unwrap());
    let (journal, _) = open(&bucket).unwrap();
    append(&journal, 1, 3).unwrap();
    let segment = Key::in_drive(&drive(), &["journal", &number_text(1), &number_text(1)]);
    std::fs::remove_file(folder.path().join(segment.as_str())).unwrap();
    for _ in 0..2 {
        let refused = append(&journal, 4, 4).unwrap_err().to_string();
        assert!(
            refused.contains(segment.as_str()) && refused.contains("removed"),
            "{refused}"
        );
        assert!(journal.has_stopped());
    }
}
