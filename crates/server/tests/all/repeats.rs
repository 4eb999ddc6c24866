//! Requests that come twice, because the answer to the first was lost: they are the same request.

use crate::world::{
    Holder, StillClock, beginning, content, create, drive_name, on_each_tier, open, options, says, ship, who,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use tenure_model::batch::chain_start;
use tenure_model::{Batch, Digest, Ino, InoRange, Kind, Refusal};
use tenure_server::{Drive, Options};
use tenure_store::faulty::{Fault, FaultyBucket, Plan};
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::{Access, Error, Lent, Owner, Shipped};

/// What becomes of the owner between a request and its repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Nothing,
    Killed,
    FoldedAndKilled,
}

const ALL: [Between; 3] = [Between::Nothing, Between::Killed, Between::FoldedAndKilled];

/// Returns who owns the drive after that.
fn after(between: Between, drive: &Arc<Drive>, bucket: &MemoryBucket) -> Arc<Drive> {
    if between == Between::FoldedAndKilled {
        drive.fold().unwrap();
    }
    if between == Between::Nothing {
        drive.clone()
    } else {
        open(&bucket.copy())
    }
}

fn lend(drive: &Drive, holder: &Holder) -> Lent<tenure_core::Branch> {
    drive.lend(holder.session, "main", Access::Exclusive).unwrap()
}

#[test]
fn a_grant_that_is_asked_for_again_is_the_same_grant() {
    for between in ALL {
        let bucket = MemoryBucket::new();
        let drive = create(&bucket);
        let mut holder = Holder::remote(&drive, "main");
        drive.lend_inos(holder.session).unwrap();
        let next = after(between, &drive, &bucket);
        let lent = lend(&next, &holder);
        assert_eq!((lent.inos, lent.branch), (holder.inos, holder.id), "{between:?}");
        assert_eq!(lend(&next, &holder).inos, lent.inos);
        holder.drive = next.clone();
        holder.file("file", &content(1, 3000));
        holder.ship();
        let said = says(next.lend(holder.session, "main", Access::Exclusive).map(drop));
        assert!(said.contains("has changed it"), "{said}");
        holder.file("another", b"bytes");
        holder.ship();
        assert_eq!(next.check(true).unwrap(), [""; 0]);
    }
}

#[test]
fn a_session_that_holds_two_branches_gets_of_each_what_came_with_it() {
    let drive = create(&MemoryBucket::new());
    let main = Holder::remote(&drive, "main");
    let from = tenure_model::record::Source::Branch(main.id.unwrap());
    drive.fork(&crate::world::fork_ask(&from, "try")).unwrap();
    let lent = drive.lend(main.session, "try", Access::Exclusive).unwrap();
    let again = drive.lend(main.session, "try", Access::Exclusive).unwrap();
    assert_eq!(again.inos, lent.inos);
    assert_eq!(lend(&drive, &main).inos, main.inos);
}

#[test]
fn a_grant_whose_record_was_lost_with_its_owner_is_given_anew() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let session = drive.open(&who("ada", false)).unwrap().session;
        let before = bucket.copy();
        let lost = drive.lend(session, "main", Access::Exclusive).unwrap();
        let next = open(&before);
        let lent = next.lend(session, "main", Access::Exclusive).unwrap();
        assert_eq!(lent.inos, lost.inos, "nobody has heard of the first");
    });
}

#[test]
fn a_grant_can_be_asked_for_again_whichever_call_of_the_bucket_the_owner_ended_at() {
    let mut number = 0;
    loop {
        let memory = MemoryBucket::new();
        let faulty = Arc::new(FaultyBucket::new(Arc::new(memory.clone()), Plan::none()));
        let options = options(&Arc::<StillClock>::default());
        let drive = Drive::create(faulty.clone(), &drive_name(), &beginning(), options).unwrap();
        let session = drive.open(&who("ada", false)).unwrap().session;
        faulty.set_plan(Plan::none().at(number, Fault::Halt));
        let lent = drive.lend(session, "main", Access::Exclusive);
        let next = open(&memory.copy());
        let again = next.lend(session, "main", Access::Exclusive).unwrap();
        let mut inos = again.inos;
        let batch = first_batch(session, &again, &mut inos);
        ship(&next, batch, None).unwrap();
        assert_eq!(next.check(true).unwrap(), [""; 0], "halted at call {number}");
        if let Ok(lent) = lent {
            assert_eq!(lent.inos, again.inos);
            return;
        }
        number += 1;
    }
}

/// Returns a batch that changes nothing, behind a grant.
fn first_batch(
    session: tenure_model::SessionId,
    lent: &Lent<tenure_core::Branch>,
    inos: &mut InoRange,
) -> Batch {
    let branch = lent.branch.unwrap();
    Batch {
        session,
        branch,
        epoch: tenure_model::Epoch(1),
        number: 1,
        previous: chain_start(session, branch, inos.next),
        chunks: Vec::new(),
        ops: Vec::new(),
    }
}

