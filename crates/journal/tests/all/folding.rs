//! Manifests: what a fold makes unnecessary goes, and nothing that a recovery needs.

use crate::world::{
    Hand, On, SMALL, TIERS, append, claimant_with, drive, manifest, open, open_by, record, records,
};
use std::sync::Arc;
use tenure_journal::manifest::{self, Latest};
use tenure_journal::{Journal, Manifest, Position, Tier, epoch};
use tenure_model::{Address, Digest, Epoch, Failure, PackNumber, Seq};
use tenure_store::faulty::{CallKind, Fault, Plan};
use tenure_store::{Bucket, FaultyBucket, Key, MemoryBucket};

fn fold(journal: &Journal) -> Manifest {
    let manifest = manifest(journal, journal.durable());
    journal.publish(&manifest).unwrap();
    manifest
}

fn segments(bucket: &dyn Bucket) -> Vec<String> {
    let keys = bucket.list("drives/work/journal/").unwrap();
    let keys = keys
        .iter()
        .map(|key| key.as_str().trim_start_matches("drives/work/journal/").to_owned());
    keys.filter(|key| !key.contains("sealed") && !key.contains("next"))
        .collect()
}

#[test]
fn after_a_fold_only_later_records_are_replayed() {
    for tier in TIERS {
        let bucket = tier.new_bucket();
        let (journal, _) = open(&bucket).unwrap();
        append(&journal, 1, 20).unwrap();
        let first = fold(&journal);
        append(&journal, 21, 23).unwrap();
        drop(journal);
        assert_eq!(
            manifest::latest(&*bucket, &drive()).unwrap().manifest,
            Some(first)
        );
        let (journal, replayed) = open(&bucket).unwrap();
        assert_eq!(replayed, records(21, 23));
        let second = fold(&journal);
        drop(journal);
        let (journal, replayed) = open(&bucket).unwrap();
        assert_eq!(replayed, []);
        assert_eq!(journal.durable(), second.at);
        append(&journal, 24, 24).unwrap();
    }
}

#[test]
fn a_manifest_may_lie_before_the_last_record() {
    for tier in TIERS {
        let bucket = tier.new_bucket();
        let (journal, _) = open(&bucket).unwrap();
        let at = append(&journal, 1, 9).unwrap();
        append(&journal, 10, 15).unwrap();
        journal.publish(&manifest(&journal, at)).unwrap();
        drop(journal);
        let (_, replayed) = open(&bucket).unwrap();
        assert_eq!(replayed, records(10, 15));
    }
}

#[test]
fn segments_go_when_the_two_newest_manifests_do_not_need_them() {
    let bucket: Arc<dyn Bucket> = Arc::new(MemoryBucket::new());
    let (journal, _) = open(&bucket).unwrap();
    append(&journal, 1, 30).unwrap();
    let before = segments(&*bucket).len();
    assert!(before >= 3);
    fold(&journal);
    assert_eq!(
        segments(&*bucket).len(),
        before,
        "one manifest alone could be damaged"
    );
    append(&journal, 31, 60).unwrap();
    fold(&journal);
    let after = segments(&*bucket);
    let first = after[0].rsplit('/').next().unwrap().parse::<u64>().unwrap();
    assert!(first <= 31, "what follows the older manifest stays: {after:?}");
    assert!(after.len() < before + 3);
    append(&journal, 61, 62).unwrap();
    drop(journal);
    // Later epochs go on deleting what earlier ones left.
    for number in 63..=70 {
        let (journal, _) = open(&bucket).unwrap();
        append(&journal, number, number).unwrap();
        fold(&journal);
    }
    assert!(segments(&*bucket).len() <= 2, "{:?}", segments(&*bucket));
    assert_eq!(bucket.children("drives/work/manifests/").unwrap().len(), 2);
    assert_eq!(
        bucket
            .children("drives/work/epochs/")
            .unwrap()
            .iter()
            .filter(|name| !name.contains('.'))
            .count(),
        9,
        "claims are never deleted"
    );
    for epoch in 1..=8 {
        assert!(
            tenure_journal::seal::read(&*bucket, &drive(), Epoch(epoch))
                .unwrap()
                .is_some()
        );
    }
    let (journal, replayed) = open(&bucket).unwrap();
    assert_eq!((journal.last(), replayed), (Seq(70), vec![]));
}

