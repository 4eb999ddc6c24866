//! Two owners of one drive on the bucket tier: whoever is slow, dead, cloned or on another tier, nothing that was acknowledged
//! is lost, and nothing that was deposed goes on.

use crate::world::{
    Bytes, Hand, On, Records, SMALL, append, claimant_with, drive, manifest, open, open_by, record,
};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure_journal::{Journal, Opening};
use tenure_model::{Epoch, Failure, Seq};
use tenure_store::faulty::{Call, Fault, Plan};
use tenure_store::memory::twin::{self, Switched};
use tenure_store::{Bucket, FaultyBucket, Key, MemoryBucket, OpenError, Put};

fn remote(memory: &MemoryBucket) -> Arc<dyn Bucket> {
    On::Objects.bucket(memory)
}

/// Records that say who made them.
fn signed(who: u8, number: u64) -> Vec<u8> {
    [&[who][..], &record(number)].concat()
}

/// The records that were acknowledged, by whoever made them.
type Acknowledged = Arc<Mutex<BTreeSet<Vec<u8>>>>;

/// Appends one record, and notes it when it is acknowledged.
fn append_signed(
    journal: &Journal,
    (who, number): (u8, u64),
    acknowledged: &Acknowledged,
) -> Result<(), Failure> {
    let bytes = signed(who, number);
    journal.append_now(bytes.clone())?;
    assert!(acknowledged.lock().insert(bytes), "it is acknowledged once");
    Ok(())
}

/// Everything that was acknowledged is there, once.
fn check(memory: &MemoryBucket, acknowledged: &Acknowledged, what: &str) {
    let (journal, replayed) = open(&remote(memory)).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut found = BTreeSet::new();
    for (number, (seq, Bytes(bytes))) in (1..).zip(replayed) {
        assert_eq!(seq, Seq(number), "{what}");
        assert!(found.insert(bytes), "{what}: record {seq} is there twice");
    }
    let lost: Vec<_> = acknowledged
        .lock()
        .difference(&found)
        .cloned()
        .map(Bytes)
        .collect();
    assert!(lost.is_empty(), "{what}: lost {lost:?}");
    append(&journal, journal.last().0 + 1, journal.last().0 + 1).unwrap();
}

/// Does something at one call of a bucket, before it is made.
fn at_call(number: u64, act: impl Fn() + Send + Sync + 'static) -> Box<dyn Fn(&Call) + Send + Sync> {
    let calls = AtomicU64::new(0);
    Box::new(move |_| {
        if calls.fetch_add(1, Ordering::SeqCst) == number {
            act();
        }
    })
}

/// Opens, appends, looks and closes, as far as it can; returns its epoch, or why it could not go on.
fn live(bucket: &Arc<dyn Bucket>, who: u8, acknowledged: &Acknowledged) -> Result<Epoch, OpenError> {
    let (journal, _) = open(bucket)?;
    for number in 1..=3 {
        append_signed(&journal, (who, number), acknowledged)?;
    }
    journal.look()?;
    journal.close()?;
    Ok(journal.epoch())
}

fn prepared() -> (MemoryBucket, Acknowledged) {
    let (memory, acknowledged) = (MemoryBucket::new(), Acknowledged::default());
    let (journal, _) = open(&remote(&memory)).unwrap();
    append_signed(&journal, (0, 1), &acknowledged).unwrap();
    append_signed(&journal, (0, 2), &acknowledged).unwrap();
    drop(journal);
    (memory, acknowledged)
}

fn calls_of_a_life() -> u64 {
    let (memory, acknowledged) = prepared();
    let faulty = Arc::new(FaultyBucket::new(remote(&memory), Plan::none()));
    let bucket: Arc<dyn Bucket> = faulty.clone();
    live(&bucket, 1, &acknowledged).unwrap();
    faulty.calls().len() as u64
}

