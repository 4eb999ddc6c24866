//! The records of a branch, as each version has written them: kept for ever, like the bytes of the pages that hold them.

use crate::diff::differences;
use crate::faults::healthy;
use crate::stored::{KEY, Pages};
use std::fmt::Write;
use tenure_core::{Branch, Tree};
use tenure_model::{AttrChange, Ino, Op, Timestamp};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string takes everything");
        hex
    })
}

#[test]
fn the_records_of_a_branch_are_the_golden_ones() {
    let (records, _) = healthy();
    let lines = records
        .iter()
        .map(|(key, value)| format!("{} {}\n", hex(key), hex(value)));
    let golden = include_str!("../golden/records_2.hex");
    assert_eq!(lines.collect::<String>(), golden);
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// The first version noted of no file in which directory it is.
#[test]
fn a_branch_of_the_first_version_is_whole_and_its_files_are_found() {
    let (_, totals) = healthy();
    let mut tree = Tree::new();
    for line in include_str!("../golden/records.hex").lines() {
        let (key, value) = line.split_once(' ').expect("a key and a value");
        tree.insert(&bytes(key), &bytes(value))
            .expect("a new tree is in memory");
    }
    let (before, pages) = (Branch::stored(KEY, tree, totals), Pages::default());
    pages.check(&before);
    let mut after = before.clone();
    let change = AttrChange {
        mode: Some(0o751),
        ..AttrChange::default()
    };
    let time = Timestamp { secs: 50, nanos: 0 };
    for ino in [Ino(17), Ino(20)] {
        let op = Op::SetAttr { ino, change, time };
        pages.change(&mut after, &op).expect("no rule is against it");
    }
    let found = differences(&pages, &before, &after, b"");
    let mut paths: Vec<_> = found.iter().map(|one| &*one.path).collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [&b"directory/file"[..], b"directory/inner/again", b"linked"]
    );
}
