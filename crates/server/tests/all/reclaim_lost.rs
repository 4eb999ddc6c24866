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

/// What is damaged of what the next owner begins with.
#[derive(Clone, Copy, Debug)]
enum Damaged {
    Nothing,
    Manifest,
    /// The pack in which the root of the drive's rows is.
    Rows,
}

impl Damaged {
    fn put_into(self, bucket: &MemoryBucket) {
        let manifests = bucket.list("drives/work/manifests/").unwrap();
        let newest = tenure_journal::manifest::latest(bucket, &drive_name())
            .unwrap()
            .manifest;
        let key = match self {
            Damaged::Nothing => return,
            Damaged::Manifest => manifests.last().unwrap().clone(),
            Damaged::Rows => {
                let name = format!("{:020}.", newest.unwrap().root.unwrap().pack.0);
                let packs = bucket.list("drives/work/packs/").unwrap();
                packs
                    .into_iter()
                    .find(|key| key.as_str().contains(&name))
                    .unwrap()
            }
        };
        assert!(bucket.damage(&key, |bytes| bytes[20] ^= 1), "{key}");
    }
}

/// Makes a drive whose rows have many pages, of which two manifests have some together and some not.
fn with_many_rows(bucket: &MemoryBucket) {
    drop(create(bucket));
    for round in 0..3 {
        let drive = open(bucket);
        let mut holder = Holder::hosted(&drive, "main");
        holder.file(&format!("file-{round}"), &content(round, 50_000));
        holder.ship();
        holder.give_back();
        for number in 0..40 {
            let name = format!("named-{round}-{number}");
            drive.checkpoint(&checkpoint_ask("main", &name)).unwrap();
        }
        drive.fold().unwrap();
        drive
            .checkpoint(&checkpoint_ask("main", &format!("last-{round}")))
            .unwrap();
        drive.close().unwrap();
    }
}

/// Goes on with a drive as several owners do, the first of which reclaims before it does anything else, and holds all against what it was.
fn go_on(bucket: &MemoryBucket, what: &str) {
    let full = ReclaimAsk {
        is_full: true,
        ..ReclaimAsk::default()
    };
    for round in 0..3 {
        let drive = open(bucket);
        drive
            .reclaim(full)
            .unwrap_or_else(|error| panic!("{what}, {round}: {error}"));
        let name = format!("after-{round}");
        drive.checkpoint(&checkpoint_ask("main", &name)).unwrap();
        drive.fold().unwrap();
        if round == 1 {
            drive.close().unwrap();
        }
    }
    let drive = open(bucket);
    assert_eq!(drive.check(true).unwrap(), [""; 0], "{what}");
    assert_eq!(drive.branches().unwrap().len(), 1 + 3 * 41 + 3, "{what}");
    let reader = Holder::reader(&drive, "named-2-7");
    for round in 0..3 {
        assert_eq!(
            reader.read(&format!("file-{round}")),
            content(round, 50_000),
            "{what}"
        );
    }
}

#[test]
fn whichever_manifest_the_next_owner_begins_with_no_reclaim_has_given_up_what_it_needs() {
    let full = ReclaimAsk {
        is_full: true,
        ..ReclaimAsk::default()
    };
    on_each_tier(|made| {
        with_many_rows(&made);
        for number in 0.. {
            let bucket = made.copy();
            let faulty = FaultyBucket::new(Arc::new(bucket.clone()), Plan::none().at(number, Fault::Halt));
            let clock = Arc::<StillClock>::default();
            let opened = Drive::open(Arc::new(faulty), &drive_name(), options(&clock));
            clock.pass(OWNER_WAIT);
            let reclaimed = opened.and_then(|drive| drive.reclaim(full));
            for damaged in [Damaged::Nothing, Damaged::Manifest, Damaged::Rows] {
                let image = bucket.copy();
                damaged.put_into(&image);
                go_on(&image, &format!("call {number}, damaged: {damaged:?}"));
            }
            if reclaimed.is_ok() {
                assert!(number > 20, "a reclaim of {number} calls is none");
                return;
            }
        }
    });
}

