//! The bucket tier alone: what a sync costs there, and what is told when.

use crate::world::{
    Hand, On, SMALL, append, claimant, claimant_with, draw, drive, manifest, open, open_by, record, records,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use tenure_journal::{Claimant, Means, Position};
use tenure_model::{Failure, Seq};
use tenure_store::faulty::{Call, CallKind, Fault, Plan};
use tenure_store::{Bucket, FaultyBucket, Key, MemoryBucket};

fn remote(memory: &MemoryBucket) -> Arc<dyn Bucket> {
    On::Objects.bucket(memory)
}

fn name(epoch: u64, number: u64) -> Key {
    Key::parse(&format!("drives/work/journal/{epoch:020}/{number:020}")).unwrap()
}

#[test]
fn a_sync_is_one_put_and_a_thousand_with_their_folds_are_no_more_than_a_twentieth_more() {
    let bucket = remote(&MemoryBucket::new());
    let (journal, _) = open(&bucket).unwrap();
    let before = bucket.requests().counts();
    append(&journal, 1, 1).unwrap();
    let one = bucket.requests().counts();
    assert_eq!((one.total() - before.total(), one.puts - before.puts), (1, 1));
    for round in 0..4 {
        append(&journal, round * 250 + 2, round * 250 + 251).unwrap();
        journal.publish(&manifest(&journal, journal.durable())).unwrap();
    }
    let all = bucket.requests().counts().total() - one.total();
    assert!(all <= 1050, "{all} requests for 1,000 syncs");
}

#[test]
fn everything_that_waits_goes_out_in_one_put() {
    let bucket = remote(&MemoryBucket::new());
    let (journal, _) = open(&bucket).unwrap();
    let before = bucket.requests().counts();
    for number in 1..=500 {
        journal.enqueue(record(number), Box::new(|_| ())).unwrap();
    }
    journal.commit_through(Seq(500)).unwrap();
    let after = bucket.requests().counts();
    assert_eq!((after.total() - before.total(), after.puts - before.puts), (1, 1));
    drop(journal);
    assert_eq!(open(&bucket).unwrap().1, records(1, 500));
}

/// Calls `act` at the first put of a name, before it is made.
fn at_put_of(key: Key, act: impl Fn() + Send + Sync + 'static) -> Box<dyn Fn(&Call) + Send + Sync> {
    let acted = AtomicBool::new(false);
    Box::new(move |call| {
        if call.kind == CallKind::Put && call.key == key && !acted.swap(true, Ordering::SeqCst) {
            act();
        }
    })
}

fn wait_for(memory: &MemoryBucket, key: &Key) {
    while memory.size(key).unwrap().is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn while_a_put_is_on_its_way_the_next_one_goes_and_both_are_told_in_order() {
    let memory = MemoryBucket::new();
    let told = Arc::new(AtomicU64::new(0));
    let (started, first_is_out) = channel();
    let waits = {
        let (memory, told) = (memory.clone(), told.clone());
        at_put_of(name(1, 1), move || {
            started.send(()).unwrap();
            wait_for(&memory, &name(1, 2));
            assert_eq!(
                told.load(Ordering::SeqCst),
                0,
                "what is beyond a gap counts for nothing"
            );
        })
    };
    let faulty = FaultyBucket::watched(remote(&memory), Plan::none(), Some(waits));
    let bucket: Arc<dyn Bucket> = Arc::new(faulty);
    let (journal, _) = open(&bucket).unwrap();
    let done = |number: u64| {
        let told = told.clone();
        Box::new(move |place: Result<Position, Failure>| {
            assert_eq!(place.unwrap().seq, Seq(number));
            assert_eq!(told.swap(number, Ordering::SeqCst), number - 1);
        })
    };
    std::thread::scope(|threads| {
        journal.enqueue(record(1), done(1)).unwrap();
        let first = threads.spawn(|| journal.commit_through(Seq(1)));
        first_is_out.recv().unwrap();
        for number in 2..=9 {
            journal.enqueue(record(number), done(number)).unwrap();
        }
        journal.commit_through(Seq(9)).unwrap();
        assert_eq!(told.load(Ordering::SeqCst), 9);
        first.join().unwrap().unwrap();
    });
    assert!(
        memory.size(&name(1, 3)).unwrap().is_none(),
        "two puts carried nine records"
    );
}

#[test]
fn a_segment_beyond_a_gap_counts_for_nothing() {
    let memory = MemoryBucket::new();
    let (started, first_is_out) = channel();
    let waits = {
        let memory = memory.clone();
        at_put_of(name(1, 1), move || {
            started.send(()).unwrap();
            wait_for(&memory, &name(1, 2));
        })
    };
    // The first segment is refused as long as the owner lives; the second one lands.
    let plan = Plan::none().on(CallKind::Put, name(1, 1).as_str(), Fault::Refuse);
    let faulty = FaultyBucket::watched(remote(&memory), plan, Some(waits));
    let bucket: Arc<dyn Bucket> = Arc::new(faulty);
    let (journal, _) = open(&bucket).unwrap();
    let (send, outcomes) = channel();
    std::thread::scope(|threads| {
        for number in 1..=2 {
            let send = send.clone();
            let done = Box::new(move |place: Result<Position, _>| send.send(place.is_ok()).unwrap());
            journal.enqueue(record(number), done).unwrap();
            if number == 1 {
                threads.spawn(|| journal.commit_through(Seq(1)));
                first_is_out.recv().unwrap();
            }
        }
        assert!(journal.commit_through(Seq(2)).is_err());
    });
    drop((journal, send));
    assert_eq!(outcomes.iter().collect::<Vec<_>>(), [false, false]);
    assert!(memory.size(&name(1, 2)).unwrap().is_some());
    let (journal, replayed) = open(&remote(&memory)).unwrap();
    assert_eq!((journal.began().seq, replayed), (Seq(0), vec![]));
}

#[test]
fn whatever_becomes_of_a_put_its_bytes_are_the_same_when_it_is_sent_again() {
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::ClaimExists] {
        let memory = MemoryBucket::new();
        let faulty = Arc::new(FaultyBucket::new(remote(&memory), Plan::none()));
        let bucket: Arc<dyn Bucket> = faulty.clone();
        let (journal, _) = open(&bucket).unwrap();
        faulty.set_plan(Plan::none().at(0, fault));
        append(&journal, 1, 1).unwrap();
        append(&journal, 2, 2).unwrap();
        drop(journal);
        assert_eq!(open(&bucket).unwrap().1, records(1, 2), "{fault:?}");
    }
}

#[test]
fn a_reply_that_belongs_to_another_object_is_not_believed() {
    let memory = MemoryBucket::new();
    let faulty = Arc::new(FaultyBucket::new(remote(&memory), Plan::none()));
    let bucket: Arc<dyn Bucket> = faulty.clone();
    let (journal, _) = open(&bucket).unwrap();
    for fault in [Fault::WrongBody, Fault::ShortRead] {
        let plan = Plan::none().on(CallKind::Put, "journal", Fault::ClaimExists);
        faulty.set_plan(plan.on(CallKind::Get, "journal", fault));
        let number = journal.last().0 + 1;
        assert!(journal.append_now(record(number)).is_err());
        assert!(
            !journal.has_stopped(),
            "its own segment is not taken for another's"
        );
        faulty.set_plan(Plan::none());
        journal.commit_through(Seq(number)).unwrap();
    }
    drop(journal);
    for number in 0..30 {
        let plan = Plan::none().at(number, Fault::WrongBody);
        let copy: Arc<dyn Bucket> = Arc::new(FaultyBucket::new(remote(&memory.copy()), plan));
        assert_eq!(open(&copy).unwrap().1, records(1, 2), "call {number}");
    }
}

#[test]
fn an_outage_is_waited_out_and_heals_by_itself() {
    let memory = MemoryBucket::new();
    let faulty = Arc::new(FaultyBucket::new(remote(&memory), Plan::none()));
    let bucket: Arc<dyn Bucket> = faulty.clone();
    let (journal, _) = open(&bucket).unwrap();
    journal.start_threads().unwrap();
    append(&journal, 1, 1).unwrap();
    faulty.set_outage(true);
    let (send, outcomes) = channel();
    for number in 2..=4 {
        let send = send.clone();
        let done = Box::new(move |place: Result<Position, Failure>| send.send(place).unwrap());
        journal.enqueue(record(number), done).unwrap();
    }
    assert!(
        journal.commit_through(Seq(4)).is_err(),
        "who asks is told that it waits"
    );
    assert!(!journal.has_stopped());
    faulty.set_outage(false);
    for number in 2..=4 {
        assert_eq!(outcomes.recv().unwrap().unwrap().seq, Seq(number));
    }
    append(&journal, 5, 5).unwrap();
    drop(journal);
    assert_eq!(open(&bucket).unwrap().1, records(1, 5));
}

#[test]
fn threads_that_append_at_once_are_told_in_one_order() {
    let bucket = remote(&MemoryBucket::new());
    let (journal, _) = open(&bucket).unwrap();
    journal.start_threads().unwrap();
    let told = Arc::new(AtomicU64::new(0));
    std::thread::scope(|threads| {
        for thread in 0..8u64 {
            let (journal, told) = (&journal, &told);
            threads.spawn(move || {
                for number in 0..50 {
                    let tell = told.clone();
                    let done = Box::new(move |place: Result<Position, Failure>| {
                        let seq = place.unwrap().seq.0;
                        assert_eq!(tell.swap(seq, Ordering::SeqCst), seq - 1);
                    });
                    let seq = journal.append(record(thread * 50 + number), done).unwrap();
                    journal.commit_through(seq).unwrap();
                    assert!(told.load(Ordering::SeqCst) >= seq.0);
                }
            });
        }
    });
    assert_eq!(journal.durable().seq, Seq(400));
    drop(journal);
    let (_, replayed) = open(&bucket).unwrap();
    let mut found: Vec<_> = replayed.into_iter().map(|(_, found)| found.0).collect();
    found.sort();
    let mut made: Vec<_> = (0..400).map(record).collect();
    made.sort();
    assert!(found == made);
}

#[test]
fn many_segments_are_read_several_at_once_and_in_order() {
    let memory = MemoryBucket::new();
    let bucket = remote(&memory);
    let (journal, _) = open(&bucket).unwrap();
    append(&journal, 1, 70).unwrap();
    drop(journal);
    for reads_at_once in [1, 2, 7, 100] {
        let means = Means {
            reads_at_once,
            ..claimant("a").means
        };
        let copy = remote(&memory.copy());
        let (journal, replayed) = open_by(
            &copy,
            Claimant {
                means,
                ..claimant("a")
            },
            SMALL,
        )
        .unwrap();
        assert_eq!(replayed, records(1, 70));
        append(&journal, 71, 71).unwrap();
    }
}

#[test]
fn a_fold_is_where_the_next_owner_begins_to_read() {
    let memory = MemoryBucket::new();
    let bucket = remote(&memory);
    let (journal, _) = open(&bucket).unwrap();
    append(&journal, 1, 40).unwrap();
    // One segment holds records on both sides of the manifest.
    for number in 41..=50 {
        journal.enqueue(record(number), Box::new(|_| ())).unwrap();
    }
    let (send, place) = channel();
    let done = Box::new(move |at: Result<Position, Failure>| send.send(at.unwrap()).unwrap());
    journal.enqueue(record(51), done).unwrap();
    for number in 52..=60 {
        journal.enqueue(record(number), Box::new(|_| ())).unwrap();
    }
    journal.commit_waiting();
    let folded = manifest(&journal, place.recv().unwrap());
    assert_eq!((folded.at.seq, folded.segment), (Seq(51), 41));
    journal.publish(&folded).unwrap();
    append(&journal, 61, 62).unwrap();
    drop(journal);
    let before = memory.requests().counts().gets;
    let (journal, replayed) = open(&bucket).unwrap();
    assert_eq!(replayed, records(52, 62));
    let gets = memory.requests().counts().gets - before;
    assert!(gets < 25, "40 segments before the manifest are not read: {gets}");
    assert_eq!(journal.last(), Seq(62));
}

#[test]
fn who_has_not_proved_itself_for_a_while_looks_and_an_idle_owner_asks_nothing() {
    let memory = MemoryBucket::new();
    let bucket = remote(&memory);
    let hand = Arc::new(Hand::default());
    let second = Duration::from_secs(1);
    let owner = claimant_with("a", draw(), hand.clone());
    let (journal, _) = open_by(&bucket, owner, SMALL).unwrap();
    assert_eq!(journal.sealed_since(), None, "nobody was there before");
    hand.advance(second);
    assert_eq!(journal.proof_age(), second);
    append(&journal, 1, 1).unwrap();
    assert_eq!(journal.proof_age(), Duration::ZERO);
    let before = memory.requests().counts().total();
    journal.look().unwrap();
    assert_eq!(memory.requests().counts().total(), before + 1);
    hand.advance(second * 7);
    let before = memory.requests().counts().total();
    assert_eq!(journal.proof_age(), second * 7);
    assert_eq!(memory.requests().counts().total(), before);
    journal.look().unwrap();
    assert_eq!(memory.requests().counts().total(), before + 2);
    assert_eq!(journal.proof_age(), Duration::ZERO);
}

#[test]
fn a_proof_counts_from_its_sending() {
    for (kind, part) in [(CallKind::Put, "journal"), (CallKind::Get, "epochs")] {
        let hand = Arc::new(Hand::default());
        let (on, slow) = (Arc::new(AtomicBool::new(false)), Duration::from_secs(3));
        let delay: Box<dyn Fn(&Call) + Send + Sync> = {
            let (hand, on) = (hand.clone(), on.clone());
            Box::new(move |call| {
                if on.load(Ordering::SeqCst) && call.kind == kind && call.key.as_str().contains(part) {
                    hand.advance(slow);
                }
            })
        };
        let memory = MemoryBucket::new();
        let faulty = Arc::new(FaultyBucket::watched(remote(&memory), Plan::none(), Some(delay)));
        let bucket: Arc<dyn Bucket> = faulty.clone();
        let (journal, _) = open_by(&bucket, claimant_with("a", draw(), hand.clone()), SMALL).unwrap();
        on.store(true, Ordering::SeqCst);
        if kind == CallKind::Put {
            append(&journal, 1, 1).unwrap();
            assert_eq!(journal.proof_age(), slow);
            // When the reply is lost nobody knows which sending arrived: the first one counts.
            faulty.set_plan(Plan::none().at(0, Fault::LoseRequest).at(2, Fault::LoseReply));
            append(&journal, 2, 2).unwrap();
            assert_eq!(journal.proof_age(), slow * 2);
        } else {
            journal.look().unwrap();
            assert_eq!(journal.proof_age(), slow);
        }
    }
}

#[test]
fn a_look_that_cannot_be_made_proves_nothing() {
    let faulty = Arc::new(FaultyBucket::new(remote(&MemoryBucket::new()), Plan::none()));
    let bucket: Arc<dyn Bucket> = faulty.clone();
    let hand = Arc::new(Hand::default());
    let (journal, _) = open_by(&bucket, claimant_with("a", draw(), hand.clone()), SMALL).unwrap();
    hand.advance(Duration::from_secs(2));
    for call in 0..2 {
        faulty.set_plan(Plan::none().at(call, Fault::LoseReply));
        assert!(journal.look().is_err());
        assert_eq!(journal.proof_age(), Duration::from_secs(2));
        assert!(!journal.has_stopped());
    }
}

#[test]
fn a_missing_segment_is_named_when_something_behind_it_proves_it() {
    let memory = MemoryBucket::new();
    let bucket = remote(&memory);
    let (journal, _) = open(&bucket).unwrap();
    append(&journal, 1, 6).unwrap();
    drop(journal);
    drop(open(&bucket).unwrap());
    // Names 0 to 6 hold the opening and the records, 7 the seal; epoch 2 has its opening.
    for lost in 0..=7 {
        let copy = memory.copy();
        copy.delete(&name(1, lost)).unwrap();
        match open(&remote(&copy)) {
            // The seal alone is made up for: the next opening says the same.
            Ok((_, replayed)) => assert_eq!((lost, replayed), (7, records(1, 6))),
            Err(error) => {
                let why = error.to_string();
                assert!(why.contains("restore"), "{lost}: {why}");
                let names = [name(1, lost), name(2, 0)];
                assert!(
                    names.iter().any(|name| why.contains(name.as_str())),
                    "{lost}: {why}"
                );
            }
        }
    }
}

#[test]
fn a_damaged_segment_is_named() {
    let memory = MemoryBucket::new();
    let bucket = remote(&memory);
    let (journal, _) = open(&bucket).unwrap();
    append(&journal, 1, 6).unwrap();
    journal.close().unwrap();
    drop(journal);
    for number in 0..=7 {
        for cut in [false, true] {
            let copy = memory.copy();
            copy.damage(&name(1, number), |bytes| {
                let half = bytes.len() / 2;
                bytes[half] ^= 1;
                bytes.truncate(if cut { half } else { usize::MAX });
            });
            let why = open(&remote(&copy)).err().unwrap().to_string();
            assert!(
                why.contains(name(1, number).as_str()) && why.contains("restore"),
                "{why}"
            );
        }
    }
}

#[test]
fn an_audit_finds_what_is_damaged_or_missing() {
    let memory = MemoryBucket::new();
    let bucket = remote(&memory);
    let (journal, _) = open(&bucket).unwrap();
    append(&journal, 1, 6).unwrap();
    drop(journal);
    drop(open(&bucket).unwrap());
    drop(open(&bucket).unwrap());
    assert_eq!(
        tenure_journal::audit(&*bucket, &drive(), tenure_journal::Depth::Records),
        Ok(vec![])
    );
    for number in 1..=7 {
        let key = name(1, number);
        let copy = memory.copy();
        copy.damage(&key, |bytes| bytes[20] ^= 1);
        let faults = tenure_journal::audit(&copy, &drive(), tenure_journal::Depth::Records).unwrap();
        assert!(
            faults.len() == 1 && faults[0].contains(key.as_str()),
            "{faults:?}"
        );
        let copy = memory.copy();
        copy.delete(&key).unwrap();
        let faults = tenure_journal::audit(&copy, &drive(), tenure_journal::Depth::Records).unwrap();
        assert!(
            faults.len() == 1 && faults[0].contains(key.as_str()),
            "{faults:?}"
        );
    }
}
