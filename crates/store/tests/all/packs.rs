//! Packs: what was appended is read back, byte for byte, before and after it was sealed, and after a crash.

use crate::world::{Content, SMALL, USUAL, World, chunk, drive, filling, number};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tenure_model::{Address, Digest, Failure, PackNumber};
use tenure_store::disk::BLOCK_LEN;
use tenure_store::pack::{EntryKind, PACK_LEN_TARGET, PackName, Packs};
use tenure_store::{Bucket, FolderBucket, Key, MemoryBucket};

#[test]
fn what_was_appended_is_read_from_memory_from_disk_and_from_the_sealed_pack() {
    let world = World::new();
    let mut content = Content::default();
    let pack = world.packs.start(number(1)).unwrap();
    for seed in 0..200 {
        content.append(&pack, &chunk(seed, 1 + (seed as usize * 977) % 40_000));
    }
    content.check(&world.packs);
    pack.write_out().unwrap();
    content.check(&world.packs);
    pack.flush(pack.len()).unwrap();
    assert_eq!(pack.durable(), pack.len());
    content.check(&world.packs);
    let sealed = world.packs.seal(number(1)).unwrap();
    content.check(&world.packs);
    assert_eq!(world.bucket.size(&sealed.key), Ok(Some(sealed.len)));
    assert_eq!(world.packs.entries(number(1)), Ok(sealed.entries.clone()));
    assert_eq!(world.packs.verify(number(1), &|_| ()), Ok(sealed.len));
    let packs = Packs::new(world.bucket.clone(), drive(), world.packs.table());
    content.check(&packs);
    assert_eq!(
        pack.append(EntryKind::Chunk, Digest::of(b"x"), b"x"),
        Ok(None),
        "a sealed pack takes no more"
    );
}

#[test]
fn bytes_that_a_pack_holds_are_not_added_again() {
    let world = World::new();
    let pack = world.packs.start(number(1)).unwrap();
    let bytes = chunk(1, 5000);
    let digest = Digest::of(&bytes);
    let first = pack.append(EntryKind::Chunk, digest, &bytes).unwrap().unwrap();
    let again = pack.append(EntryKind::Chunk, digest, &bytes).unwrap().unwrap();
    assert_eq!(first, again);
    assert_eq!(pack.len(), 5000);
    assert_eq!(
        first.at,
        Address {
            pack: number(1),
            digest
        }
    );
}

#[test]
fn a_full_pack_asks_for_another() {
    let world = World::new();
    let pack = world.packs.start(number(1)).unwrap();
    let mut seed = 0;
    while !pack.is_full() {
        let bytes = chunk(seed, 190_000);
        assert!(
            pack.append(EntryKind::Chunk, Digest::of(&bytes), &bytes)
                .unwrap()
                .is_some()
        );
        seed += 1;
    }
    assert!(pack.len() >= PACK_LEN_TARGET && pack.len() < PACK_LEN_TARGET + 190_000);
    let bytes = chunk(seed, 10);
    assert_eq!(
        pack.append(EntryKind::Chunk, Digest::of(&bytes), &bytes),
        Ok(None)
    );
}

#[test]
fn chunks_of_no_length_or_too_much_are_refused() {
    let world = World::new();
    let pack = world.packs.start(number(1)).unwrap();
    for len in [0, 3 * 64 * 1024 + 1, (1 << 20) + 1] {
        let bytes = vec![7; len];
        let refused = pack.append(EntryKind::Chunk, Digest::of(&bytes), &bytes);
        assert!(
            matches!(refused, Err(Failure::DidNotHappen(_))),
            "{len}: {refused:?}"
        );
    }
}

#[test]
fn a_number_is_used_once() {
    let world = World::new();
    world.packs.start(number(1)).unwrap();
    assert!(world.packs.start(number(1)).is_err());
    let other = Packs::new(world.bucket.clone(), drive(), []);
    assert!(other.start(number(1)).is_err(), "also by another process");
    world.packs.seal(number(1)).unwrap();
    assert!(world.packs.start(number(1)).is_err());
    assert!(world.packs.seal(number(1)).is_err());
}

#[test]
fn a_listing_tells_sealed_packs_from_those_left_open() {
    let world = World::new();
    let mut content = Content::default();
    let pack = world.packs.start(number(3)).unwrap();
    content.append(&pack, b"sealed");
    let sealed = world.packs.seal(number(3)).unwrap();
    world.packs.start(number(4)).unwrap();
    let junk = ["0.open", "junk"].map(|name| Key::in_drive(&drive(), &["packs", name]));
    for key in &junk {
        world.bucket.put_if_absent(key, b"junk").unwrap();
    }
    let listing = Packs::list(&*world.bucket, &drive()).unwrap();
    assert_eq!(listing.sealed, [sealed.name]);
    assert_eq!(listing.open, [number(4)]);
    assert_eq!(listing.others, ["0.open", "junk"]);
    let packs = Packs::new(world.bucket.clone(), drive(), listing.sealed);
    content.check(&packs);
    packs.discard_open(number(4)).unwrap();
    assert_eq!(Packs::list(&*world.bucket, &drive()).unwrap().open, []);
    packs.delete(sealed.name).unwrap();
    assert_eq!(Packs::list(&*world.bucket, &drive()).unwrap().sealed, []);
    assert!(packs.read(content.addresses()[0]).is_err());
}