#[test]
fn whenever_another_takes_over_the_owner_stops_and_nothing_acknowledged_is_lost() {
    let calls = calls_of_a_life();
    assert!(calls > 20, "{calls}");
    let faults = [
        None,
        Some(Fault::LoseReply),
        Some(Fault::LoseRequest),
        Some(Fault::ClaimExists),
    ];
    for (number, fault) in (0..calls).flat_map(|number| faults.map(|fault| (number, fault))) {
        let (memory, acknowledged) = prepared();
        let (other, newer) = ((memory.clone(), acknowledged.clone()), Arc::new(Mutex::new(None)));
        let take_over = {
            let newer = newer.clone();
            at_call(number, move || {
                *newer.lock() = Some(live(&remote(&other.0), 2, &other.1).unwrap());
            })
        };
        let plan = match fault {
            None => Plan::none(),
            Some(fault) => Plan::none().at(number, fault),
        };
        let bucket: Arc<dyn Bucket> = Arc::new(FaultyBucket::watched(remote(&memory), plan, Some(take_over)));
        let ended = live(&bucket, 1, &acknowledged);
        let what = format!("taken over at call {number}, {fault:?}: {ended:?}");
        let newer = newer.lock().expect("the other one has lived");
        match &ended {
            Ok(epoch) => assert!(*epoch > newer, "{what}"),
            Err(OpenError::Refused(_) | OpenError::Failed(Failure::Fenced(_))) => {}
            Err(_) => assert!(fault.is_some(), "{what}"),
        }
        check(&memory, &acknowledged, &what);
    }
}

#[test]
fn whenever_the_owner_appends_while_it_is_taken_over_it_is_acknowledged_and_found_or_refused() {
    let calls = {
        let (memory, _) = prepared();
        let faulty = Arc::new(FaultyBucket::new(remote(&memory), Plan::none()));
        let bucket: Arc<dyn Bucket> = faulty.clone();
        open(&bucket).unwrap();
        faulty.calls().len() as u64
    };
    for (first, gap) in (0..calls).flat_map(|first| [1, 2, 5].map(|gap| (first, gap))) {
        let (memory, acknowledged) = (MemoryBucket::new(), Acknowledged::default());
        let (owner, _) = open(&remote(&memory)).unwrap();
        append_signed(&owner, (1, 1), &acknowledged).unwrap();
        let refusals = Arc::new(Mutex::new(Vec::new()));
        let at = AtomicU64::new(0);
        let appends: Box<dyn Fn(&Call) + Send + Sync> = {
            let (owner, acknowledged, refusals) = (owner.clone(), acknowledged.clone(), refusals.clone());
            Box::new(move |_| {
                let call = at.fetch_add(1, Ordering::SeqCst);
                let number = 2 + call.saturating_sub(first) / gap;
                let appends = call >= first && (call - first).is_multiple_of(gap) && number < 14;
                if appends && let Err(failure) = append_signed(&owner, (1, number), &acknowledged) {
                    refusals.lock().push(failure);
                }
            })
        };
        let bucket: Arc<dyn Bucket> = Arc::new(FaultyBucket::watched(
            remote(&memory),
            Plan::none(),
            Some(appends),
        ));
        let (next, _) = open(&bucket).unwrap();
        assert!(append_signed(&owner, (1, 1000), &acknowledged).is_err());
        assert!(matches!(owner.look(), Err(Failure::Fenced(_))));
        assert!(owner.has_stopped());
        let all_fenced = refusals
            .lock()
            .iter()
            .all(|failure| matches!(failure, Failure::Fenced(_)));
        assert!(all_fenced, "{:?}", refusals.lock());
        drop(next);
        check(
            &memory,
            &acknowledged,
            &format!("appends from call {first} on, every {gap}"),
        );
    }
}

