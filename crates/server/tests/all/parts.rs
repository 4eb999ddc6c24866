//! What is left of a drive whose making or deletion was cut off, at whichever call: it is listed, and the same command again ends it.

use crate::world::{
    Holder, OWNER_WAIT, StillClock, beginning, content, create, drive_name, on_each_tier, options, says,
};
use std::sync::Arc;
use tenure_server::{Drive, Listing, Part};
use tenure_store::faulty::{Fault, FaultyBucket, Plan};
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::{Error, Owner};

/// Cuts off what is done with a copy of a bucket at each of its calls; returns what each has left.
fn cut_off(bucket: &MemoryBucket, act: impl Fn(Arc<FaultyBucket>) -> Result<(), Error>) -> Vec<MemoryBucket> {
    let mut left = Vec::new();
    loop {
        let copy = bucket.copy();
        let plan = Plan::none().at(left.len() as u64, Fault::Halt);
        let faulty = Arc::new(FaultyBucket::new(Arc::new(copy.clone()), plan));
        if act(faulty).is_ok() {
            return left;
        }
        left.push(copy.copy());
    }
}

/// Returns what is listed of the one drive.
fn listed(bucket: &MemoryBucket) -> Option<Option<Part>> {
    let Listing { drives, parts, .. } = tenure_server::list(bucket).unwrap();
    match (&drives[..], &parts[..]) {
        ([], []) => None,
        ([name], []) if *name == drive_name() => Some(None),
        ([], [(name, part)]) if *name == drive_name() => Some(Some(*part)),
        _ => panic!("{drives:?} {parts:?}"),
    }
}

#[test]
fn a_drive_whose_making_was_cut_off_anywhere_is_listed_and_made_by_the_same_again() {
    on_each_tier(|empty| {
        let clock = Arc::<StillClock>::default();
        let make = |bucket: Arc<dyn Bucket>| {
            let made = Drive::create(bucket, &drive_name(), &beginning(), options(&clock));
            clock.pass(OWNER_WAIT);
            made?.close()
        };
        let left = cut_off(&empty, |bucket| make(bucket));
        assert!(left.len() > 5, "making one takes more than {} calls", left.len());
        let mut begun = 0;
        for (call, bucket) in left.into_iter().enumerate() {
            let is_bare = bucket.list("drives/").unwrap().is_empty();
            let was_made = match listed(&bucket) {
                None => {
                    assert!(is_bare, "call {call}: what is there is listed");
                    false
                }
                Some(Some(part)) => {
                    begun += 1;
                    assert_eq!(part, Part::Begun, "call {call}");
                    false
                }
                Some(None) => true,
            };
            let again = make(Arc::new(bucket.clone()));
            if was_made {
                assert!(says(again).contains("a drive work already"), "call {call}");
            } else {
                again.unwrap_or_else(|error| panic!("call {call}: {error}"));
            }
            assert_eq!(listed(&bucket), Some(None), "call {call}");
            let drive = Drive::open(Arc::new(bucket), &drive_name(), options(&clock)).unwrap();
            clock.pass(OWNER_WAIT);
            assert_eq!(drive.check(true).unwrap(), [""; 0], "call {call}");
        }
        assert!(begun > 2, "{begun} were begun");
    });
}

#[test]
fn a_drive_whose_deletion_was_cut_off_anywhere_is_whole_or_said_to_be_deleted_and_ended_by_the_same_again() {
    on_each_tier(|empty| {
        let clock = Arc::<StillClock>::default();
        let drive = create(&empty);
        let mut holder = Holder::hosted(&drive, "main");
        holder.file("file", &content(1, 200_000));
        holder.ship();
        drive.fold().unwrap();
        holder.give_back();
        drive.close().unwrap();
        drop(drive);
        let delete = |bucket: &dyn Bucket| tenure_server::delete(bucket, &drive_name(), "a test");
        let left = cut_off(&empty, |bucket| delete(bucket.as_ref()));
        let mut deleted = 0;
        for (call, bucket) in left.into_iter().enumerate() {
            let is_bare = bucket.list("drives/").unwrap().is_empty();
            let open = |bucket: &MemoryBucket| {
                let opened = Drive::open(Arc::new(bucket.clone()), &drive_name(), options(&clock));
                clock.pass(OWNER_WAIT);
                opened
            };
            match listed(&bucket) {
                None => assert!(is_bare, "call {call}: what is there is listed"),
                Some(None) => {
                    let drive = open(&bucket.copy()).unwrap_or_else(|error| panic!("call {call}: {error}"));
                    assert_eq!(Holder::reader(&drive, "main").read("file"), content(1, 200_000));
                }
                Some(Some(part)) => {
                    deleted += 1;
                    assert_eq!(part, Part::Deleted, "call {call}");
                    let copy = bucket.copy();
                    let said = says(open(&copy));
                    assert!(said.contains("is being deleted"), "call {call}: {said}");
                    let made = Drive::create(Arc::new(copy), &drive_name(), &beginning(), options(&clock));
                    let said = says(made);
                    assert!(said.contains("is being deleted"), "call {call}: {said}");
                }
            }
            if !is_bare {
                delete(&bucket).unwrap_or_else(|error| panic!("call {call}: {error}"));
            }
            assert_eq!(bucket.list("drives/").unwrap(), [], "call {call}");
            Drive::create(Arc::new(bucket), &drive_name(), &beginning(), options(&clock)).unwrap();
        }
        assert!(deleted > 5, "{deleted} were being deleted");
    });
}
