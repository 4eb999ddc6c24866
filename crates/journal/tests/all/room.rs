//! A full disk shows before a record is accepted, and leaves room for what frees space.

use crate::world::{append, drive, manifest, open, open_as, record, records};
use std::sync::Arc;
use tenure_journal::{Sizes, spare};
use tenure_model::{Failure, Seq};
use tenure_store::faulty::Plan;
use tenure_store::{Bucket, FaultyBucket, MemoryBucket};

/// A journal on a disk that has room for the first segment and no other, filled with ordinary records.
fn filled() -> (MemoryBucket, Arc<tenure_journal::Journal>, u64) {
    let memory = MemoryBucket::new();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let sizes = Sizes {
        first: 16 * 4096,
        next: 16 * 4096,
        reserve: 4 * 4096,
    };
    let (journal, _) = open_as(&bucket, "a", sizes).unwrap();
    memory.limit_space(Some(100_000));
    let mut number = 0;
    loop {
        match journal.append_now(record(number + 1)) {
            Ok(at) => number = at.seq.0,
            Err(failure) => {
                assert!(matches!(failure, Failure::NoSpace(_)), "{failure:?}");
                return (memory, journal, number);
            }
        }
    }
}

#[test]
fn a_full_disk_refuses_records_and_the_last_room_is_for_what_frees_space() {
    let (memory, journal, number) = filled();
    assert_eq!(number, 11, "one block each, and four are kept");
    assert_eq!(
        journal.last(),
        Seq(number),
        "what was refused has no place in the order"
    );
    assert!(matches!(journal.reserve(1), Err(Failure::NoSpace(_))));
    let mut freeing = 0;
    while journal
        .append_from_reserve(
            record(number + freeing + 1),
            Box::new(|outcome| assert!(outcome.is_ok())),
        )
        .is_ok()
    {
        freeing += 1;
        journal.commit_waiting();
    }
    assert_eq!(freeing, 4);
    let end = number + freeing;
    memory.limit_space(None);
    append(&journal, end + 1, end + 30).unwrap();
    drop(journal);
    let bucket: Arc<dyn Bucket> = Arc::new(memory);
    let (_, replayed) = open(&bucket).unwrap();
    assert_eq!(replayed, records(1, end + 30));
}

#[test]
fn a_refused_segment_leaves_no_file() {
    let (memory, _journal, _) = filled();
    let keys = memory.list("drives/work/journal/").unwrap();
    assert_eq!(keys.len(), 1, "{keys:?}");
}

#[test]
fn what_was_accepted_is_written_although_the_disk_is_full_by_then() {
    let memory = MemoryBucket::new();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let (journal, _) = open(&bucket).unwrap();
    for number in 1..=60 {
        journal
            .enqueue(record(number), Box::new(|outcome| assert!(outcome.is_ok())))
            .unwrap();
    }
    memory.limit_space(Some(0));
    journal.commit_waiting();
    assert_eq!(journal.durable().seq, Seq(60));
}

#[test]
fn room_that_was_reserved_is_there() {
    let memory = MemoryBucket::new();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let (journal, _) = open(&bucket).unwrap();
    journal.reserve(200_000).unwrap();
    memory.limit_space(Some(0));
    journal.append_now(vec![1; 200_000]).unwrap();
    assert!(matches!(journal.reserve(200_000), Err(Failure::NoSpace(_))));
}

#[test]
fn segments_that_wait_are_removed_by_the_next_owner() {
    let memory = MemoryBucket::new();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let (journal, _) = open(&bucket).unwrap();
    append(&journal, 1, 2).unwrap();
    journal.reserve(100_000).unwrap();
    let waiting = |bucket: &dyn Bucket| {
        let keys = bucket.list("drives/work/journal/").unwrap();
        keys.iter().filter(|key| key.as_str().contains("next")).count()
    };
    assert!(waiting(&memory) > 0);
    drop(journal);
    let (_, replayed) = open(&bucket).unwrap();
    assert_eq!(waiting(&memory), 0);
    assert_eq!(replayed, records(1, 2));
}

/// How an owner ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Killed,
    Closed,
    Folded,
}

/// Leaves no byte free on the disk of a bucket.
fn fill(memory: &MemoryBucket) {
    memory.limit_space(None);
    let space = memory.disk().unwrap().space().unwrap();
    memory.limit_space(Some(space.total - space.free));
}

/// On a disk that is full to the last byte the next owner has the room that those before held in vain, again and again.
#[test]
fn a_full_disk_is_opened_again_and_again_by_what_epochs_before_held_in_vain() {
    for end in [End::Killed, End::Closed, End::Folded] {
        let memory = MemoryBucket::new();
        let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
        let (mut number, mut folded) = (0, 0);
        for round in 0..8 {
            let what = format!("{end:?}, round {round}");
            let open = || open_as(&bucket, "a", Sizes::default());
            let opened = open().or_else(|refused| match spare::give_up(&memory) {
                true => open(),
                false => Err(refused),
            });
            let (journal, replayed) = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(replayed, records(folded + 1, number), "{what}");
            for _ in 0..2 {
                number += 1;
                let told = Box::new(|outcome: Result<_, _>| assert!(outcome.is_ok()));
                journal.append_from_reserve(record(number), told).unwrap();
                journal.commit_waiting();
            }
            if end == End::Folded {
                journal.publish(&manifest(&journal, journal.durable())).unwrap();
                folded = number;
            }
            if end != End::Killed {
                journal.close().unwrap();
                spare::keep(&memory, Sizes::default().first);
            }
            drop(journal);
            fill(&memory);
        }
        assert_eq!(
            tenure_journal::audit(&memory, &drive(), tenure_journal::Depth::Records).unwrap(),
            [""; 0]
        );
        memory.limit_space(None);
        let (journal, replayed) = open(&bucket).unwrap();
        assert_eq!(replayed, records(folded + 1, number));
        append(&journal, number + 1, number + 3).unwrap();
    }
}

/// Whoever waits for room asks again and again: that costs the full disk nothing.
#[test]
fn a_full_disk_is_asked_for_room_and_nothing_is_made_on_it() {
    let memory = MemoryBucket::new();
    let faulty = Arc::new(FaultyBucket::new(Arc::new(memory.clone()), Plan::none()));
    let bucket: Arc<dyn Bucket> = faulty.clone();
    let (journal, _) = open(&bucket).unwrap();
    memory.limit_space(Some(0));
    let before = faulty.calls().len();
    for _ in 0..100 {
        assert!(matches!(journal.reserve(1 << 20), Err(Failure::NoSpace(_))));
    }
    let asked = faulty.calls().len() - before;
    assert!(
        asked <= 1,
        "only for the room that was set aside, and once: {asked}"
    );
    memory.limit_space(None);
    assert_eq!(journal.reserve(1 << 20), Ok(()), "and there is room at once");
}
