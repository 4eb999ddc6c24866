//! Long files: they share chunks with what they were, wherever bytes were put in.

use crate::world::{At, Random, World, chunks, options};
use tenure_client::Options;
use tenure_model::{Extent, Ino};

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