#[test]
fn a_fold_of_a_drive_that_is_only_opened_trims_too() {
    for tier in TIERS {
        let bucket = tier.new_bucket();
        let (journal, _) = open(&bucket).unwrap();
        append(&journal, 1, 10).unwrap();
        fold(&journal);
        append(&journal, 11, 20).unwrap();
        drop(journal);
        let (journal, _) = open(&bucket).unwrap();
        fold(&journal);
        fold(&journal);
        drop(journal);
        let (journal, replayed) = open(&bucket).unwrap();
        assert_eq!((journal.last(), replayed), (Seq(20), vec![]));
        append(&journal, 21, 21).unwrap();
    }
}

#[test]
fn a_damaged_newest_manifest_is_made_up_for_by_the_one_before() {
    for tier in TIERS {
        let memory = MemoryBucket::new();
        let bucket = tier.bucket(&memory);
        let (journal, _) = open(&bucket).unwrap();
        append(&journal, 1, 30).unwrap();
        let older = fold(&journal);
        append(&journal, 31, 60).unwrap();
        let newest = fold(&journal);
        append(&journal, 61, 65).unwrap();
        drop(journal);
        let key = Key::parse("drives/work/manifests/00000000000000000060").unwrap();
        memory.damage(&key, |bytes| bytes[20] ^= 1);
        let Latest {
            manifest,
            seqs,
            damaged,
            ..
        } = manifest::latest(&memory, &drive()).unwrap();
        assert_eq!(manifest, Some(older.clone()));
        assert_eq!(seqs, [older.at.seq, newest.at.seq]);
        assert!(damaged[0].to_string().contains(key.as_str()));
        let (journal, replayed) = open(&bucket).unwrap();
        assert_eq!(replayed, records(31, 65));
        // The next folds keep what is needed should the newest be damaged again.
        append(&journal, 66, 70).unwrap();
        fold(&journal);
        drop(journal);
        let key = Key::parse("drives/work/manifests/00000000000000000070").unwrap();
        memory.damage(&key, |bytes| bytes[20] ^= 1);
        let (_, replayed) = open(&bucket).unwrap();
        assert_eq!(replayed, records(31, 70));
    }
}

#[test]
fn a_damaged_manifest_that_nothing_makes_up_for_is_named() {
    let memory = MemoryBucket::new();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let (journal, _) = open(&bucket).unwrap();
    append(&journal, 1, 30).unwrap();
    fold(&journal);
    append(&journal, 31, 60).unwrap();
    fold(&journal);
    drop(journal);
    let keys = memory.list("drives/work/manifests/").unwrap();
    for key in &keys {
        memory.damage(key, |bytes| bytes[20] ^= 1);
    }
    let why = open(&bucket).err().unwrap().to_string();
    assert!(why.contains("corrupt"), "{why}");
    // With the journal's own files gone, the damaged manifest is what is missing.
    for key in memory.list("drives/work/journal/").unwrap() {
        memory.delete(&key).unwrap();
    }
    let why = open(&bucket).err().unwrap().to_string();
    assert!(why.contains(keys[1].as_str()), "{why}");
}

#[test]
fn a_manifest_of_another_epoch_place_or_drive_is_not_published() {
    for tier in TIERS {
        let bucket = tier.new_bucket();
        let (journal, _) = open(&bucket).unwrap();
        append(&journal, 1, 10).unwrap();
        drop(journal);
        let (journal, _) = open(&bucket).unwrap();
        let at = append(&journal, 11, 12).unwrap();
        let good = manifest(&journal, at);
        let early = Position { seq: Seq(9), ..at };
        let late = Position { seq: Seq(13), ..at };
        let other = tenure_model::DriveName::parse("other").unwrap();
        for bad in [
            Manifest {
                epoch: Epoch(1),
                ..good.clone()
            },
            Manifest {
                at: early,
                ..good.clone()
            },
            Manifest {
                at: late,
                ..good.clone()
            },
            Manifest {
                drive: other,
                ..good.clone()
            },
        ] {
            assert!(matches!(journal.publish(&bad), Err(Failure::DidNotHappen(_))));
        }
        assert_eq!(bucket.list("drives/work/manifests/"), Ok(vec![]));
        assert_eq!(journal.publish(&good), Ok(()));
        assert_eq!(
            journal.publish(&good),
            Ok(()),
            "the same manifest is published again"
        );
        let forged = Position {
            chain: Digest::of(b"x"),
            ..at
        };
        assert!(matches!(
            journal.publish(&manifest(&journal, forged)),
            Err(Failure::Corrupt(_))
        ));
    }
}

