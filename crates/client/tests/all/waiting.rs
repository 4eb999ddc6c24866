//! An owner that takes nothing for a while: what waits is bounded, stays in batches that it may take, and is shipped later.

use crate::world::{At, create, drive_name, hold, name, node, options, server_options};
use std::sync::Arc;
use tenure_client::Branch;
use tenure_model::{Ino, Kind, NewNode};
use tenure_server::Drive;
use tenure_store::faulty::{CallKind, Fault, FaultyBucket, Plan};
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::{Access, Error};

/// Makes a symbolic link with the longest target: 4 KiB in the log.
fn link(branch: &Branch, number: usize) -> Result<(), Error> {
    let node = NewNode {
        target: vec![b'x'; 4095].into(),
        ..node(Kind::Symlink)
    };
    branch
        .create(Ino::ROOT, &name(&format!("link-{number}")), &node)
        .map(drop)
}

/// Returns a drive whose journal and packs can be forbidden, and `main` of it.
fn held(at: At) -> (MemoryBucket, Arc<FaultyBucket>, Arc<Drive>, Branch) {
    let bucket = MemoryBucket::new();
    let faulty = Arc::new(FaultyBucket::new(Arc::new(bucket.clone()), Plan::none()));
    let drive = create(faulty.clone()).unwrap();
    let branch = hold(drive.clone(), at, ("main", Access::Exclusive), options(1 << 20)).unwrap();
    (bucket, faulty, drive, branch)
}

#[test]
fn more_than_a_batch_may_hold_waits_for_a_bucket_that_cannot_be_written() {
    for (at, fault) in [
        (At::Here, Fault::Refuse),
        (At::Here, Fault::NoSpace),
        (At::Elsewhere, Fault::LoseReply),
    ] {
        let (bucket, faulty, drive, branch) = held(at);
        faulty.set_plan(
            Plan::none()
                .on(CallKind::Write, "", fault)
                .on(CallKind::Create, "", fault),
        );
        let count = 6000;
        for number in 0..count {
            link(&branch, number).unwrap();
            assert!(number % 1000 > 0 || branch.sync_all().is_err());
        }
        assert_eq!(branch.unsynced().ops, count as u64);
        assert_eq!(branch.broken(), None);
        faulty.set_plan(Plan::none());
        branch.sync_all().unwrap();
        assert_eq!(branch.unsynced().ops, 0);
        branch.close().unwrap();
        drive.close().unwrap();
        let drive = Drive::open(
            Arc::new(bucket) as Arc<dyn Bucket>,
            &drive_name(),
            server_options(),
        )
        .unwrap();
        let branch = hold(drive, at, ("main", Access::Read), options(1 << 20)).unwrap();
        assert_eq!(branch.totals().inodes, 1 + count as u64, "{fault:?}");
    }
}

#[test]
fn changes_for_which_there_is_no_room_are_refused_and_those_before_them_are_kept() {
    let (_, faulty, _, branch) = held(At::Here);
    faulty.set_plan(Plan::none().on(CallKind::Write, "", Fault::Refuse));
    let count = (0..60_000)
        .find(|number| link(&branch, *number).is_err())
        .unwrap();
    assert!(count > 20_000, "{count}");
    assert!(branch.sync_all().is_err());
    faulty.set_plan(Plan::none());
    branch.sync_all().unwrap();
    link(&branch, count).unwrap();
    branch.sync_all().unwrap();
    assert_eq!(
        (branch.totals().inodes, branch.broken()),
        (2 + count as u64, None)
    );
}
