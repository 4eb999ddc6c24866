//! Whatever fails, and wherever the power is lost: the next owner finds a prefix that holds every acknowledged record.

use crate::world::{Bytes, On, Records, SMALL, TIERS, append, manifest, open, open_as, record, records};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_journal::{Journal, Position};
use tenure_model::{Failure, Seq};
use tenure_store::faulty::{Fault, Plan};
use tenure_store::{Bucket, FaultyBucket, Key, MemoryBucket};

const FAULTS: [Fault; 8] = [
    Fault::Refuse,
    Fault::NoSpace,
    Fault::LoseReply,
    Fault::LoseRequest,
    Fault::ShortRead,
    Fault::Halt,
    Fault::ClaimExists,
    Fault::WrongBody,
];

/// The faults that a tier meets.
fn faults(tier: On) -> &'static [Fault] {
    match tier {
        // A disk neither says that a file exists which does not, nor returns another's bytes.
        On::Files => &FAULTS[..6],
        On::Objects => &FAULTS,
    }
}

/// What became of one owner's life.
#[derive(Default)]
struct Life {
    /// The last record that was acknowledged.
    acknowledged: Arc<AtomicU64>,
    /// The last record that was accepted.
    accepted: u64,
    calls: u64,
}

/// Opens, appends alone and in groups, publishes, appends on; and goes as far as it can.
fn live(tier: On, memory: &MemoryBucket, plan: Plan) -> Life {
    let bucket = Arc::new(FaultyBucket::new(tier.bucket(memory), plan));
    let shared: Arc<dyn Bucket> = bucket.clone();
    let mut life = Life::default();
    if let Ok((journal, replayed)) = open(&shared) {
        let end = journal.last().0;
        assert_eq!(replayed, records(end + 1 - replayed.len() as u64, end));
        life.accepted = end;
        life.acknowledged.store(life.accepted, Ordering::SeqCst);
        let _ = act(&journal, &mut life);
    }
    life.calls = bucket.calls().len() as u64;
    life
}

fn act(journal: &Journal, life: &mut Life) -> Result<(), Failure> {
    for round in 0..4 {
        for _ in 0..4 {
            life.accepted += 1;
            let at = journal.append_now(record(life.accepted))?;
            life.acknowledged.store(at.seq.0, Ordering::SeqCst);
        }
        for _ in 0..12 {
            let told = life.acknowledged.clone();
            let done = Box::new(move |outcome: Result<Position, Failure>| {
                if let Ok(at) = outcome {
                    assert_eq!(
                        told.swap(at.seq.0, Ordering::SeqCst),
                        at.seq.0 - 1,
                        "in order, none left out"
                    );
                }
            });
            journal.enqueue(record(life.accepted + 1), done)?;
            life.accepted += 1;
        }
        journal.commit_waiting();
        if round % 2 == 1 {
            journal.publish(&manifest(journal, journal.durable()))?;
        }
    }
    let end = journal.close()?;
    assert_eq!(end.seq, Seq(life.accepted));
    Ok(())
}

/// Opens what is left, twice, and finds every acknowledged record and none that was never accepted.
fn check_recovery(tier: On, left: &MemoryBucket, life: &Life, what: &str) {
    let acknowledged = life.acknowledged.load(Ordering::SeqCst);
    let bucket = tier.bucket(left);
    let (journal, replayed) = open(&bucket).unwrap_or_else(|error| panic!("{what}: {error}"));
    let end = journal.last().0;
    assert!(
        acknowledged <= end && end <= life.accepted,
        "{what}: {acknowledged} <= {end} <= {}",
        life.accepted
    );
    let first = end + 1 - replayed.len() as u64;
    assert_eq!(replayed, records(first, end), "{what}");
    drop(journal);
    // What one owner found every later one finds, also after another power failure.
    let again = tier.bucket(&left.after_power_loss(1));
    let (journal, replayed) = open(&again).unwrap_or_else(|error| panic!("{what}, again: {error}"));
    assert_eq!(replayed, records(first, end), "{what}, again");
    append(&journal, end + 1, end + 3).unwrap();
}

