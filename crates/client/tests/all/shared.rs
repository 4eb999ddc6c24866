//! Branches that several sessions share, as their programs see them.

use crate::owner::Watched;
use crate::world::{At, Jumping, StillClock, create_with, name, options, server_options, who};
use std::sync::Arc;
use std::time::Duration;
use tenure_client::{Error, Files, SharedBranch};
use tenure_model::{Clock, Ino, Lock, LockFamily, LockKind, LockRange, Locked, NewNode, Refusal};
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_wire::Owner;

pub(crate) fn drive() -> Arc<Drive> {
    let options = tenure_server::Options {
        session_ttl: Duration::from_secs(5),
        ..server_options()
    };
    create_with(Arc::new(MemoryBucket::new()), options).unwrap()
}

pub(crate) fn share(owner: Arc<dyn Owner<tenure_core::Branch>>, clock: Arc<dyn Clock>) -> SharedBranch {
    let opened = owner.open(&who(At::Elsewhere)).unwrap();
    SharedBranch::join(owner, clock, opened, "main", options(1 << 20)).unwrap()
}

fn lock(shared: &SharedBranch, ino: Ino) -> Locked {
    let lock = Lock {
        ino,
        family: LockFamily::Flock,
        owner: shared.lock_owner(1),
        range: LockRange {
            first: 0,
            last: u64::MAX,
        },
        kind: LockKind::Exclusive,
        pid: 1,
    };
    shared.lock(lock).unwrap()
}

fn read(shared: &SharedBranch, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0; 100];
    let len = shared.read_into(ino, 0, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

/// Whether somebody is silent is judged by the owner's clock alone, and what has an order by none.
#[test]
fn who_shares_a_branch_loses_nothing_when_its_clock_jumps() {
    let drive = drive();
    let clock = Arc::new(Jumping::default());
    let (ada, bob) = (
        share(drive.clone(), clock.clone()),
        share(drive.clone(), Arc::new(StillClock)),
    );
    let (ino, _) = ada.create(Ino::ROOT, &name("log"), &NewNode::file()).unwrap();
    assert_eq!(lock(&ada, ino), Locked::Taken);
    let mut expected = Vec::new();
    for day in 1..4 {
        clock.jump_to(day);
        for (shared, entry) in [(&ada, b"ada;"), (&bob, b"bob;")] {
            shared.append(ino, entry).unwrap();
            expected.extend_from_slice(entry);
            assert_eq!(
                (read(&ada, ino), read(&bob, ino)),
                (expected.clone(), expected.clone())
            );
        }
        assert!(
            matches!(lock(&bob, ino), Locked::Blocked(_)),
            "its holder is there"
        );
    }
    ada.close().unwrap();
    assert_eq!(lock(&bob, ino), Locked::Taken);
    bob.close().unwrap();
    assert_eq!(drive.check(true).unwrap(), [""; 0]);
}

/// The next owner is brought what was noted by then: that it is noted later tells it nothing.
#[test]
fn what_an_owner_answered_that_was_replaced_before_it_was_heard_is_asked_of_the_next() {
    let owner = Arc::new(Watched::new(drive()));
    let shared = Arc::new(share(owner.clone(), Arc::new(StillClock)));
    let (ino, _) = shared.create(Ino::ROOT, &name("log"), &NewNode::file()).unwrap();
    let calls: [fn(&SharedBranch, Ino); 3] = [
        |shared, ino| shared.append(ino, b"once;").unwrap(),
        |shared, ino| shared.open(ino).unwrap(),
        |shared, ino| assert_eq!(lock(shared, ino), Locked::Taken),
    ];
    for call in calls {
        let (before, watching) = (owner.asked(), shared.clone());
        owner.is_replaced(move || watching.renew());
        call(&shared, ino);
        assert_eq!(owner.asked(), before + 2);
    }
    assert_eq!(read(&shared, ino), b"once;");
}

/// What was refused to whoever asked for it was never accepted: it is not counted with what is lost.
#[test]
fn what_a_session_that_is_over_is_refused_is_not_counted_as_lost_with_it() {
    let drive = drive();
    let shared = share(drive.clone(), Arc::new(StillClock));
    let (ino, _) = shared.create(Ino::ROOT, &name("log"), &NewNode::file()).unwrap();
    assert_eq!(shared.unsynced().ops, 1);
    Owner::close(&*drive, shared.opened().session).unwrap();
    let stale = Error::Refused(Refusal::Stale);
    // The first is refused by the owner, the others here.
    for _ in 0..3 {
        assert_eq!(shared.append(ino, b"late;").unwrap_err(), stale);
        // What was accepted before, the owner has in order.
        assert_eq!(shared.unsynced().ops, 0);
    }
}

/// Its session may be over, and what it had open gone.
#[test]
fn who_has_slept_for_too_long_opens_nothing_by_itself() {
    let drive = drive();
    let clock = Arc::new(Jumping::default());
    let shared = share(drive.clone(), clock.clone());
    let (told, _) = shared.create(Ino::ROOT, &name("told"), &NewNode::file()).unwrap();
    shared.open(told).unwrap();
    shared.tend();
    let (lent, _) = shared.create(Ino::ROOT, &name("lent"), &NewNode::file()).unwrap();
    Owner::close(&*drive, shared.opened().session).unwrap();
    shared.open(lent).unwrap();
    clock.jump_to(1);
    for ino in [lent, told] {
        assert_eq!(shared.open(ino).unwrap_err(), Error::Refused(Refusal::Stale));
    }
}
