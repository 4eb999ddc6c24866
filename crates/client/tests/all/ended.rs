//! Inodes that nobody can reach any more: they go by themselves, soon and after their names.

use crate::world::{At, World, branch_name, extents, make, name, options};
use std::thread::sleep;
use std::time::Duration;
use tenure_client::{Branch, Options, Owner, Unsynced};
use tenure_model::record::Source;
use tenure_model::{BranchId, Ino};
use tenure_wire::ForkAsk;

/// Makes files and takes their names away, as the kernel does: it forgets an inode after that.
fn remove(branch: &Branch, count: u32) {
    for number in 0..count {
        let file = format!("file {number}");
        let ino = make(branch, &file).unwrap();
        branch.write(ino, 0, vec![7; 4096].into()).unwrap();
        let gone = branch.unlink(Ino::ROOT, &name(&file)).unwrap();
        assert_eq!(gone.orphan, Some(ino));
        branch.drop_orphan_soon(ino);
    }
}

#[test]
fn what_was_removed_goes_soon_without_being_asked() {
    for at in [At::Here, At::Elsewhere] {
        let world = World::new(at, Options::default());
        remove(&world.branch, 300);
        let goes = (0..2000).any(|_| {
            sleep(Duration::from_millis(10));
            world.branch.totals().inodes == 1
        });
        assert!(goes, "{:?}", world.branch.totals());
        assert_eq!(
            world.branch.unsynced().bytes,
            0,
            "what they held is not written any more"
        );
    }
}

#[test]
fn what_was_removed_before_everything_is_synced_is_in_no_fork() {
    for at in [At::Here, At::Elsewhere] {
        let world = World::new(at, Options::default());
        remove(&world.branch, 300);
        world.branch.sync_all().unwrap();
        let source = Source::Branch(BranchId(1));
        world
            .owner
            .fork(&ForkAsk::new(source, branch_name("attempt")))
            .unwrap();
        let inodes: Vec<_> = world
            .owner
            .branches()
            .unwrap()
            .iter()
            .map(|line| line.inodes)
            .collect();
        assert_eq!(inodes, [1, 1]);
    }
}

#[test]
fn the_end_of_what_nobody_can_reach_is_missed_by_nobody_and_shipped() {
    let world = World::new(At::Here, options(1 << 20));
    let ino = make(&world.branch, "file").unwrap();
    world.branch.unlink(Ino::ROOT, &name("file")).unwrap();
    world.sync(ino);
    let inodes = || world.owner.branches().unwrap()[0].inodes;
    assert_eq!(inodes(), 2);
    world.branch.drop_orphan_soon(ino);
    assert_eq!(world.branch.unsynced(), Unsynced::default());
    world.branch.sync_all().unwrap();
    assert_eq!(inodes(), 1);
}

#[test]
fn a_sync_of_the_root_covers_every_file_and_waits_for_no_end() {
    // In none of the test's time does anything go by itself.
    let lag_max = Duration::from_secs(1000);
    let world = World::new(
        At::Here,
        Options {
            lag_max,
            ..Options::default()
        },
    );
    let gone = make(&world.branch, "journal").unwrap();
    let kept = make(&world.branch, "kept").unwrap();
    world.branch.write(kept, 0, vec![7; 1 << 20].into()).unwrap();
    world.branch.unlink(Ino::ROOT, &name("journal")).unwrap();
    world.sync(Ino::ROOT);
    assert!(!extents(&world.owner.drive, kept).unwrap().is_empty());
    let shipped = world.owner.shipped();
    world.branch.drop_orphan_soon(gone);
    world.sync(Ino::ROOT);
    assert_eq!(world.owner.shipped(), shipped);
}

#[test]
fn what_was_removed_last_goes_with_the_close() {
    for options in [Options::default(), options(1 << 20)] {
        let world = World::new(At::Here, options);
        remove(&world.branch, 3);
        world.branch.close().unwrap();
        assert_eq!(world.branch.totals().inodes, 1);
    }
}