#[test]
fn a_manifest_that_was_passed_over_is_written_anew() {
    on_each_tier(|bucket| {
        with_many_rows(&bucket);
        Damaged::Rows.put_into(&bucket);
        let drive = open(&bucket);
        assert!(
            drive
                .notices()
                .iter()
                .any(|notice| notice.contains("passed over")),
            "it is seen"
        );
        drive.close().unwrap();
        let drive = open(&bucket);
        assert!(
            !drive
                .notices()
                .iter()
                .any(|notice| notice.contains("passed over")),
            "{:?}",
            drive.notices()
        );
    });
}

#[test]
fn what_a_manifest_leads_to_and_is_not_there_is_told_by_a_deep_check() {
    on_each_tier(|bucket| {
        with_many_rows(&bucket);
        let drive = open(&bucket);
        for name in ["one", "two"] {
            drive.checkpoint(&checkpoint_ask("main", name)).unwrap();
            drive.fold().unwrap();
        }
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
        let manifests = tenure_journal::manifest::latest(&bucket, &drive_name()).unwrap();
        let older = tenure_journal::manifest::read(&bucket, &drive_name(), manifests.seqs[0]).unwrap();
        let name = format!("{:020}.", older.root.unwrap().pack.0);
        let packs = bucket.list("drives/work/packs/").unwrap();
        let pack = packs
            .into_iter()
            .find(|key| key.as_str().contains(&name))
            .unwrap();
        bucket.delete(&pack).unwrap();
        let told = drive.check(true).unwrap();
        let of_manifest = format!("manifest at record {}", older.at.seq);
        assert!(told.iter().any(|fault| fault.contains(&of_manifest)), "{told:?}");
    });
}

/// Makes a drive of which an owner that is not gone may give back a part of a pack.
fn with_a_thin_pack(bucket: &MemoryBucket) -> Arc<Drive> {
    let drive = create(bucket);
    let mut holder = Holder::hosted(&drive, "main");
    for number in 0..10 {
        holder.file(&format!("file-{number}"), &content(number, 100_000));
    }
    holder.ship();
    drive.checkpoint(&checkpoint_ask("main", "one")).unwrap();
    drive.fold().unwrap();
    for number in 1..9 {
        holder.unlink(&format!("file-{number}"));
    }
    holder.ship();
    holder.forgo();
    holder.give_back();
    drive.delete_branch(&branch_name("one")).unwrap();
    drive
}

#[test]
fn what_the_owner_before_gives_up_while_it_is_deposed_is_no_loss() {
    let full = ReclaimAsk {
        is_full: true,
        ..ReclaimAsk::default()
    };
    for number in 0.. {
        let bucket = MemoryBucket::new().without_disk();
        let before = with_a_thin_pack(&bucket);
        let calls = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let (counted, deposed) = (calls.clone(), before.clone());
        let on_call = move |_: &tenure_store::faulty::Call| {
            if counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == number {
                // It may be told that it is deposed.
                let _ = deposed.reclaim(full);
            }
        };
        let watched = FaultyBucket::watched(Arc::new(bucket.clone()), Plan::none(), Some(Box::new(on_call)));
        let drive = crate::world::try_open(Arc::new(watched))
            .unwrap_or_else(|error| panic!("call {number}: {error}"));
        let opened = calls.load(std::sync::atomic::Ordering::Relaxed);
        let look = |drive: &Arc<Drive>, when: &str| {
            let reader = Holder::reader(drive, "main");
            for number in [0, 9] {
                let found = reader.read(&format!("file-{number}"));
                assert_eq!(found, content(number, 100_000), "{when}");
            }
            assert_eq!(drive.check(true).unwrap(), [""; 0], "{when}");
            Owner::close(&**drive, reader.session).unwrap();
        };
        look(&drive, &format!("call {number}, opened"));
        drive.reclaim(full).unwrap();
        look(&drive, &format!("call {number}, reclaimed"));
        drive.close().unwrap();
        look(&open(&bucket), &format!("call {number}, opened again"));
        if opened <= number {
            assert!(number > 5, "an opening of {number} calls is none");
            return;
        }
    }
}
