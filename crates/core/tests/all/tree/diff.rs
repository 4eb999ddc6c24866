//! What differs between trees, and what it costs to find it.

use super::shelf::{Numbers, Shelf};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use tenure_core::tree::{Memory, Tree};

type Difference = (Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn differences(shelf: &Shelf, before: &Tree, after: &Tree, from: Bound<&[u8]>) -> Vec<Difference> {
    let mut told: Vec<Difference> = Vec::new();
    shelf.ask(|| {
        let last = told.last().map(|(key, ..)| key.clone());
        let from = last.as_ref().map_or(from, |key| Bound::Excluded(key.as_slice()));
        before.diff(after, from, |key, old, new| {
            told.push((key.to_vec(), old.map(<[u8]>::to_vec), new.map(<[u8]>::to_vec)));
            ControlFlow::Continue(())
        })
    });
    told
}

fn naive(before: &Map, after: &Map, from: &[u8]) -> Vec<Difference> {
    let keys: BTreeSet<_> = before
        .keys()
        .chain(after.keys())
        .filter(|key| key.as_slice() >= from)
        .collect();
    keys.into_iter()
        .map(|key| (key.clone(), before.get(key).cloned(), after.get(key).cloned()))
        .filter(|(_, old, new)| old != new)
        .collect()
}

/// Removes or puts runs of keys.
fn change(tree: &mut Tree, map: &mut Map, shelf: &Shelf, (from, count, value): (u16, u16, Option<u8>)) {
    for number in from..from.saturating_add(count) {
        let key = [b"key".as_slice(), &number.to_be_bytes()].concat();
        if let Some(value) = value {
            shelf.ask(|| tree.insert(&key, &[value; 50]));
            map.insert(key, vec![value; 50]);
        } else {
            shelf.ask(|| tree.remove(&key));
            map.remove(&key);
        }
    }
}

fn run() -> impl Strategy<Value = (u16, u16, Option<u8>)> {
    (
        0u16..5000,
        prop_oneof![Just(1u16), 0u16..2500],
        prop::option::weighted(0.7, 0u8..4),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_diff_tells_exactly_what_differs(
        base in prop::collection::vec(run(), 0..6),
        ours in prop::collection::vec(run(), 0..6),
        theirs in prop::collection::vec(run(), 0..4),
        from in 0u16..5000,
        is_stored in any::<bool>(),
    ) {
        let (mut shelf, memory) = (Shelf::default(), Memory::new());
        let (mut before, mut old) = (Tree::new(), Map::new());
        base.into_iter().for_each(|run| change(&mut before, &mut old, &shelf, run));
        if is_stored {
            before = Tree::stored(shelf.fold(&before), &memory);
        }
        let (mut after, mut new) = (before.clone(), old.clone());
        ours.into_iter().for_each(|run| change(&mut after, &mut new, &shelf, run));
        theirs.into_iter().for_each(|run| change(&mut before, &mut old, &shelf, run));
        if is_stored {
            after = Tree::stored(shelf.fold(&after), &memory);
        }
        let from = [b"key".as_slice(), &from.to_be_bytes()].concat();
        let told = differences(&shelf, &before, &after, Bound::Included(&from));
        prop_assert_eq!(told, naive(&old, &new, &from));
        let told = differences(&shelf, &after, &before, Bound::Unbounded);
        prop_assert_eq!(told, naive(&new, &old, &[]));
    }
}

fn large(count: usize) -> Tree {
    let (mut tree, mut numbers) = (Tree::new(), Numbers(3));
    for _ in 0..count {
        let key = numbers.below(1 << 30).to_be_bytes();
        tree.insert(&key, &[7; 60]).expect("nothing is out of memory");
    }
    tree
}

#[test]
fn a_diff_loads_only_the_way_to_what_differs() {
    let (mut shelf, memory) = (Shelf::default(), Memory::new());
    let mut tree = large(50_000);
    let before = shelf.fold(&tree);
    for key in [b"\0one".as_slice(), b"\0\0\0\0\x08two"] {
        tree.insert(key, b"new").expect("nothing is out of memory");
    }
    let after = shelf.fold(&tree);
    let told = differences(
        &shelf,
        &Tree::stored(before, &memory),
        &Tree::stored(after, &memory),
        Bound::Unbounded,
    );
    assert_eq!(told.len(), 2);
    let loads = shelf.loads();
    assert!(loads <= 2 * 2 * 4, "{loads} pages of {} were loaded", shelf.len());
}

#[test]
fn a_diff_of_trees_of_unlike_heights_loads_only_what_differs() {
    let (mut shelf, memory) = (Shelf::default(), Memory::new());
    let mut tree = large(3_000);
    let before = shelf.fold(&tree);
    for number in 0..50_000u32 {
        let key = [b"\xffbehind".as_slice(), &number.to_be_bytes()].concat();
        tree.insert(&key, b"new").expect("nothing is out of memory");
    }
    let after = shelf.fold(&tree);
    let (before, after) = (Tree::stored(before, &memory), Tree::stored(after, &memory));
    let mut told = 0;
    shelf.ask(|| {
        before.diff(&after, Bound::Excluded(b""), |_, old, _| {
            assert_eq!(old, None);
            told += 1;
            if told == 1 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    });
    assert_eq!(told, 1);
    let loads = shelf.loads();
    assert!(loads <= 14, "{loads} pages of {} were loaded", shelf.len());
}
