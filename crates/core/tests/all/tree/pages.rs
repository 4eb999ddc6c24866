//! How full pages are, which are written, and which need not be loaded.

use super::shelf::{Numbers, Shelf};
use std::ops::{Bound, ControlFlow};
use tenure_core::tree::{Depth, Hand, Memory, Tree};

fn key(number: u32) -> Vec<u8> {
    [b"\0\0\0\0key".as_slice(), &number.to_be_bytes(), b"some more"].concat()
}

fn filled(count: u32) -> Tree {
    let mut tree = Tree::new();
    for number in 0..count {
        tree.insert(&key(number), &[number as u8; 60])
            .expect("nothing is out of memory");
    }
    tree
}

/// Returns how many pages a tree has, and the bytes in them.
fn written(tree: &Tree) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    let mut shelf = Shelf::default();
    let folded = tree.fold(&mut |page| {
        count += 1;
        bytes += page.len();
        Ok::<_, ()>(shelf.put(page))
    });
    folded.expect("this bucket never fails");
    (count, bytes)
}

#[test]
fn keys_that_come_in_order_fill_their_pages() {
    let tree = filled(50_000);
    let raw = 50_000 * (key(0).len() + 60);
    assert!(
        tree.memory().resident_bytes() < raw / 10 * 12,
        "{} of {raw}",
        tree.memory().resident_bytes()
    );
    let (count, bytes) = written(&tree);
    assert!(bytes / count > 3_800, "{bytes} bytes in {count} pages");
}

#[test]
fn what_is_removed_takes_its_pages_along() {
    let mut tree = filled(50_000);
    let mut numbers: Vec<u32> = (0..50_000).collect();
    let mut random = Numbers(5);
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, random.below(at + 1));
    }
    for number in numbers.drain(1_000..) {
        assert_eq!(tree.remove(&key(number)), Ok(true));
    }
    tree.check(Depth::Shape);
    let (count, _) = written(&tree.clone());
    assert!(count < 100, "{count} pages for 1,000 entries");
    for number in numbers {
        assert_eq!(tree.remove(&key(number)), Ok(true));
    }
    tree.check(Depth::Shape);
    assert_eq!(written(&tree), (1, 2));
}

#[test]
fn a_removed_range_is_not_loaded() {
    let mut shelf = Shelf::default();
    let at = shelf.fold(&filled(50_000));
    let mut tree = Tree::stored(at, &Memory::new());
    shelf.ask(|| tree.remove_range(&key(100), &key(49_900)));
    let loads = shelf.loads();
    assert!(loads <= 6, "{loads} pages were loaded");
    tree.check(Depth::Digests);
    assert_eq!(shelf.contents(&tree).len(), 200);
    shelf.ask(|| tree.remove_range(&[], &[0xff]));
    tree.check(Depth::Digests);
    assert_eq!(shelf.contents(&tree).len(), 0);
    assert_eq!(written(&tree), (1, 2));
}

#[test]
fn a_removed_range_may_empty_the_pages_at_both_its_ends() {
    for value_len in [60, 1000, 3000] {
        let mut tree = Tree::new();
        for number in 0..2_000 {
            tree.insert(&key(number), &vec![1; value_len])
                .expect("nothing is out of memory");
        }
        for (from, to) in [
            (700, 1_300),
            (1, 699),
            (1_301, 1_999),
            (0, 1),
            (699, 701),
            (1_300, 5_000),
        ] {
            assert_eq!(tree.remove_range(&key(from), &key(to)), Ok(()));
            tree.check(Depth::Shape);
        }
        assert_eq!(written(&tree), (1, 2), "nothing is left");
    }
}

#[test]
fn an_empty_tree_is_evicted_and_loaded_like_any_other() {
    let mut shelf = Shelf::default();
    let mut tree = filled(30);
    tree.remove_range(b"", b"\xff").expect("nothing is out of memory");
    shelf.fold(&tree);
    assert!(tree.evict(&mut Hand::default(), usize::MAX) > 0);
    assert!(!shelf.ask(|| tree.insert(b"key", b"value")));
    assert_eq!(shelf.contents(&tree).len(), 1);
}

#[test]
fn records_that_grow_in_several_places_fill_their_pages_too() {
    let (mut tree, mut random) = (Tree::new(), Numbers(1));
    for directory in 0..300u64 {
        let first = directory * 101;
        for inode in first..first + 101 {
            let inode_key = [&[0], inode.to_be_bytes().as_slice(), &[0]].concat();
            let cookie = (random.below(1 << 31) as u64).to_be_bytes();
            let entry_key = [&[0], first.to_be_bytes().as_slice(), &[3], &cookie].concat();
            let content_key = [&[1], inode.to_be_bytes().as_slice(), &[0; 8]].concat();
            for (key, len) in [(inode_key, 40), (entry_key, 22), (content_key, 40)] {
                tree.insert(&key, &vec![1; len])
                    .expect("nothing is out of memory");
            }
        }
    }
    tree.check(Depth::Shape);
    let (count, bytes) = written(&tree);
    assert!(bytes / count > 3_000, "{bytes} bytes in {count} pages");
}