#[test]
fn an_owner_that_was_deposed_says_so_to_everybody_who_waits() {
    let memory = MemoryBucket::new();
    let (old, _) = open(&remote(&memory)).unwrap();
    append(&old, 1, 2).unwrap();
    let (new, replayed) = open(&remote(&memory)).unwrap();
    assert_eq!(replayed.len(), 2);
    assert!(new.sealed_since().is_some(), "the old one may still answer");
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    for number in 3..=5 {
        let outcomes = outcomes.clone();
        let done = Box::new(move |outcome| outcomes.lock().push(outcome));
        old.enqueue(record(number), done).unwrap();
    }
    assert!(matches!(old.commit_through(Seq(5)), Err(Failure::Fenced(_))));
    assert!(old.has_stopped());
    let outcomes = outcomes.lock();
    assert_eq!(outcomes.len(), 3);
    let are_fenced = outcomes
        .iter()
        .all(|outcome| matches!(outcome, Err(Failure::Fenced(_))));
    assert!(are_fenced, "{outcomes:?}");
    assert!(matches!(old.append_now(record(6)), Err(Failure::Fenced(_))));
    append(&new, 3, 4).unwrap();
}

#[test]
fn a_drive_that_was_closed_has_nobody_to_be_waited_for() {
    for tier in [On::Files, On::Objects] {
        let bucket = tier.new_bucket();
        let (journal, _) = open(&bucket).unwrap();
        append(&journal, 1, 2).unwrap();
        journal.close().unwrap();
        drop(journal);
        let (journal, _) = open(&bucket).unwrap();
        assert_eq!(journal.sealed_since(), None);
        drop(journal);
        let (journal, replayed) = open(&bucket).unwrap();
        assert_eq!(journal.sealed_since().is_some(), tier == On::Objects);
        assert_eq!(replayed.len(), 2);
    }
}

/// An owner and its clone, each in a bucket of its own until they meet.
struct Twins {
    hand: Arc<Hand>,
    memories: [MemoryBucket; 2],
    of_clone: Arc<Switched>,
    journals: [Arc<Journal>; 2],
}

impl Twins {
    /// Has both append so many records.
    fn new(appended: u64) -> Self {
        let (hand, memories) = (
            Arc::new(Hand::default()),
            [MemoryBucket::new(), MemoryBucket::new()],
        );
        let buckets = [0, 1].map(|at| Arc::new(Switched::new(memories[at].without_disk())));
        let journals = [0, 1].map(|at| {
            let bucket: Arc<dyn Bucket> = buckets[at].clone();
            // The claim, the opening and each segment were drawn before the machine was copied.
            let claimant = claimant_with("a", twin::draw(2 + appended), hand.clone());
            let (journal, _) = open_by(&bucket, claimant, SMALL).unwrap();
            append(&journal, 1, appended).unwrap();
            journal
        });
        let [_, of_clone] = buckets;
        Self {
            hand,
            memories,
            of_clone,
            journals,
        }
    }

    /// Lets the clone go on with the owner's bucket.
    fn meet(&self) {
        self.of_clone.switch(self.memories[0].without_disk());
    }
}

fn found(memory: &MemoryBucket) -> BTreeSet<Vec<u8>> {
    let (_, replayed): (_, Records) = open(&remote(memory)).unwrap();
    replayed.into_iter().map(|(_, Bytes(bytes))| bytes).collect()
}

#[test]
fn of_an_owner_and_its_clone_one_goes_on() {
    // Each turn says which of the two appends next.
    for (turns, appended) in (0..1u32 << 5).flat_map(|turns| [0, 1, 4].map(|appended| (turns, appended))) {
        let twins = Twins::new(appended);
        twins.meet();
        let acknowledged = Acknowledged::default();
        let mut first = None;
        for turn in 0..5 {
            let at = (turns >> turn & 1) as usize;
            let outcome = append_signed(&twins.journals[at], (at as u8, turn), &acknowledged);
            let winner = *first.get_or_insert(at);
            match outcome {
                Ok(()) => assert_eq!(winner, at),
                Err(failure) => assert!(winner != at && matches!(failure, Failure::Fenced(_)), "{failure}"),
            }
        }
        let winner = first.unwrap();
        twins.hand.advance(Duration::from_secs(1));
        assert_eq!(twins.journals[winner].look(), Ok(()));
        assert!(matches!(
            twins.journals[1 - winner].look(),
            Err(Failure::Fenced(_))
        ));
        let found = found(&twins.memories[0]);
        assert!(acknowledged.lock().is_subset(&found), "turns {turns:05b}");
    }
}

