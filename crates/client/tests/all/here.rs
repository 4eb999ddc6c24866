//! A sync on the thread that asks: when it is done there, when it is left to the shipper, and that neither says of
//! anything that it is durable when the other has lost it.

use crate::owner::Watched;
use crate::world::{At, World, create, extents, hold_by, make};
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::sync::{Arc, Barrier};
use std::thread::{self, ThreadId};
use std::time::Duration;
use tenure_client::{Branch, Error, Options};
use tenure_model::{Clock, Failure, Ino, Timestamp};
use tenure_store::MemoryBucket;
use tenure_wire::Access;

/// What a sync was answered.
type Answer = Receiver<Result<(), Error>>;

fn started(at: At) -> World {
    World::new(at, Options::default())
}

/// Returns a new file with bytes that wait for a sync.
fn written(branch: &Branch, name: &str, len: usize) -> Ino {
    let ino = make(branch, name).unwrap();
    branch.write(ino, 0, Bytes::from(vec![7; len])).unwrap();
    ino
}

fn sync_here(branch: &Branch, ino: Ino) -> Answer {
    let (send, answer) = channel();
    branch.sync_here(ino, Box::new(move |synced| drop(send.send(synced))));
    answer
}

/// Has it said by which thread the next batch is shipped.
fn shipped_by(owner: &Watched) -> Receiver<ThreadId> {
    let (send, thread) = channel();
    owner.before_ship(move || {
        send.send(thread::current().id()).unwrap();
        Ok(())
    });
    thread
}

/// Syncs and tells whether this thread has done it; if so, it was done when the call returned.
fn is_done_here(owner: &Watched, branch: &Branch, ino: Ino) -> bool {
    let thread = shipped_by(owner);
    let answer = sync_here(branch, ino);
    let early = answer.try_recv();
    let is_here = thread.recv().unwrap() == thread::current().id();
    assert!(early == Ok(Ok(())) || !is_here && answer.recv() == Ok(Ok(())));
    assert!(!extents(&owner.drive, ino).unwrap().is_empty());
    is_here
}

#[test]
fn what_is_little_is_made_durable_by_the_thread_that_asks() {
    let world = started(At::Here);
    for (name, len, is_here) in [("a", 4096, true), ("b", 100_000, false), ("c", 20_000, true)] {
        let ino = written(&world.branch, name, len);
        assert_eq!(is_done_here(&world.owner, &world.branch, ino), is_here, "{name}");
    }
    let shipped = world.owner.shipped();
    let nothing = sync_here(&world.branch, Ino::ROOT);
    assert_eq!((nothing.try_recv(), world.owner.shipped()), (Ok(Ok(())), shipped));
    world.branch.close().unwrap();
    assert!(sync_here(&world.branch, Ino::ROOT).recv().unwrap().is_err());
}

#[test]
fn an_owner_elsewhere_is_left_to_the_shipper() {
    let world = started(At::Elsewhere);
    let ino = written(&world.branch, "f", 4096);
    assert!(!is_done_here(&world.owner, &world.branch, ino));
}

