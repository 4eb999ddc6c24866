//! Packs that a crash, a failing disk or a full one left: what was flushed is there again, and nothing false.

use crate::world::{Content, SMALL, chunk, drive, filled, filling, number};
use std::sync::Arc;
use tenure_model::{Address, ChunkPlace, Digest, Failure};
use tenure_store::faulty::{Fault, Plan};
use tenure_store::pack::{EntryKind, Missing, PackWriter, Packs};
use tenure_store::{Bucket, FaultyBucket, Key, MemoryBucket};

const FAULTS: [Fault; 6] = [
    Fault::Refuse,
    Fault::NoSpace,
    Fault::LoseReply,
    Fault::LoseRequest,
    Fault::ShortRead,
    Fault::Halt,
];

/// What became of one run: the chunks that were appended, and how many of them were surely flushed.
struct Run {
    content: Content,
    flushed: usize,
    calls: u64,
}

/// Fills and seals a pack, and goes on as far as it can.
fn fill(memory: &MemoryBucket, plan: Plan) -> Run {
    let bucket = Arc::new(FaultyBucket::new(Arc::new(memory.clone()), plan));
    let packs = filling(bucket.clone(), SMALL);
    let mut run = Run {
        content: Content::default(),
        flushed: 0,
        calls: 0,
    };
    if let Ok(pack) = packs.start(number(1)) {
        let _ = append_and_flush(&pack, &mut run);
        let _ = packs.seal(number(1));
    }
    run.calls = bucket.calls().len() as u64;
    run
}

fn append_and_flush(pack: &PackWriter, run: &mut Run) -> Result<(), Failure> {
    for seed in 0..16 {
        let bytes = chunk(seed, 3_000 + seed as usize * 1_777);
        let place = pack.append(EntryKind::Chunk, Digest::of(&bytes), &bytes)?;
        run.content.note(place.unwrap(), &bytes);
        if seed % 4 == 3 {
            pack.flush(pack.len())?;
            run.flushed = run.content.len();
        }
    }
    Ok(())
}

/// Opens what is left, and finds every chunk that was flushed.
fn check_recovery(left: MemoryBucket, run: &Run, what: &str) {
    let places = &run.content.places()[..run.flushed];
    let packs = recover(Arc::new(left.clone()), places).unwrap_or_else(|failure| panic!("{what}: {failure}"));
    run.content.check_first(run.flushed, &packs);
    for pack in packs.table() {
        packs
            .verify(pack.number, &|_| ())
            .unwrap_or_else(|failure| panic!("{what}: {failure}"));
    }
    assert_eq!(
        Packs::list(&left, &drive()).unwrap().open,
        [],
        "{what}: nothing stays open"
    );
}

fn recover(bucket: Arc<dyn Bucket>, places: &[ChunkPlace]) -> Result<Arc<Packs>, Failure> {
    let listing = Packs::list(&*bucket, &drive())?;
    let packs = Packs::new(bucket, drive(), listing.sealed);
    if !places.is_empty() {
        let recovered = packs.recover_open(number(1), places, &[])?;
        if let Some(missing) = recovered.missing.first() {
            return Err(missing.why.clone());
        }
    }
    for open in listing.open {
        packs.discard_open(open)?;
    }
    Ok(packs)
}

#[test]
fn whichever_call_fails_what_was_flushed_is_recovered() {
    let calls = fill(&MemoryBucket::new(), Plan::none()).calls;
    assert!(calls > 15, "the run makes calls that can fail: {calls}");
    for number in 0..calls {
        for fault in FAULTS {
            let memory = MemoryBucket::new();
            let run = fill(&memory, Plan::none().at(number, fault));
            let what = format!("{fault:?} at call {number}");
            check_recovery(memory.copy(), &run, &format!("{what}, then killed"));
            for seed in 0..4 {
                check_recovery(
                    memory.after_power_loss(seed),
                    &run,
                    &format!("{what}, then power lost"),
                );
            }
        }
    }
}

#[test]
fn after_a_failed_write_a_pack_says_nothing_more() {
    let memory = MemoryBucket::new();
    let bucket = Arc::new(FaultyBucket::new(Arc::new(memory), Plan::none()));
    let packs = filling(bucket.clone(), SMALL);
    let pack = packs.start(number(1)).unwrap();
    let bytes = chunk(1, 100);
    pack.append(EntryKind::Chunk, Digest::of(&bytes), &bytes).unwrap();
    bucket.set_plan(Plan::none().at(1, Fault::LoseReply));
    let failed = pack.flush(100).unwrap_err();
    assert!(matches!(failed, Failure::Unknown(_)));
    assert_eq!(
        pack.flush(100),
        Err(failed.clone()),
        "a sync that failed once is never good later"
    );
    assert_eq!(
        pack.append(EntryKind::Chunk, Digest::of(b"x"), b"x"),
        Err(failed.clone())
    );
    assert_eq!(packs.seal(number(1)), Err(failed));
    assert_eq!(pack.durable(), 0);
}

