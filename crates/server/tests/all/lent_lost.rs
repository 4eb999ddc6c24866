//! What is lent when owners and sessions are lost: what others have seen of it is there, and nobody gets what another relies on.

use crate::borrower::Member;
use crate::lent::{STALE, asked, listing, names, next_owner, two};
use crate::world::{create_by, on_each_tier};
use std::sync::Arc;
use std::time::Duration;
use tenure_core::Lent;
use tenure_model::{Failure, Ino, Kind};
use tenure_store::MemoryBucket;
use tenure_wire::shared::Seen;
use tenure_wire::{Error, Owner};

#[test]
fn of_two_sessions_that_say_the_same_is_lent_to_them_neither_goes_on() {
    let bucket = MemoryBucket::new();
    let (_, drive, mut ada, mut bob) = two(&bucket);
    let mut eve = Member::new(&drive, "eve");
    assert!(ada.borrow(Ino::ROOT));
    let lent = Lent {
        directory: Ino::ROOT,
        by: bob.who.session,
    };
    bob.cover.lend(lent, 1, []);
    let nowhere = create_by(&Arc::default(), &MemoryBucket::new());
    for member in [&mut ada, &mut bob, &mut eve] {
        member.drive = nowhere.clone();
    }
    drop(drive);
    let (clock, drive) = next_owner(&bucket);
    for member in [&mut ada, &mut bob, &mut eve] {
        member.rejoin(&drive);
    }
    asked(eve.create(Ino::ROOT, "free", Kind::File));
    assert_eq!(
        (drive.prolong(ada.who), drive.prolong(bob.who)),
        (Err(STALE), Err(STALE))
    );
    clock.pass(Duration::from_secs(6));
    asked(eve.create(Ino::ROOT, "free", Kind::File));
    eve.create(Ino::ROOT, "free", Kind::File).unwrap();
}

#[test]
fn what_is_lent_to_a_session_that_is_over_is_nobody_elses_until_it_relies_on_it_no_more() {
    on_each_tier(|bucket| {
        let (_, drive, mut ada, mut bob) = two(&bucket);
        let mut eve = Member::new(&drive, "eve");
        let lent = ada.create(Ino::ROOT, "lent", Kind::Directory).unwrap();
        assert!(ada.borrow(lent));
        eve.create(Ino::ROOT, "lost", Kind::File).unwrap();
        ada.create(Ino::ROOT, "followed", Kind::File).unwrap();
        let nowhere = create_by(&Arc::default(), &MemoryBucket::new());
        for member in [&mut ada, &mut bob, &mut eve] {
            member.drive = nowhere.clone();
        }
        drop(drive);
        let (clock, drive) = next_owner(&bucket);
        ada.rejoin(&drive);
        bob.rejoin(&drive);
        clock.pass(Duration::from_secs(3));
        drive.prolong(ada.who).unwrap();
        clock.pass(Duration::from_secs(3));
        asked(bob.create(lent, "theirs", Kind::File));
        asked(bob.names(lent));
        assert_eq!(bob.names(Ino::ROOT), Ok(names(&["lent"])), "it was not lent");
        assert_eq!(drive.renew(ada.who.session), Err(STALE));
        clock.pass(Duration::from_secs(3));
        asked(bob.create(lent, "theirs", Kind::File));
        bob.create(lent, "theirs", Kind::File).unwrap();
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn what_others_have_seen_of_a_loan_is_brought_to_the_next_owner_before_it_answers_them() {
    on_each_tier(|bucket| {
        let (_, drive, mut ada, mut bob) = two(&bucket);
        assert!(ada.borrow(Ino::ROOT));
        let below = ada.create_here(Ino::ROOT, "below", Kind::Directory);
        ada.pump();
        let number = asked(bob.names(Ino::ROOT));
        ada.pump();
        bob.look(&listing(Ino::ROOT), number).unwrap();
        ada.create_here(below, "file", Kind::File);
        let number = asked(bob.names(below));
        ada.pump();
        bob.look(&listing(below), number).unwrap();
        ada.create_here(below, "unseen", Kind::File);
        let nowhere = create_by(&Arc::default(), &MemoryBucket::new());
        (ada.drive, bob.drive) = (nowhere.clone(), nowhere);
        drop(drive);
        let (_, drive) = next_owner(&bucket);
        bob.rejoin(&drive);
        let early = bob.names(below);
        assert!(
            matches!(early, Err(Error::Failed(Failure::DidNotHappen(_)))),
            "{early:?}"
        );
        ada.rejoin(&drive);
        bob.sync();
        (ada.heard, bob.heard) = (None, None);
        let number = asked(bob.names(below));
        ada.pump();
        let Ok(Seen::Entries(entries)) = bob.look(&listing(below), number) else {
            panic!("all has come")
        };
        assert_eq!(entries.len(), 2);
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

/// Else it would be there though that is not.
#[test]
fn an_act_of_who_has_seen_what_is_not_durable_comes_behind_it() {
    let bucket = MemoryBucket::new();
    let (_, drive, mut ada, mut bob) = two(&bucket);
    let other = bob.create(Ino::ROOT, "other", Kind::Directory).unwrap();
    let lent = ada.create(Ino::ROOT, "lent", Kind::Directory).unwrap();
    assert!(ada.borrow(lent));
    ada.create_here(lent, "seen", Kind::File);
    ada.pump();
    let number = asked(bob.names(lent));
    ada.pump();
    bob.look(&listing(lent), number).unwrap();
    bob.create(other, "followed", Kind::File).unwrap();
    let nowhere = create_by(&Arc::default(), &MemoryBucket::new());
    (ada.drive, bob.drive) = (nowhere.clone(), nowhere);
    drop(drive);
    let (clock, drive) = next_owner(&bucket);
    bob.rejoin(&drive);
    clock.pass(Duration::from_secs(6));
    assert_eq!(bob.names(lent), Ok(names(&["seen"])));
    assert_eq!(bob.names(other), Ok(names(&["followed"])));
}