/// Ships some batches as a holder does that has several underway.
fn ship_some(holder: &mut Holder, count: u64) -> Vec<(Batch, Digest)> {
    let one = |holder: &mut Holder| {
        let number = holder.number;
        holder.make(Ino::ROOT, &format!("file-{number}"), Kind::File);
        let batch = holder.batch();
        let Shipped { digest } = ship(&holder.drive, batch.clone(), None).unwrap();
        holder.number += 1;
        holder.previous = digest;
        (batch, digest)
    };
    (0..count).map(|_| one(holder)).collect()
}

#[test]
fn each_of_the_latest_batches_that_comes_again_is_told_to_be_durable_and_changes_nothing() {
    for between in ALL {
        let bucket = MemoryBucket::new();
        let drive = create(&bucket);
        let mut holder = Holder::remote(&drive, "main");
        let shipped = ship_some(&mut holder, 70);
        let next = after(between, &drive, &bucket);
        holder.drive = next.clone();
        let (old, latest) = shipped.split_at(6);
        for (batch, digest) in latest {
            assert_eq!(
                ship(&next, batch.clone(), None),
                Ok(Shipped { digest: *digest }),
                "{between:?}"
            );
        }
        for (batch, _) in old {
            assert_eq!(ship(&next, batch.clone(), None), Err(Refusal::Stale.into()));
        }
        holder.file("afterwards", b"bytes");
        holder.ship();
        assert_eq!(Holder::reader(&next, "main").names().len(), 71);
        assert_eq!(next.check(true).unwrap(), [""; 0]);
    }
}

#[test]
fn batches_of_which_only_some_reached_the_owner_are_all_there_once_after_all_came_again() {
    for reached in 0..=4 {
        let bucket = MemoryBucket::new();
        let drive = create(&bucket);
        let mut holder = Holder::remote(&drive, "main");
        let mut killed = None;
        let mut shipped = Vec::new();
        for number in 0..4 {
            if number == reached {
                killed = Some(bucket.copy());
            }
            shipped.extend(ship_some(&mut holder, 1));
        }
        let next = open(&killed.unwrap_or_else(|| bucket.copy()));
        for (batch, digest) in shipped {
            assert_eq!(
                ship(&next, batch, None),
                Ok(Shipped { digest }),
                "{reached} had reached it"
            );
        }
        assert_eq!(next.check(true).unwrap(), [""; 0]);
    }
}

#[test]
fn another_batch_of_the_same_number_is_no_repeat() {
    let drive = create(&MemoryBucket::new());
    let mut holder = Holder::remote(&drive, "main");
    let shipped = ship_some(&mut holder, 3);
    let mut twin = shipped[1].0.clone();
    twin.ops.clear();
    assert_eq!(ship(&drive, twin, None), Err(Refusal::Stale.into()));
    let mut other = shipped[1].0.clone();
    other.session = drive.open(&who("eve", false)).unwrap().session;
    assert_eq!(ship(&drive, other, None), Err(Refusal::Stale.into()));
}

#[test]
fn batches_of_a_grant_that_was_given_back_are_not_remembered() {
    let drive = create(&MemoryBucket::new());
    let mut holder = Holder::remote(&drive, "main");
    let shipped = ship_some(&mut holder, 2);
    drive.give_back(holder.session, holder.id.unwrap()).unwrap();
    let lent = lend(&drive, &holder);
    assert!(lent.inos.next >= holder.inos.end, "it is another grant");
    for (batch, _) in shipped {
        assert_eq!(ship(&drive, batch, None), Err(Refusal::Stale.into()));
    }
}

#[test]
fn numbers_that_are_lent_twice_are_different_and_all_can_be_used() {
    let drive = create(&MemoryBucket::new());
    let mut holder = Holder::remote(&drive, "main");
    let (lost, heard) = (
        drive.lend_inos(holder.session).unwrap(),
        drive.lend_inos(holder.session).unwrap(),
    );
    let firsts = BTreeSet::from([holder.inos.next, lost.next, heard.next]);
    assert_eq!(firsts.len(), 3);
    holder.inos = heard;
    holder.make(Ino::ROOT, "file", Kind::File);
    holder.ship();
}

#[test]
fn a_session_that_is_closed_again_after_its_owner_ended_half_way_is_closed() {
    let mut number = 0;
    loop {
        let memory = MemoryBucket::new();
        let faulty = Arc::new(FaultyBucket::new(Arc::new(memory.clone()), Plan::none()));
        let clock = Arc::<StillClock>::default();
        let options: Options = options(&clock);
        let bucket: Arc<dyn Bucket> = faulty.clone();
        let drive = Drive::create(bucket, &drive_name(), &beginning(), options).unwrap();
        let holder = Holder::remote(&drive, "main");
        faulty.set_plan(Plan::none().at(number, Fault::Halt));
        let closed = Owner::close(&*drive, holder.session);
        let next = open(&memory.copy());
        match Owner::close(&*next, holder.session) {
            Ok(()) | Err(Error::Refused(Refusal::Stale)) => {}
            Err(other) => panic!("halted at call {number}: {other}"),
        }
        Holder::remote(&next, "main");
        if closed.is_ok() {
            return;
        }
        number += 1;
    }
}
