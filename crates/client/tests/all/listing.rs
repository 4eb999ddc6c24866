//! Listings with attributes: those of a directory's entries may lie far apart, and a listing does not wait for all of them.

use crate::world::{At, World, name, node, options};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use tenure_model::{Ino, Kind};

const DIRECTORIES: usize = 200;
const FILES_IN_EACH: usize = 40;

/// Lists the root: each name, and whether its attributes came along.
fn list(world: &World) -> BTreeMap<Vec<u8>, bool> {
    let visit = |listed: &mut BTreeMap<Vec<u8>, bool>, entry: tenure_core::DirEntry<'_>, attr: Option<&_>| {
        listed.insert(entry.name.to_vec(), attr.is_some());
        ControlFlow::Continue(())
    };
    world
        .branch
        .list(Ino::ROOT, 2, true, BTreeMap::new, visit)
        .unwrap()
}

#[test]
fn a_cold_listing_names_everything_and_brings_more_attributes_each_time() {
    let world = World::new(At::Here, options(4 << 20));
    for directory in 0..DIRECTORIES {
        let (ino, _) = world
            .branch
            .create(Ino::ROOT, &name(&format!("d{directory}")), &node(Kind::Directory))
            .unwrap();
        for file in 0..FILES_IN_EACH {
            world
                .branch
                .create(ino, &name(&format!("f{file}")), &node(Kind::File))
                .unwrap();
        }
    }
    assert!(list(&world).values().all(|told| *told), "all of it is in memory");

    let world = world.reopen();
    let first = list(&world).values().filter(|told| **told).count();
    assert!(
        0 < first && first < DIRECTORIES / 2,
        "{first} lay in the first pages"
    );
    let mut told = first;
    while told < DIRECTORIES {
        let listed = list(&world);
        assert_eq!(listed.len(), DIRECTORIES);
        let now = listed.values().filter(|told| **told).count();
        assert!(now > told, "{told} before, {now} now");
        told = now;
    }
    world.branch.close().unwrap();
}
