//! Guards the house: which room may name which, how long a file may be, what no file may hold. It reads manifests and
//! sources, and knows nothing of what they do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

mod promises;

/// Each room and its floor; a room names only rooms on lower floors.
const FLOORS: &[(&str, u8)] = &[
    ("tenure-model", 0),
    ("tenure-core", 1),
    ("tenure-merge", 1),
    ("tenure-store", 1),
    ("tenure-wire", 1),
    ("tenure-journal", 2),
    ("tenure-server", 3),
    ("tenure-client", 3),
    ("tenure-mount", 4),
    ("tenure-gateway", 4),
    ("tenure-cli", 5),
];

/// The glasshouse: it sees every floor, and no room sees it.
const GLASSHOUSE: &str = "tenure-sim";

/// Outside crates that only some rooms may name.
const RESERVED: &[(&str, &[&str])] = &[
    ("anyhow", &["tenure-cli", "tenure-sim"]),
    ("clap", &["tenure-cli", "tenure-sim"]),
    ("comfy-table", &["tenure-cli"]),
    ("indicatif", &["tenure-cli"]),
    ("io-uring", &["tenure-mount"]),
    ("object_store", &["tenure-store"]),
    ("granit-parser", &["tenure-merge"]),
    ("imara-diff", &["tenure-merge"]),
    ("toml", &["tenure-merge"]),
    ("axum", &["tenure-gateway"]),
];

const LINES_MAX: usize = 700;

/// Names that say nothing of what is inside.
const SAYS_NOTHING: &[&str] = &[
    "util", "utils", "common", "helper", "helpers", "misc", "manager", "types", "handler", "handlers",
];

/// Macros that stand for work that is not done, spelled so that this file does not hold them.
const UNDONE: &[&str] = &[
    concat!("to", "do!("),
    concat!("un", "implemented!("),
    concat!("db", "g!("),
    concat!("#[ig", "nore"),
];

#[test]
fn a_room_names_only_rooms_on_lower_floors() {
    let floors: BTreeMap<&str, u8> = FLOORS.iter().copied().collect();
    for room in rooms() {
        if room.name == GLASSHOUSE {
            continue;
        }
        let floor = floors
            .get(room.name.as_str())
            .unwrap_or_else(|| panic!("{} is on no floor", room.name));
        for named in &room.names {
            if !named.crate_name.starts_with("tenure-") {
                continue;
            }
            let below = floors.get(named.crate_name.as_str());
            let below = below.unwrap_or_else(|| panic!("{} names {}", room.name, named.crate_name));
            // Its tests may meet a neighbour of its own floor.
            let is_lower = below < floor || (named.only_in_tests && below == floor);
            assert!(is_lower, "{} is not below {}", named.crate_name, room.name);
        }
    }
}

#[test]
fn core_knows_only_model_and_client_does_not_know_server() {
    let rooms = rooms();
    let names = |room: &str| {
        let room = rooms
            .iter()
            .find(|found| found.name == room)
            .unwrap_or_else(|| panic!("there is no {room}"));
        let own = room
            .names
            .iter()
            .filter(|named| named.crate_name.starts_with("tenure-") && !named.only_in_tests);
        own.map(|named| named.crate_name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(names("tenure-core"), ["tenure-model"]);
    assert!(!names("tenure-client").contains(&"tenure-server"));
}

#[test]
fn some_outside_crates_are_kept_to_the_rooms_that_need_them() {
    for room in rooms() {
        for named in room.names.iter().filter(|named| !named.only_in_tests) {
            let reserved = RESERVED.iter().find(|(outside, _)| *outside == named.crate_name);
            if let Some((outside, may)) = reserved {
                assert!(
                    may.contains(&room.name.as_str()),
                    "{} may not name {outside}",
                    room.name
                );
            }
        }
    }
}

#[test]
fn a_file_is_one_concept_and_says_which() {
    for (path, text) in sources() {
        let shown = path.display();
        let lines = text.lines().count();
        assert!(
            lines <= LINES_MAX,
            "{shown} has {lines} lines, more than {LINES_MAX}"
        );
        assert!(
            text.starts_with("//!"),
            "{shown} does not say what it is: its first line is no `//!`"
        );
        let stem = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        assert!(
            !SAYS_NOTHING.contains(&stem),
            "{shown}: the name says nothing of what is inside"
        );
        assert!(
            stem != "mod",
            "{shown}: a room's own file stands beside its folder"
        );
    }
}

#[test]
fn nothing_is_left_undone() {
    for (path, text) in sources() {
        for undone in UNDONE {
            assert!(!text.contains(undone), "{} holds {undone}", path.display());
        }
    }
}

/// A room and what its manifest names.
struct Room {
    name: String,
    names: Vec<Named>,
}

struct Named {
    crate_name: String,
    only_in_tests: bool,
}

fn rooms() -> Vec<Room> {
    let manifest = root().join("Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
            "--manifest-path",
        ])
        .arg(&manifest)
        .output()
        .expect("cargo can be started");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let text = |value: &Value| value.as_str().expect("a name is a string").to_owned();
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let room = |package: Value| Room {
        name: text(&package["name"]),
        names: list(&package["dependencies"])
            .iter()
            .map(|named| Named {
                crate_name: text(&named["name"]),
                only_in_tests: named["kind"] == "dev",
            })
            .collect(),
    };
    list(&metadata["packages"]).into_iter().map(room).collect()
}

/// Returns every Rust file of every room, and its text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    collect(&root().join("crates"), &mut found);
    assert!(found.len() > 50, "only {} sources were found", found.len());
    found
}

fn collect(directory: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(directory).expect("a folder of sources can be listed") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source is text");
            found.push((path, text));
        }
    }
}

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace is where its rooms are")
}
