//! Files that are written in small pieces: they end in few long chunks, and nobody sees it but by that.

use crate::world::{At, Random, World, branch_name, chunks, hold, name, options, read};
use bytes::Bytes;
use std::sync::Arc;
use tenure_client::{Options, Seek};
use tenure_model::Ino;
use tenure_model::record::Source;
use tenure_wire::{Access, ForkAsk, Owner};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

/// Writes a database of so many pages whole, and then so many of its pages again, each synced, as `random` chooses.
fn rewrite(world: &World, ino: Ino, (pages, times): (u64, u64), random: &mut Random) -> Vec<u8> {
    let mut expected = random.bytes((pages * PAGE) as usize);
    world.write(ino, 0, &expected);
    world.sync(ino);
    for _ in 0..times {
        let at = random.below(pages) * PAGE;
        let page = random.bytes(PAGE as usize);
        world.write(ino, at, &page);
        world.sync(ino);
        expected[at as usize..(at + PAGE) as usize].copy_from_slice(&page);
    }
    expected
}

/// Returns how many extents there may be at most where everything that is worth it was merged.
fn extents_max(len: u64) -> usize {
    (len / (16 << 10) + 8) as usize
}

fn database_ends_in_few_chunks(at: At) {
    let (pages, times) = (1000, 10_000);
    let world = World::new(at, options(4 << 20));
    let ino = world.file("database");
    let expected = rewrite(&world, ino, (pages, times), &mut Random::new(1));
    assert!(world.read(ino) == expected);
    let before = world.extents(ino).len();
    assert!(before <= 2 * pages as usize);
    // What is left is merged when the branch is given back.
    let world = world.reopen();
    let extents = world.extents(ino);
    let (count, chunks) = (extents.len(), chunks(&extents).len());
    assert!(
        count <= extents_max(pages * PAGE),
        "{count} extents, {before} before"
    );
    assert!(chunks <= count);
    assert!(world.read(ino) == expected);
    assert_eq!(world.owner.drive.check(true).unwrap(), [""; 0]);
}

#[test]
fn a_database_that_is_rewritten_page_by_page_ends_in_few_chunks() {
    database_ends_in_few_chunks(At::Here);
}

#[test]
fn a_database_of_a_holder_in_another_process_ends_in_few_chunks() {
    database_ends_in_few_chunks(At::Elsewhere);
}

#[test]
fn a_log_that_grows_by_little_pieces_ends_in_few_chunks() {
    let world = World::new(At::Here, options(64 << 10));
    let ino = world.file("log");
    let mut expected = Vec::new();
    let mut random = Random::new(2);
    for _ in 0..2000 {
        let line = random.bytes(200);
        world.write(ino, expected.len() as u64, &line);
        world.sync(ino);
        expected.extend_from_slice(&line);
    }
    let world = world.reopen();
    let extents = world.extents(ino).len();
    assert!(extents <= extents_max(expected.len() as u64), "{extents} extents");
    assert!(world.read(ino) == expected);
}

#[test]
fn merging_copies_no_more_than_four_bytes_for_each_that_was_written() {
    for (pages, times) in [(100, 3000), (8000, 3000)] {
        let world = World::new(At::Here, options(MIB));
        let ino = world.file("database");
        rewrite(&world, ino, (pages, times), &mut Random::new(3));
        world.branch.close().unwrap();
        let (whole, written) = (pages * PAGE, times * PAGE);
        let copied = world.owner.placed() - whole - written;
        assert!(copied <= 4 * written, "{copied} bytes copied for {written}");
        assert!(copied > 0);
    }
}

#[test]
fn merging_changes_no_times_no_size_and_fills_no_hole() {
    let world = World::new(At::Here, options(16 << 10));
    let ino = world.file("sparse");
    let mut random = Random::new(4);
    // Every eleventh page stays a hole.
    for page in (0..220).filter(|page| page % 11 != 10) {
        world.write(ino, page * PAGE, &random.bytes(PAGE as usize));
        world.sync(ino);
    }
    let (before, bytes) = (world.branch.attr(ino).unwrap(), world.read(ino));
    let world = world.reopen();
    assert_eq!(world.branch.attr(ino).unwrap(), before);
    assert!(world.read(ino) == bytes);
    assert_eq!(before.allocated, 200 * PAGE);
    assert_eq!(world.branch.seek(ino, 0, Seek::Hole).unwrap(), 10 * PAGE);
    assert_eq!(world.branch.seek(ino, 10 * PAGE, Seek::Data).unwrap(), 11 * PAGE);
    let extents = world.extents(ino).len();
    assert!((20..40).contains(&extents), "{extents} extents");
}

