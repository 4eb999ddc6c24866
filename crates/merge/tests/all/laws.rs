//! What holds of every merge, whatever is merged.

use proptest::collection::vec;
use proptest::prelude::*;
use tenure_merge::{Driver, Outcome, merge};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_one_side_left_becomes_what_the_other_has(base in text(), other in text()) {
        for driver in Driver::ALL {
            prop_assert_eq!(content(driver, &base, &base, &other), Some(other.clone()));
            prop_assert_eq!(content(driver, &base, &other, &base), Some(other.clone()));
            prop_assert_eq!(content(driver, &base, &other, &other), Some(other.clone()));
        }
    }

    /// Of each line, what a side has more of than the base is there.
    #[test]
    fn no_line_that_one_side_added_is_lost(base in lines(), ours in edits(), theirs in edits()) {
        let ours = edited(&base, &ours, "o");
        let theirs = edited(&base, &theirs, "t");
        let base = base.concat().into_bytes();
        for driver in [Driver::Text, Driver::Union] {
            let (ours, theirs) = (ours.concat().into_bytes(), theirs.concat().into_bytes());
            if let Some(merged) = content(driver, &base, &ours, &theirs) {
                let is_added = |line: &&[u8]| line.starts_with(b"o") || line.starts_with(b"t");
                let added = |text: &[u8]| {
                    let mut lines: Vec<Vec<u8>> = text.split(|byte| *byte == b'\n').filter(is_added).map(<[u8]>::to_vec).collect();
                    lines.sort();
                    lines
                };
                let mut wanted = [added(&ours), added(&theirs)].concat();
                wanted.sort();
                prop_assert_eq!(added(&merged), wanted);
            }
        }
    }

    #[test]
    fn a_union_has_the_same_lines_from_either_side(base in lines(), ours in lines(), theirs in lines()) {
        let base = base.concat();
        let [ours, theirs] = [ours, theirs].map(|added| format!("{base}{}", added.concat()).into_bytes());
        let sorted = |text: Option<Vec<u8>>| {
            let text = text.expect("appended lines are united");
            let mut lines: Vec<Vec<u8>> = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            lines.sort();
            lines
        };
        prop_assert_eq!(
            sorted(content(Driver::Union, base.as_bytes(), &ours, &theirs)),
            sorted(content(Driver::Union, base.as_bytes(), &theirs, &ours))
        );
    }

    /// Whether text is merged does not depend on whose side is whose; nor what comes of it.
    #[test]
    fn text_is_merged_the_same_from_either_side(base in lines(), ours in edits(), theirs in edits()) {
        let ours = edited(&base, &ours, "o").concat().into_bytes();
        let theirs = edited(&base, &theirs, "t").concat().into_bytes();
        let base = base.concat().into_bytes();
        prop_assert_eq!(content(Driver::Text, &base, &ours, &theirs), content(Driver::Text, &base, &theirs, &ours));
    }
}

fn content(driver: Driver, base: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    match merge(driver, Some(base), ours, theirs) {
        Outcome::Merged(merged) => Some(merged.content),
        Outcome::Conflict(_) => None,
    }
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..40),
        "(a: 1\n|b:\n  - c\n|\\{\"a\": \\[1\\]\\}\n?|x = 1\n|\\[t\\]\n|# c\n|\n){0,4}"
            .prop_map(String::into_bytes),
    ]
}

/// Lines of few kinds, so that many are the same.
fn lines() -> impl Strategy<Value = Vec<String>> {
    vec("[a-e]\n", 0..12)
}

/// Places and what is done there: some lines removed, some new ones put.
fn edits() -> impl Strategy<Value = Vec<(usize, usize, usize)>> {
    vec((0..12_usize, 0..3_usize, 0..3_usize), 0..3)
}

fn edited(base: &[String], edits: &[(usize, usize, usize)], mark: &str) -> Vec<String> {
    let mut lines = base.to_vec();
    for (number, (at, removed, added)) in edits.iter().enumerate() {
        let at = at % (lines.len() + 1);
        let end = (at + removed).min(lines.len());
        // What was added before is not taken away again.
        if lines[at..end].iter().all(|line| !line.starts_with(mark)) {
            lines.splice(at..end, (0..*added).map(|line| format!("{mark}{number}{line}\n")));
        }
    }
    lines
}
