//! What sessions that share a branch bring to its next owner, and what they leave behind.

use crate::owners::{is_fenced, made};
use crate::shared::{Member, lock, open_with, refused};
use crate::world::{OWNER_WAIT, StillClock, create, drive_name, on_each_tier, open, options, says, try_open};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{Ino, LockKind, Locked, Refusal};
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_store::faulty::{FaultyBucket, Plan};
use tenure_wire::shared::{LockAsk, WriteAt};
use tenure_wire::{Error, Hold, Owner};

/// Also when it is its own question with which the waiting ends.
#[test]
fn whose_acts_followed_what_was_lost_is_not_told_that_they_are_durable() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let (mut ada, mut bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
        bob.create("lost", Hold::No).unwrap();
        ada.create("behind", Hold::No).unwrap();
        let nowhere = create(&MemoryBucket::new());
        (ada.drive, bob.drive) = (nowhere.clone(), nowhere);
        drop(drive);
        let clock = Arc::<StillClock>::default();
        let drive = open_with(&bucket, &clock);
        ada.rejoin(&drive).unwrap();
        clock.pass(Duration::from_secs(6));
        assert_eq!(refused(drive.sync(ada.who)), Refusal::Stale);
    });
}

#[test]
fn what_sessions_bring_is_kept_while_the_bucket_of_their_next_owner_fails() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut ada = Member::new(&drive, "ada");
        ada.create("first", Hold::No).unwrap();
        ada.sync();
        drive.fold().unwrap();
        ada.create("second", Hold::No).unwrap();
        ada.drive = create(&MemoryBucket::new());
        drop(drive);
        let faulty = Arc::new(FaultyBucket::new(Arc::new(bucket), Plan::none()));
        let drive = try_open(faulty.clone()).unwrap();
        faulty.set_outage(true);
        // It may have been heard, and is not in order.
        let _ = ada.rejoin(&drive);
        let failed = ada.attr(Ino::ROOT);
        assert!(matches!(failed, Err(Error::Failed(_))), "{failed:?}");
        faulty.set_outage(false);
        let both = ["first", "second"].map(str::to_owned);
        assert_eq!(ada.names(), BTreeSet::from(both));
    });
}

/// Its session has gone on at the next owner, and has found the one before again.
#[test]
fn an_owner_that_cannot_tell_whether_it_is_one_acknowledges_no_sync_though_nothing_waits_there() {
    let memory = made();
    let faulty = FaultyBucket::new(Arc::new(memory.clone()), Plan::none());
    let (faulty, clock) = (Arc::new(faulty), Arc::<StillClock>::default());
    let old = Drive::open(faulty.clone(), &drive_name(), options(&clock)).unwrap();
    let mut ada = Member::new(&old, "ada");
    ada.create("at the old owner", Hold::No).unwrap();
    ada.sync();
    faulty.set_outage(true);
    let new = open_with(&memory, &clock);
    ada.rejoin(&new).unwrap();
    ada.create("at the new owner", Hold::No).unwrap();
    let said = says(old.sync(ada.who));
    assert!(
        said.contains("not known whether this server still owns the drive"),
        "{said}"
    );
    faulty.set_outage(false);
    assert!(is_fenced(&old.sync(ada.who)));
    ada.sync();
}

/// That is tried again with the next question.
#[test]
fn who_does_not_come_back_ends_no_others_though_the_bucket_fails_meanwhile() {
    let memory = made();
    let drive = open(&memory);
    let (mut ada, mut bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
    ada.create("of ada", Hold::No).unwrap();
    ada.sync();
    drop(drive);
    let faulty = Arc::new(FaultyBucket::new(Arc::new(memory), Plan::none()));
    let clock = Arc::<StillClock>::default();
    let drive = Drive::open(faulty.clone(), &drive_name(), options(&clock)).unwrap();
    clock.pass(OWNER_WAIT);
    ada.rejoin(&drive).unwrap();
    clock.pass(Duration::from_secs(6));
    faulty.set_outage(true);
    for _ in 0..2 {
        let failed = ada.attr(Ino::ROOT);
        assert!(matches!(failed, Err(Error::Failed(_))), "{failed:?}");
    }
    faulty.set_outage(false);
    assert_eq!(ada.names(), BTreeSet::from(["of ada".to_owned()]));
    assert_eq!(refused(bob.rejoin(&drive)), Refusal::Stale);
}

#[test]
fn who_leaves_while_the_bucket_fails_keeps_no_lock_once_it_is_told() {
    let faulty = Arc::new(FaultyBucket::new(Arc::new(made()), Plan::none()));
    let drive = try_open(faulty.clone()).unwrap();
    for closes in [true, false] {
        let (ada, bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
        let lock = |member: &Member| {
            let lock = lock(member, (0, 9), LockKind::Exclusive);
            member.lock(LockAsk::Take { lock, ticket: None })
        };
        let leave = || match closes {
            true => Owner::close(&*drive, ada.who.session),
            false => drive.give_back(ada.who.session, ada.who.branch),
        };
        assert_eq!(lock(&ada), Locked::Taken);
        faulty.set_outage(true);
        assert!(leave().is_err());
        faulty.set_outage(false);
        leave().unwrap();
        assert_eq!(lock(&bob), Locked::Taken);
        Owner::close(&*drive, bob.who.session).unwrap();
    }
}

/// What is dropped when the last one leaves is dropped again by the next owner.
#[test]
fn what_the_last_session_had_open_without_an_entry_goes_with_it() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut ada = Member::new(&drive, "ada");
        let ino = ada.create("file", Hold::Open).unwrap();
        ada.write(ino, WriteAt::End, b"soon gone").unwrap();
        ada.unlink("file").unwrap();
        ada.attr(ino).unwrap();
        Owner::close(&*drive, ada.who.session).unwrap();
        let totals = |drive: &Arc<Drive>| Member::new(drive, "bob").drive.branches().unwrap()[0].inodes;
        assert_eq!(totals(&drive), 1);
        drop((ada, drive));
        assert_eq!(totals(&open(&bucket)), 1);
    });
}