#[test]
fn whoever_writes_while_a_run_is_copied_wins() {
    let world = World::new(At::Here, options(16 << 10));
    let ino = world.file("database");
    world.write(ino, 0, &[1; 64 * 4096]);
    world.sync(ino);
    for page in 0..15 {
        world.write(ino, page * PAGE, &[2; 4096]);
        world.sync(ino);
    }
    let branch = Arc::downgrade(&world.branch);
    world.owner.before_read(move || {
        let branch = branch.upgrade().unwrap();
        branch
            .write(ino, 5 * PAGE, Bytes::from_static(&[3; 100]))
            .unwrap();
        // It goes into the log.
        branch.seek(ino, 0, Seek::Hole).unwrap();
    });
    // With this page merging is due, and its first read meets the writer.
    world.write(ino, 15 * PAGE, &[2; 4096]);
    world.sync(ino);
    let mut expected = vec![1; 64 * 4096];
    expected[..16 * 4096].fill(2);
    expected[5 * 4096..5 * 4096 + 100].fill(3);
    assert!(world.read(ino) == expected);
    world.sync(ino);
    assert_eq!(
        world.extents(ino).len(),
        18,
        "nothing was put over the writer's page"
    );
    let world = world.reopen();
    assert!(world.read(ino) == expected);
}

#[test]
fn a_file_that_is_cut_or_removed_while_it_is_copied_stays_so() {
    let change = tenure_model::AttrChange {
        size: Some(0),
        ..tenure_model::AttrChange::default()
    };
    for is_removed in [false, true] {
        let world = World::new(At::Here, options(16 << 10));
        let ino = world.file("database");
        for page in 0..16 {
            world.write(ino, page * PAGE, &[2; 4096]);
            world.sync(ino);
        }
        let branch = Arc::downgrade(&world.branch);
        world.owner.before_read(move || {
            let branch = branch.upgrade().unwrap();
            if is_removed {
                branch.unlink(Ino::ROOT, &name("database")).unwrap();
                branch.drop_orphan(ino).unwrap();
            } else {
                branch.set_attr(ino, &change).unwrap();
            }
        });
        world.write(ino, 16 * PAGE, &[2; 4096]);
        world.sync(ino);
        world.branch.sync_all().unwrap();
        assert_eq!(world.extents(ino), []);
        assert_eq!(world.branch.totals().bytes, 0);
        assert_eq!(world.branch.broken(), None);
    }
}

#[test]
fn forks_keep_what_they_have_while_the_base_is_merged() {
    let world = World::new(At::Here, options(64 << 10));
    let ino = world.file("database");
    let mut random = Random::new(6);
    let first = rewrite(&world, ino, (200, 30), &mut random);
    let source = Source::Branch(tenure_model::BranchId(1));
    world
        .owner
        .fork(&ForkAsk::new(source, branch_name("attempt")))
        .unwrap();
    let second = rewrite(&world, ino, (200, 300), &mut random);
    let world = world.reopen();
    assert!(world.read(ino) == second);
    let fork = hold(
        world.owner.clone(),
        At::Here,
        ("attempt", Access::Exclusive),
        options(64 << 10),
    )
    .unwrap();
    assert!(read(&fork, ino) == first);
    fork.close().unwrap();
    assert_eq!(world.owner.drive.check(true).unwrap(), [""; 0]);
}

#[test]
fn two_threads_that_write_while_a_third_merges_have_what_they_wrote() {
    let options = Options {
        stage_settle: 16 << 10,
        ..Options::default()
    };
    let world = World::new(At::Here, options);
    let (ino, half) = (world.file("database"), 64_u64);
    world.write(ino, 0, &vec![9; (2 * half * PAGE) as usize]);
    world.sync(ino);
    let expected: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|side| {
                let world = &world;
                scope.spawn(move || {
                    let mut random = Random::new(7 + side);
                    let mut expected = vec![9; (half * PAGE) as usize];
                    for _ in 0..700 {
                        let (at, len) = (random.below((half - 1) * PAGE), random.below(PAGE) + 1);
                        let bytes = random.bytes(len as usize);
                        world.write(ino, side * half * PAGE + at, &bytes);
                        if random.below(2) == 0 {
                            world.sync(ino);
                        }
                        expected[at as usize..(at + len) as usize].copy_from_slice(&bytes);
                        let mut found = Vec::new();
                        world
                            .branch
                            .read(ino, side * half * PAGE + at, len as usize, &mut found)
                            .unwrap();
                        assert!(found == bytes);
                    }
                    expected
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let expected = expected.concat();
    assert!(world.read(ino) == expected);
    // What was copied in vain is not copied for nothing again: more writes, which nobody disturbs, put it all in shape.
    for (page, bytes) in (0..).zip(expected.chunks(PAGE as usize)) {
        world.write(ino, page * PAGE, bytes);
        world.sync(ino);
    }
    let world = world.reopen();
    assert!(world.read(ino) == expected);
    let extents = world.extents(ino).len();
    assert!(extents <= extents_max(2 * half * PAGE), "{extents} extents");
    world.branch.close().unwrap();
}
