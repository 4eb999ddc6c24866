//! Trees that share pages, in several threads at once.

use super::shelf::{Numbers, Shelf};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use tenure_core::tree::{Depth, Hand, Memory, Missing, Tree};

fn key(number: usize) -> [u8; 8] {
    number.to_be_bytes()
}

/// Ends what others do in a loop, also when a test fails meanwhile.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn filled(count: usize) -> Tree {
    let mut tree = Tree::new();
    for number in 0..count {
        tree.insert(&key(number), &key(number))
            .expect("nothing is out of memory");
    }
    tree
}

#[test]
fn a_fold_of_a_snapshot_writes_the_snapshot_while_the_tree_goes_on() {
    let mut tree = filled(20_000);
    let mut shelf = Shelf::default();
    for round in 1..=5usize {
        let snapshot = tree.clone();
        let at = thread::scope(|scope| {
            let folding = scope.spawn(|| shelf.fold(&snapshot));
            let mut numbers = Numbers(round as u64);
            for _ in 0..20_000 {
                let number = numbers.below(20_000);
                tree.insert(&key(number), &key(number + round))
                    .expect("nothing is out of memory");
            }
            folding.join().expect("the fold does not panic")
        });
        tree.check(Depth::Digests);
        snapshot.check(Depth::Digests);
        let stored = Tree::stored(at, &Memory::new());
        assert_eq!(shelf.contents(&stored), shelf.contents(&snapshot));
        assert!(!snapshot.is_dirty());
        assert!(tree.is_dirty());
    }
    let (memory, at) = (tree.memory().clone(), shelf.fold(&tree));
    assert_eq!(memory.dirty_bytes(), 0);
    assert_eq!(
        shelf.contents(&Tree::stored(at, &Memory::new())),
        shelf.contents(&tree)
    );
}

#[test]
fn two_folds_at_once_agree() {
    let tree = filled(20_000);
    let shelf = Mutex::new(Shelf::default());
    let fold = || tree.fold(&mut |bytes| Ok::<_, Infallible>(shelf.lock().put(bytes)));
    let (one, two) = thread::scope(|scope| {
        let one = scope.spawn(fold);
        let two = scope.spawn(fold);
        (one.join().expect("no panic"), two.join().expect("no panic"))
    });
    assert_eq!(one, two);
    assert_eq!(tree.memory().dirty_bytes(), 0);
    tree.check(Depth::Digests);
}

#[test]
fn what_was_read_can_be_changed_while_pages_are_held() {
    let mut shelf = Shelf::default();
    let mut tree = filled(5_000);
    shelf.fold(&tree);
    let (done, rounds, shared) = (AtomicBool::new(false), AtomicUsize::new(0), tree.clone());
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                shared.evict(&mut Hand::default(), usize::MAX);
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _end = End(&done);
        let memory = tree.memory().clone();
        for number in 0..200 {
            let key = key(number * 7 % 5_000);
            let _hold = memory.hold();
            shelf.ask(|| tree.get(&key, |_| ()));
            let before = rounds.load(Ordering::Relaxed);
            let has_evicted = || rounds.load(Ordering::Relaxed) > before + 1;
            (0..200)
                .take_while(|_| !has_evicted())
                .for_each(|_| thread::yield_now());
            assert_eq!(tree.insert(&key, b"another"), Ok(true), "what was read is there");
        }
    });
    tree.check(Depth::Digests);
}

#[test]
fn readers_writers_and_an_evictor_share_pages() {
    let mut shelf = Shelf::default();
    let at = shelf.fold(&filled(20_000));
    let pages: BTreeMap<_, _> = {
        let tree = Tree::stored(at, &Memory::new());
        let all = shelf.addresses(&tree);
        all.into_iter()
            .map(|at| (at.digest, shelf.page(&at).to_vec()))
            .collect()
    };
    let supply = |missing: Missing| {
        missing
            .supply(&pages[&missing.at().digest])
            .expect("the page was folded")
    };
    let tree = Tree::stored(at, &Memory::new());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut hand = Hand::default();
            while !done.load(Ordering::Relaxed) {
                tree.evict(&mut hand, 100_000);
            }
        });
        let _end = End(&done);
        let workers = [1u64, 2].map(|seed| {
            let (mut own, tree) = (tree.clone(), &tree);
            scope.spawn(move || {
                let mut numbers = Numbers(seed);
                for round in 0..30_000 {
                    let number = numbers.below(20_000);
                    let found = loop {
                        match tree.get(&key(number), <[u8]>::to_vec) {
                            Ok(found) => break found,
                            Err(missing) => supply(missing),
                        }
                    };
                    assert_eq!(found.as_deref(), Some(key(number).as_slice()));
                    while round % 8 == 0
                        && let Err(missing) = own.insert(&key(number), b"mine")
                    {
                        supply(missing);
                    }
                }
                own.check(Depth::Digests);
                own
            })
        });
        for worker in workers {
            let own = worker.join().expect("no reader or writer panics");
            assert!(own.is_dirty());
        }
    });
    tree.check(Depth::Digests);
    let memory = tree.memory().clone();
    assert_eq!(memory.dirty_bytes(), 0);
    drop(tree);
    assert_eq!(memory.resident_bytes(), 0);
}
