//! One owner at a time, whatever the bucket answers.

use crate::world::{Bytes, Hand, append, claimant, claimant_with, drive, open, record, records};
use std::sync::Arc;
use tenure_journal::{Claim, Claimant, Opening, epoch, seal};
use tenure_model::{Digest, Epoch, Failure, Refusal, Seq};
use tenure_store::faulty::{CallKind, Fault, Plan};
use tenure_store::{Bucket, FaultyBucket, FolderBucket, Key, MemoryBucket, OpenError};

fn claim(bucket: &dyn Bucket, who: &str, nonce: u8) -> Result<Claim, OpenError> {
    let claimant = claimant_with(who, Arc::new(move || [nonce; 16]), Arc::new(Hand::default()));
    epoch::claim(bucket, &drive(), &claimant)
}

#[test]
fn a_second_owner_is_refused_with_the_first_ones_words() {
    let folder = tempfile::tempdir().unwrap();
    let folders: [Arc<dyn Bucket>; 2] = [
        Arc::new(FolderBucket::create(folder.path()).unwrap()),
        Arc::new(FolderBucket::open(folder.path()).unwrap()),
    ];
    let memory: Arc<dyn Bucket> = Arc::new(MemoryBucket::new());
    for [first, second] in [folders, [memory.clone(), memory]] {
        let by = "agent a on host h, process 12, /run/tenure/a.sock".to_owned();
        let opening = Opening::begin(first, &drive(), claimant(&by)).unwrap();
        let refused = Opening::begin(second.clone(), &drive(), claimant("b")).err();
        assert_eq!(refused, Some(OpenError::Refused(Refusal::Held { by })));
        assert_eq!(
            epoch::newest(&*second, &drive()),
            Ok(Epoch(0)),
            "nobody has claimed it before it was read"
        );
        drop(opening);
        assert!(Opening::begin(second, &drive(), claimant("b")).is_ok());
    }
}

#[test]
fn each_claim_follows_on_the_one_before() {
    let bucket = MemoryBucket::new();
    for number in 1..=12 {
        let claimed = claim(&bucket, &format!("owner {number}"), number as u8).unwrap();
        let epochs = (claimed.epoch, claimed.previous);
        assert_eq!(epochs, (Epoch(number), Epoch(number - 1)));
        assert_eq!(epoch::read(&bucket, &drive(), claimed.epoch), Ok(Some(claimed)));
    }
    assert_eq!(epoch::newest(&bucket, &drive()), Ok(Epoch(12)));
}

/// What a newer program has written cannot be read here: it is said so before anything is claimed. A damaged claim says
/// nothing.
#[test]
fn a_drive_whose_owner_was_a_newer_program_is_not_claimed() {
    let bucket = MemoryBucket::new();
    claim(&bucket, "an owner", 7).unwrap();
    let key = Key::in_drive(&drive(), &["epochs", &format!("{:020}", 1)]);
    let mut bytes = bucket.get(&key).unwrap().expect("it was claimed");
    bytes[8] = 2;
    let damaged = MemoryBucket::new();
    damaged.put_if_absent(&key, &bytes).unwrap();
    assert_eq!(claim(&damaged, "an owner", 7).unwrap().epoch, Epoch(2));

    let signed = bytes.len() - 32;
    let digest = Digest::of(&bytes[..signed]);
    bytes[signed..].copy_from_slice(&digest.0);
    let newer = MemoryBucket::new();
    newer.put_if_absent(&key, &bytes).unwrap();
    let refused = claim(&newer, "an owner", 7).unwrap_err().to_string();
    assert!(
        refused.contains("version 2") && refused.contains("newer tenure"),
        "{refused}"
    );
    assert_eq!(epoch::newest(&newer, &drive()), Ok(Epoch(1)));
}