#[test]
fn only_one_way_of_writing_a_packs_name_is_a_name() {
    let name = PackName {
        number: PackNumber(7),
        tag: [0, 1, 2, 0xab, 4, 5, 6, 7],
    };
    let key = name.key(&drive());
    assert_eq!(
        key.as_str(),
        "drives/work/packs/00000000000000000007.000102ab04050607"
    );
    assert_eq!(PackName::parse(key.file_name()), Some(name));
    for other in [
        "7.000102ab04050607",
        "00000000000000000007.000102AB04050607",
        "00000000000000000007.1",
        "00000000000000000007.open",
        "00000000000000000007",
        "99999999999999999999.000102ab04050607",
        "00000000000000000007.+00102ab04050607",
    ] {
        assert_eq!(PackName::parse(other), None, "{other}");
    }
}

#[test]
fn a_pack_with_nothing_in_it_is_sealed_and_read() {
    let world = World::new();
    world.packs.start(number(1)).unwrap();
    let sealed = world.packs.seal(number(1)).unwrap();
    assert_eq!(sealed.entries, []);
    let packs = Packs::new(world.bucket.clone(), drive(), [sealed.name]);
    assert_eq!(packs.entries(number(1)), Ok(vec![]));
    assert_eq!(packs.verify(number(1), &|_| ()), Ok(sealed.len));
}

#[test]
fn each_byte_is_written_once_but_for_the_last_block_of_a_flush() {
    let world = World::new();
    let pack = world.packs.start(number(1)).unwrap();
    let before = world.bucket.requests().counts();
    let flushes = 50;
    for seed in 0..flushes {
        for part in 0..7 {
            let bytes = chunk(seed * 100 + part, 9_001);
            pack.append(EntryKind::Chunk, Digest::of(&bytes), &bytes).unwrap();
        }
        pack.flush(pack.len()).unwrap();
        let synced = world.bucket.requests().counts().syncs;
        pack.flush(pack.len()).unwrap();
        assert_eq!(
            world.bucket.requests().counts().syncs,
            synced,
            "what is durable is not synced again"
        );
    }
    let counts = world.bucket.requests().counts();
    let written = counts.bytes_written - before.bytes_written;
    let bound = pack.len() + (flushes + 1) * BLOCK_LEN as u64;
    assert!(
        written <= bound,
        "{written} bytes were written for {}",
        pack.len()
    );
    assert_eq!(counts.syncs - before.syncs, flushes);
}

#[test]
fn a_full_disk_is_found_before_a_chunk_is_accepted() {
    let memory = MemoryBucket::new();
    memory.limit_space(Some(3 << 20));
    let packs = filling(Arc::new(memory.clone()), USUAL);
    let pack = packs.start(number(1)).unwrap();
    let mut content = Content::default();
    let mut failed = None;
    for seed in 0..100 {
        let bytes = chunk(seed, 50_000);
        match pack.append(EntryKind::Chunk, Digest::of(&bytes), &bytes) {
            Ok(place) => content.note(place.unwrap(), &bytes),
            Err(failure) => {
                failed = Some((failure, bytes));
                break;
            }
        }
    }
    let (failure, bytes) = failed.unwrap();
    assert!(matches!(failure, Failure::NoSpace(_)));
    assert!(matches!(pack.reserve(1 << 20), Err(Failure::NoSpace(_))));
    assert!(
        pack.len() > 1_500_000,
        "most of the disk was used: {}",
        pack.len()
    );
    pack.flush(pack.len()).unwrap();
    content.check(&packs);
    memory.limit_space(None);
    pack.reserve(1 << 20).unwrap();
    content.append(&pack, &bytes);
    memory.limit_space(Some(0));
    packs.seal(number(1)).unwrap();
    content.check(&packs);
}

#[test]
fn a_drive_that_has_no_room_at_all_starts_no_pack_and_leaves_nothing() {
    let memory = MemoryBucket::new();
    memory.limit_space(Some(1000));
    let packs = Packs::new(Arc::new(memory.clone()), drive(), []);
    assert!(matches!(packs.start(number(1)), Err(Failure::NoSpace(_))));
    assert_eq!(Packs::list(&memory, &drive()).unwrap().open, []);
    memory.limit_space(None);
    assert!(packs.start(number(1)).is_ok());
}