#[test]
fn recovery_can_be_cut_off_at_any_call_and_done_again() {
    let memory = MemoryBucket::new();
    let run = fill(
        &memory,
        Plan::none().at(fill(&MemoryBucket::new(), Plan::none()).calls - 5, Fault::Halt),
    );
    let carried = run.content.carried();
    let image = memory.after_power_loss(3);
    let recover_with = |memory: &MemoryBucket, plan: Plan| {
        let bucket = Arc::new(FaultyBucket::new(Arc::new(memory.clone()), plan));
        let recovered = recover(bucket.clone(), &carried);
        (recovered.is_ok(), bucket.calls().len() as u64)
    };
    let (done, calls) = recover_with(&image.copy(), Plan::none());
    assert!(done && calls > 8);
    for number in 0..calls {
        for fault in FAULTS {
            let memory = image.copy();
            recover_with(&memory, Plan::none().at(number, fault));
            for seed in 0..4 {
                let left = memory.after_power_loss(seed);
                let packs = recover(Arc::new(left), &carried);
                run.content.check(&packs.unwrap());
            }
        }
    }
}

#[test]
fn a_read_that_goes_wrong_during_a_recovery_does_not_stay_wrong() {
    let memory = MemoryBucket::new();
    let run = fill(
        &memory,
        Plan::none().at(fill(&MemoryBucket::new(), Plan::none()).calls - 5, Fault::Halt),
    );
    let (carried, flushed) = (run.content.carried(), &run.content.places()[..run.flushed]);
    for (call, places) in (0..40).flat_map(|call| [(call, &carried[..]), (call, flushed)]) {
        let left = Arc::new(memory.copy());
        let plan = Plan::none().at(call, Fault::WrongBody);
        let bucket = Arc::new(FaultyBucket::new(left.clone(), plan));
        // It may fail; then the next recovery has to find everything.
        drop(recover(bucket, places));
        let packs = recover(left, places).unwrap();
        packs.verify(number(1), &|_| ()).unwrap();
    }
}

#[test]
fn bytes_that_the_journal_carries_make_up_for_what_the_pack_lacks() {
    let memory = MemoryBucket::new();
    let (_packs, pack, mut content) = filled(&memory, SMALL, &[10_000]);
    content.append(&pack, &chunk(2, 300));
    content.append(&pack, &chunk(3, 20_000));
    let mut places = content.carried();
    places[0].inline = None;
    let after = Arc::new(memory.copy());
    let recovered_packs = Packs::new(after.clone(), drive(), []);
    let recovered = recovered_packs.recover_open(number(1), &places, &[]).unwrap();
    assert_eq!(recovered.missing, []);
    let sealed = recovered.sealed.unwrap();
    let offsets = |places: &[ChunkPlace]| {
        places
            .iter()
            .map(|place| (place.at.digest, place.offset))
            .collect()
    };
    let found: std::collections::BTreeMap<_, _> = sealed
        .entries
        .iter()
        .map(|entry| (entry.digest, entry.offset))
        .collect();
    let wanted: std::collections::BTreeMap<_, _> = offsets(&places);
    assert_eq!(found, wanted, "each chunk lies where the journal says");
    content.check(&recovered_packs);
    content.check(&Packs::new(after, drive(), [sealed.name]));
    let again = recovered_packs.recover_open(number(1), &places, &[]).unwrap();
    assert_eq!(again.missing, []);
    assert_eq!(
        again.sealed.unwrap(),
        sealed,
        "a pack that is sealed is only compared"
    );
}

#[test]
fn a_chunk_that_is_nowhere_is_named_and_the_others_are_kept() {
    let memory = MemoryBucket::new();
    let (_packs, pack, mut content) = filled(&memory, SMALL, &[10_000]);
    content.append(&pack, &chunk(2, 300));
    let places = content.places();
    let after = Packs::new(Arc::new(memory.copy()), drive(), []);
    let recovered = after.recover_open(number(1), &places, &[]).unwrap();
    assert_eq!(recovered.missing.len(), 1);
    assert_eq!(recovered.missing[0].place, places[1]);
    let why = recovered.missing[0].why.to_string();
    assert!(
        why.contains("drives/work/packs/00000000000000000001.open"),
        "{why}"
    );
    content.check_first(1, &after);
    assert!(after.read(places[1].at).is_err());
    let again = after.recover_open(number(1), &places, &[]).unwrap();
    assert_eq!(again.missing.len(), 1, "the sealed pack lacks it too");
}

