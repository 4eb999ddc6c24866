//! Inodes that nobody can reach any more: they go by themselves, soon and after their names.

use crate::world::{At, World, make, name, options};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tenure_client::{Branch, Options};
use tenure_model::Ino;

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
        let end = Instant::now() + Duration::from_secs(20);
        while world.branch.totals().inodes > 1 {
            assert!(Instant::now() < end, "{:?}", world.branch.totals());
            sleep(Duration::from_millis(10));
        }
        assert_eq!(
            world.branch.unsynced().bytes,
            0,
            "what they held is not written any more"
        );
    }
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
