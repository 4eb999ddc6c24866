//! Bytes that nobody would write: nothing makes it panic, and what comes out is still sound.

use proptest::collection::vec;
use proptest::prelude::*;
use tenure_merge::{Attributes, Driver, Outcome, choose, merge};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// What the formats are made of, in any order.
    #[test]
    fn any_bytes_are_merged_or_a_conflict(base in soup(), ours in soup(), theirs in soup()) {
        for driver in Driver::ALL {
            let _ = merge(driver, Some(&base), &ours, &theirs);
            let _ = merge(driver, None, &ours, &theirs);
        }
    }

    /// Valid files of which some bytes are others.
    #[test]
    fn damaged_files_are_merged_or_a_conflict(file in 0..FILES.len(), ours in damage(), theirs in damage()) {
        let (driver, base) = FILES[file];
        let [ours, theirs] = [ours, theirs].map(|damage| damaged(base, &damage));
        if let Outcome::Merged(merged) = merge(driver, Some(base.as_bytes()), &ours, &theirs) {
            // What came of it is a base like any other.
            prop_assert_eq!(
                merge(driver, Some(&merged.content), &merged.content, &ours),
                merge(driver, Some(&merged.content), &ours, &ours)
            );
        }
    }

    #[test]
    fn any_attributes_are_read(bytes in vec(any::<u8>(), 0..200), rules in "[a/*?\\[\\]!^:\\-\\\\ \"=mergtx\n#]{0,200}", path in "[a/b.]{0,20}") {
        for bytes in [&bytes, rules.as_bytes()] {
            let mut attributes = Attributes::parse(bytes);
            attributes.add(b"a/b", bytes);
            choose(path.as_bytes(), &attributes, &[b""]);
        }
    }
}

const FILES: &[(Driver, &str)] = &[
    (
        Driver::Json,
        "{\n  \"a\": [1, 2, {\"b\": null}], // c\n  \"d\": {\"e\": \"\\u00e9\\n\"},\n}\n",
    ),
    (
        Driver::Toml,
        "a = 1\n[b.c]\nd = [1, 2] # e\n[[f]]\nname = \"\"\"\ng\"\"\"\n[[f]]\nh = {i = 2020-01-01 10:00:00}\n",
    ),
    (
        Driver::Yaml,
        "# a\nb:\n  - c: &d 1\n    e: |\n      f\n      g\n\n  - [h, *d]\ni: {j: \"k\"}\nl:\n- m\n-\n  - n\no: >-\n  p\n",
    ),
];

/// Puts bytes in place of others.
fn damaged(text: &str, damage: &[(usize, usize, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for (at, len, put) in damage {
        let at = at % (bytes.len() + 1);
        let end = (at + len).min(bytes.len());
        bytes.splice(at..end, put.iter().copied());
    }
    bytes
}

fn damage() -> impl Strategy<Value = Vec<(usize, usize, Vec<u8>)>> {
    vec((any::<usize>(), 0..8_usize, soup_of(3)), 1..4)
}

fn soup() -> impl Strategy<Value = Vec<u8>> {
    soup_of(40)
}

fn soup_of(len: usize) -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        8 => prop::sample::select(vec![
            "{", "}", "[", "]", "[[", "]]", ":", ",", "=", "\"", "'", "\"\"\"", "\\", "\n", "\r\n", "\r", " ", "  ", "\t", "- ", "? ", "#",
            "//", "/*", "*/", "&a ", "*a", "!t ", "|", ">", "---\n", "...\n", "%YAML 1.2\n", "a", "b", "a: ", "\"a\": ", "a = ", "1", "-1.5e3",
            "null", "\\u00", "\\ud800", "\u{e9}", "\u{feff}", "\u{2028}", "~", "<<: *a\n", "@", "`",
        ]).prop_map(|word| word.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 1..4),
    ];
    vec(word, 0..len).prop_map(|words| words.concat())
}
