//! What nothing needs is given up and deleted, and nothing else is, whoever does what meanwhile and whatever crashes.

use crate::world::{
    Holder, OWNER_WAIT, StillClock, beginning, branch_name, checkpoint_ask, content, create, create_by,
    drive_name, fork_ask, on_each_tier, open, options, says,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::record::Source;
use tenure_model::{Digest, Refusal};
use tenure_server::Drive;
use tenure_store::{Bucket, Key, MemoryBucket};
use tenure_wire::{Access, Chunk, Owner, Placed, ReclaimAsk, ReclaimTold};

const MIB: usize = 1 << 20;

fn reclaim(drive: &Drive) -> ReclaimTold {
    drive.reclaim(ReclaimAsk::default()).unwrap()
}

/// Returns how many bytes the packs of the drive take in the bucket.
fn packed(bucket: &MemoryBucket) -> u64 {
    let packs = bucket.list("drives/work/packs/").unwrap();
    packs.iter().map(|key| bucket.size(key).unwrap().unwrap()).sum()
}

/// Tells whether that is no more than pages which folds have left.
fn is_little(bytes: u64) -> bool {
    bytes < 10_000
}

fn place(holder: &Holder, bytes: &[u8]) -> Placed {
    let chunk = Chunk {
        digest: Digest::of(bytes),
        bytes,
    };
    holder.drive.place(holder.session, &[chunk]).unwrap().remove(0)
}

/// Makes a file, removes it, and gives the branch back; the pack that it was in is sealed.
fn make_and_remove(drive: &Arc<Drive>, bytes: &[u8]) -> Placed {
    let mut holder = Holder::hosted(drive, "main");
    holder.file("gone", bytes);
    holder.ship();
    drive.fold().unwrap();
    let again = place(&holder, bytes);
    holder.unlink("gone");
    holder.ship();
    holder.give_back();
    again
}

#[test]
fn what_was_found_again_before_is_kept_and_what_was_given_up_is_never_found_again() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let bytes = content(1, MIB / 2);
        let gone = make_and_remove(&drive, &bytes);
        let mut holder = Holder::hosted(&drive, "main");
        let found = place(&holder, &bytes);
        assert_eq!(found.at, gone.at, "it is there from before");
        let told = reclaim(&drive);
        assert!(is_little(told.freed), "a batch may name it: {told:?}");
        assert!(told.held >= MIB as u64 / 2, "{told:?}");
        let ino = holder.make(tenure_model::Ino::ROOT, "back", tenure_model::Kind::File);
        holder.write_placed(ino, found);
        holder.ship();
        holder.forgo();
        assert!(is_little(reclaim(&drive).held), "now the branch needs it");
        assert_eq!(holder.read("back"), bytes);

        holder.unlink("back");
        holder.ship();
        holder.give_back();
        let told = reclaim(&drive);
        assert!(told.freed >= MIB as u64 / 2 && told.waiting == 0, "{told:?}");
        let mut holder = Holder::hosted(&drive, "main");
        assert_ne!(place(&holder, &bytes).at.pack, gone.at.pack, "it is placed anew");
        holder.file("anew", &bytes);
        holder.ship();
        holder.give_back();
        drive.close().unwrap();

        let drive = open(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        assert_ne!(
            place(&holder, &bytes).at.pack,
            gone.at.pack,
            "the next owner does not find it either"
        );
        holder.file("next", &bytes);
        holder.ship();
        assert_eq!(
            (holder.read("anew"), holder.read("next")),
            (bytes.clone(), bytes.clone())
        );
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn long_chunks_of_earlier_owners_are_not_found_again_once_they_were_given_up() {
    on_each_tier(|bucket| {
        let bytes = content(1, MIB / 2);
        let drive = create(&bucket);
        let gone = make_and_remove(&drive, &bytes);
        drive.close().unwrap();
        let drive = open(&bucket);
        let holder = Holder::hosted(&drive, "main");
        // Now the owner has learned what earlier ones have stored.
        assert_eq!(place(&holder, &bytes).at, gone.at);
        holder.give_back();
        assert!(reclaim(&drive).freed >= MIB as u64 / 2);
        let mut holder = Holder::hosted(&drive, "main");
        holder.file("anew", &bytes);
        holder.ship();
        drive.close().unwrap();
        assert_eq!(Holder::reader(&open(&bucket), "main").read("anew"), bytes);
    });
}

#[test]
fn a_batch_that_comes_late_and_names_what_was_given_up_is_refused_with_what_to_send_again() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let bytes = content(1, MIB / 2);
        let gone = make_and_remove(&drive, &bytes);
        let mut late = Holder::remote(&drive, "main");
        let ino = late.make(tenure_model::Ino::ROOT, "late", tenure_model::Kind::File);
        late.write_placed(ino, gone.clone());
        assert!(
            reclaim(&drive).freed > 0,
            "no session has said that it may name it"
        );
        assert_eq!(late.try_ship(), Err(Refusal::NoChunk { at: gone.at }.into()));
        drive.close().unwrap();
        let drive = open(&bucket);
        assert_eq!(
            drive.secure(late.session, std::slice::from_ref(&gone)).is_err(),
            bucket.disk().is_none(),
            "it is not there"
        );
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn what_a_session_has_placed_is_kept_however_late_it_is_named() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let bytes = content(1, MIB / 2);
        let mut late = Holder::remote(&drive, "main");
        let ino = late.make(tenure_model::Ino::ROOT, "late", tenure_model::Kind::File);
        let place = place(&late, &bytes);
        drive.secure(late.session, std::slice::from_ref(&place)).unwrap();
        // All that is placed is sealed.
        drive.fold().unwrap();
        for _ in 0..3 {
            assert!(is_little(reclaim(&drive).freed));
        }
        late.write_placed(ino, place);
        late.ship();
        late.forgo();
        assert!(is_little(reclaim(&drive).held));
        assert_eq!(late.read("late"), bytes);
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn deleting_a_base_and_reclaiming_leaves_forks_of_any_depth_whole() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut files = BTreeMap::new();
        let mut from = Source::Branch(tenure_model::BranchId(1));
        let mut below = "main".to_owned();
        for depth in 0..4_u64 {
            let mut holder = Holder::hosted(&drive, &below);
            let name = format!("of-{below}");
            let bytes = content(depth, 300_000);
            holder.file(&name, &bytes);
            holder.ship();
            from = Source::Branch(holder.id.unwrap());
            holder.give_back();
            files.insert(name, bytes);
            if depth < 3 {
                below = format!("level-{depth}");
                drive.fork(&fork_ask(&from, &below)).unwrap();
            }
            drive.fold().unwrap();
        }
        // What only a base had goes, and nothing that a fork has.
        let mut holder = Holder::hosted(&drive, "main");
        holder.file("mains-own", &content(9, MIB));
        holder.ship();
        holder.give_back();
        drive.fold().unwrap();
        for name in ["main", "level-0", "level-1"] {
            drive.delete_branch(&branch_name(name)).unwrap();
            reclaim(&drive);
        }
        let all: u64 = files.values().map(|bytes| bytes.len() as u64).sum();
        assert!(packed(&bucket) < all + 200_000, "{} of {all}", packed(&bucket));
        drive.close().unwrap();
        let drive = open(&bucket);
        let reader = Holder::reader(&drive, &below);
        for (name, bytes) in &files {
            assert_eq!(reader.read(name), *bytes);
        }
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
        let _ = from;
    });
}