#[test]
fn many_threads_append_flush_and_read_one_pack() {
    let folder = tempfile::tempdir().unwrap();
    let bucket: Arc<dyn Bucket> = Arc::new(FolderBucket::create(folder.path()).unwrap());
    let packs = Arc::new(filling(bucket.clone(), USUAL));
    packs.start_thread().unwrap();
    let pack = packs.start(number(1)).unwrap();
    let ended = AtomicBool::new(false);
    let contents: Vec<Content> = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                pack.flush(pack.len()).unwrap();
            }
        });
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (pack, packs) = (&pack, &packs);
                threads.spawn(move || {
                    let mut content = Content::default();
                    for seed in 0..150 {
                        let bytes = chunk(writer * 1000 + seed, 1 + (seed as usize * 7919) % 60_000);
                        content.append(pack, &bytes);
                        if seed % 10 == 0 {
                            content.check(packs);
                        }
                    }
                    content
                })
            })
            .collect();
        let contents = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        ended.store(true, Ordering::Relaxed);
        contents
    });
    packs.seal(number(1)).unwrap();
    let packs = Packs::new(bucket, drive(), packs.table());
    contents.iter().for_each(|content| content.check(&packs));
    packs.verify(number(1), &|_| ()).unwrap();
}

#[test]
fn packs_that_were_closed_are_recovered_by_another_owner_at_once() {
    for _ in 0..20 {
        let world = World::new();
        let packs = Arc::new(world.packs);
        packs.start_thread().unwrap();
        let pack = packs.start(number(1)).unwrap();
        let mut content = Content::default();
        for seed in 0..30 {
            content.append(&pack, &chunk(seed, 20_000));
        }
        packs.close();
        let bytes = chunk(99, 10);
        assert!(pack.append(EntryKind::Chunk, Digest::of(&bytes), &bytes).is_err());
        assert!(pack.flush(1).is_err() && packs.seal(number(1)).is_err() && packs.start(number(2)).is_err());
        let next = Packs::new(world.bucket.clone(), drive(), []);
        let recovered = next.recover_open(number(1), &content.carried(), &[]).unwrap();
        assert_eq!(recovered.missing, []);
        content.check(&next);
        next.verify(number(1), &|_| ()).unwrap();
        drop((packs, pack));
        content.check(&next);
    }
}

#[test]
fn callers_that_flush_at_once_share_the_wait_for_the_disk() {
    let world = World::new();
    let pack = world.packs.start(number(1)).unwrap();
    let before = world.bucket.requests().counts().syncs;
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|threads| {
        for writer in 0..8 {
            let (pack, barrier) = (&pack, &barrier);
            threads.spawn(move || {
                let bytes = chunk(writer, 1000);
                pack.append(EntryKind::Chunk, Digest::of(&bytes), &bytes).unwrap();
                barrier.wait();
                pack.flush(pack.len()).unwrap();
            });
        }
    });
    assert_eq!(world.bucket.requests().counts().syncs - before, 1);
    assert_eq!(pack.durable(), 8000);
}

/// What a program may do with a pack.
#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Flush,
    WriteOut,
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1usize..100_000).prop_map(Step::Append),
        4 => (1usize..5_000).prop_map(Step::Append),
        3 => Just(Step::Flush),
        1 => Just(Step::WriteOut),
        2 => Just(Step::Read),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_order_of_appends_flushes_and_reads_keeps_every_byte(steps in prop::collection::vec(step(), 1..60), seed: u64) {
        let memory = MemoryBucket::new();
        let packs = filling(Arc::new(memory.clone()), SMALL);
        let pack = packs.start(number(1)).unwrap();
        let mut content = Content::default();
        let mut flushed = 0;
        for (step, number) in steps.iter().zip(0..) {
            match step {
                Step::Append(len) => content.append(&pack, &chunk(number, (*len).min(96 << 10))),
                Step::Flush => {
                    pack.flush(pack.len()).unwrap();
                    flushed = content.len();
                }
                Step::WriteOut => drop(pack.write_out().unwrap()),
                Step::Read => content.check(&packs),
            }
        }
        content.check(&packs);
        // What was flushed survives a power failure at any time.
        let after: Arc<dyn Bucket> = Arc::new(memory.after_power_loss(seed));
        let recovered_packs = Packs::new(after, drive(), []);
        let places = content.places();
        let recovered = recovered_packs.recover_open(PackNumber(1), &places[..flushed], &[]).unwrap();
        prop_assert_eq!(recovered.missing, vec![]);
        content.check_first(flushed, &recovered_packs);
        if packs.seal(number(1)).is_ok() {
            content.check(&Packs::new(Arc::new(memory), drive(), packs.table()));
        }
    }
}
