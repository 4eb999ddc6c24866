//! The bytes of pages: kept for ever, equal for equal contents, and no trap for the reader.

use super::shelf::{Numbers, Shelf};
use proptest::prelude::*;
use std::ops::{Bound, ControlFlow};
use tenure_core::tree::{Depth, Memory, Missing, Tree};
use tenure_model::{Address, Digest, PackNumber};

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<_> = digits.chunks(32).map(<[String]>::concat).collect();
    lines.join("\n") + "\n"
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("golden files are hex"))
        .collect()
}

/// A tree of one leaf.
fn small() -> Tree {
    let mut tree = Tree::new();
    for (key, value) in [
        ("inode 7/attr", "mode"),
        ("inode 7/entry", ""),
        ("inode 8", "mode"),
        ("inode 8/xattr", &*"x".repeat(200)),
    ] {
        tree.insert(key.as_bytes(), value.as_bytes())
            .expect("nothing is out of memory");
    }
    tree
}

/// A tree of a branch page over three leaves.
fn branchy() -> Tree {
    let mut tree = Tree::new();
    for number in 0..3u8 {
        tree.insert(&[b'k', b'e', b'y', number, 9, 9], &[number; 4000])
            .expect("nothing is out of memory");
    }
    tree
}

/// Folds with packs numbered by how many pages came before.
fn pages(tree: &Tree) -> Vec<Vec<u8>> {
    let mut pages = Vec::new();
    let folded = tree.fold(&mut |page| {
        pages.push(page.to_vec());
        let pack = PackNumber(pages.len() as u64 * 100);
        Ok::<_, ()>(Address {
            pack,
            digest: Digest::of(page),
        })
    });
    folded.expect("this bucket never fails");
    pages
}

#[test]
fn a_leaf_is_the_golden_bytes() {
    let golden = include_str!("../../golden/leaf.hex");
    assert_eq!(hex(&pages(&small())[0]), golden);
    assert_eq!(
        Shelf::default()
            .contents(&parsed(&bytes(golden)).expect("it is a leaf"))
            .len(),
        4
    );
}

#[test]
fn a_branch_page_is_the_golden_bytes() {
    let golden = include_str!("../../golden/branch.hex");
    let pages = pages(&branchy());
    assert_eq!(hex(&pages[3]), golden);
    let tree = parsed(&bytes(golden)).expect("it is a branch page");
    let missing = tree.get(b"key\x02", |_| ()).expect_err("no leaf is loaded");
    assert_eq!(
        missing.at(),
        Address {
            pack: PackNumber(300),
            digest: Digest::of(&pages[2])
        }
    );
}

/// Returns the tree whose root has these bytes, loaded.
fn parsed(bytes: &[u8]) -> Result<Tree, String> {
    let at = Address {
        pack: PackNumber(1),
        digest: Digest::of(bytes),
    };
    let tree = Tree::stored(at, &Memory::new());
    if let Err(missing) = tree.get(b"", |_| ()) {
        missing.supply(bytes).map_err(|error| error.to_string())?;
    }
    Ok(tree)
}

#[test]
fn equal_contents_are_equal_bytes_whatever_was_before() {
    let expected = pages(&small());
    let mut tree = small();
    for key in ["a", "inode", "inode 7/b", "z", ""] {
        tree.insert(key.as_bytes(), b"for a while")
            .expect("nothing is out of memory");
    }
    tree.remove_range(b"z", b"zz").expect("nothing is out of memory");
    for key in ["inode", "a", "inode 7/b", ""] {
        tree.remove(key.as_bytes()).expect("nothing is out of memory");
    }
    tree.update(b"inode 8", |_| [0; 300])
        .expect("nothing is out of memory");
    tree.update(b"inode 8", |_| b"mode")
        .expect("nothing is out of memory");
    assert_eq!(pages(&tree), expected);
}

/// Uses a tree whose root came from who knows where: it may miss pages, and must not panic.
fn use_it(mut tree: Tree, key: &[u8]) -> Result<(), Missing> {
    tree.check(Depth::Digests);
    tree.floor(key, |_, _| ())?;
    tree.scan(Bound::Excluded(key), Bound::Unbounded, |_, _| {
        ControlFlow::Continue(())
    })?;
    tree.insert(key, b"value")?;
    tree.check(Depth::Shape);
    tree.remove(key)?;
    tree.remove_range(key, &[0xff; 3])?;
    tree.check(Depth::Shape);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_reader_of_broken_pages_refuses_or_gets_a_tree(
        which in 0usize..3,
        seed in any::<u64>(),
        changes in 0usize..4,
        cut in prop::option::of(0usize..5000),
        key in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let pages = [pages(&small()).remove(0), pages(&branchy()).remove(3), vec![]];
        let mut page = pages[which].clone();
        let mut numbers = Numbers(seed);
        if page.is_empty() {
            page = (0..numbers.below(200)).map(|_| numbers.below(20) as u8).collect();
        }
        for _ in 0..changes {
            let at = numbers.below(page.len().max(1));
            match numbers.below(3) {
                0 => page.iter_mut().skip(at).take(1).for_each(|byte| *byte = numbers.below(256) as u8),
                1 => page.insert(at, numbers.below(256) as u8),
                _ => drop(page.drain(at..(at + 1).min(page.len()))),
            }
        }
        page.truncate(cut.unwrap_or(page.len()));
        if let Ok(tree) = parsed(&page) {
            // Refused or not, it must not panic; and what was taken is what would be written.
            let _ = use_it(tree, &key);
        }
    }
}