#[test]
fn a_forgotten_checkpoint_holds_only_what_it_has() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        let kept = content(0, 300_000);
        holder.file("kept", &kept);
        holder.ship();
        drive.checkpoint(&checkpoint_ask("main", "forgotten")).unwrap();
        drive.fold().unwrap();
        for round in 1..6 {
            let name = format!("round-{round}");
            holder.file(&name, &content(round, MIB));
            holder.ship();
            drive.fold().unwrap();
            holder.unlink(&name);
        }
        holder.unlink("kept");
        holder.ship();
        holder.give_back();
        let told = reclaim(&drive);
        assert!(told.freed >= 5 * MIB as u64, "{told:?}");
        assert!(packed(&bucket) < 400_000, "{}", packed(&bucket));
        let own = told.usage.lines.iter().find(|line| line.name == "forgotten");
        assert!(own.unwrap().own >= 300_000, "it is told who holds it: {told:?}");
        assert_eq!(Holder::reader(&drive, "forgotten").read("kept"), kept);
    });
}

#[test]
fn who_reads_a_state_that_is_gone_goes_on_reading_it() {
    on_each_tier(|bucket| {
        for hosted in [true, false] {
            let drive = create(&bucket.copy());
            let bytes = content(1, MIB / 2);
            let mut holder = Holder::hosted(&drive, "main");
            holder.file("file", &bytes);
            holder.ship();
            drive.checkpoint(&checkpoint_ask("main", "one")).unwrap();
            let reader = Holder::new(&drive, "one", Access::Read, hosted).unwrap();
            let of_branch = Holder::new(&drive, "main", Access::Read, hosted).unwrap();
            holder.unlink("file");
            holder.ship();
            holder.give_back();
            drive.delete_branch(&branch_name("one")).unwrap();
            let told = reclaim(&drive);
            assert!(told.usage.by_readers >= MIB as u64 / 2, "{told:?}");
            assert_eq!(
                (reader.read("file"), of_branch.read("file")),
                (bytes.clone(), bytes.clone())
            );
            Owner::close(&*drive, reader.session).unwrap();
            reclaim(&drive);
            assert_eq!(of_branch.read("file"), bytes);
            Owner::close(&*drive, of_branch.session).unwrap();
            assert!(reclaim(&drive).freed >= MIB as u64 / 2);
        }
    });
}

