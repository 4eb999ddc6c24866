//! What is lent of a shared branch: who has it decides there alone, others see what he has done, and get it when they need it.

use crate::borrower::Member;
use crate::owners::made;
use crate::shared::{create_op, named, refused, time};
use crate::world::{OWNER_WAIT, StillClock, create_by, drive_name, on_each_tier, options, salvage, ship};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{Failure, Ino, Kind, Op, Refusal};
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_store::faulty::{self, FaultyBucket};
use tenure_wire::shared::{Borrowed, Deed, Look, Seen, Yield};
use tenure_wire::{Error, Owner};

pub(crate) const STALE: Error = Error::Refused(Refusal::Stale);

/// Returns the number by which another was asked.
pub(crate) fn asked<T: std::fmt::Debug>(outcome: Result<T, Error>) -> u64 {
    let refusal = refused(outcome);
    let Refusal::Elsewhere { asked } = refusal else {
        panic!("it is refused for good: {refusal}")
    };
    asked
}

pub(crate) fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(crate) fn two(bucket: &MemoryBucket) -> (Arc<StillClock>, Arc<Drive>, Member, Member) {
    let clock = Arc::<StillClock>::default();
    let drive = create_by(&clock, bucket);
    let (ada, bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
    (clock, drive, ada, bob)
}

pub(crate) fn listing(directory: Ino) -> Look {
    Look::List {
        parent: directory,
        after: 0,
        len: 1 << 20,
    }
}

#[test]
fn who_works_alone_in_a_directory_decides_there_and_others_see_it_once_it_is_shipped() {
    on_each_tier(|bucket| {
        let (_, drive, mut ada, bob) = two(&bucket);
        assert!(ada.borrow(Ino::ROOT));
        let below = ada.create_here(Ino::ROOT, "below", Kind::Directory);
        ada.pump();
        let number = asked(bob.names(Ino::ROOT));
        ada.create_here(below, "file", Kind::File);
        ada.pump();
        let Seen::Entries(entries) = bob.look(&listing(Ino::ROOT), number).unwrap() else {
            panic!("a listing has entries")
        };
        assert_eq!((&*entries[0].name, entries[0].ino), (&b"below"[..], below));
        asked(bob.names(below));
        ada.create_here(below, "later", Kind::File);
        let again = asked(bob.names(below));
        ada.pump();
        assert!(matches!(bob.look(&listing(below), again), Ok(Seen::Entries(entries)) if entries.len() == 2));
        assert_eq!(ada.names(below), Ok(names(&["file", "later"])), "its own");
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn a_directory_that_another_needs_is_given_back_first_and_lent_again_when_he_is_done() {
    on_each_tier(|bucket| {
        let (clock, drive, mut ada, mut bob) = two(&bucket);
        assert!(ada.borrow(Ino::ROOT));
        let mine = ada.create_here(Ino::ROOT, "mine", Kind::Directory);
        ada.create_here(mine, "unshipped", Kind::File);
        ada.pump();
        asked(bob.create(Ino::ROOT, "theirs", Kind::File));
        asked(bob.create(Ino::ROOT, "theirs", Kind::File));
        ada.pump();
        bob.create(Ino::ROOT, "theirs", Kind::File).unwrap();
        assert_eq!(bob.names(Ino::ROOT), Ok(names(&["mine", "theirs"])));
        assert!(
            ada.try_here(&create_op(Ino::ROOT, "x", Ino(1 << 40), Kind::File))
                .is_none()
        );
        ada.create_here(mine, "still lent", Kind::File);
        assert!(!ada.borrow(Ino::ROOT), "another works there");
        clock.pass(Duration::from_secs(3));
        assert!(
            matches!(ada.ask(Ino::ROOT, false), Ok(Borrowed::Behind)),
            "it has no copy of that"
        );
        assert!(ada.borrow(Ino::ROOT));
        let copied = ada.local(|branch| branch.lookup(Ino::ROOT, &named("theirs")));
        assert!(copied.is_ok());
        assert!(!bob.borrow(Ino::ROOT), "it is another's");
        ada.ship().unwrap();
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn a_directory_is_lent_without_a_new_copy_where_nobody_has_changed_anything_in_it() {
    let (clock, _, mut ada, mut bob) = two(&MemoryBucket::new());
    let one = ada.create(Ino::ROOT, "one", Kind::Directory).unwrap();
    let other = ada.create(Ino::ROOT, "other", Kind::Directory).unwrap();
    ada.create(one, "file", Kind::File).unwrap();
    clock.pass(Duration::from_secs(3));
    assert!(ada.borrow(one));
    ada.create_here(one, "mine", Kind::File);
    bob.create(Ino::ROOT, "theirs", Kind::File).unwrap();
    assert!(matches!(ada.ask(other, false), Ok(Borrowed::Lent(loan)) if loan.copy.is_none()));
    clock.pass(Duration::from_secs(3));
    assert!(matches!(ada.ask(Ino::ROOT, false), Ok(Borrowed::Behind)));
}

#[test]
fn directories_below_come_along_where_nobody_else_has_touched_them() {
    let (clock, _, mut ada, mut bob) = two(&MemoryBucket::new());
    let top = ada.create(Ino::ROOT, "top", Kind::Directory).unwrap();
    let quiet = ada.create(top, "quiet", Kind::Directory).unwrap();
    let busy = ada.create(top, "busy", Kind::Directory).unwrap();
    clock.pass(Duration::from_secs(3));
    bob.create(busy, "file", Kind::File).unwrap();
    assert!(ada.borrow(top));
    let lent: Vec<_> = ada.cover.of(ada.who.session).collect();
    assert_eq!(lent, [top, quiet]);
}

#[test]
fn a_file_with_entries_in_two_directories_and_a_large_directory_stay_at_the_owner() {
    let (clock, drive, mut ada, mut bob) = two(&MemoryBucket::new());
    let one = ada.create(Ino::ROOT, "one", Kind::Directory).unwrap();
    let file = ada.create(one, "file", Kind::File).unwrap();
    let link = |ino, name| Op::Link {
        ino,
        parent: Ino::ROOT,
        name: named(name),
        time: time(4),
    };
    ada.act(&Deed::Op(link(file, "elsewhere"))).unwrap();
    let twice = ada.create(Ino::ROOT, "twice", Kind::File).unwrap();
    ada.act(&Deed::Op(link(twice, "again"))).unwrap();
    clock.pass(Duration::from_secs(3));
    assert!(ada.borrow(Ino::ROOT));
    let unlink = |parent, name| Op::Unlink {
        parent,
        name: named(name),
        time: time(5),
    };
    assert!(ada.try_here(&unlink(Ino::ROOT, "elsewhere")).is_none());
    ada.here(&unlink(Ino::ROOT, "again"));
    ada.here(&unlink(Ino::ROOT, "twice"));
    ada.ship().unwrap();
    bob.act(&Deed::Op(unlink(one, "file"))).unwrap_err();
    let large = Member::new(&drive, "eve");
    drop(large);
    assert_eq!(drive.check(true).unwrap(), [""; 0]);
}

#[test]
fn a_batch_that_touches_what_is_not_lent_ends_its_session_and_is_a_strays() {
    on_each_tier(|bucket| {
        let (_, drive, mut ada, bob) = two(&bucket);
        assert!(ada.borrow(Ino::ROOT));
        ada.create_here(Ino::ROOT, "file", Kind::File);
        let given = Yield {
            loan: ada.loan,
            directories: vec![Ino::ROOT],
            ..Yield::default()
        };
        drive.take_back(ada.who, &given).unwrap();
        assert_eq!(ada.ship(), Err(STALE));
        assert_eq!(drive.renew(ada.who.session), Err(STALE));
        assert_eq!(bob.names(Ino::ROOT), Ok(names(&[])));
        // What it brings is what it had decided when it was lent the directory.
        let stray = salvage(&drive, ada.batch(), None).unwrap().stray;
        assert_eq!(stray, "stray-main-box-1-2");
    });
}

#[test]
fn what_a_silent_holder_had_not_shipped_becomes_a_stray_when_another_needs_what_is_lent_to_him() {
    on_each_tier(|bucket| {
        let (clock, drive, mut ada, mut bob) = two(&bucket);
        assert!(ada.borrow(Ino::ROOT));
        ada.create_here(Ino::ROOT, "shipped", Kind::File);
        ada.ship().unwrap();
        ada.create_here(Ino::ROOT, "unshipped", Kind::File);
        clock.pass(Duration::from_secs(5));
        asked(bob.names(Ino::ROOT));
        drive.prolong(bob.who).unwrap();
        clock.pass(Duration::from_secs(1));
        asked(bob.create(Ino::ROOT, "theirs", Kind::File));
        bob.create(Ino::ROOT, "theirs", Kind::File).unwrap();
        assert_eq!(bob.names(Ino::ROOT), Ok(names(&["shipped", "theirs"])));
        assert_eq!(ada.ship(), Err(STALE));
        assert_eq!(drive.prolong(ada.who), Err(STALE));
        let stray = salvage(&drive, ada.batch(), None).unwrap().stray;
        Owner::close(&*drive, ada.who.session).unwrap();
        let reader = crate::world::Holder::reader(&drive, &stray);
        assert_eq!(reader.names(), ["shipped", "unshipped"]);
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

/// Opens the drive again, as after its owner was killed.
pub(crate) fn next_owner(bucket: &MemoryBucket) -> (Arc<StillClock>, Arc<Drive>) {
    let clock = Arc::<StillClock>::default();
    let drive = Drive::open(Arc::new(bucket.clone()), &drive_name(), options(&clock)).unwrap();
    clock.pass(OWNER_WAIT);
    (clock, drive)
}

#[test]
fn a_new_owner_lends_again_what_sessions_say_was_lent_to_them_and_takes_what_they_had_not_shipped() {
    on_each_tier(|bucket| {
        let (_, drive, mut ada, mut bob) = two(&bucket);
        assert!(ada.borrow(Ino::ROOT));
        let below = ada.create_here(Ino::ROOT, "below", Kind::Directory);
        ada.ship().unwrap();
        ada.create_here(below, "unshipped", Kind::File);
        let last = ada.create_here(Ino::ROOT, "last", Kind::Directory);
        let nowhere = create_by(&Arc::default(), &MemoryBucket::new());
        (ada.drive, bob.drive) = (nowhere.clone(), nowhere);
        drop(drive);
        let (_, drive) = next_owner(&bucket);
        assert_eq!(refused(drive.prolong(ada.who)), Refusal::Unjoined);
        assert_eq!(refused(ship(&drive, ada.batch(), None)), Refusal::Unjoined);
        ada.rejoin(&drive);
        drive.prolong(ada.who).unwrap();
        let early = ship(&drive, ada.batch(), None);
        assert!(
            matches!(early, Err(Error::Failed(Failure::DidNotHappen(_)))),
            "{early:?}"
        );
        bob.rejoin(&drive);
        asked(bob.create(below, "theirs", Kind::File));
        ada.pump();
        assert_eq!(bob.names(below), Ok(names(&["unshipped"])));
        ada.create_here(last, "here", Kind::File);
        ada.ship().unwrap();
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

/// Its holder has not heard that it has it, and gives it back all the same.
#[test]
fn what_is_lent_to_who_does_not_know_so_is_given_back() {
    let (_, _drive, mut ada, mut bob) = two(&MemoryBucket::new());
    assert!(matches!(ada.ask(Ino::ROOT, true), Ok(Borrowed::Lent(_))));
    ada.pump();
    asked(bob.create(Ino::ROOT, "theirs", Kind::File));
    ada.pump();
    bob.create(Ino::ROOT, "theirs", Kind::File).unwrap();
}

#[test]
fn what_several_need_in_turn_is_lent_more_and_more_seldom() {
    let (clock, drive, mut ada, mut bob) = two(&MemoryBucket::new());
    let mut kept = Vec::new();
    for round in 0..4 {
        let mut seconds = 0;
        while !ada.borrow(Ino::ROOT) {
            clock.pass(Duration::from_secs(1));
            drive.prolong(bob.who).unwrap();
            seconds += 1;
        }
        kept.push(seconds);
        ada.pump();
        asked(bob.create(Ino::ROOT, &format!("theirs-{round}"), Kind::File));
        ada.pump();
        bob.create(Ino::ROOT, &format!("theirs-{round}"), Kind::File)
            .unwrap();
    }
    assert_eq!(kept, [0, 2, 4, 8]);
}

#[test]
fn a_session_that_does_not_come_to_the_next_owner_leaves_what_it_brings_later_in_a_stray() {
    let bucket = MemoryBucket::new();
    let (_, drive, mut ada, mut bob) = two(&bucket);
    assert!(ada.borrow(Ino::ROOT));
    ada.create_here(Ino::ROOT, "unshipped", Kind::File);
    let nowhere = create_by(&Arc::default(), &MemoryBucket::new());
    (ada.drive, bob.drive) = (nowhere.clone(), nowhere);
    drop(drive);
    let (clock, drive) = next_owner(&bucket);
    bob.rejoin(&drive);
    clock.pass(Duration::from_secs(6));
    bob.create(Ino::ROOT, "theirs", Kind::File).unwrap();
    assert_eq!(refused(drive.rejoin(ada.who, &ada.brought())), Refusal::Stale);
    let stray = salvage(&drive, ada.batch(), None).unwrap().stray;
    let reader = crate::world::Holder::reader(&drive, &stray);
    assert_eq!(reader.names(), ["unshipped"]);
}

/// Else nobody would hear of it when it is to be given back.
#[test]
fn who_was_not_told_that_something_is_lent_to_him_is_told_also_when_another_needs_it_by_then() {
    let (_, _drive, mut ada, mut bob) = two(&MemoryBucket::new());
    assert!(matches!(ada.ask(Ino::ROOT, true), Ok(Borrowed::Lent(_))));
    asked(bob.create(Ino::ROOT, "theirs", Kind::File));
    assert!(ada.borrow(Ino::ROOT));
    ada.pump();
    bob.create(Ino::ROOT, "theirs", Kind::File).unwrap();
    assert!(!ada.borrow(Ino::ROOT), "he needs it");
}

#[test]
fn who_is_ousted_while_the_bucket_fails_keeps_nothing_and_brings_what_it_had_into_a_stray() {
    let faulty = Arc::new(FaultyBucket::new(Arc::new(made()), faulty::Plan::none()));
    let clock = Arc::<StillClock>::default();
    let drive = Drive::open(faulty.clone(), &drive_name(), options(&clock)).unwrap();
    let (mut ada, mut bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
    assert!(ada.borrow(Ino::ROOT));
    ada.create_here(Ino::ROOT, "unshipped", Kind::File);
    clock.pass(Duration::from_secs(6));
    drive.renew(bob.who.session).unwrap();
    faulty.set_outage(true);
    for _ in 0..2 {
        let failed = bob.names(Ino::ROOT);
        assert!(matches!(failed, Err(Error::Failed(_))), "{failed:?}");
    }
    faulty.set_outage(false);
    asked(bob.names(Ino::ROOT));
    assert_eq!(bob.names(Ino::ROOT).unwrap(), names(&[]));
    bob.create(Ino::ROOT, "theirs", Kind::File).unwrap();
    let stray = salvage(&drive, ada.batch(), None).unwrap().stray;
    let reader = crate::world::Holder::reader(&drive, &stray);
    assert_eq!(reader.names(), ["unshipped"]);
}

#[test]
fn what_is_lent_is_told_with_its_session() {
    let (_, drive, mut ada, _bob) = two(&MemoryBucket::new());
    assert!(ada.borrow(Ino::ROOT));
    ada.create_here(Ino::ROOT, "below", Kind::Directory);
    ada.ship().unwrap();
    let told: Vec<_> = drive.delegations().unwrap();
    let lent: Vec<_> = told.iter().map(|lent| lent.directories).collect();
    assert_eq!(lent, [2, 0]);
}
