//! Records are durable in the order in which they were accepted, and one wait for the disk serves many.

use crate::world::{On, TIERS, append, drive, manifest, open, open_as, record, records};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_journal::{Position, Sizes};
use tenure_model::{Epoch, Failure, Seq};
use tenure_store::faulty::{CallKind, Fault, Plan};
use tenure_store::{Bucket, FaultyBucket, FolderBucket, MemoryBucket};

fn memory() -> Arc<dyn Bucket> {
    Arc::new(MemoryBucket::new())
}

#[test]
fn what_was_appended_is_replayed_in_order_by_every_later_owner() {
    for tier in TIERS {
        let bucket = tier.new_bucket();
        let (journal, replayed) = open(&bucket).unwrap();
        assert_eq!((journal.epoch(), replayed), (Epoch(1), vec![]));
        let end = append(&journal, 1, 40).unwrap();
        assert_eq!((journal.durable(), journal.last()), (end, Seq(40)));
        drop(journal);
        for epoch in 2..5 {
            let (journal, replayed) = open(&bucket).unwrap();
            assert_eq!(journal.epoch(), Epoch(epoch));
            assert_eq!(journal.began().seq, Seq(40 + (epoch - 2)));
            assert_eq!(replayed, records(1, 40 + (epoch - 2)));
            append(&journal, 39 + epoch, 39 + epoch).unwrap();
        }
    }
}

#[test]
fn what_was_appended_to_a_folder_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let bucket: Arc<dyn Bucket> = Arc::new(FolderBucket::create(folder.path()).unwrap());
    let (journal, _) = open_as(&bucket, "a", Sizes::default()).unwrap();
    journal.start_threads().unwrap();
    append(&journal, 1, 40).unwrap();
    drop(journal);
    // The copy of the folder is all that another machine has.
    let other = tempfile::tempdir().unwrap();
    let copied = std::process::Command::new("cp")
        .args([
            "-a",
            folder.path().join(".").to_str().unwrap(),
            other.path().to_str().unwrap(),
        ])
        .status();
    assert!(copied.unwrap().success());
    let bucket: Arc<dyn Bucket> = Arc::new(FolderBucket::open(other.path()).unwrap());
    let (_, replayed) = open(&bucket).unwrap();
    assert_eq!(replayed, records(1, 40));
}

#[test]
fn the_chain_depends_on_every_record_and_its_place() {
    let mut at = Position::beginning(&drive());
    let mut seen = vec![at.chain];
    for number in [1, 1, 2] {
        at = at.after(Epoch(1), &record(number));
        assert!(!seen.contains(&at.chain));
        seen.push(at.chain);
    }
    let other = Position::beginning(&drive()).after(Epoch(2), &record(1));
    assert!(!seen.contains(&other.chain));
}

#[test]
fn callbacks_run_in_order_with_each_records_place() {
    for tier in TIERS {
        let bucket = tier.new_bucket();
        let (journal, _) = open(&bucket).unwrap();
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        for number in 1..=60 {
            let told = told.clone();
            let done = Box::new(move |outcome: Result<Position, Failure>| {
                told.lock().unwrap().push(outcome.unwrap())
            });
            assert_eq!(journal.enqueue(record(number), done), Ok(Seq(number)));
        }
        assert_eq!(journal.durable().seq, Seq(0));
        assert!(
            told.lock().unwrap().is_empty(),
            "nothing is told before it is durable"
        );
        journal.commit_waiting();
        let told = told.lock().unwrap();
        assert_eq!(
            told.iter().map(|at| at.seq).collect::<Vec<_>>(),
            (1..=60).map(Seq).collect::<Vec<_>>()
        );
        assert_eq!(told.last(), Some(&journal.durable()));
    }
}

#[test]
fn everything_that_waits_shares_one_wait_for_the_disk() {
    let bucket = memory();
    let (journal, _) = open_as(&bucket, "a", Sizes::default()).unwrap();
    append(&journal, 1, 1).unwrap();
    let before = bucket.requests().counts();
    for number in 2..=500 {
        journal.enqueue(record(number), Box::new(|_| ())).unwrap();
    }
    journal.commit_through(Seq(500)).unwrap();
    let counts = bucket.requests().counts();
    assert_eq!(
        (counts.writes - before.writes, counts.syncs - before.syncs),
        (1, 1)
    );
    assert_eq!(counts.puts, before.puts);
}