#[test]
fn a_manifest_whose_outcome_is_unknown_is_read_back() {
    let faults = [Fault::LoseReply, Fault::ClaimExists, Fault::LoseRequest];
    for (tier, fault) in TIERS.iter().flat_map(|tier| faults.map(|fault| (*tier, fault))) {
        let bucket = Arc::new(FaultyBucket::new(tier.new_bucket(), Plan::none()));
        let shared: Arc<dyn Bucket> = bucket.clone();
        let (journal, _) = open(&shared).unwrap();
        append(&journal, 1, 3).unwrap();
        bucket.set_plan(Plan::none().on(CallKind::Put, "manifests", fault));
        let published = journal.publish(&manifest(&journal, journal.durable()));
        let unknown = matches!(published, Err(Failure::Unknown(_)));
        assert!(
            unknown == (fault == Fault::LoseRequest) && (unknown || published.is_ok()),
            "{published:?}"
        );
    }
}

#[test]
fn what_cannot_be_deleted_is_deleted_after_a_later_fold() {
    let bucket = Arc::new(FaultyBucket::new(Arc::new(MemoryBucket::new()), Plan::none()));
    let shared: Arc<dyn Bucket> = bucket.clone();
    let (journal, _) = open(&shared).unwrap();
    bucket.set_plan(Plan::none().on(CallKind::Delete, "drives", Fault::Refuse));
    for round in 0..5 {
        append(&journal, round * 20 + 1, round * 20 + 20).unwrap();
        fold(&journal);
    }
    assert_eq!(shared.children("drives/work/manifests/").unwrap().len(), 5);
    let many = segments(&*shared).len();
    bucket.set_plan(Plan::none());
    append(&journal, 101, 101).unwrap();
    fold(&journal);
    assert_eq!(shared.children("drives/work/manifests/").unwrap().len(), 2);
    assert!(segments(&*shared).len() < many / 2);
}

#[test]
fn what_a_crash_left_undeleted_is_deleted_by_a_later_owner() {
    let memory = MemoryBucket::new();
    let bucket = Arc::new(FaultyBucket::new(Arc::new(memory.clone()), Plan::none()));
    let shared: Arc<dyn Bucket> = bucket.clone();
    for number in 1..=3 {
        let (journal, _) = open(&shared).unwrap();
        append(&journal, number * 20 - 19, number * 20).unwrap();
        if number == 3 {
            // The third manifest is durable, and the process dies at the first deletion.
            bucket.set_plan(Plan::none().on(CallKind::Delete, "journal", Fault::Halt));
        }
        fold(&journal);
    }
    let shared: Arc<dyn Bucket> = Arc::new(memory.copy());
    let left = segments(&*shared).len();
    for number in 61..=63 {
        let (journal, _) = open(&shared).unwrap();
        append(&journal, number, number).unwrap();
        fold(&journal);
    }
    assert_eq!(left, 6);
    assert!(segments(&*shared).len() <= 3, "{:?}", segments(&*shared));
    assert_eq!(shared.children("drives/work/manifests/").unwrap().len(), 2);
}

#[test]
fn opening_looks_only_at_epochs_since_the_oldest_manifest() {
    let memory = MemoryBucket::new();
    let shared: Arc<dyn Bucket> = Arc::new(memory.clone());
    for number in 1..=30 {
        let (journal, _) = open(&shared).unwrap();
        append(&journal, number, number).unwrap();
        fold(&journal);
        journal.close().unwrap();
    }
    let before = memory.requests().counts();
    drop(open(&shared).unwrap());
    let counts = memory.requests().counts();
    assert!(
        counts.gets - before.gets <= 6 && counts.lists - before.lists <= 8,
        "{before:?} {counts:?}"
    );
    assert_eq!(counts.writes, before.writes);
}