/// A clock that is set.
#[derive(Default)]
struct SetClock(AtomicU64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::default()
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

#[test]
fn after_one_that_was_slow_some_are_left_to_the_shipper() {
    let owner = Arc::new(Watched::new(create(Arc::new(MemoryBucket::new())).unwrap()));
    let clock = Arc::new(SetClock::default());
    let main = ("main", Access::Exclusive);
    let branch = hold_by(clock.clone(), owner.clone(), At::Here, main, Options::default()).unwrap();
    let ino = written(&branch, "slow", 4096);
    owner.before_ship(move || {
        clock.0.fetch_add(20, Ordering::Relaxed);
        Ok(())
    });
    assert_eq!(sync_here(&branch, ino).recv(), Ok(Ok(())));
    let is_next_here = |number: &usize| {
        let ino = written(&branch, &format!("{number}"), 4096);
        is_done_here(&owner, &branch, ino)
    };
    assert_eq!((0..100).find(is_next_here), Some(16));
}

#[test]
fn syncs_that_come_during_one_keep_nobody_and_share_a_batch() {
    let world = started(At::Here);
    let (go, wait) = sync_channel::<()>(0);
    let (begins, begun) = channel();
    world.owner.before_ship(move || {
        begins.send(()).unwrap();
        let _ = wait.recv();
        Ok(())
    });
    let first = written(&world.branch, "first", 4096);
    thread::scope(|scope| {
        let one = scope.spawn(|| sync_here(&world.branch, first).recv().unwrap());
        begun.recv().unwrap();
        let answers: Vec<_> = (0..20)
            .map(|number| {
                let ino = written(&world.branch, &format!("{number}"), 1000);
                assert_eq!(world.read(ino), [7; 1000]);
                sync_here(&world.branch, ino)
            })
            .collect();
        assert!(answers.iter().all(|answer| answer.try_recv().is_err()));
        drop(go);
        assert_eq!(one.join().unwrap(), Ok(()));
        assert!(answers.iter().all(|answer| answer.recv().unwrap().is_ok()));
    });
    // The first; those that the shipper took together; those that came when it had.
    assert!(world.owner.shipped() <= 3, "{}", world.owner.shipped());
}

#[test]
fn a_file_that_another_thread_settles_is_left_to_the_shipper() {
    let world = started(At::Here);
    let (go, wait) = sync_channel::<()>(0);
    let (begins, begun) = channel();
    let ino = written(&world.branch, "f", 4096);
    world.owner.before_place(move || {
        begins.send(()).unwrap();
        let _ = wait.recv();
    });
    let (send, by_shipper) = channel();
    world
        .branch
        .sync(ino, Box::new(move |synced| send.send(synced).unwrap()));
    begun.recv().unwrap();
    let here = sync_here(&world.branch, ino);
    assert!(here.try_recv().is_err(), "its bytes have no place yet");
    drop(go);
    assert_eq!((by_shipper.recv(), here.recv()), (Ok(Ok(())), Ok(Ok(()))));
    assert_eq!(world.branch.trouble(), None);
}

#[test]
fn what_one_thread_has_lost_no_other_says_is_durable() {
    for _ in 0..50 {
        let world = started(At::Here);
        let lost = Error::from(Failure::Unknown("nobody knows".into()));
        let (barrier, answer) = (Arc::new(Barrier::new(2)), lost.clone());
        let ships = barrier.clone();
        let ino = written(&world.branch, "f", 4096);
        world.owner.before_ship(move || {
            ships.wait();
            Err(answer)
        });
        thread::scope(|scope| {
            let one = scope.spawn(|| sync_here(&world.branch, ino).recv().unwrap());
            let other = scope.spawn(|| {
                let (send, answer) = channel();
                world
                    .branch
                    .sync(ino, Box::new(move |synced| send.send(synced).unwrap()));
                barrier.wait();
                answer.recv().unwrap()
            });
            assert!(one.join().unwrap().is_err());
            assert!(other.join().unwrap().is_err());
        });
        assert_eq!(world.branch.broken(), Some(lost));
    }
}

#[test]
fn what_did_not_happen_here_waits_and_is_shipped_by_the_next() {
    let world = started(At::Here);
    let ino = written(&world.branch, "f", 4096);
    let refused = Error::from(Failure::DidNotHappen("not now".into()));
    let answer = refused.clone();
    world.owner.before_ship(move || Err(answer));
    assert_eq!(sync_here(&world.branch, ino).try_recv(), Ok(Err(refused.clone())));
    assert_eq!(
        (world.branch.trouble(), world.branch.broken()),
        (Some(refused), None)
    );
    let thread = shipped_by(&world.owner);
    assert_eq!(sync_here(&world.branch, ino).recv(), Ok(Ok(())));
    assert_ne!(
        thread.recv().unwrap(),
        thread::current().id(),
        "whoever asks during trouble waits elsewhere"
    );
    assert_eq!(world.branch.trouble(), None);
}