#[test]
fn a_clones_segment_beyond_a_gap_is_no_part_of_the_history() {
    let twins = Twins::new(1);
    let acknowledged = Acknowledged::default();
    for number in 2..=3 {
        append_signed(&twins.journals[1], (1, number), &Acknowledged::default()).unwrap();
    }
    // Of two segments that the clone has sent, only the second one arrives.
    let late = Key::parse(&format!("drives/work/journal/{:020}/{:020}", 1, 3)).unwrap();
    let bytes = twins.memories[1].get(&late).unwrap().unwrap();
    let [memory, _] = &twins.memories;
    assert_eq!(memory.put_if_absent(&late, &bytes), Ok(Put::Created));
    append_signed(&twins.journals[0], (0, 2), &acknowledged).unwrap();
    let fenced = append_signed(&twins.journals[0], (0, 3), &acknowledged);
    assert!(matches!(fenced, Err(Failure::Fenced(_))));
    for _ in 0..2 {
        let found = found(memory);
        assert_eq!(found, BTreeSet::from([record(1), signed(0, 2)]));
    }
}

#[test]
fn two_owners_with_one_claim_open_it_once() {
    // Both have claimed the same epoch when the machine was copied; each draws an opening of its own.
    let twins = [1, 1].map(|drawn| claimant_with("a", twin::draw(drawn), Arc::new(Hand::default())));
    let memories = [MemoryBucket::new(), MemoryBucket::new()];
    let buckets: [Arc<Switched>; 2] =
        [0, 1].map(|at: usize| Arc::new(Switched::new(memories[at].without_disk())));
    let [one, other] = twins;
    let openings = [(0, one), (1, other)].map(|(at, claimant)| {
        let bucket: Arc<dyn Bucket> = buckets[at].clone();
        Opening::begin(bucket, &drive(), claimant).unwrap()
    });
    buckets[1].switch(memories[0].without_disk());
    let [first, second] = openings.map(|opening| {
        let replayed = opening.replay(&mut |_, _| Ok(()))?;
        opening.go_on(replayed)
    });
    append(&first.unwrap(), 1, 2).unwrap();
    assert!(matches!(second.err(), Some(Failure::Fenced(_))));
}

#[test]
fn a_drive_that_changes_its_tier_loses_nothing_whoever_has_crashed() {
    let (memory, acknowledged) = (MemoryBucket::new(), Acknowledged::default());
    let tiers = [
        On::Files,
        On::Objects,
        On::Objects,
        On::Files,
        On::Files,
        On::Objects,
    ];
    let mut found = 0;
    for (round, tier) in (0..12).zip(tiers.iter().cycle()) {
        let (journal, replayed) = open(&tier.bucket(&memory)).unwrap();
        assert_eq!(journal.last().0, found, "{tier:?} in round {round}");
        assert!(replayed.len() as u64 <= found);
        for number in 0..3 {
            append_signed(&journal, (round, number), &acknowledged).unwrap();
        }
        found += 3;
        if round % 3 == 2 {
            journal.publish(&manifest(&journal, journal.durable())).unwrap();
            append_signed(&journal, (round, 3), &acknowledged).unwrap();
            found += 1;
        }
        if round % 5 == 4 {
            journal.close().unwrap();
        }
    }
    assert_eq!(
        tenure_journal::audit(&memory, &drive(), tenure_journal::Depth::Records),
        Ok(vec![])
    );
}

#[test]
fn an_epoch_that_stands_on_more_than_is_there_is_refused() {
    let (memory, _) = prepared();
    let (journal, _) = open(&remote(&memory)).unwrap();
    append(&journal, 3, 3).unwrap();
    drop(journal);
    // The last segment of the first epoch is gone, and its seal: only the second epoch says that it was there.
    for lost in [2, 3] {
        let key = Key::parse(&format!("drives/work/journal/{:020}/{lost:020}", 1)).unwrap();
        memory.delete(&key).unwrap();
    }
    let why = open(&remote(&memory)).err().unwrap().to_string();
    assert!(
        why.contains("drives/work/journal/00000000000000000002/00000000000000000000"),
        "{why}"
    );
    assert!(why.contains("restore"), "{why}");
}
