//! Which runs of extents are found to be frayed, and which are left alone.

use crate::stored::{KEY, ROOT};
use proptest::collection::vec;
use proptest::prelude::*;
use tenure_core::{Branch, Frayed};
use tenure_model::{Address, Digest, Extent, Ino, Name, NewNode, Op, PackNumber, Piece, Timestamp};

const FILE: Ino = Ino(16);
const TIME: Timestamp = Timestamp { secs: 1, nanos: 0 };
const LEN_MAX: u64 = 2 << 20;
const PAGE: u64 = 4096;

fn change(branch: &mut Branch, op: &Op) {
    branch
        .change(op)
        .expect("everything is in memory, and no rule is against it");
}

/// Returns a file of these extents; each is a length, and whether a hole is before it.
fn file(extents: &[(u64, bool)]) -> Branch {
    let mut branch = Branch::new(KEY, ROOT);
    let node = NewNode::file();
    let create = Op::Create {
        parent: Ino::ROOT,
        name: Name::parse(b"file").expect("it is a name"),
        ino: FILE,
        node,
        time: TIME,
    };
    change(&mut branch, &create);
    let mut offset = 0;
    for (number, (len, is_after_hole)) in extents.iter().enumerate() {
        offset += u64::from(*is_after_hole) * PAGE;
        let at = Address {
            pack: PackNumber(1),
            digest: Digest::of(&number.to_le_bytes()),
        };
        let extent = Extent::Chunk {
            at,
            start: 0,
            len: *len as u32,
        };
        let write = Op::Write {
            ino: FILE,
            pieces: vec![Piece { offset, extent }],
            size: 0,
            time: None,
        };
        change(&mut branch, &write);
        offset += len;
    }
    branch
}

/// Returns all frayed runs of the file.
fn all(branch: &Branch, len_max: u64) -> Vec<Frayed> {
    let (mut from, end) = (0, 1 << 40);
    let mut found = Vec::new();
    while from < end {
        let search = branch
            .frayed(FILE, (from, end), len_max)
            .expect("it is in memory");
        assert!(search.next > from, "a search goes on");
        from = search.next;
        found.extend(search.found);
    }
    found
}

fn spans(found: &[Frayed]) -> Vec<(u64, u64, usize)> {
    let span = |run: &Frayed| (run.offset(), run.end(), run.pieces.len());
    found.iter().map(span).collect()
}

#[test]
fn pages_beside_each_other_are_frayed() {
    let branch = file(&[(PAGE, false); 100]);
    assert_eq!(spans(&all(&branch, LEN_MAX)), [(0, 100 * PAGE, 100)]);
}

#[test]
fn a_hole_and_a_long_extent_end_a_run() {
    let mut extents = vec![(PAGE, false); 30];
    extents[10] = (PAGE, true);
    extents[20] = (200 << 10, false);
    let found = spans(&all(&file(&extents), LEN_MAX));
    let second = 11 * PAGE;
    let third = second + 10 * PAGE + (200 << 10);
    assert_eq!(
        found,
        [
            (0, 10 * PAGE, 10),
            (second, second + 10 * PAGE, 10),
            (third, third + 9 * PAGE, 9)
        ]
    );
}

#[test]
fn few_extents_and_extents_of_some_length_are_left_alone() {
    assert_eq!(all(&file(&[(PAGE, false); 7]), LEN_MAX), []);
    assert_eq!(all(&file(&[(20 << 10, false); 100]), LEN_MAX), []);
    assert_eq!(all(&file(&[(1 << 20, false); 100]), LEN_MAX), []);
}

#[test]
fn a_run_is_no_longer_than_asked_and_says_that_it_goes_on() {
    let branch = file(&[(PAGE, false); 100]);
    let found = all(&branch, 32 * PAGE);
    assert_eq!(
        spans(&found),
        [(0, 32, 32), (32, 64, 32), (64, 96, 32)].map(|(from, to, count)| (from * PAGE, to * PAGE, count))
    );
    assert!(found[0].goes_on && found[1].goes_on);
    assert!(!all(&branch, LEN_MAX)[0].goes_on);
}

#[test]
fn longer_extents_among_short_ones_are_taken_along_and_those_at_the_ends_are_not() {
    let mut extents = vec![(PAGE, false); 40];
    extents.insert(20, (100 << 10, false));
    extents.extend([(100 << 10, false); 3]);
    extents.splice(..0, [(100 << 10, false); 3]);
    let from = 300 << 10;
    assert_eq!(
        spans(&all(&file(&extents), LEN_MAX)),
        [(from, from + 40 * PAGE + (100 << 10), 41)]
    );
}

#[test]
fn a_search_is_bounded_and_the_next_one_goes_on_from_there() {
    let mut extents = vec![(20 << 10, false); 6000];
    extents.extend([(PAGE, false); 10]);
    let branch = file(&extents);
    let first = branch
        .frayed(FILE, (0, 1 << 40), LEN_MAX)
        .expect("it is in memory");
    assert!(first.found.is_none() && first.next < 6000 * (20 << 10));
    let behind = 6000 * (20 << 10);
    assert_eq!(spans(&all(&branch, LEN_MAX)), [(behind, behind + 10 * PAGE, 10)]);
}

proptest! {
    #[test]
    fn a_run_has_no_gap_is_short_on_average_and_is_what_the_file_holds(
        extents in vec((1_u64..200_000, prop::bool::weighted(0.1)), 0..200),
        small in vec(prop::bool::weighted(0.8), 200),
        len_max in 1_u64..1_000_000,
    ) {
        let mut extents = extents;
        for ((len, _), is_small) in extents.iter_mut().zip(small) {
            *len = if is_small { *len % 9000 + 1 } else { *len };
        }
        let branch = file(&extents);
        let mut last = 0;
        for run in all(&branch, len_max) {
            prop_assert!(run.offset() >= last);
            last = run.end();
            let len = run.end() - run.offset();
            prop_assert!(run.pieces.windows(2).all(|pair| pair[0].end() == pair[1].offset));
            prop_assert!(run.pieces.len() >= 8 && len <= run.pieces.len() as u64 * (16 << 10));
            prop_assert!(len <= len_max);
            let held = branch.pieces(FILE, run.offset(), run.end()).expect("it is in memory");
            prop_assert_eq!(held, run.pieces);
        }
    }
}