#[test]
fn one_record_costs_one_write_that_is_durable_when_it_returns() {
    let bucket = memory();
    let (journal, _) = open_as(&bucket, "a", Sizes::default()).unwrap();
    append(&journal, 1, 1).unwrap();
    for number in 2..=100 {
        let before = bucket.requests().counts();
        append(&journal, number, number).unwrap();
        let after = bucket.requests().counts();
        assert_eq!(after.total() - before.total(), 2);
        assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (1, 1));
        assert_eq!(after.bytes_written - before.bytes_written, 4096);
    }
}

#[test]
fn an_idle_journal_asks_for_nothing() {
    for tier in TIERS {
        let bucket = tier.new_bucket();
        let (journal, _) = open(&bucket).unwrap();
        journal.start_threads().unwrap();
        append(&journal, 1, 1).unwrap();
        // With this room there is nothing left to prepare.
        journal.reserve(39_000).unwrap();
        let before = bucket.requests().counts();
        for _ in 0..100 {
            assert_eq!(journal.commit_through(Seq(1)), Ok(()));
            journal.commit_waiting();
        }
        assert_eq!(bucket.requests().counts(), before);
    }
}

#[test]
fn threads_that_append_at_once_are_all_durable_and_in_one_order() {
    for with_threads in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let bucket: Arc<dyn Bucket> = Arc::new(FolderBucket::create(folder.path()).unwrap());
        let (journal, _) = open_as(&bucket, "a", Sizes::default()).unwrap();
        if with_threads {
            journal.start_threads().unwrap();
        }
        let told = Arc::new(AtomicU64::new(0));
        let before = bucket.requests().counts().syncs;
        std::thread::scope(|threads| {
            for thread in 0..8u64 {
                let (journal, told) = (&journal, &told);
                threads.spawn(move || {
                    for number in 0..50 {
                        let bytes = (thread * 1000 + number).to_le_bytes().to_vec();
                        if thread % 2 == 0 {
                            journal.append_now(bytes).unwrap();
                            continue;
                        }
                        let told = told.clone();
                        let done = Box::new(move |outcome: Result<Position, Failure>| {
                            let seq = outcome.unwrap().seq;
                            assert!(
                                told.swap(seq.0, Ordering::SeqCst) < seq.0,
                                "callbacks run in order"
                            );
                        });
                        let seq = journal.append(bytes, done).unwrap();
                        if number % 7 == 0 {
                            journal.commit_through(seq).unwrap();
                            assert!(journal.durable().seq >= seq);
                        }
                    }
                });
            }
        });
        journal.commit_through(journal.last()).unwrap();
        assert_eq!(journal.durable().seq, Seq(400));
        let syncs = bucket.requests().counts().syncs - before;
        assert!(syncs < 300, "400 records shared waits for the disk: {syncs}");
        drop(journal);
        let (_, replayed) = open(&bucket).unwrap();
        assert_eq!(replayed.len(), 400);
        for thread in 0..8 {
            let numbers = replayed
                .iter()
                .map(|(_, bytes)| u64::from_le_bytes(bytes.0[..].try_into().unwrap()));
            let own: Vec<_> = numbers.filter(|number| number / 1000 == thread).collect();
            assert_eq!(
                own,
                (0..50).map(|number| thread * 1000 + number).collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn the_journals_thread_commits_what_nobody_waits_for() {
    for tier in TIERS {
        let bucket = tier.new_bucket();
        let (journal, _) = open(&bucket).unwrap();
        journal.start_threads().unwrap();
        for number in 1..=30 {
            let (send, receive) = std::sync::mpsc::channel();
            journal
                .append(
                    record(number),
                    Box::new(move |outcome| send.send(outcome).unwrap()),
                )
                .unwrap();
            assert_eq!(receive.recv().unwrap().unwrap().seq, Seq(number));
        }
    }
}

#[test]
fn records_of_any_size_follow_each_other() {
    for tier in TIERS {
        let bucket = tier.new_bucket();
        let (journal, _) = open(&bucket).unwrap();
        let sizes = [
            1, 4032, 4033, 8000, 100_000, 5, 40_000, 300_000, 7, 36_864, 36_800,
        ];
        let bytes: Vec<Vec<u8>> = sizes
            .iter()
            .zip(1..)
            .map(|(size, fill)| vec![fill; *size])
            .collect();
        for record in &bytes {
            journal
                .enqueue(record.clone(), Box::new(|outcome| assert!(outcome.is_ok())))
                .unwrap();
        }
        journal.commit_waiting();
        for record in &bytes {
            journal.append_now(record.clone()).unwrap();
        }
        drop(journal);
        let (_, replayed) = open(&bucket).unwrap();
        let replayed: Vec<Vec<u8>> = replayed.into_iter().map(|(_, record)| record.0).collect();
        assert_eq!(replayed, [bytes.clone(), bytes].concat());
    }
}

#[test]
fn records_of_no_length_or_too_much_are_refused() {
    for tier in TIERS {
        let (journal, _) = open(&tier.new_bucket()).unwrap();
        for len in [0, tenure_journal::journal::RECORD_LEN_MAX + 1] {
            let refused = journal.append(vec![0; len], Box::new(|_| panic!("it was not accepted")));
            assert!(matches!(refused, Err(Failure::DidNotHappen(_))));
        }
        assert_eq!(journal.last(), Seq(0));
    }
}

/// The faults after which a group of records is not known to be durable, each with whether it is there.
fn failing(tier: On) -> Vec<(CallKind, Fault, bool)> {
    let kind = match tier {
        On::Files => CallKind::Write,
        On::Objects => CallKind::Put,
    };
    let lost = [Fault::Refuse, Fault::NoSpace, Fault::LoseRequest];
    let mut faults: Vec<_> = lost.map(|fault| (kind, fault, false)).to_vec();
    // An object is read back when its reply is lost.
    faults.extend((tier == On::Files).then_some((kind, Fault::LoseReply, true)));
    faults
}

fn faulty(tier: On) -> (Arc<FaultyBucket>, Arc<dyn Bucket>) {
    let bucket = Arc::new(FaultyBucket::new(tier.new_bucket(), Plan::none()));
    (bucket.clone(), bucket)
}

#[test]
fn a_write_that_failed_is_made_again_before_anything_behind_it() {
    for tier in TIERS {
        for (kind, fault, _) in failing(tier) {
            let (bucket, shared) = faulty(tier);
            let (journal, _) = open(&shared).unwrap();
            append(&journal, 1, 3).unwrap();
            let told = Arc::new(std::sync::Mutex::new(Vec::new()));
            let enqueue = |number: u64| {
                let told = told.clone();
                let done =
                    Box::new(move |place: Result<_, _>| told.lock().unwrap().push((number, place.is_ok())));
                journal.enqueue(record(number), done).unwrap();
            };
            (4..=6).for_each(enqueue);
            bucket.set_plan(Plan::none().on(kind, "journal", fault));
            assert!(journal.commit_through(Seq(6)).is_err());
            assert_eq!((journal.durable().seq, told.lock().unwrap().len()), (Seq(3), 0));
            enqueue(7);
            assert!(
                journal.commit_through(Seq(4)).is_err(),
                "the fault is still there"
            );
            journal.commit_waiting();
            assert!(!journal.has_stopped());
            bucket.set_plan(Plan::none());
            journal.commit_through(Seq(7)).unwrap();
            assert_eq!(*told.lock().unwrap(), [4, 5, 6, 7].map(|number| (number, true)));
            append(&journal, 8, 9).unwrap();
            drop(journal);
            let (_, replayed) = open(&shared).unwrap();
            assert_eq!(replayed, records(1, 9), "{tier:?} {fault:?}");
        }
    }
}

#[test]
fn what_waits_for_a_failed_write_is_told_when_the_journal_ends_and_may_be_there() {
    for tier in TIERS {
        for (kind, fault, is_there) in failing(tier) {
            let (bucket, shared) = faulty(tier);
            let (journal, _) = open(&shared).unwrap();
            append(&journal, 1, 3).unwrap();
            let (send, outcomes) = std::sync::mpsc::channel();
            for number in 4..=6 {
                let send = send.clone();
                let done = Box::new(move |outcome| send.send(outcome).unwrap());
                journal.enqueue(record(number), done).unwrap();
            }
            bucket.set_plan(Plan::none().on(kind, "journal", fault));
            assert!(journal.commit_through(Seq(6)).is_err());
            bucket.set_plan(Plan::none());
            drop((journal, send));
            assert_eq!(outcomes.iter().filter(Result::is_err).count(), 3);
            let end = if is_there { 6 } else { 3 };
            let (journal, replayed) = open(&shared).unwrap();
            assert_eq!(replayed, records(1, end), "{tier:?} {fault:?}");
            append(&journal, end + 1, end + 2).unwrap();
        }
    }
}

#[test]
fn a_segment_that_cannot_be_taken_into_use_is_tried_again() {
    let faults = [Fault::Refuse, Fault::LoseRequest, Fault::LoseReply];
    let kinds = [CallKind::Write, CallKind::Rename];
    for (kind, fault) in kinds.iter().flat_map(|kind| faults.map(|fault| (*kind, fault))) {
        let bucket = Arc::new(FaultyBucket::new(memory(), Plan::none()));
        let shared: Arc<dyn Bucket> = bucket.clone();
        let (journal, _) = open(&shared).unwrap();
        journal.reserve(100).unwrap();
        journal
            .enqueue(record(1), Box::new(|place| assert!(place.is_ok())))
            .unwrap();
        bucket.set_plan(Plan::none().on(kind, "journal", fault));
        assert!(journal.commit_through(Seq(1)).is_err());
        assert!(journal.commit_through(Seq(1)).is_err());
        bucket.set_plan(Plan::none());
        journal.commit_through(Seq(1)).unwrap();
        append(&journal, 2, 4).unwrap();
        drop(journal);
        let (_, replayed) = open(&shared).unwrap();
        assert_eq!(replayed, records(1, 4), "{kind:?}");
    }
}

#[test]
fn what_waits_when_the_journal_is_closed_is_told_so() {
    for tier in TIERS {
        let (journal, _) = open(&tier.new_bucket()).unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        journal
            .enqueue(record(1), Box::new(move |outcome| send.send(outcome).unwrap()))
            .unwrap();
        drop(journal);
        assert!(matches!(receive.recv().unwrap(), Err(Failure::DidNotHappen(_))));
    }
}

#[test]
fn a_callback_may_append() {
    for tier in TIERS {
        let bucket = tier.new_bucket();
        let (journal, _) = open(&bucket).unwrap();
        let again = journal.clone();
        let done = Box::new(move |_| assert_eq!(again.enqueue(record(2), Box::new(|_| ())), Ok(Seq(2))));
        journal.enqueue(record(1), done).unwrap();
        journal.commit_waiting();
        assert_eq!(journal.durable().seq, Seq(2));
    }
}

#[test]
fn a_journal_that_was_closed_is_opened_without_reading_it() {
    let memory = MemoryBucket::new();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let (journal, _) = open(&bucket).unwrap();
    append(&journal, 1, 9).unwrap();
    journal
        .enqueue(record(10), Box::new(|outcome| assert!(outcome.is_ok())))
        .unwrap();
    journal.reserve(100_000).unwrap();
    let end = journal.close().unwrap();
    assert_eq!(end.seq, Seq(10), "what was accepted is durable");
    assert!(matches!(
        journal.append_now(record(11)),
        Err(Failure::DidNotHappen(_))
    ));
    assert!(journal.reserve(1_000_000).is_err());
    assert_eq!(journal.close(), Ok(end), "closing again changes nothing");
    let manifest = manifest(&journal, end);
    journal.publish(&manifest).unwrap();
    drop(journal);
    let names = memory.list("drives/work/journal/").unwrap();
    assert!(
        names.iter().all(|key| !key.as_str().contains("next")),
        "{names:?}"
    );
    // With the end sealed and folded, no segment is looked at: a damaged one would be noticed.
    for key in names.iter().filter(|key| !key.as_str().contains("sealed")) {
        memory.damage(key, |bytes| bytes.fill(0xff));
    }
    let (journal, replayed) = open(&bucket).unwrap();
    assert_eq!((journal.began(), replayed), (end, vec![]));
}

#[test]
fn closing_a_journal_of_which_a_write_failed_seals_nothing() {
    for tier in TIERS {
        for (kind, fault, is_there) in failing(tier) {
            let (bucket, shared) = faulty(tier);
            let (journal, _) = open(&shared).unwrap();
            append(&journal, 1, 2).unwrap();
            journal
                .enqueue(record(3), Box::new(|outcome| assert!(outcome.is_err())))
                .unwrap();
            bucket.set_plan(Plan::none().on(kind, "journal", fault));
            assert!(journal.close().is_err());
            bucket.set_plan(Plan::none());
            drop(journal);
            let (journal, replayed) = open(&shared).unwrap();
            assert_eq!(replayed, records(1, if is_there { 3 } else { 2 }));
            assert_eq!(
                journal.sealed_since().is_some(),
                tier == On::Objects,
                "its own owner has not sealed it"
            );
        }
    }
}

#[test]
fn a_callback_that_panics_leaves_a_journal_that_has_stopped() {
    for tier in TIERS {
        let bucket = tier.new_bucket();
        let (journal, _) = open(&bucket).unwrap();
        append(&journal, 1, 1).unwrap();
        journal
            .enqueue(record(2), Box::new(|_| panic!("a bug of the caller")))
            .unwrap();
        let committed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| journal.commit_waiting()));
        assert!(committed.is_err());
        assert!(journal.append_now(record(3)).is_err());
        assert!(journal.commit_through(Seq(2)).is_err(), "nobody waits for ever");
        drop(journal);
        let (_, replayed) = open(&bucket).unwrap();
        assert_eq!(replayed, records(1, 2));
    }
}
