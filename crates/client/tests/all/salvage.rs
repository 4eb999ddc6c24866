//! Branches that are lost: what had not been shipped is saved, and nobody is told that it is in the branch.

use crate::owner::Watched;
use crate::world::{
    At, Jumping, StillClock, World, branch_name, create_with, hold, hold_by, make, name, options, read,
    server_options, who,
};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tenure_client::{Branch, Error, Options, Owner, Patience, Salvage, hold_when_free};
use tenure_model::{Clock, Ino, Refusal};
use tenure_store::MemoryBucket;
use tenure_wire::{Access, Delegation};

const STALE: Error = Error::Refused(Refusal::Stale);

/// Lets somebody else have `main`.
fn take(owner: &Arc<Watched>) -> Branch {
    let opened = owner.open(&who(At::Here)).unwrap();
    owner.take(opened.session, "main").unwrap();
    owner.close(opened.session).unwrap();
    hold(
        owner.clone(),
        At::Here,
        ("main", Access::Exclusive),
        options(1 << 20),
    )
    .unwrap()
}

fn saved(branch: &Branch) -> Option<String> {
    loop {
        match branch.salvage() {
            Some(Salvage::Done(stray)) => return stray,
            Some(Salvage::Failed(error)) => panic!("{error}"),
            None | Some(Salvage::Underway) => std::thread::yield_now(),
        }
    }
}

fn reads(owner: &Arc<Watched>, line: &str, file: &str) -> Option<Vec<u8>> {
    let branch = hold(owner.clone(), At::Here, (line, Access::Read), options(1 << 20)).unwrap();
    let (ino, _) = branch.lookup(Ino::ROOT, &name(file)).ok()?;
    Some(read(&branch, ino))
}

/// Whether it was settled, staged or only named: all of it is saved, in its order, and a sync that is asked meanwhile fails.
#[test]
fn everything_that_was_accepted_and_not_shipped_is_in_the_stray() {
    for at in [At::Here, At::Elsewhere] {
        let world = World::new(at, Options::default());
        let synced = world.file("synced");
        world.write(synced, 0, b"synced");
        world.sync(synced);
        let big = world.file("big");
        world.write(big, 0, &[7; 100_000]);
        world.write(synced, 0, b"changed");
        let next = take(&world.owner);
        assert_eq!(world.branch.sync_all(), Err(STALE));
        assert_eq!(
            world.branch.write(big, 0, Bytes::from_static(b"late")),
            Err(STALE)
        );
        assert_eq!(make(&world.branch, "late").map(drop), Err(STALE));
        let stray = saved(&world.branch).expect("something was missing");
        assert_eq!(world.branch.unsynced(), tenure_client::Unsynced::default());
        assert_eq!(world.branch.sync_all(), Err(STALE), "also when nothing is left");
        let read = |line: &str, file: &str| reads(&world.owner, line, file);
        assert_eq!(read(&stray, "synced").as_deref(), Some(&b"changed"[..]));
        assert_eq!(read(&stray, "big").as_deref(), Some(&[7; 100_000][..]));
        assert_eq!(read("main", "synced").as_deref(), Some(&b"synced"[..]));
        assert_eq!(read("main", "big"), None);
        assert_eq!(world.branch.close(), Err(STALE));
        next.close().unwrap();
        world.owner.drive.delete_branch(&branch_name(&stray)).unwrap();
        assert_eq!(world.owner.drive.check(true).unwrap(), [""; 0]);
    }
}

/// A batch of which nobody has told that it was accepted before the branch was taken is not brought twice.
#[test]
fn what_was_accepted_unheard_is_in_the_branch_and_in_the_stray_once() {
    let world = World::new(At::Elsewhere, options(1 << 20));
    let ino = world.file("file");
    world.write(ino, 0, b"unheard");
    world.owner.is_not_heard();
    assert!(world.branch.sync_all().is_err());
    world.write(ino, 7, b" and more");
    let _next = take(&world.owner);
    assert_eq!(world.branch.sync_all(), Err(STALE));
    let stray = saved(&world.branch).expect("something was missing");
    assert_eq!(
        reads(&world.owner, "main", "file").as_deref(),
        Some(&b"unheard"[..])
    );
    assert_eq!(
        reads(&world.owner, &stray, "file").as_deref(),
        Some(&b"unheard and more"[..])
    );
}

