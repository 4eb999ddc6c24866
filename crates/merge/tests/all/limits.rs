//! What is too much is refused, and told.

use tenure_merge::{Conflict, Driver, Merged, Outcome, Why, merge};

#[test]
fn text_of_more_than_16_mib_is_a_conflict() {
    let base = vec![b'a'; (16 << 20) + 1];
    let [mut ours, mut theirs] = [base.clone(), base.clone()];
    ours[0] = b'o';
    theirs[1] = b't';
    assert_eq!(
        why(merge(Driver::Text, Some(&base), &ours, &theirs)),
        Why::TooLong(16 << 20)
    );
    // But what only one side changed is taken.
    assert_eq!(content(merge(Driver::Text, Some(&base), &ours, &base)), ours);
}

#[test]
fn text_of_more_than_a_million_lines_is_a_conflict() {
    let base = vec![b'\n'; (1 << 20) + 1];
    let [mut ours, mut theirs] = [base.clone(), base.clone()];
    ours[0] = b'o';
    theirs[9] = b't';
    assert_eq!(
        why(merge(Driver::Text, Some(&base), &ours, &theirs)),
        Why::TooManyLines(1 << 20)
    );
}

/// Lines of few kinds in any order, so that no line says where it belongs.
#[test]
fn text_with_too_little_in_common_is_a_conflict() {
    let mut state = 1_u32;
    let mut lines = || {
        let mut line = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if state >> 31 == 0 { "a\n" } else { "b\n" }
        };
        (0..200_000).map(&mut line).collect::<String>()
    };
    let [base, ours, theirs] = [lines(), lines(), lines()];
    let outcome = merge(
        Driver::Text,
        Some(base.as_bytes()),
        ours.as_bytes(),
        theirs.as_bytes(),
    );
    assert_eq!(why(outcome), Why::TooDifferent);
}

#[test]
fn ten_mib_of_lines_are_merged() {
    let base: String = (0..300_000)
        .map(|at| format!("line {at} of a file that is long\n"))
        .collect();
    let ours = base
        .replace("line 7 ", "LINE 7 ")
        .replace("line 150000 ", "LINE 150000 ");
    let theirs = base.replace("line 70000 ", "LINE 70000 ") + "more\n";
    let expected = ours.replace("line 70000 ", "LINE 70000 ") + "more\n";
    let merged = content(merge(
        Driver::Text,
        Some(base.as_bytes()),
        ours.as_bytes(),
        theirs.as_bytes(),
    ));
    assert!(merged == expected.as_bytes());
}

#[test]
fn structure_of_more_than_4_mib_is_lines() {
    let filler = "x".repeat(4 << 20);
    let base = format!("{{\n\"a\": 1,\n\"f\": \"{filler}\",\n\"b\": 1\n}}\n");
    let ours = base.replace("\"a\": 1", "\"a\": 2");
    let theirs = base.replace("\"b\": 1", "\"b\": 2");
    let Outcome::Merged(Merged { by, unfit, .. }) = merge(
        Driver::Json,
        Some(base.as_bytes()),
        ours.as_bytes(),
        theirs.as_bytes(),
    ) else {
        panic!("lines apart are merged");
    };
    assert_eq!(
        (by, unfit.map(|unfit| unfit.to_string()).as_deref()),
        (Driver::Text, Some("not by json: a side has more than 4 MiB"))
    );
}

/// Writes a value so deep in others.
type Write = dyn Fn(usize, &str) -> String;

#[test]
fn values_that_are_deep_in_values_are_lines() {
    let json = |depth: usize, value: &str| format!("{}{value}{}", "[\n".repeat(depth), "\n]".repeat(depth));
    let toml =
        |depth: usize, value: &str| format!("a = {}{value}{}\n", "[\n".repeat(depth), "\n]".repeat(depth));
    let yaml = |depth: usize, value: &str| {
        let keys: String = (0..depth).map(|at| format!("{}a:\n", " ".repeat(at))).collect();
        format!("{keys}{}b: {value}\n", " ".repeat(depth))
    };
    let flow = |depth: usize, value: &str| format!("a: {}{value}{}\n", "[".repeat(depth), "]".repeat(depth));
    let write: [(Driver, &Write); 4] = [
        (Driver::Json, &json),
        (Driver::Toml, &toml),
        (Driver::Yaml, &yaml),
        (Driver::Yaml, &flow),
    ];
    for (driver, write) in write {
        for depth in [120, 2000] {
            let [base, ours, theirs] = ["1", "2", "3"].map(|value| write(depth, value));
            let Outcome::Conflict(Conflict { by, unfit, .. }) =
                merge(driver, Some(base.as_bytes()), ours.as_bytes(), theirs.as_bytes())
            else {
                panic!("both changed the same line");
            };
            assert_eq!(
                (by, unfit.map(|unfit| unfit.driver)),
                (Driver::Text, Some(driver))
            );
        }
    }
}

fn why(outcome: Outcome) -> Why {
    match outcome {
        Outcome::Conflict(conflict) => conflict.why,
        Outcome::Merged(merged) => panic!("it was merged by {}", merged.by),
    }
}

fn content(outcome: Outcome) -> Vec<u8> {
    match outcome {
        Outcome::Merged(merged) => merged.content,
        Outcome::Conflict(conflict) => panic!("{}", conflict.why),
    }
}