#[test]
fn a_pack_that_lacks_a_chunk_is_left_as_it_is_and_a_copy_that_is_put_back_gives_it() {
    let memory = MemoryBucket::new();
    let (_packs, _pack, content) = filled(&memory, SMALL, &[10_000, 300]);
    let places = content.places();
    let damaged = memory.copy();
    let open = Key::in_drive(&drive(), &["packs", "00000000000000000001.open"]);
    let whole = damaged.get(&open).unwrap().unwrap();
    damaged.damage(&open, |bytes| bytes[places[1].offset as usize] ^= 1);
    let left = damaged.get(&open);
    let after = Packs::new(Arc::new(damaged.clone()), drive(), []);
    let recovered = after.recover_open(number(1), &places, &[]).unwrap();
    after.lose(number(1), &recovered.missing).unwrap();
    assert_eq!(damaged.get(&open), left, "evidence is not changed");

    let listing = Packs::list(&damaged, &drive()).unwrap();
    assert_eq!(
        (listing.sealed.len(), &listing.open[..], listing.lost.len()),
        (1, &[number(1)][..], 1)
    );
    let next = Packs::new(Arc::new(damaged.clone()), drive(), listing.sealed);
    next.add_lost(listing.lost[0]).unwrap();
    next.lose(number(1), &recovered.missing).unwrap();
    assert_eq!(
        Packs::list(&damaged, &drive()).unwrap().lost,
        listing.lost,
        "the same is listed once"
    );
    content.check_first(1, &next);
    let lacking: Vec<_> = next.lacking().into_iter().map(|lacking| lacking.at).collect();
    assert_eq!(lacking, [places[1].at]);
    assert_eq!(next.find(places[1].at), Ok(None));

    damaged.damage(&open, |bytes| bytes.clone_from(&whole));
    assert_eq!(next.lacking(), []);
    content.check(&next);
    assert!(next.find(places[1].at).unwrap().is_some());
}

/// A list as it stood in the first version.
#[test]
fn a_list_of_what_is_missing_has_the_bytes_it_always_had() {
    let memory = MemoryBucket::new();
    let packs = Packs::new(Arc::new(memory.clone()), drive(), []);
    let missing = [(&b"one"[..], 0, 3), (b"two", 1 << 40, 1 << 20)].map(|(bytes, offset, len)| Missing {
        place: ChunkPlace {
            at: Address {
                pack: number(7),
                digest: Digest::of(bytes),
            },
            offset,
            len,
            inline: None,
        },
        why: Failure::Corrupt(String::new()),
    });
    packs.lose(number(7), &missing).unwrap();
    let keys = memory.list("drives/").unwrap();
    let bytes = memory.get(&keys[0]).unwrap().unwrap();
    let hex: Vec<String> = bytes
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    let golden = include_str!("../golden/lost-1.hex");
    assert_eq!(hex, golden.lines().collect::<Vec<_>>());
    assert_eq!(
        keys[0].as_str(),
        "drives/work/packs/00000000000000000007.lost.ab53cd075a5841fb"
    );
}

#[test]
fn places_that_lie_are_missing_and_overwrite_nothing() {
    let memory = MemoryBucket::new();
    let (_packs, _pack, content) = filled(&memory, SMALL, &[10_000]);
    let place = |bytes: &[u8], offset: u64, len: u32, inline: Option<&[u8]>| ChunkPlace {
        at: Address {
            pack: number(1),
            digest: Digest::of(bytes),
        },
        offset,
        len,
        inline: inline.map(Into::into),
    };
    let (far, over) = (chunk(8, 500), chunk(9, 500));
    let mut places = content.places();
    places.extend([
        place(b"x", u64::MAX, u32::MAX, None),
        place(b"y", 0, 1, None),
        place(b"z", 50_000, 1, Some(b"!")),
        place(b"", 3, 0, Some(b"")),
        place(&over, 5_000, 500, Some(&over)),
        place(&far, 1 << 60, 500, Some(&far)),
    ]);
    let after = Packs::new(Arc::new(memory.copy()), drive(), []);
    let recovered = after.recover_open(number(1), &places, &[]).unwrap();
    let missing: Vec<_> = recovered.missing.iter().map(|missing| &missing.place).collect();
    assert_eq!(missing, places[1..5].iter().collect::<Vec<_>>());
    content.check(&after);
    assert_eq!(after.read(places[5].at), Ok(over));
    assert_eq!(after.read(places[6].at), Ok(far));
    assert!(recovered.sealed.unwrap().len < 100_000);
}

#[test]
fn nothing_to_recover_leaves_nothing() {
    let memory = MemoryBucket::new();
    let packs = Packs::new(Arc::new(memory.clone()), drive(), []);
    assert_eq!(packs.recover_open(number(1), &[], &[]).unwrap().sealed, None);
    packs.start(number(1)).unwrap();
    let after = Packs::new(Arc::new(memory.copy()), drive(), []);
    assert_eq!(after.recover_open(number(1), &[], &[]).unwrap().sealed, None);
    let lost = ChunkPlace {
        at: Address {
            pack: number(2),
            digest: Digest::of(b"x"),
        },
        offset: 0,
        len: 1,
        inline: None,
    };
    let recovered = after.recover_open(number(2), &[lost], &[]).unwrap();
    assert_eq!((recovered.sealed, recovered.missing.len()), (None, 1));
    assert_eq!(Packs::list(&memory, &drive()).unwrap().open, [number(1)]);
}