#[test]
fn whichever_call_fails_every_acknowledged_record_is_recovered() {
    for tier in TIERS {
        let calls = live(tier, &MemoryBucket::new(), Plan::none()).calls;
        assert!(calls > 30, "a life makes calls that can fail: {calls}");
        for number in 0..calls {
            for fault in faults(tier) {
                let memory = MemoryBucket::new();
                let life = live(tier, &memory, Plan::none().at(number, *fault));
                let what = format!("{tier:?}: {fault:?} at call {number}");
                check_recovery(tier, &memory.copy(), &life, &format!("{what}, then killed"));
                for seed in 0..3 {
                    check_recovery(
                        tier,
                        &memory.after_power_loss(seed),
                        &life,
                        &format!("{what}, then power lost"),
                    );
                }
            }
        }
    }
}

#[test]
fn taking_over_can_be_cut_off_at_any_call_and_done_again() {
    for tier in TIERS {
        let memory = MemoryBucket::new();
        let halt = match tier {
            On::Files => 60,
            On::Objects => 30,
        };
        let first = live(tier, &memory, Plan::none().at(halt, Fault::Halt));
        let image = memory.after_power_loss(5);
        let calls = live(tier, &image.copy(), Plan::none()).calls;
        for number in 0..calls.min(60) {
            for fault in faults(tier) {
                let memory = image.copy();
                let life = live(tier, &memory, Plan::none().at(number, *fault));
                let what = format!("{tier:?}: {fault:?} at call {number}");
                for seed in 0..3 {
                    let left = memory.after_power_loss(seed);
                    let last = if life.accepted == 0 { &first } else { &life };
                    check_recovery(tier, &left, last, &what);
                }
            }
        }
    }
}

#[test]
fn faults_at_random_over_many_lives_lose_nothing() {
    for tier in TIERS {
        for seed in 0..60 {
            let memory = MemoryBucket::new();
            let mut acknowledged = 0;
            for number in 0..8 {
                let faults = faults(tier);
                let faults = &faults[..seed as usize % faults.len() + 1];
                let plan = Plan::none().at_random(seed * 100 + number, 40, faults);
                let life = live(tier, &memory, plan);
                acknowledged = life.acknowledged.load(Ordering::SeqCst).max(acknowledged);
                let (journal, _) = open(&tier.bucket(&memory.copy())).unwrap();
                assert!(
                    journal.last().0 >= acknowledged,
                    "{tier:?}: seed {seed}, life {number}"
                );
            }
        }
    }
}

const SEGMENT: &str = "drives/work/journal/00000000000000000001/00000000000000000001";

/// A journal of groups in one segment, and where each group begins and how many records end before it.
fn groups() -> (MemoryBucket, Vec<(usize, u64)>) {
    let memory = MemoryBucket::new();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let sizes = tenure_journal::Sizes {
        first: 64 * 4096,
        ..SMALL
    };
    let (journal, _) = open_as(&bucket, "a", sizes).unwrap();
    let mut at = 4096;
    let mut groups = Vec::new();
    let mut number = 0;
    for count in [1, 3, 20, 1, 12] {
        groups.push((at, number));
        let mut len = 0;
        for _ in 0..count {
            number += 1;
            len += 64 + record(number).len();
            journal.enqueue(record(number), Box::new(|_| ())).unwrap();
        }
        journal.commit_waiting();
        at += len.next_multiple_of(4096);
    }
    groups.push((at, number));
    (memory, groups)
}

fn replay(memory: MemoryBucket) -> Result<Records, String> {
    let bucket: Arc<dyn Bucket> = Arc::new(memory);
    open(&bucket)
        .map(|(_, replayed)| replayed)
        .map_err(|error| error.to_string())
}

