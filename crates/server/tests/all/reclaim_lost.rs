//! What is given back while owners are lost, and calls of the bucket fail: all that is needed is there.

use crate::world::{
    Holder, OWNER_WAIT, StillClock, beginning, branch_name, checkpoint_ask, content, create, drive_name,
    fork_ask, on_each_tier, open, options,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure_model::Digest;
use tenure_model::record::Source;
use tenure_server::Drive;
use tenure_store::faulty::{Fault, FaultyBucket, Plan};
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::{Access, Chunk, Error, Owner, ReclaimAsk};

/// What the branches hold, and what of it is to be there after a crash.
struct Story {
    files: BTreeMap<(&'static str, &'static str), Vec<u8>>,
}

/// Makes a drive with much that nothing needs, reclaims, and goes on.
fn live(bucket: Arc<FaultyBucket>, story: &mut Story) -> Result<(), Error> {
    let options = options(&Arc::default());
    let drive = Drive::create(bucket, &drive_name(), &beginning(), options)?;
    let mut holder = Holder::new(&drive, "main", Access::Exclusive, true)?;
    let mut add = |holder: &mut Holder, branch, name, seed| -> Result<(), Error> {
        let bytes = content(seed, 200_000);
        let chunk = Chunk {
            digest: Digest::of(&bytes),
            bytes: &bytes,
        };
        let place = holder.drive.place(holder.session, &[chunk])?.remove(0);
        let ino = holder.try_make(tenure_model::Ino::ROOT, name, tenure_model::Kind::File)?;
        holder.try_write_placed(ino, place)?;
        holder.try_ship()?;
        story.files.insert((branch, name), bytes);
        Ok(())
    };
    add(&mut holder, "main", "kept", 1)?;
    drive.fork(&fork_ask(&Source::Branch(holder.id.unwrap()), "try"))?;
    let mut other = Holder::new(&drive, "try", Access::Exclusive, true)?;
    add(&mut other, "gone", "gone", 2)?;
    drive.fold()?;
    drive.give_back(other.session, other.id.unwrap())?;
    Owner::close(&*drive, other.session)?;
    drive.delete_branch(&branch_name("try"))?;
    add(&mut holder, "gone", "more", 3)?;
    drive.reclaim(ReclaimAsk::default())?;
    holder.try_unlink("more")?;
    holder.try_ship()?;
    holder.forgo();
    drive.give_back(holder.session, holder.id.unwrap())?;
    Owner::close(&*drive, holder.session)?;
    let mut holder = Holder::new(&drive, "main", Access::Exclusive, true)?;
    let full = ReclaimAsk {
        is_full: true,
        ..ReclaimAsk::default()
    };
    drive.reclaim(full)?;
    add(&mut holder, "main", "later", 2)?;
    drive.fold()?;
    add(&mut holder, "main", "last", 4)?;
    drive.close()
}

#[test]
fn a_crash_at_any_call_of_a_reclaim_leaves_all_that_is_needed() {
    on_each_tier(|empty| {
        for number in 0.. {
            let bucket = empty.copy();
            let faulty = FaultyBucket::new(Arc::new(bucket.clone()), Plan::none().at(number, Fault::Halt));
            let faulty = Arc::new(faulty);
            let mut story = Story {
                files: BTreeMap::new(),
            };
            let lived = live(faulty.clone(), &mut story);
            let what = format!("call {number}, {:?}", faulty.calls().get(number as usize));
            for image in [bucket.copy(), bucket.after_power_loss(number)] {
                judge(&image, &story, &what);
            }
            if lived.is_ok() {
                assert!(number > 60, "a life of {number} calls is none");
                return;
            }
        }
    });
}

#[test]
fn any_call_of_a_reclaim_whose_reply_is_lost_leaves_all_that_is_needed() {
    on_each_tier(|empty| {
        for fault in [Fault::LoseReply, Fault::Refuse, Fault::ShortRead] {
            for number in 0.. {
                let bucket = empty.copy();
                let faulty = FaultyBucket::new(Arc::new(bucket.clone()), Plan::none().at(number, fault));
                let faulty = Arc::new(faulty);
                let mut story = Story {
                    files: BTreeMap::new(),
                };
                // Whatever it is told.
                let _ = live(faulty.clone(), &mut story);
                let call = faulty.calls().get(number as usize).cloned();
                judge(
                    &bucket.copy(),
                    &story,
                    &format!("{fault:?} at call {number}, {call:?}"),
                );
                if faulty.calls().len() as u64 <= number {
                    break;
                }
            }
        }
    });
}

fn judge(bucket: &MemoryBucket, story: &Story, what: &str) {
    let clock = Arc::<StillClock>::default();
    let drive = match Drive::open(Arc::new(bucket.clone()), &drive_name(), options(&clock)) {
        Ok(drive) => drive,
        Err(error) => {
            assert!(story.files.is_empty(), "{what}: {error}");
            return;
        }
    };
    clock.pass(OWNER_WAIT);
    let look = |drive: &Arc<Drive>, when: &str| {
        let reader = Holder::reader(drive, "main");
        for ((branch, name), bytes) in &story.files {
            if *branch == "main" {
                assert_eq!(reader.read(name), *bytes, "{what}, {when}: {name}");
            }
        }
        assert_eq!(drive.check(true).unwrap(), [""; 0], "{what}, {when}");
        Owner::close(&**drive, reader.session).unwrap();
    };
    look(&drive, "found");
    let told = drive.reclaim(ReclaimAsk::default()).unwrap();
    assert_eq!(told.waiting, 0, "{what}");
    look(&drive, "reclaimed");
    drive.close().unwrap();
    look(&open(bucket), "opened again");
}

#[test]
fn what_the_next_owner_begins_with_is_given_up_by_none_of_those_that_reclaim_one_after_the_other() {
    let full = ReclaimAsk {
        is_full: true,
        ..ReclaimAsk::default()
    };
    on_each_tier(|bucket| {
        drop(create(&bucket));
        for round in 0..8 {
            let drive = open(&bucket);
            for number in 0..40 {
                let name = format!("named-{round}-{number}");
                drive.checkpoint(&checkpoint_ask("main", &name)).unwrap();
            }
            drive.fold().unwrap();
            drive
                .checkpoint(&checkpoint_ask("main", &format!("last-{round}")))
                .unwrap();
            drive.reclaim(full).unwrap();
            // It is killed, and the next one reclaims before it does anything else.
            drop(drive);
            for _ in 0..2 {
                let drive = open(&bucket);
                drive.reclaim(full).unwrap();
                drive.close().unwrap();
            }
            assert_eq!(open(&bucket).check(true).unwrap(), [""; 0], "round {round}");
        }
    });
}

#[test]
fn what_was_given_up_is_not_needed_by_the_manifest_before_the_newest() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        let bytes = content(7, 200_000);
        holder.file("kept", &bytes);
        holder.ship();
        drive
            .fork(&fork_ask(&Source::Branch(holder.id.unwrap()), "try"))
            .unwrap();
        drive.fold().unwrap();
        // What follows needs what the fork had when it is replayed.
        let mut other = Holder::hosted(&drive, "try");
        other.file("gone", &content(8, 1 << 20));
        other.ship();
        other.give_back();
        drive.delete_branch(&branch_name("try")).unwrap();
        assert!(drive.reclaim(ReclaimAsk::default()).unwrap().freed >= 1 << 20);
        holder.file("more", &bytes);
        holder.ship();
        drop(holder);
        drop(drive);
        let manifests = bucket.list("drives/work/manifests/").unwrap();
        assert!(bucket.damage(manifests.last().unwrap(), |bytes| bytes[20] ^= 1));
        let drive = open(&bucket);
        let reader = Holder::reader(&drive, "main");
        assert_eq!(
            (reader.read("kept"), reader.read("more")),
            (bytes.clone(), bytes.clone())
        );
    });
}