#[test]
fn what_sessions_of_an_owner_before_may_name_is_kept_until_they_say_that_they_do_not() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let bytes = content(1, MIB / 2);
        let mut holder = Holder::remote(&drive, "main");
        let ino = holder.make(tenure_model::Ino::ROOT, "late", tenure_model::Kind::File);
        let placed = place(&holder, &bytes);
        drive
            .secure(holder.session, std::slice::from_ref(&placed))
            .unwrap();
        let next = open(&bucket.copy());
        let told = reclaim(&next);
        assert!(is_little(told.freed) && told.holders.len() == 1, "{told:?}");
        holder.drive = next.clone();
        holder.write_placed(ino, placed);
        holder.ship();
        assert_eq!(holder.read("late"), bytes);
        holder.unlink("late");
        holder.ship();
        assert!(is_little(reclaim(&next).freed));
        holder.forgo();
        holder.give_back();
        assert!(reclaim(&next).freed >= MIB as u64 / 2);
        assert_eq!(next.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn nothing_is_given_up_where_a_page_cannot_be_read_and_it_is_named() {
    let bucket = MemoryBucket::new();
    let drive = create(&bucket);
    make_and_remove(&drive, &content(1, MIB));
    let mut holder = Holder::hosted(&drive, "main");
    for number in 0..300 {
        holder.file(&format!("file-{number}"), b"x");
    }
    holder.ship();
    holder.give_back();
    drive.close().unwrap();
    let before: Vec<Key> = bucket.list("drives/work/packs/").unwrap();
    let drive = open(&bucket);
    let holder = Holder::reader(&drive, "main");
    let root = holder.branch.tree().address().unwrap();
    let name = format!("{:020}.", root.pack.0);
    let pack = before.iter().find(|key| key.as_str().contains(&name)).unwrap();
    let bytes = bucket.get(pack).unwrap().unwrap();
    bucket.delete(pack).unwrap();
    let said = says(drive.reclaim(ReclaimAsk::default()));
    assert!(said.contains(pack.as_str()), "{said}");
    let gone: Vec<_> = before
        .iter()
        .filter(|key| bucket.size(key).unwrap().is_none())
        .collect();
    assert_eq!(gone, [pack], "nothing else is gone");
    bucket.put_if_absent(pack, &bytes).unwrap();
    assert!(reclaim(&drive).freed >= MIB as u64);
}

#[test]
fn a_dry_run_gives_up_nothing_and_tells_what_would_be() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        make_and_remove(&drive, &content(1, MIB));
        drive.fold().unwrap();
        let before = packed(&bucket);
        let dry = ReclaimAsk {
            is_dry: true,
            ..ReclaimAsk::default()
        };
        let told = drive.reclaim(dry).unwrap();
        assert!(told.freed >= MIB as u64);
        assert_eq!(packed(&bucket), before);
        let done = reclaim(&drive);
        assert_eq!((done.freed, done.objects), (told.freed, told.objects));
        assert!(packed(&bucket) < before - MIB as u64);
        assert_eq!(done.ever.unwrap().bytes, done.freed);
        assert!(
            is_little(reclaim(&drive).freed),
            "there is no more than what folds have left"
        );
    });
}