/// Returns the lines that are not all zeros, each with its place.
fn hex(bytes: &[u8]) -> Vec<String> {
    let digits = |line: &[u8]| -> String { line.iter().map(|byte| format!("{byte:02x}")).collect() };
    let lines = bytes
        .chunks(32)
        .enumerate()
        .filter(|(_, line)| line.iter().any(|byte| *byte != 0));
    lines
        .map(|(number, line)| format!("{:04x} {}", number * 32, digits(line)))
        .collect()
}

/// Lives a short life whose every object is known to the byte.
fn live_as_ever(tier: On) -> (MemoryBucket, Manifest) {
    let memory = MemoryBucket::new();
    let bucket = tier.bucket(&memory);
    let as_ever = || claimant_with("the test", Arc::new(|| [7; 16]), Arc::new(Hand::default()));
    let (journal, _) = open_by(&bucket, as_ever(), SMALL).unwrap();
    for number in 1..=2 {
        journal.enqueue(record(number), Box::new(|_| ())).unwrap();
    }
    journal.commit_waiting();
    let at = journal.append_now(record(3)).unwrap();
    let root = Address {
        pack: PackNumber(5),
        digest: Digest::of(b"root"),
    };
    let folded = journal.manifest(at, Some(root), b"the state after 3".to_vec());
    journal.publish(&folded).unwrap();
    drop(journal);
    drop(open_by(&bucket, as_ever(), SMALL).unwrap());
    (memory, folded)
}

fn check_golden(memory: &MemoryBucket, goldens: &[(String, &str)]) {
    for (key, golden) in goldens {
        let key = Key::parse(&format!("drives/work/{key}")).unwrap();
        let bytes = memory.get(&key).unwrap().unwrap();
        assert_eq!(hex(&bytes), golden.lines().collect::<Vec<_>>(), "{key}");
    }
}

fn n(number: u64) -> String {
    format!("{number:020}")
}

/// Each kind of object of the folder tier as it stood in its first version.
#[test]
fn objects_have_the_bytes_they_always_had() {
    let (memory, folded) = live_as_ever(On::Files);
    let goldens = [
        (format!("epochs/{}", n(1)), include_str!("../golden/claim-1.hex")),
        (
            format!("journal/{}/sealed", n(1)),
            include_str!("../golden/seal-1.hex"),
        ),
        (
            format!("manifests/{}", n(3)),
            include_str!("../golden/manifest-1.hex"),
        ),
        (
            format!("journal/{}/{}", n(1), n(1)),
            include_str!("../golden/segment-1.hex"),
        ),
    ];
    check_golden(&memory, &goldens);
    let claim = epoch::read(&memory, &drive(), Epoch(1)).unwrap().unwrap();
    assert_eq!((claim.who.as_str(), claim.nonce), ("the test", [7; 16]));
    let read = manifest::read(&memory, &drive(), Seq(3)).unwrap();
    assert_eq!((read.tier, read), (Tier::Folder, folded));
}

/// Each kind of object of the bucket tier as it stood in its first version; claims and seals are those of the folder tier.
#[test]
fn objects_of_the_bucket_tier_have_the_bytes_they_always_had() {
    let (memory, folded) = live_as_ever(On::Objects);
    let segment = |number| format!("journal/{}/{}", n(1), n(number));
    let goldens = [
        (format!("epochs/{}", n(1)), include_str!("../golden/claim-1.hex")),
        (segment(0), include_str!("../golden/opening-1.hex")),
        (segment(1), include_str!("../golden/object-1.hex")),
        (segment(3), include_str!("../golden/seal-1.hex")),
        (
            format!("manifests/{}", n(3)),
            include_str!("../golden/manifest-2.hex"),
        ),
    ];
    check_golden(&memory, &goldens);
    let read = manifest::read(&memory, &drive(), Seq(3)).unwrap();
    assert_eq!((read.tier, read.segment), (Tier::Bucket, 2));
    assert_eq!(read, folded);
}
