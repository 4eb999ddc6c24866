//! Packs on a bucket that has no disk: they are filled in memory and put as one object each.

use crate::world::{Content, USUAL, chunk, drive, filling, number};
use std::sync::Arc;
use std::sync::mpsc::channel;
use tenure_model::{Digest, Failure};
use tenure_store::faulty::{CallKind, Fault, Plan};
use tenure_store::pack::{EntryKind, Packs};
use tenure_store::{Bucket, FaultyBucket, MemoryBucket};

/// Packs that are held in memory at once.
const HELD_MAX: u64 = 8;

fn remote() -> Arc<MemoryBucket> {
    Arc::new(MemoryBucket::new().without_disk())
}

/// Returns packs that are filled in memory, one of them with chunks in it.
fn held(bucket: Arc<dyn Bucket>) -> (Packs, Content) {
    let packs = filling(bucket, USUAL);
    let pack = packs.start(number(1)).unwrap();
    let mut content = Content::default();
    for seed in 0..20 {
        content.append(&pack, &chunk(seed, 1 + (seed as usize * 977) % 40_000));
    }
    (packs, content)
}

fn puts(bucket: &dyn Bucket) -> u64 {
    bucket.requests().counts().puts
}

#[test]
fn chunks_are_read_while_a_pack_is_filled_and_from_the_object_that_it_becomes() {
    let bucket = remote();
    let (packs, content) = held(bucket.clone());
    content.check(&packs);
    assert_eq!(
        bucket.list("drives/"),
        Ok(Vec::new()),
        "nothing is put before it must be"
    );
    let sealed = packs.seal(number(1)).unwrap();
    assert_eq!(puts(&*bucket), 1);
    assert_eq!(bucket.list("drives/"), Ok(vec![sealed.key.clone()]));
    assert_eq!(bucket.size(&sealed.key), Ok(Some(sealed.len)));
    content.check(&packs);
    let other = Packs::new(bucket, drive(), packs.table());
    content.check(&other);
    assert_eq!(other.verify(number(1), &|_| ()), Ok(sealed.len));
}

#[test]
fn who_needs_a_chunk_durable_has_its_pack_put_and_the_pack_takes_no_more() {
    let bucket = remote();
    let (packs, content) = held(bucket.clone());
    let pack = packs.start(number(2)).unwrap();
    let bytes = chunk(99, 1000);
    pack.append(EntryKind::Chunk, Digest::of(&bytes), &bytes).unwrap();
    pack.flush(0).unwrap();
    assert_eq!(puts(&*bucket), 0, "nothing lies before byte 0");
    pack.flush(1).unwrap();
    assert_eq!((pack.durable(), puts(&*bucket)), (1000, 1));
    pack.flush(1000).unwrap();
    assert_eq!(puts(&*bucket), 1, "what is durable is not put again");
    assert!(pack.is_full());
    let more = chunk(100, 10);
    assert_eq!(pack.append(EntryKind::Chunk, Digest::of(&more), &more), Ok(None));
    packs.seal(number(2)).unwrap();
    assert_eq!(puts(&*bucket), 1, "a pack that was put is sealed");
    packs.seal(number(1)).unwrap();
    content.check(&packs);
    let table: Vec<_> = packs.table().iter().map(|name| name.number).collect();
    assert_eq!(table, [number(1), number(2)]);
}

#[test]
fn callers_that_need_one_pack_durable_at_once_put_it_once() {
    let bucket = remote();
    let (packs, content) = held(bucket.clone());
    let pack = packs.start(number(2)).unwrap();
    content.bytes().for_each(|bytes| {
        pack.append(EntryKind::Chunk, Digest::of(bytes), bytes).unwrap();
    });
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| pack.flush(pack.len()).unwrap());
        }
    });
    assert_eq!(puts(&*bucket), 1);
}

#[test]
fn packs_are_put_at_the_same_time() {
    let (came, arrivals) = channel();
    let (let_go, go) = channel::<()>();
    let go = std::sync::Mutex::new(go);
    let memory = remote();
    let on_call = Box::new(move |call: &tenure_store::faulty::Call| {
        if call.kind == CallKind::Put {
            came.send(()).unwrap();
            go.lock().unwrap().recv().unwrap();
        }
    });
    let bucket = Arc::new(FaultyBucket::watched(memory, Plan::none(), Some(on_call)));
    let (packs, content) = held(bucket);
    let second = packs.start(number(2)).unwrap();
    second.append(EntryKind::Chunk, Digest::of(b"x"), b"x").unwrap();
    std::thread::scope(|threads| {
        let packs = &packs;
        let seals = [1, 2].map(|pack| threads.spawn(move || packs.seal(number(pack)).unwrap()));
        arrivals.recv().unwrap();
        arrivals.recv().unwrap();
        content.check(packs);
        let_go.send(()).unwrap();
        let_go.send(()).unwrap();
        seals.into_iter().for_each(|seal| drop(seal.join().unwrap()));
    });
    content.check(&packs);
}