#[test]
fn who_is_silent_for_long_keeps_nothing_that_owners_before_have_placed() {
    let bucket = MemoryBucket::new().without_disk();
    let drive = create_by(&Arc::default(), &bucket);
    let holder = Holder::remote(&drive, "main");
    place(&holder, &content(1, MIB));
    drive.fold().unwrap();
    drop(drive);
    let clock = Arc::<StillClock>::default();
    let next = Drive::open(Arc::new(bucket.clone()), &drive_name(), options(&clock)).unwrap();
    clock.pass(OWNER_WAIT);
    assert!(is_little(reclaim(&next).freed));
    clock.pass(Duration::from_secs(3601));
    assert!(reclaim(&next).freed >= MIB as u64);
}

#[test]
fn all_that_is_needed_stays_while_others_write_fork_delete_and_reclaim() {
    on_each_tier(|bucket| {
        let options = tenure_server::Options {
            threads: tenure_server::Threads::Started,
            fold_bytes: 20_000,
            ..options(&Arc::default())
        };
        let drive = Drive::create(Arc::new(bucket.clone()), &drive_name(), &beginning(), options).unwrap();
        let mut holder = Holder::hosted(&drive, "main");
        let main = holder.id.unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let freed = std::thread::scope(|threads| {
            let reclaimer = threads.spawn(|| {
                let mut freed = 0;
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    freed += reclaim(&drive).freed;
                }
                freed
            });
            let forker = threads.spawn(|| {
                for number in 0..25_u32 {
                    let name = format!("fork-{number}");
                    drive.fork(&fork_ask(&Source::Branch(main), &name)).unwrap();
                    if let Some(before) = number.checked_sub(3) {
                        drive
                            .delete_branch(&branch_name(&format!("fork-{before}")))
                            .unwrap();
                    }
                    let reader = Holder::reader(&drive, &name);
                    reader.names().iter().for_each(|name| assert_whole(&reader, name));
                    Owner::close(&*drive, reader.session).unwrap();
                }
            });
            for round in 0..150_u64 {
                // The same contents come again and again, as those of files that are built anew.
                let (name, seed) = (format!("file-{}-{round}", round % 7), round % 7);
                holder.file(&name, &content(seed, 150_000));
                if let Some(before) = round.checked_sub(4) {
                    holder.unlink(&format!("file-{}-{before}", before % 7));
                }
                holder.ship();
                if round % 3 == 0 {
                    holder.forgo();
                }
            }
            forker.join().unwrap();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            reclaimer.join().unwrap()
        });
        assert!(freed > 300_000, "{freed} bytes were given back");
        holder.names().iter().for_each(|name| assert_whole(&holder, name));
        holder.give_back();
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
        drive.close().unwrap();
        let drive = open(&bucket);
        let reader = Holder::reader(&drive, "main");
        reader.names().iter().for_each(|name| assert_whole(&reader, name));
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

/// Holds a file against the contents that its name says.
fn assert_whole(holder: &Holder, name: &str) {
    let seed = name.split('-').nth(1).unwrap().parse().unwrap();
    assert_eq!(holder.read(name), content(seed, 150_000), "{name}");
}

#[test]
fn what_is_needed_of_a_pack_is_written_again_under_the_same_addresses() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        for number in 0..10 {
            holder.file(&format!("file-{number}"), &content(number, 100_000));
        }
        holder.ship();
        drive.checkpoint(&checkpoint_ask("main", "one")).unwrap();
        drive.fold().unwrap();
        for number in 0..10 {
            if number % 5 != 0 {
                holder.unlink(&format!("file-{number}"));
            }
        }
        holder.ship();
        holder.forgo();
        let before = packed(&bucket);
        assert!(is_little(reclaim(&drive).freed), "the checkpoint needs all");
        drive.delete_branch(&branch_name("one")).unwrap();
        assert!(
            is_little(reclaim(&drive).freed),
            "who holds the branch may have open what it removed"
        );
        holder.give_back();
        let reader = Holder::reader(&drive, "main");
        let told = reclaim(&drive);
        assert!(told.freed >= 790_000 && told.scattered < 10_000, "{told:?}");
        assert!(packed(&bucket) < before - 790_000);
        for number in [0, 5] {
            assert_eq!(reader.read(&format!("file-{number}")), content(number, 100_000));
        }
        // What is gone is not found again, and what was there may be written again.
        let mut holder = Holder::hosted(&drive, "main");
        for number in 0..10 {
            holder.file(&format!("again-{number}"), &content(number, 100_000));
        }
        holder.ship();
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
        drop(holder);
        drop(reader);
        drop(drive);
        let drive = open(&bucket);
        let reader = Holder::reader(&drive, "main");
        for number in 0..10 {
            assert_eq!(reader.read(&format!("again-{number}")), content(number, 100_000));
        }
        assert_eq!(reader.read("file-5"), content(5, 100_000));
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn packs_of_which_a_little_is_not_needed_are_written_again_where_all_is_to_be_given_back() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        for number in 0..10 {
            holder.file(&format!("file-{number}"), &content(number, 100_000));
        }
        holder.ship();
        drive.fold().unwrap();
        holder.unlink("file-3");
        holder.ship();
        holder.give_back();
        let told = reclaim(&drive);
        assert!(is_little(told.freed) && told.scattered >= 100_000, "{told:?}");
        let full = ReclaimAsk {
            is_full: true,
            ..ReclaimAsk::default()
        };
        let told = drive.reclaim(full).unwrap();
        assert!(told.freed >= 99_000 && is_little(told.scattered), "{told:?}");
        assert_eq!(Holder::reader(&drive, "main").read("file-4"), content(4, 100_000));
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn what_nothing_needs_is_given_back_by_itself_while_the_drive_is_in_use_and_not_before_it_is_worth_it() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let options = tenure_server::Options {
            threads: tenure_server::Threads::Started,
            reclaim_bytes: MIB as u64,
            ..options(&clock)
        };
        let drive = Drive::create(Arc::new(bucket.clone()), &drive_name(), &beginning(), options).unwrap();
        make_and_remove(&drive, &content(1, MIB / 2));
        let main = drive.branches().unwrap()[0].branch.unwrap();
        let touch = |name: &str| {
            drive.fork(&fork_ask(&Source::Branch(main), name)).unwrap();
            drive.delete_branch(&branch_name(name)).unwrap();
        };
        let falls_below = |bytes: u64| {
            (0..300).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                packed(&bucket) < bytes
            })
        };
        clock.pass(Duration::from_secs(61));
        touch("one");
        std::thread::sleep(Duration::from_millis(200));
        assert!(
            packed(&bucket) > MIB as u64 / 2,
            "half of what makes it worth it was written"
        );
        make_and_remove(&drive, &content(2, MIB));
        touch("two");
        assert!(falls_below(100_000), "{}", packed(&bucket));
        make_and_remove(&drive, &content(3, MIB - 1));
        touch("three");
        std::thread::sleep(Duration::from_millis(200));
        assert!(packed(&bucket) > MIB as u64 - 2, "it rests between two");
        clock.pass(Duration::from_secs(601));
        touch("four");
        assert!(falls_below(100_000), "{}", packed(&bucket));
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
        drive.close().unwrap();
    });
}