#[test]
fn of_many_claimants_at_once_each_epoch_has_one() {
    let bucket = MemoryBucket::new();
    let claims: Vec<Claim> = std::thread::scope(|threads| {
        let claimants: Vec<_> = (0..8u8)
            .map(|claimant| {
                let bucket = &bucket;
                threads.spawn(move || {
                    let who = format!("{claimant}");
                    (0..20u8)
                        .filter_map(|round| claim(bucket, &who, claimant * 20 + round).ok())
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        claimants
            .into_iter()
            .flat_map(|claimant| claimant.join().unwrap())
            .collect()
    });
    let mut epochs: Vec<_> = claims.iter().map(|claim| claim.epoch).collect();
    epochs.sort_unstable();
    let before = epochs.len();
    epochs.dedup();
    assert_eq!(epochs.len(), before, "no epoch has two owners");
    for claim in claims {
        assert_eq!(epoch::read(&bucket, &drive(), claim.epoch), Ok(Some(claim)));
    }
}

#[test]
fn a_claim_whose_outcome_is_unknown_is_read_back() {
    for fault in [Fault::LoseReply, Fault::ClaimExists, Fault::LoseRequest] {
        let memory = MemoryBucket::new();
        let bucket = FaultyBucket::new(Arc::new(memory.clone()), Plan::none().at(1, fault));
        let claimed = claim(&bucket, "a", 1).unwrap();
        assert_eq!(
            epoch::read(&memory, &drive(), Epoch(1)),
            Ok(Some(claimed)),
            "{fault:?}"
        );
    }
    let lost = FaultyBucket::new(
        Arc::new(MemoryBucket::new()),
        Plan::none().on(CallKind::Put, "epochs", Fault::LoseRequest),
    );
    let failed = claim(&lost, "a", 1);
    assert!(matches!(failed, Err(OpenError::Failed(Failure::Unknown(_)))));
}

#[test]
fn a_twin_that_claims_with_another_nonce_is_not_mistaken_for_oneself() {
    // The twin's claim arrives between this one's look and its put, whose reply or request is lost as well.
    for fault in [Fault::LoseReply, Fault::LoseRequest] {
        let memory = MemoryBucket::new();
        let twin = memory.clone();
        let on_call = Box::new(move |call: &tenure_store::faulty::Call| {
            if call.number == 1 {
                claim(&twin, "a", 2).unwrap();
            }
        });
        let plan = Plan::none().at(1, fault);
        let bucket = FaultyBucket::watched(Arc::new(memory.clone()), plan, Some(on_call));
        let refused = claim(&bucket, "a", 1);
        assert_eq!(
            refused,
            Err(OpenError::Refused(Refusal::Held { by: "a".to_owned() }))
        );
        assert_eq!(
            epoch::read(&memory, &drive(), Epoch(1)).unwrap().unwrap().nonce,
            [2; 16]
        );
    }
}

#[test]
fn a_claim_that_was_overtaken_before_it_was_confirmed_is_given_up() {
    let memory = MemoryBucket::new();
    let faster = memory.clone();
    let on_call = Box::new(move |call: &tenure_store::faulty::Call| {
        if call.number == 2 {
            claim(&faster, "the faster one", 2).unwrap();
        }
    });
    let bucket = FaultyBucket::watched(Arc::new(memory), Plan::none(), Some(on_call));
    let refused = claim(&bucket, "a", 1);
    let by = "the faster one".to_owned();
    assert_eq!(refused, Err(OpenError::Refused(Refusal::Held { by })));
}

#[test]
fn a_damaged_claim_is_named() {
    let memory = MemoryBucket::new();
    claim(&memory, "a", 1).unwrap();
    let key = Key::parse("drives/work/epochs/00000000000000000001").unwrap();
    let bytes = memory.get(&key).unwrap().unwrap();
    for at in 0..bytes.len() {
        let damaged = memory.copy();
        damaged.damage(&key, |bytes| bytes[at] ^= 0x10);
        let failure = epoch::read(&damaged, &drive(), Epoch(1)).unwrap_err();
        assert!(
            matches!(failure, Failure::Corrupt(_)) && failure.to_string().contains(key.as_str()),
            "{failure}"
        );
        damaged.damage(&key, |bytes| bytes.truncate(at));
        assert!(epoch::read(&damaged, &drive(), Epoch(1)).is_err());
    }
}

#[test]
fn what_an_old_owner_writes_after_the_seal_does_not_count() {
    let memory = MemoryBucket::new();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let (journal, _) = open(&bucket).unwrap();
    append(&journal, 1, 3).unwrap();
    // The old owner is paused: its files stay open, its lock is gone with the copy.
    let late = journal;
    let copy = memory.copy();
    append(&late, 4, 5).unwrap();
    let segment = Key::parse("drives/work/journal/00000000000000000001/00000000000000000001").unwrap();
    let late_bytes = memory.get(&segment).unwrap().unwrap();

    let taken_over: Arc<dyn Bucket> = Arc::new(copy.clone());
    let (journal, replayed) = open(&taken_over).unwrap();
    assert_eq!(replayed, records(1, 3));
    let sealed = seal::read(&copy, &drive(), Epoch(1)).unwrap().unwrap();
    assert_eq!((sealed.end, sealed.by), (journal.began(), Epoch(2)));
    // Now the old owner's late records reach the disk.
    assert!(copy.damage(&segment, |bytes| *bytes = late_bytes));
    journal.append_now(record(44)).unwrap();
    drop(journal);
    let (_, replayed) = open(&taken_over).unwrap();
    assert_eq!(replayed[..3], records(1, 3));
    assert_eq!(replayed[3..], [(Seq(4), Bytes(record(44)))]);
}

#[test]
fn who_has_found_an_owner_gone_does_not_depose_the_one_that_came_since() {
    let bucket: Arc<dyn Bucket> = Arc::new(MemoryBucket::new().without_disk());
    claim(&*bucket, "the first", 1).unwrap();
    let after = |epoch| Claimant {
        after: Some(Epoch(epoch)),
        ..claimant("late")
    };
    assert_eq!(
        epoch::claim(&*bucket, &drive(), &after(1)).unwrap().epoch,
        Epoch(2)
    );
    let refused = Opening::begin(bucket.clone(), &drive(), after(1)).err();
    let by = "late".to_owned();
    assert_eq!(refused, Some(OpenError::Refused(Refusal::Held { by })));
    assert_eq!(
        epoch::newest(&*bucket, &drive()),
        Ok(Epoch(2)),
        "it claims nothing"
    );
    assert!(Opening::begin(bucket, &drive(), after(2)).is_ok());
}
