//! Room that is given back by `tenure reclaim`, over real mounts.

use crate::home::{Home, sync, text, until};
use serde_json::Value;
use std::fs;

const MIB: usize = 1 << 20;

fn bytes(seed: u8, len: usize) -> Vec<u8> {
    let mut state = u64::from(seed) << 32 | 0x9e37_79b9;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

fn reclaim(home: &Home, more: &[&str]) -> Value {
    let told = home.done(&[&["reclaim", "work", "--json"], more].concat());
    serde_json::from_str(&told).expect("it is JSON")
}

fn number(told: &Value, field: &str) -> u64 {
    told[field].as_u64().expect("it is a number")
}

#[test]
fn what_was_deleted_is_given_back() {
    let Some(home) = Home::new() else { return };
    let dir = home.mount("work", "main", &["--create"]);
    let kept = bytes(1, MIB);
    fs::write(dir.join("kept"), &kept).expect("there is room");
    sync(&dir);
    home.done(&["checkpoint", "work", "one"]);
    home.done(&["du", "work"]);
    fs::write(dir.join("gone"), bytes(2, 4 * MIB)).expect("there is room");
    sync(&dir);
    home.done(&["checkpoint", "work", "two"]);
    fs::remove_file(dir.join("gone")).expect("it is there");
    sync(&dir);
    home.done(&["du", "work"]);
    let told = reclaim(&home, &[]);
    assert!(number(&told, "freed") < 100_000, "a checkpoint needs it: {told}");
    assert_eq!(told["held_by"][0]["name"], "two", "{told}");
    home.done(&["branch", "delete", "work", "two", "--yes"]);
    let dry = reclaim(&home, &["--dry-run"]);
    assert_eq!(dry["dry_run"], true);
    let mut freed = 0;
    until("what the checkpoint had is given back", || {
        freed += number(&reclaim(&home, &[]), "freed");
        freed >= 4 * MIB as u64
    });
    let words = home.done(&["reclaim", "work"]);
    assert!(words.contains("freed") && words.contains("needed"), "{words}");
    assert_eq!(fs::read(dir.join("kept")).expect("it is there"), kept);
    home.done(&["unmount", text(&dir)]);
    let checked = home.done(&["check", "work", "--deep"]);
    assert!(checked.contains("is whole"), "{checked}");
    let dir = home.mount("work", "main", &[]);
    assert_eq!(fs::read(dir.join("kept")).expect("it is there"), kept);
}
