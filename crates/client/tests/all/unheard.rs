//! An owner whose answer to a batch nobody heard.

use crate::owner::Watched;
use crate::world::{At, World, make};
use bytes::Bytes;
use tenure_client::{Error, Options, Owner};
use tenure_model::{Failure, Ino, Refusal};

fn unheard(owner: &Watched) {
    let error: Error = Failure::Unknown("nobody answers".into()).into();
    owner.before_ship(move || Err(error));
}

fn write(world: &World, ino: Ino, text: &'static [u8]) {
    world.branch.write(ino, 0, Bytes::from_static(text)).unwrap();
}

/// An owner in another process may come back, or another may take its place: the batch is shipped again, and who syncs waits for that.
#[test]
fn what_an_owner_elsewhere_may_have_accepted_is_shipped_again() {
    let world = World::new(At::Elsewhere, Options::default());
    let ino = make(&world.branch, "file").unwrap();
    world.sync(ino);
    for (before, after) in [(&b"one"[..], &b"two"[..]), (b"three", b"four!")] {
        write(&world, ino, before);
        unheard(&world.owner);
        let shipped = world.owner.shipped();
        world.branch.sync_all().unwrap();
        assert_eq!(world.owner.shipped(), shipped + 2, "nobody knew, the first time");
        write(&world, ino, after);
        world.sync(ino);
        assert_eq!(world.read(ino), after);
    }
    let world = world.reopen();
    assert_eq!(world.read(ino), b"four!");
    world.branch.close().unwrap();
}

/// An owner in this process that does not know has stopped, and so has the branch.
#[test]
fn what_an_owner_here_does_not_know_ends_the_branch() {
    let world = World::new(At::Here, Options::default());
    let ino = make(&world.branch, "file").unwrap();
    unheard(&world.owner);
    assert!(world.branch.sync_all().is_err());
    assert!(world.branch.broken().is_some());
    assert!(world.branch.write(ino, 0, Bytes::from_static(b"more")).is_err());
}

/// Whoever has lost his branch to somebody else is told within moments, also when he changes nothing.
#[test]
fn a_session_that_is_over_is_told_so_though_it_changes_nothing() {
    let world = World::new(At::Elsewhere, Options::default());
    let ino = make(&world.branch, "file").unwrap();
    world.sync(ino);
    Owner::close(&*world.owner.drive, world.branch.session()).unwrap();
    while world.branch.broken().is_none() {
        std::thread::yield_now();
    }
    let stale = Err(Error::Refused(Refusal::Stale));
    assert_eq!(world.branch.write(ino, 0, Bytes::from_static(b"more")), stale);
    assert_eq!(world.branch.sync_all(), stale);
    assert_eq!(world.branch.unsynced().ops, 0, "nothing is lost");
}

/// What a broken branch has not made durable is never counted as if it were.
#[test]
fn what_is_lost_with_a_branch_is_counted_for_as_long_as_it_is_there() {
    for at in [At::Here, At::Elsewhere] {
        let world = World::new(at, Options::default());
        let ino = make(&world.branch, "file").unwrap();
        write(&world, ino, b"lost");
        let error: Error = Failure::Fenced("somebody else has it".into()).into();
        world.owner.before_ship(move || Err(error));
        assert!(world.branch.sync_all().is_err());
        assert!(world.branch.broken().is_some());
        let lost = world.branch.unsynced();
        assert!(lost.ops >= 2, "{lost:?}");
        assert!(world.branch.sync_all().is_err());
        assert_eq!(world.branch.unsynced().ops, lost.ops);
    }
}
