//! Packs whose bytes are not what they were: each read returns the right bytes or says what is damaged.

use crate::world::{Content, SMALL, USUAL, World, chunk, drive, filled, filling, number};
use proptest::prelude::*;
use std::sync::Arc;
use tenure_model::{Digest, Failure};
use tenure_store::faulty::{CallKind, Fault, Plan};
use tenure_store::pack::{EntryKind, PackName, Packs, Sealed};
use tenure_store::{Bucket, FaultyBucket, FolderBucket, Key, MemoryBucket};

fn sealed() -> (MemoryBucket, Content, Sealed) {
    let memory = MemoryBucket::new();
    let lens = [5_000, 100_000, 16_384, 40_000, 3];
    let (packs, _, content) = filled(&memory, USUAL, &lens);
    let sealed = packs.seal(number(1)).unwrap();
    (memory, content, sealed)
}

fn assert_names(failure: &Failure, key: &Key) {
    let corrupt = matches!(failure, Failure::Corrupt(_));
    assert!(corrupt && failure.to_string().contains(key.as_str()), "{failure}");
}

#[test]
fn a_damaged_block_fails_what_touches_it_and_nothing_else() {
    let (memory, content, sealed) = sealed();
    memory.damage(&sealed.key, |bytes| bytes[60_000] ^= 1);
    let packs = Packs::new(Arc::new(memory), drive(), [sealed.name]);
    let addresses = content.addresses();
    assert_names(&packs.read(addresses[1]).unwrap_err(), &sealed.key);
    let block = 60_000 / 16_384 * 16_384;
    let mut into = vec![0; 10];
    assert_names(
        &packs
            .read_into(addresses[1], block - 5_000, &mut into)
            .unwrap_err(),
        &sealed.key,
    );
    assert_eq!(
        packs.read_into(addresses[1], block - 5_000 - 10, &mut into),
        Ok(())
    );
    assert_eq!(into, chunk(2, 100_000)[block as usize - 5_010..][..10]);
    assert_eq!(packs.read(addresses[0]), Ok(chunk(1, 5_000)));
    assert_eq!(packs.read(addresses[3]), Ok(chunk(4, 40_000)));
    assert_names(&packs.verify(number(1), &|_| ()).unwrap_err(), &sealed.key);
}

#[test]
fn a_pack_that_is_being_filled_is_verified_as_far_as_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Arc::new(FolderBucket::create(folder.path()).unwrap());
    let packs = filling(bucket.clone(), USUAL);
    let pack = packs.start(number(1)).unwrap();
    let mut content = Content::default();
    (0..3).for_each(|seed| content.append(&pack, &chunk(seed, 50_000)));
    pack.flush(pack.len()).unwrap();
    content.append(&pack, &chunk(3, 50_000));
    assert_eq!(packs.numbers(), [number(1)]);
    assert_eq!(packs.verify(number(1), &|_| ()), Ok(200_000));
    let key = bucket.list("drives/work/packs/").unwrap().remove(0);
    let path = folder.path().join(key.as_str());
    let change = |byte: u8| {
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[byte], 60_000).unwrap();
    };
    let was = chunk(1, 50_000)[10_000];
    change(!was);
    assert_names(&packs.verify(number(1), &|_| ()).unwrap_err(), &key);
    change(was);
    assert_eq!(packs.verify(number(1), &|_| ()), Ok(200_000));
    std::fs::remove_file(&path).unwrap();
    assert_names(&packs.verify(number(1), &|_| ()).unwrap_err(), &key);
}

#[test]
fn a_missing_short_or_foreign_pack_is_named() {
    let (memory, content, sealed) = sealed();
    let at = content.addresses()[0];
    let read = |memory: &MemoryBucket, name: PackName| {
        Packs::new(Arc::new(memory.copy()), drive(), [name])
            .read(at)
            .unwrap_err()
    };
    let gone = memory.copy();
    gone.delete(&sealed.key).unwrap();
    assert_names(&read(&gone, sealed.name), &sealed.key);
    for len in [0, 10, 64, 5_000, sealed.len as usize - 1] {
        let short = memory.copy();
        short.damage(&sealed.key, |bytes| bytes.truncate(len));
        assert_names(&read(&short, sealed.name), &sealed.key);
    }
    // The same object under another number or tag is another pack's.
    let bytes = memory.get(&sealed.key).unwrap().unwrap();
    let other_tag = PackName {
        tag: [9; 8],
        ..sealed.name
    };
    memory.put_if_absent(&other_tag.key(&drive()), &bytes).unwrap();
    assert_names(&read(&memory, other_tag), &other_tag.key(&drive()));
    let other_number = PackName {
        number: number(2),
        ..sealed.name
    };
    memory.put_if_absent(&other_number.key(&drive()), &bytes).unwrap();
    let packs = Packs::new(Arc::new(memory), drive(), [other_number]);
    assert_names(
        &packs.entries(number(2)).unwrap_err(),
        &other_number.key(&drive()),
    );
}