#[test]
fn a_put_of_which_nobody_knows_is_made_again_and_found_to_be_ours() {
    for fault in [
        Fault::LoseReply,
        Fault::LoseRequest,
        Fault::ClaimExists,
        Fault::Refuse,
    ] {
        let memory = remote();
        let bucket = Arc::new(FaultyBucket::new(memory.clone(), Plan::none()));
        let (packs, content) = held(bucket.clone());
        bucket.set_plan(Plan::none().at(0, fault));
        if fault != Fault::ClaimExists {
            let failed = packs.seal(number(1));
            assert!(
                matches!(failed, Err(Failure::DidNotHappen(_))),
                "{fault:?}: {failed:?}"
            );
            content.check(&packs);
        }
        packs.seal(number(1)).unwrap();
        content.check(&packs);
        assert_eq!(
            Packs::list(&*memory, &drive()).unwrap().sealed,
            packs.table(),
            "{fault:?}"
        );
    }
}

#[test]
fn another_object_under_the_packs_name_is_never_taken_for_it() {
    let memory = remote();
    let bucket = Arc::new(FaultyBucket::new(memory.clone(), Plan::none()));
    let (packs, _) = held(bucket.clone());
    bucket.set_plan(Plan::none().at(0, Fault::LoseReply));
    assert!(packs.seal(number(1)).is_err());
    let keys = memory.list("drives/").unwrap();
    assert!(memory.damage(&keys[0], |bytes| bytes[7] ^= 1));
    assert!(matches!(packs.seal(number(1)), Err(Failure::Corrupt(_))));
    assert!(packs.table().is_empty());
}

#[test]
fn so_many_packs_are_in_memory_and_one_that_was_put_makes_room() {
    let packs = filling(remote(), USUAL);
    for pack in 1..=HELD_MAX {
        let pack = packs.start(number(pack)).unwrap();
        pack.append(EntryKind::Chunk, Digest::of(b"x"), b"x").unwrap();
    }
    let one_more = number(HELD_MAX + 1);
    assert!(matches!(packs.start(one_more), Err(Failure::DidNotHappen(_))));
    packs.seal(number(3)).unwrap();
    assert!(packs.start(one_more).is_ok());
}

#[test]
fn a_pack_in_memory_is_full_before_one_on_a_disk() {
    let packs = Packs::new(remote(), drive(), []);
    let pack = packs.start(number(1)).unwrap();
    let mut seed = 0;
    while !pack.is_full() {
        let bytes = chunk(seed, 1 << 20);
        assert!(
            pack.append(EntryKind::Chunk, Digest::of(&bytes), &bytes)
                .unwrap()
                .is_some()
        );
        seed += 1;
    }
    assert_eq!(pack.len(), 16 << 20);
}

#[test]
fn the_next_owner_makes_a_pack_that_was_never_put_of_what_the_journal_carries() {
    let bucket = remote();
    let (packs, content) = held(bucket.clone());
    let place = content.places();
    packs.close();
    drop(packs);
    assert_eq!(
        Packs::list(&*bucket, &drive()).unwrap(),
        tenure_store::pack::Listing::default()
    );
    let next = Packs::new(bucket.clone(), drive(), []);
    let recovered = next.recover_open(number(1), &content.carried(), &[]).unwrap();
    assert_eq!(recovered.missing, []);
    content.check(&next);
    next.verify(number(1), &|_| ()).unwrap();
    // What no record carries is named.
    let lost = Packs::new(remote(), drive(), [])
        .recover_open(number(1), &place[..1], &[])
        .unwrap();
    assert_eq!((lost.sealed, lost.missing.len()), (None, 1));
}

#[test]
fn threads_that_append_flush_and_read_many_packs_find_every_byte() {
    let bucket = remote();
    let packs = filling(bucket.clone(), USUAL);
    let contents: Vec<Content> = std::thread::scope(|threads| {
        let writers: Vec<_> = (0..4u64)
            .map(|writer| {
                let packs = &packs;
                threads.spawn(move || {
                    let mut content = Content::default();
                    for round in 0..10 {
                        let pack = packs.start(number(1 + writer * 10 + round)).unwrap();
                        for seed in 0..20 {
                            let bytes = chunk(writer * 1000 + round * 100 + seed, 1 + seed as usize * 1500);
                            content.append(&pack, &bytes);
                        }
                        pack.flush(1).unwrap();
                        content.check(packs);
                        packs.seal(pack.number()).unwrap();
                    }
                    content
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(puts(&*bucket), 40);
    let packs = Packs::new(bucket, drive(), packs.table());
    contents.iter().for_each(|content| content.check(&packs));
}
