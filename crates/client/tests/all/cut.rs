//! Long files: they share chunks with what they were, wherever bytes were put in.

use crate::world::{At, Random, World, chunks, options};
use std::time::Duration;
use tenure_client::Options;
use tenure_model::{Extent, Ino};
use tenure_store::Bucket;
use tenure_wire::Owner;

const LEN: usize = 100 << 20;
const WRITE: usize = 128 << 10;

fn write_in_turn(world: &World, ino: Ino, bytes: &[u8]) {
    for (number, part) in bytes.chunks(WRITE).enumerate() {
        world.write(ino, (number * WRITE) as u64, part);
    }
    world.branch.sync_all().unwrap();
}

fn shares_nearly_all(options: Options) {
    let world = World::new(At::Here, options);
    let old = Random::new(1).bytes(LEN);
    let before = world.file("old");
    write_in_turn(&world, before, &old);
    let new = [&[7][..], &old].concat();
    let after = world.file("new");
    write_in_turn(&world, after, &new);
    let had = chunks(&world.extents(before));
    let extents = world.extents(after);
    let is_shared = |extent: &Extent| matches!(extent, Extent::Chunk { at, .. } if had.contains(at));
    let shared: u64 = extents
        .iter()
        .filter(|piece| is_shared(&piece.extent))
        .map(|piece| piece.extent.len())
        .sum();
    assert!(
        shared * 100 >= LEN as u64 * 95,
        "{shared} bytes of {LEN} are shared"
    );
    assert!(world.read(after) == new);
    assert!(world.read(before) == old);
    world.branch.close().unwrap();
}

#[test]
fn a_long_file_shares_its_chunks_with_what_an_earlier_owner_has_stored() {
    let world = World::new(At::Here, options(4 << 20));
    let mut bytes = Random::new(2).bytes(20 << 20);
    let before = world.file("old");
    write_in_turn(&world, before, &bytes);
    let world = world.reopen();
    bytes.insert(0, 7);
    let after = world.file("new");
    write_in_turn(&world, after, &bytes);
    let had = chunks(&world.extents(before));
    let has = chunks(&world.extents(after));
    assert!(
        has.difference(&had).count() <= 3,
        "{} of {}",
        has.difference(&had).count(),
        has.len()
    );
    let world = world.reopen();
    assert!(world.read(after) == bytes);
    assert_eq!(world.owner.drive.check(true).unwrap(), [""; 0]);
}

#[test]
fn chunks_that_have_rotted_are_stored_again_and_not_shared() {
    let world = World::new(At::Here, options(4 << 20));
    let bytes = Random::new(3).bytes(3 << 20);
    let old = world.file("old");
    write_in_turn(&world, old, &bytes);
    let world = world.reopen();
    let packs = world.bucket.list("drives/work/packs/").unwrap();
    let largest = packs.iter().max_by_key(|key| world.bucket.size(key).unwrap());
    let rot = |pack: &mut Vec<u8>| {
        pack[..3 << 20]
            .iter_mut()
            .step_by(9000)
            .for_each(|byte| *byte ^= 1)
    };
    assert!(world.bucket.damage(largest.unwrap(), rot));
    let new = world.file("new");
    write_in_turn(&world, new, &bytes);
    assert!(world.read(new) == bytes);
    let mut found = vec![0; 3 << 20];
    assert!(world.branch.read(old, 0, 3 << 20, &mut found).is_err());
}

#[test]
fn a_long_file_with_a_byte_put_in_at_its_front_shares_nearly_all_of_its_chunks() {
    shares_nearly_all(options(4 << 20));
}

#[test]
fn a_long_file_shares_its_chunks_while_a_thread_settles_it_piece_by_piece() {
    shares_nearly_all(Options::default());
}

#[test]
fn a_long_file_whose_writer_waits_for_the_stage_is_cut_as_one() {
    shares_nearly_all(Options {
        stage_max: 8 << 20,
        ..options(4 << 20)
    });
}

/// However long each of them is when the stage is settled, they are cut as if each had been written alone.
#[test]
fn files_that_are_written_beside_each_other_share_their_chunks_with_the_same_files_elsewhere() {
    let world = World::new(
        At::Here,
        Options {
            lag_max: Duration::from_secs(60),
            ..Options::default()
        },
    );
    let contents: Vec<_> = (0..10)
        .map(|number| Random::new(number).bytes((number as usize + 1) * 300_000))
        .collect();
    let alone = contents.iter().enumerate().map(|(number, bytes)| {
        let ino = world.file(&format!("alone-{number}"));
        write_in_turn(&world, ino, bytes);
        chunks(&world.extents(ino))
    });
    let alone: Vec<_> = alone.collect();
    let inos: Vec<_> = (0..contents.len())
        .map(|number| world.file(&format!("beside-{number}")))
        .collect();
    for at in (0..3_000_000).step_by(WRITE / 4) {
        for (ino, bytes) in inos.iter().zip(&contents) {
            if at < bytes.len() {
                world.write(*ino, at as u64, &bytes[at..bytes.len().min(at + WRITE / 4)]);
            }
        }
    }
    world.branch.sync_all().unwrap();
    for (number, (ino, alone)) in inos.iter().zip(alone).enumerate() {
        assert_eq!(chunks(&world.extents(*ino)), alone, "file {number}");
    }
    world.branch.close().unwrap();
}