#[test]
fn a_small_change_writes_only_the_way_to_it() {
    let mut shelf = Shelf::default();
    let mut tree = filled(50_000);
    shelf.fold(&tree);
    tree.insert(&key(25_000), b"another")
        .expect("nothing is out of memory");
    let (count, bytes) = written(&tree);
    assert!(count <= 4 && bytes <= 4 * 4096, "{bytes} bytes in {count} pages");
}

#[test]
fn the_same_value_again_changes_nothing() {
    let mut shelf = Shelf::default();
    let mut tree = filled(1_000);
    let at = shelf.fold(&tree);
    assert_eq!(tree.insert(&key(500), &[500u32 as u8; 60]), Ok(true));
    assert_eq!(tree.update(&key(501), <[u8]>::to_vec), Ok(true));
    assert_eq!(tree.update(b"nowhere", <[u8]>::to_vec), Ok(false));
    assert_eq!(tree.remove(b"nowhere"), Ok(false));
    assert_eq!(tree.remove_range(b"nowhere", b"nowhere else"), Ok(()));
    assert_eq!(tree.address(), Some(at));
}

#[test]
fn a_fold_that_fails_can_be_done_again() {
    let tree = filled(10_000);
    let mut shelf = Shelf::default();
    let (mut count, mut tries) = (0, 0);
    let at = loop {
        let mut room = 7;
        tries += 1;
        let folded = tree.fold(&mut |page| {
            if room == 0 {
                return Err("no space");
            }
            room -= 1;
            count += 1;
            Ok(shelf.put(page))
        });
        tree.check(Depth::Digests);
        match folded {
            Ok(at) => break at,
            Err(error) => assert_eq!(error, "no space"),
        }
    };
    assert!(tries > 10);
    assert_eq!(count, shelf.len(), "no page is written twice");
    assert_eq!(
        shelf.contents(&Tree::stored(at, &Memory::new())),
        shelf.contents(&tree)
    );
}

#[test]
fn a_visitor_sees_every_page_once_and_needs_no_leaf() {
    let mut shelf = Shelf::default();
    let at = shelf.fold(&filled(20_000));
    let tree = Tree::stored(at, &Memory::new());
    let seen = shelf.addresses(&tree);
    assert_eq!(seen.len(), shelf.len());
    assert_eq!(seen.last(), Some(&at));
    let loads = shelf.loads();
    assert!(loads < 10, "{loads} of {} pages were loaded", seen.len());
}

#[test]
fn large_values_have_pages_of_their_own() {
    let mut tree = filled(100);
    for number in (0..100).step_by(10) {
        tree.insert(&key(number), &[1; 70_000])
            .expect("nothing is out of memory");
    }
    tree.check(Depth::Shape);
    for number in (0..100).step_by(10) {
        assert_eq!(tree.get(&key(number), <[u8]>::len), Ok(Some(70_000)));
    }
    let (count, bytes) = written(&tree);
    assert!(count <= 30 && bytes < 720_000, "{bytes} bytes in {count} pages");
}

#[test]
fn keys_have_no_longest_length() {
    let mut tree = Tree::new();
    for number in 0..200u32 {
        let mut key = vec![9; 9_000 + (number as usize % 3)];
        key.extend_from_slice(&number.to_be_bytes());
        tree.insert(&key, b"value").expect("nothing is out of memory");
        tree.check(Depth::Shape);
    }
    let mut count = 0;
    let scanned = tree.scan(Bound::Unbounded, Bound::Unbounded, |key, _| {
        count += 1;
        assert!(key.len() >= 9_000);
        ControlFlow::Continue(())
    });
    assert_eq!((scanned, count), (Ok(()), 200));
}

#[test]
fn a_missing_page_is_named_and_only_its_own_bytes_are_taken() {
    let mut shelf = Shelf::default();
    let at = shelf.fold(&filled(10));
    let mut tree = Tree::stored(at, &Memory::new());
    let missing = tree.get(b"key", |_| ()).expect_err("nothing is loaded");
    assert_eq!(missing.at(), at);
    let mut bytes = shelf.page(&at).to_vec();
    bytes[20] ^= 1;
    assert!(missing.supply(&bytes).is_err());
    assert!(missing.supply(&[]).is_err());
    assert!(tree.insert(b"key", b"value").is_err());
    bytes[20] ^= 1;
    assert_eq!(missing.supply(&bytes), Ok(()));
    assert_eq!(missing.supply(b"whatever: it is there"), Ok(()));
    assert_eq!(tree.insert(b"key", b"value"), Ok(false));
}
