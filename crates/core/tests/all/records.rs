//! The records of a branch, as they were written first: kept for ever, like the bytes of the pages that hold them.

use crate::faults::healthy;
use std::fmt::Write;

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
    let golden = include_str!("../golden/records.hex");
    assert_eq!(lines.collect::<String>(), golden);
}
