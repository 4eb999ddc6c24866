//! Strays: what becomes of what a holder had not shipped when its branch was taken from it.

use crate::world::{
    Holder, OWNER_WAIT, StillClock, branch_name, content, create_by, drive_name, fork_ask, on_each_tier,
    options, salvage, says, ship, who,
};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{Ino, Kind, Refusal, limits};
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_wire::{Access, BranchInfo, Error, Owner};

const STALE: Error = Error::Refused(Refusal::Stale);

fn strays(drive: &Drive) -> Vec<BranchInfo> {
    let lines = drive.branches().unwrap().into_iter();
    lines.filter(|line| line.is_stray).collect()
}

/// Opens the drive of a copy of the bucket, as after its owner was killed.
fn next_owner(bucket: &MemoryBucket) -> (MemoryBucket, Arc<StillClock>, Arc<Drive>) {
    let (bucket, clock) = (bucket.copy(), Arc::<StillClock>::default());
    let drive = Drive::open(Arc::new(bucket.clone()), &drive_name(), options(&clock)).unwrap();
    clock.pass(OWNER_WAIT);
    (bucket, clock, drive)
}

/// A holder that has shipped one file, lost its branch to another, and has two more that it had not shipped.
fn lost(clock: &StillClock, drive: &Arc<Drive>) -> (Holder, Holder) {
    let mut silent = Holder::remote(drive, "main");
    silent.file("shipped", &content(1, 5000));
    silent.ship();
    silent.file("unshipped", &content(2, 5000));
    clock.pass(Duration::from_secs(6));
    let next = Holder::new(drive, "main", Access::Exclusive, false).unwrap();
    assert_eq!(
        silent.try_ship(),
        Err(STALE),
        "it is not in the branch, and not told so"
    );
    (silent, next)
}

#[test]
fn what_a_silent_holder_had_not_shipped_becomes_a_stray_and_the_branch_has_nothing_of_it() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let drive = create_by(&clock, &bucket);
        let mut silent = Holder::remote(&drive, "main");
        silent.file("shipped", &content(1, 5000));
        silent.ship();
        silent.file("unshipped", &content(2, 5000));
        let batch = silent.batch();
        clock.pass(Duration::from_secs(6));
        let mut next = Holder::remote(&drive, "main");
        next.make(Ino::ROOT, "next", Kind::File);
        next.ship();
        assert_eq!(strays(&drive), [], "nobody knows whether there is anything");
        assert_eq!(ship(&drive, batch.clone(), None), Err(STALE));
        assert_eq!(drive.renew(silent.session), Err(STALE));
        assert_eq!(drive.lend_inos(silent.session), Err(STALE));

        let saved = salvage(&drive, batch.clone(), None).unwrap();
        assert_eq!(saved.stray, "stray-main-box-1-2");
        assert_eq!(
            salvage(&drive, batch, None),
            Ok(saved.clone()),
            "it was not heard the first time"
        );
        (silent.number, silent.previous) = (silent.number + 1, saved.digest);
        silent.file("last", &content(3, 200));
        silent.try_salvage().unwrap();
        Owner::close(&*drive, silent.session).unwrap();
        assert_eq!(silent.try_salvage(), Err(STALE), "it has said that this was all");

        let (_, _, again) = next_owner(&bucket);
        for drive in [drive, again] {
            let [stray] = &strays(&drive)[..] else {
                panic!("there is one")
            };
            assert_eq!((&*stray.name, &stray.holder), ("stray-main-box-1-2", &None));
            assert_eq!(
                stray.from,
                "branch main of ada on box-1 (process 42, mount at /work/ada)"
            );
            let stray = Holder::hosted(&drive, &stray.name);
            assert_eq!(stray.names(), ["last", "shipped", "unshipped"]);
            assert_eq!(stray.read("unshipped"), content(2, 5000));
            let main = Holder::reader(&drive, "main");
            assert_eq!(main.names(), ["next", "shipped"]);
            assert_eq!(drive.check(true).unwrap(), [""; 0]);
            stray.give_back();
            drive.delete_branch(&branch_name("stray-main-box-1-2")).unwrap();
            assert_eq!(strays(&drive), []);
        }
    });
}

#[test]
fn what_a_lost_holder_brings_to_the_next_owner_is_in_the_stray_as_well() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let drive = create_by(&clock, &bucket);
        let (mut silent, _next) = lost(&clock, &drive);
        let (_, _, drive) = next_owner(&bucket);
        silent.drive = drive.clone();
        silent.make(Ino::ROOT, "later", Kind::File);
        let stray = silent.try_salvage();
        assert_eq!(stray.as_deref(), Ok("stray-main-box-1-2"));
        assert_eq!(
            Holder::reader(&drive, "stray-main-box-1-2").names(),
            ["later", "shipped"]
        );
    });
}

#[test]
fn a_lost_holder_that_had_shipped_all_leaves_no_stray() {
    let clock = Arc::<StillClock>::default();
    let drive = create_by(&clock, &MemoryBucket::new());
    let (silent, _next) = lost(&clock, &drive);
    let before = drive.branches().unwrap();
    Owner::close(&*drive, silent.session).unwrap();
    assert_eq!(drive.branches().unwrap(), before);
    assert!(
        says(Holder::new(&drive, "stray-main-box-1-2", Access::Read, true).map(drop)).contains("no branch")
    );
}