#[test]
fn a_newer_version_is_said_to_be_one() {
    let (memory, _, sealed) = sealed();
    memory.damage(&sealed.key, |bytes| {
        let footer = bytes.len() - 64;
        bytes[footer + 48] = 2;
        let checksum = crc32c::crc32c(&bytes[footer..footer + 52]);
        bytes[footer + 52..footer + 56].copy_from_slice(&checksum.to_le_bytes());
    });
    let packs = Packs::new(Arc::new(memory), drive(), [sealed.name]);
    let key = &sealed.key;
    assert_eq!(
        packs.entries(number(1)).unwrap_err(),
        Failure::Newer(format!(
            "{key}: it is a pack of version 2, which this program cannot read: use a newer tenure"
        ))
    );
}

#[test]
fn wrong_and_short_replies_are_never_data() {
    let (memory, content, sealed) = sealed();
    for fault in [Fault::WrongBody, Fault::ShortRead] {
        let bucket = Arc::new(FaultyBucket::new(Arc::new(memory.clone()), Plan::none()));
        let packs = Packs::new(bucket.clone(), drive(), [sealed.name]);
        packs.entries(number(1)).unwrap();
        bucket.set_plan(Plan::none().on(CallKind::Get, "packs", fault));
        for at in content.addresses() {
            assert_names(&packs.read(at).unwrap_err(), &sealed.key);
            assert_names(&packs.read_into(at, 1, &mut [0]).unwrap_err(), &sealed.key);
        }
        let fresh = Packs::new(bucket.clone(), drive(), [sealed.name]);
        assert_names(&fresh.entries(number(1)).unwrap_err(), &sealed.key);
        bucket.set_plan(Plan::none());
        content.check(&packs);
        content.check(&fresh);
    }
}

#[test]
fn an_open_packs_blocks_are_verified_too() {
    let world_memory = MemoryBucket::new();
    let (packs, _pack, content) = filled(&world_memory, SMALL, &[90_000]);
    let key = Key::parse("drives/work/packs/00000000000000000001.open").unwrap();
    world_memory.damage(&key, |bytes| bytes[100] ^= 1);
    assert_names(&packs.read(content.addresses()[0]).unwrap_err(), &key);
}

#[test]
fn what_no_pack_holds_is_said_so() {
    let world = World::new();
    let mut content = Content::default();
    let pack = world.packs.start(number(1)).unwrap();
    content.append(&pack, b"abc");
    let mut at = content.addresses()[0];
    for sealed in [false, true] {
        if sealed {
            world.packs.seal(number(1)).unwrap();
        }
        let beyond = world.packs.read_into(at, 2, &mut [0; 2]);
        assert!(matches!(beyond, Err(Failure::Corrupt(_))), "{beyond:?}");
        at.digest = Digest::of(b"other");
        assert!(matches!(world.packs.read(at), Err(Failure::Corrupt(_))));
        at.digest = Digest::of(b"abc");
    }
    at.pack = number(9);
    let why = world.packs.read(at).unwrap_err().to_string();
    assert!(
        why.contains("drives/work/packs") && why.contains("pack 9"),
        "{why}"
    );
}

/// A small pack as it stood in the first version: two chunks and a page.
#[test]
fn a_pack_has_the_bytes_it_always_had() {
    let memory = MemoryBucket::new();
    let packs = filling(Arc::new(memory.clone()), USUAL);
    let pack = packs.start(number(7)).unwrap();
    for (kind, bytes) in [
        (EntryKind::Chunk, &b"first chunk"[..]),
        (EntryKind::Page, b"a page"),
        (EntryKind::Chunk, b"second chunk"),
    ] {
        pack.append(kind, Digest::of(bytes), bytes).unwrap();
    }
    let sealed = packs.seal(number(7)).unwrap();
    let golden = include_str!("../golden/pack-1.hex");
    let bytes = memory.get(&sealed.key).unwrap().unwrap();
    let hex: Vec<String> = bytes
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    assert_eq!(hex, golden.lines().collect::<Vec<_>>());
    assert_eq!(
        sealed.key.as_str(),
        "drives/work/packs/00000000000000000007.9c686290a0fef4ca"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_damage_makes_a_read_return_other_bytes(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (memory, content, sealed) = sealed();
        memory.damage(&sealed.key, |bytes| {
            for (at, byte) in &changes {
                // Damage in the index and footer is what a reader parses: most of it goes there.
                let tail = bytes.len().min(1_000);
                let at = bytes.len() - 1 - at.index(tail);
                bytes[at] = *byte;
            }
            if let Some(cut) = cut {
                let len = bytes.len();
                bytes.truncate(len - cut.index(200.min(len)));
            }
        });
        let packs = Packs::new(Arc::new(memory), drive(), [sealed.name]);
        for (at, bytes) in content.addresses().into_iter().zip(content.bytes()) {
            match packs.read(at) {
                Ok(read) => prop_assert_eq!(&read, bytes),
                Err(failure) => assert_names(&failure, &sealed.key),
            }
        }
    }
}
