//! Packs of an owner elsewhere, read from here.

use crate::serving::cold;
use crate::world::{At, World};
use std::sync::Arc;
use tenure_client::wait::{without_waiting, would_have_waited};
use tenure_client::warm::{Brought, Part, Wanted};
use tenure_model::Ino;
use tenure_store::Cache;
use tenure_wire::Owner;

fn read(world: &World, file: Ino) -> Vec<u8> {
    let mut bytes = Vec::new();
    world.branch.read(file, 0, 20_000, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_a_pack_holds_is_read_from_here_once_it_is_sealed_and_not_fetched_again() {
    let (world, _, file) = cold(At::Elsewhere);
    let cache = Arc::new(Cache::in_memory());
    world.branch.read_through(cache.clone());
    let new = world.file("new");
    world.write(new, 0, &[8; 9_000]);
    world.sync(new);
    let before = world.owner.read();
    assert_eq!(read(&world, new), [8; 9_000]);
    assert!(
        world.owner.read() > before,
        "of a pack that is filled the owner reads"
    );

    world.owner.drive.fold().unwrap();
    let world = world.reopen();
    world.branch.read_through(cache.clone());
    without_waiting(|| {
        assert!(world.branch.attr(file).is_err() && would_have_waited());
    });
    assert_eq!(read(&world, file), [7; 10_000]);
    assert_eq!(world.owner.read(), 0);
    let fetched = cache.usage().fetched;
    assert!(fetched >= 10_000);
    without_waiting(|| assert_eq!(read(&world, file), [7; 10_000]));

    let world = world.reopen();
    world.branch.read_through(cache.clone());
    assert_eq!(read(&world, file), [7; 10_000]);
    assert_eq!((world.owner.read(), cache.usage().fetched), (0, fetched));
}

#[test]
fn what_an_owner_shows_and_is_not_right_is_asked_for_as_ever() {
    let (world, _, file) = cold(At::Elsewhere);
    world.owner.drive.fold().unwrap();
    let world = world.reopen();
    world.branch.read_through(Arc::new(Cache::in_memory()));
    world.owner.bend_parts();
    assert_eq!(read(&world, file), [7; 10_000]);
    assert!(world.owner.read() > 0);
}

#[test]
fn what_is_brought_is_there_when_it_is_read() {
    let (world, dir, file) = cold(At::Elsewhere);
    world.owner.drive.fold().unwrap();
    let world = world.reopen();
    let cache = Arc::new(Cache::in_memory());
    world.branch.read_through(cache.clone());
    world.branch.note_reads();
    let brought = Brought::default();
    let gone = Wanted::Whole(Ino(9_999));
    world
        .branch
        .bring(vec![gone, Wanted::Whole(dir)], &brought, &|| true);
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(
        (count(&brought.found), count(&brought.done), count(&brought.bytes)),
        (3, 3, 10_000)
    );
    let fetched = cache.usage().fetched;
    without_waiting(|| assert_eq!(read(&world, file), [7; 10_000]));
    assert_eq!(cache.usage().fetched, fetched);

    let mut bytes = [0; 10];
    world.branch.read_into(file, 9_000, &mut bytes).unwrap();
    let noted = world.branch.noted_reads();
    assert_eq!(
        noted.into_iter().collect::<Vec<_>>(),
        [Part { ino: file, number: 0 }],
        "what was brought is not noted"
    );
    let stopped = Brought::default();
    world.branch.bring(vec![Wanted::Whole(dir)], &stopped, &|| false);
    assert_eq!(count(&stopped.done), 0);
}