/// Whether a holder is silent is judged by the owner's clock alone.
#[test]
fn a_holder_whose_clock_jumps_loses_nothing() {
    let drive = create_with(
        Arc::new(MemoryBucket::new()),
        tenure_server::Options {
            session_ttl: Duration::from_secs(5),
            ..server_options()
        },
    );
    let (owner, clock) = (
        Arc::new(Watched::new(drive.unwrap())),
        Arc::new(Jumping::default()),
    );
    let access = ("main", Access::Exclusive);
    let branch = hold_by(
        clock.clone(),
        owner.clone(),
        At::Elsewhere,
        access,
        Options::default(),
    )
    .unwrap();
    for day in 1..4 {
        clock.jump_to(day);
        make(&branch, &format!("file-{day}")).unwrap();
        branch.sync_all().unwrap();
        let refused = hold(owner.clone(), At::Elsewhere, access, options(1 << 20)).map(drop);
        assert!(
            matches!(refused, Err(Error::Refused(Refusal::Held { .. }))),
            "{refused:?}"
        );
    }
    branch.close().unwrap();
}

#[test]
fn a_holder_is_waited_for_while_it_is_silent_and_longer_only_where_that_is_asked_for() {
    let access = ("main", Access::Exclusive);
    let world = World::new(At::Here, options(1 << 20));
    let ask = |patience| {
        let mut told = 0;
        let hold = || hold(world.owner.clone(), At::Here, access, options(1 << 20));
        let around = (
            &*world.owner as &dyn Owner<tenure_core::Branch>,
            &StillClock as &dyn Clock,
        );
        let held = hold_when_free(around, ("main", patience), (|_| false, |_| told += 1), hold);
        (held, told)
    };
    let (held, told) = ask(Patience::WhileSilent);
    assert!(matches!(
        held.map(drop),
        Err(Error::Refused(Refusal::Held { .. }))
    ));
    let (held, never) = ask(Patience::For(Duration::ZERO));
    assert!(held.is_err() && (told, never) == (0, 0));
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| send.send(ask(Patience::For(Duration::from_secs(1)))).unwrap());
        // By a clock that stands still it waits for ever.
        assert!(receive.recv_timeout(Duration::from_millis(300)).is_err());
        world.branch.close().unwrap();
        let (held, told) = receive.recv().unwrap();
        assert!(held.is_ok() && told == 1);
    });
}

/// The owner may not see a process whose end is known here.
#[test]
fn whose_process_is_known_to_have_ended_is_not_waited_for() {
    let options_of_owner = tenure_server::Options {
        session_ttl: Duration::from_secs(5),
        ..server_options()
    };
    let drive = create_with(Arc::new(MemoryBucket::new()), options_of_owner).unwrap();
    let owner = Arc::new(Watched::new(drive));
    let take = || {
        hold(
            owner.clone(),
            At::Elsewhere,
            ("main", Access::Exclusive),
            options(1 << 20),
        )
    };
    let lost = take().unwrap();
    make(&lost, "late").unwrap();
    let around = (
        &*owner as &dyn Owner<tenure_core::Branch>,
        &StillClock as &dyn Clock,
    );
    let held = hold_when_free(
        around,
        ("main", Patience::WhileSilent),
        (
            |lent: &Delegation| lent.session == lost.session(),
            |_: &Delegation| panic!("nobody is waited for"),
        ),
        take,
    );
    assert_eq!(lost.sync_all(), Err(STALE));
    held.unwrap().close().unwrap();
}