#[test]
fn a_lost_holder_that_stays_away_is_forgotten_after_a_week() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let drive = create_by(&clock, &bucket);
        let (mut silent, next) = lost(&clock, &drive);
        clock.pass(limits::STRAY_WAIT - Duration::from_secs(60));
        drive.open(&who("eve", true)).unwrap();
        drive.renew(next.session).unwrap();
        silent.make(Ino::ROOT, "too late", Kind::File);
        clock.pass(Duration::from_secs(120));
        drive.open(&who("eve", true)).unwrap();
        assert_eq!(silent.try_salvage(), Err(STALE));
        assert_eq!(strays(&drive), []);
    });
}

#[test]
fn a_branch_can_be_taken_from_a_holder_that_is_there_and_its_work_becomes_a_stray() {
    for hosted in [true, false] {
        let clock = Arc::<StillClock>::default();
        let drive = create_by(&clock, &MemoryBucket::new());
        let mut holder = Holder::new(&drive, "main", Access::Exclusive, hosted).unwrap();
        holder.make(Ino::ROOT, "shipped", Kind::File);
        holder.ship();
        let open = holder.file("open", &content(1, 300));
        holder.ship();
        holder.unlink("open");
        holder.ship();
        holder.write(open, &content(2, 400));
        let other = drive.open(&who("bob", false)).unwrap().session;
        Owner::take(&*drive, other, "main").unwrap();
        drive.lend(other, "main", Access::Exclusive).unwrap();
        Owner::take(&*drive, other, "main").unwrap();
        drive.renew(other).unwrap();
        assert_eq!(
            holder.try_salvage().as_deref(),
            Ok("stray-main-box-1-2"),
            "also of a file without a name"
        );
        assert_eq!(holder.names(), ["shipped"]);
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    }
}

#[test]
fn a_stray_that_is_taken_before_its_holder_has_brought_all_leaves_the_rest_a_stray_of_its_own() {
    let clock = Arc::<StillClock>::default();
    let drive = create_by(&clock, &MemoryBucket::new());
    let (mut silent, _next) = lost(&clock, &drive);
    silent.make(Ino::ROOT, "half", Kind::File);
    silent.try_salvage().unwrap();
    clock.pass(Duration::from_secs(6));
    let reviewed = Holder::remote(&drive, "stray-main-box-1-2");
    silent.make(Ino::ROOT, "rest", Kind::File);
    assert_eq!(silent.try_salvage().as_deref(), Ok("stray-main-box-1-2-box-1-3"));
    assert_eq!(reviewed.names(), ["half", "shipped"]);
    let rest = Holder::reader(&drive, "stray-main-box-1-2-box-1-3");
    assert_eq!(rest.names(), ["half", "rest", "shipped"]);
}

/// A machine that was copied while it ran: both go on with one session, and know the same last batch.
#[test]
fn of_a_session_that_was_copied_the_twin_that_ships_second_is_told_and_nothing_of_it_counts() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let drive = create_by(&clock, &bucket);
        let mut holder = Holder::remote(&drive, "main");
        holder.make(Ino::ROOT, "before", Kind::File);
        holder.ship();
        let mut twin = holder.clone();
        holder.file("first", &content(1, 300));
        holder.ship();
        twin.file("second", &content(2, 300));
        assert_eq!(twin.try_ship(), Err(STALE));
        twin.file("third", &content(3, 300));
        assert_eq!(
            twin.try_salvage(),
            Err(STALE),
            "the branch is not lost to its session"
        );
        holder.file("fourth", &content(4, 300));
        holder.ship();
        assert_eq!(holder.names(), ["before", "first", "fourth"]);
        assert_eq!(Holder::reader(&drive, "main").names(), holder.names());
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn what_is_lent_is_told_with_its_holder_and_for_how_long() {
    let clock = Arc::<StillClock>::default();
    let drive = create_by(&clock, &MemoryBucket::new());
    assert_eq!(drive.delegations().unwrap(), []);
    let (silent, next) = lost(&clock, &drive);
    let main = drive.branches().unwrap().remove(0).branch.unwrap();
    drive
        .fork(&fork_ask(&tenure_model::record::Source::Branch(main), "try"))
        .unwrap();
    let hosted = Holder::hosted(&drive, "try");
    clock.pass(Duration::from_secs(2));
    let [first, second] = &drive.delegations().unwrap()[..] else {
        panic!("two are lent")
    };
    assert_eq!(
        (&*first.name, first.session, first.branch),
        ("main", next.session, main)
    );
    assert!(first.who.starts_with("ada on box-1"), "{}", first.who);
    let lease = first.lease.unwrap();
    assert_eq!((lease.silence.as_secs(), lease.length.as_millis()), (2, 5250));
    assert_eq!(
        (&*second.name, second.session, second.lease),
        ("try", hosted.session, None)
    );
    assert_ne!(silent.session, next.session);
}