#[test]
fn a_tail_torn_at_any_byte_ends_the_journal_there() {
    let (memory, groups) = groups();
    let key = Key::parse(SEGMENT).unwrap();
    let bytes = memory.get(&key).unwrap().unwrap();
    let (end, all) = *groups.last().unwrap();
    for torn in (4096..end).filter(|at| at % 7 == 0 || at % 4096 < 80) {
        let left = memory.copy();
        left.damage(&key, |bytes| bytes[torn..].fill(0));
        let replayed = replay(left).unwrap();
        let count = replayed.len() as u64;
        assert_eq!(replayed, records(1, count), "torn at {torn}");
        // All groups that lie before are there.
        let before = groups.iter().rfind(|(at, _)| *at <= torn).unwrap().1;
        assert!(
            before <= count && count <= all,
            "torn at {torn}: {count} of {before} and more"
        );
        let whole = bytes[torn..end].iter().all(|byte| *byte == 0);
        assert!(whole == (count == all), "torn at {torn}: {count}");
    }
}

#[test]
fn a_last_group_of_which_any_blocks_are_missing_is_a_torn_tail() {
    let (memory, groups) = groups();
    let key = Key::parse(SEGMENT).unwrap();
    let (start, before) = groups[groups.len() - 2];
    let blocks = (groups.last().unwrap().0 - start) / 4096;
    assert!(blocks >= 2);
    for missing in 1..1u32 << blocks {
        let left = memory.copy();
        left.damage(&key, |bytes| {
            for block in (0..blocks).filter(|block| missing >> block & 1 == 1) {
                bytes[start + block * 4096..][..4096].fill(0);
            }
        });
        let replayed = replay(left).unwrap();
        assert!(replayed.len() as u64 >= before);
        assert_eq!(replayed, records(1, replayed.len() as u64));
    }
}

#[test]
fn damage_before_the_last_group_is_named_and_never_a_shorter_journal() {
    let (memory, groups) = groups();
    let key = Key::parse(SEGMENT).unwrap();
    let last = groups[groups.len() - 2].0;
    let (end, all) = groups[groups.len() - 1];
    let mut used = Vec::new();
    for pair in groups.windows(2) {
        let len: usize = (pair[0].1 + 1..=pair[1].1)
            .map(|number| 64 + record(number).len())
            .sum();
        used.extend(pair[0].0..pair[0].0 + len);
    }
    for at in used.into_iter().filter(|at| *at < last && at % 5 == 0) {
        let left = memory.copy();
        left.damage(&key, |bytes| bytes[at] ^= 4);
        let why = replay(left).unwrap_err();
        assert!(
            why.contains(SEGMENT) && why.contains("corrupt"),
            "byte {at}: {why}"
        );
    }
    for len in [end + 4096, 64 * 4096 - 1] {
        let left = memory.copy();
        left.damage(&key, |bytes| bytes.truncate(len));
        assert_eq!(replay(left), Ok(records(1, all)), "nothing was behind byte {len}");
    }
    for len in [0, 10, 4096, last, end, end + 4095] {
        let left = memory.copy();
        left.damage(&key, |bytes| bytes.truncate(len));
        let why = replay(left).unwrap_err();
        assert!(why.contains(SEGMENT), "cut to {len} bytes: {why}");
    }
    for at in (0..76).step_by(3) {
        let left = memory.copy();
        left.damage(&key, |bytes| bytes[at] ^= 4);
        let why = replay(left).unwrap_err();
        assert!(why.contains(SEGMENT), "byte {at} of the header: {why}");
    }
}

#[test]
fn damage_before_the_newest_manifest_stops_nothing_and_is_counted_right_behind_it() {
    let memory = MemoryBucket::new();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let sizes = tenure_journal::Sizes {
        first: 64 * 4096,
        ..SMALL
    };
    let (journal, _) = open_as(&bucket, "a", sizes).unwrap();
    append(&journal, 1, 5).unwrap();
    journal.publish(&manifest(&journal, journal.durable())).unwrap();
    append(&journal, 6, 9).unwrap();
    drop(journal);
    let key = Key::parse(SEGMENT).unwrap();
    for (block, record) in (1..).zip(1..=9u64) {
        for byte in [0, 5, 24, 33, 66] {
            let left = memory.copy();
            left.damage(&key, |bytes| bytes[block * 4096 + byte] ^= 1);
            let replayed = replay(left);
            match record {
                1..=5 => assert_eq!(replayed, Ok(records(6, 9)), "record {record}"),
                9 => assert_eq!(replayed, Ok(records(6, 8)), "it may have been torn"),
                _ => {
                    let (why, next) = (replayed.unwrap_err(), record + 1);
                    let words = format!("record {record} is damaged: record {next} is whole behind it");
                    assert!(why.contains(&words) && why.contains("restore"), "{why}");
                }
            }
        }
    }
}

