//! An owner that takes nothing for a while: what waits is bounded, stays in batches that it may take, and is shipped later.

use crate::world::{At, create, drive_name, hold, hold_by, make, name, node, options, server_options, sync};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;
use tenure_client::{Branch, Options};
use tenure_model::limits::WAIT_MAX;
use tenure_model::{Clock, Ino, Kind, NewNode, Timestamp};
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

/// A clock that is set by hand, in seconds.
#[derive(Default)]
struct SetClock(AtomicU64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::since_epoch(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

fn asked(branch: &Branch, ino: Ino) -> Receiver<Result<(), Error>> {
    let (send, told) = sync_channel(1);
    branch.sync(ino, Box::new(move |synced| drop(send.send(synced))));
    told
}

/// Guarantee 15: a store that refuses for a while makes who syncs wait, for a time that has an end; and loses nothing.
#[test]
fn who_syncs_far_away_waits_for_what_may_heal_and_not_for_ever() {
    let faulty = Arc::new(FaultyBucket::new(Arc::new(MemoryBucket::new()), Plan::none()));
    let (drive, clock) = (create(faulty.clone()).unwrap(), Arc::new(SetClock::default()));
    let options = Options::default();
    let branch = hold_by(
        clock.clone(),
        drive,
        At::Elsewhere,
        ("main", Access::Exclusive),
        options,
    )
    .unwrap();
    let fails = |fault| {
        Plan::none()
            .on(CallKind::Write, "", fault)
            .on(CallKind::Create, "", fault)
    };
    let heals = make(&branch, "heals").unwrap();
    faulty.set_plan(fails(Fault::Refuse));
    let told = asked(&branch, heals);
    while branch.trouble().is_none() {
        std::thread::yield_now();
    }
    assert_eq!(told.try_recv(), Err(TryRecvError::Empty));
    faulty.set_plan(Plan::none());
    assert_eq!((told.recv().unwrap(), branch.trouble()), (Ok(()), None));

    let waits = make(&branch, "waits").unwrap();
    faulty.set_plan(fails(Fault::Refuse));
    let told = asked(&branch, waits);
    while branch.trouble().is_none() {
        std::thread::yield_now();
    }
    clock.0.fetch_add(WAIT_MAX.as_secs(), Ordering::Relaxed);
    assert!(told.recv().unwrap().is_err());
    assert_ne!(branch.unsynced().ops, 0, "it is kept");
    faulty.set_plan(Plan::none());
    assert_eq!(sync(&branch, waits), Ok(()));
}
