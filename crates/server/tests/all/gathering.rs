//! What sessions that share a branch bring to its next owner, and what they leave behind.

use crate::shared::{Member, open_with, refused};
use crate::world::{StillClock, create, on_each_tier, open, try_open};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{Ino, Refusal};
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_store::faulty::{FaultyBucket, Plan};
use tenure_wire::shared::WriteAt;
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