#[test]
fn frames_of_an_older_use_are_never_taken() {
    let (memory, groups) = groups();
    let key = Key::parse(SEGMENT).unwrap();
    let old = memory.get(&key).unwrap().unwrap();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let (journal, replayed) = open(&bucket).unwrap();
    let count = replayed.len() as u64;
    append(&journal, count + 1, count + 2).unwrap();
    drop(journal);
    let newer = format!("drives/work/journal/{:020}/{:020}", 2, count + 1);
    // The new segment lies where the old one was: behind its own frames the old bytes are still there.
    memory.damage(&Key::parse(&newer).unwrap(), |bytes| {
        let (end, len) = (3 * 4096, bytes.len());
        bytes[end..].copy_from_slice(&old[groups[1].0..groups[1].0 + len - end]);
    });
    assert_eq!(replay(memory), Ok(records(1, count + 2)));
}

#[test]
fn what_a_new_owner_found_survives_a_power_failure() {
    let memory = MemoryBucket::new();
    let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
    let (journal, _) = open(&bucket).unwrap();
    append(&journal, 1, 2).unwrap();
    let killed = memory.copy();
    append(&journal, 3, 3).unwrap();
    // The process was killed between the third write and its sync: the system has the record, the disk has not.
    let key = Key::parse(SEGMENT).unwrap();
    let third = memory.get(&key).unwrap().unwrap()[3 * 4096..4 * 4096].to_vec();
    let file = killed.disk().unwrap().open(&key).unwrap().unwrap();
    file.write_at(3 * 4096, &third).unwrap();
    assert_eq!(replay(killed.clone()), Ok(records(1, 3)));
    for seed in 0..20 {
        assert_eq!(replay(killed.after_power_loss(seed)), Ok(records(1, 3)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn records_of_any_sizes_always_have_room(
        sizes in prop::collection::vec((1usize..9000, 0u8..10), 1..120),
        seed: u64,
    ) {
        let memory = MemoryBucket::new();
        let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
        let (journal, _) = open(&bucket).unwrap();
        let mut all = Vec::new();
        for (number, (size, then)) in (1..).zip(&sizes) {
            let size = if *then == 0 { size * 12 } else { *size };
            let bytes = vec![number as u8; size];
            all.push((Seq(number), Bytes(bytes.clone())));
            journal.enqueue(bytes, Box::new(|outcome| assert!(outcome.is_ok()))).unwrap();
            if *then > 6 {
                journal.commit_waiting();
            }
        }
        journal.commit_waiting();
        let left: Arc<dyn Bucket> = Arc::new(memory.after_power_loss(seed));
        drop(journal);
        let (_, replayed) = open(&left).unwrap();
        prop_assert_eq!(replayed, all);
    }

    #[test]
    fn no_damage_gives_other_records_or_hides_acknowledged_ones(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (memory, groups) = groups();
        let last = groups[groups.len() - 2].0;
        let end = groups[groups.len() - 1].0;
        // Groups at the end that are damaged one and all cannot be told from such as were torn.
        let is_damaged = |from: usize, to: usize| {
            changes.iter().any(|(at, _)| (from..to).contains(&at.index(end))) || (cut.is_some() && from == last)
        };
        let whole = groups.windows(2).rposition(|pair| !is_damaged(pair[0].0, pair[1].0));
        let before = whole.map_or(0, |whole| groups[whole + 1].1);
        memory.damage(&Key::parse(SEGMENT).unwrap(), |bytes| {
            for (at, byte) in &changes {
                bytes[at.index(end)] = *byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(last + cut.index(end - last));
            }
        });
        match replay(memory) {
            Ok(replayed) => {
                let count = replayed.len() as u64;
                prop_assert!(count >= before, "{count} of {before} acknowledged records and more");
                prop_assert_eq!(replayed, records(1, count));
            }
            Err(why) => prop_assert!(why.contains(SEGMENT), "{}", why),
        }
    }
}
