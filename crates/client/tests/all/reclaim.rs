//! What a held branch keeps of the bucket: what it has written and removed is given back while it is held.

use crate::world::{At, Random, World, make, name};
use std::thread::sleep;
use std::time::Duration;
use tenure_client::{Options, Owner};
use tenure_model::Ino;
use tenure_wire::ReclaimAsk;

const MIB: usize = 1 << 20;

#[test]
fn what_was_written_and_removed_can_be_given_back_while_the_branch_is_held() {
    for at in [At::Here, At::Elsewhere] {
        let world = World::new(at, Options::default());
        let mut random = Random::new(1);
        let kept = make(&world.branch, "kept").unwrap();
        let bytes = random.bytes(MIB / 4);
        world.branch.write(kept, 0, bytes.clone().into()).unwrap();
        world.branch.sync_all().unwrap();
        world.owner.drive.fold().unwrap();
        let gone = make(&world.branch, "gone").unwrap();
        world.branch.write(gone, 0, random.bytes(3 * MIB).into()).unwrap();
        world.branch.sync_all().unwrap();
        // What is placed and never named goes as well.
        let never = make(&world.branch, "never").unwrap();
        world
            .branch
            .write(never, 0, random.bytes(2 * MIB).into())
            .unwrap();
        for (file, ino) in [("never", never), ("gone", gone)] {
            world.branch.unlink(Ino::ROOT, &name(file)).unwrap();
            world.branch.drop_orphan_soon(ino);
        }
        world.branch.sync_all().unwrap();
        let mut freed = 0;
        let is_given_back = (0..500).any(|_| {
            sleep(Duration::from_millis(10));
            freed += world.owner.drive.reclaim(ReclaimAsk::default()).unwrap().freed;
            freed >= 3 * MIB as u64
        });
        assert!(is_given_back, "{freed} bytes were, {at:?}");
        assert_eq!(world.read(kept), bytes);
        world.write(kept, 0, &bytes[..MIB / 8]);
        world.sync(kept);
        assert_eq!(world.owner.drive.check(true).unwrap(), [""; 0]);
        world.branch.close().unwrap();
    }
}
