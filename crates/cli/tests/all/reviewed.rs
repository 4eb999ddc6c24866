//! Branches that wait for a review by `tenure review`, over real mounts, and a branch that changes in no other way.

use crate::home::{Home, sync, text};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn read(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn json(home: &Home, arguments: &[&str]) -> Value {
    serde_json::from_str(&home.done(&[arguments, &["--json"]].concat())).expect("it is JSON")
}

#[test]
fn what_agents_have_changed_is_looked_at_and_accepted_by_path_or_rejected() {
    let Some(home) = Home::new() else { return };
    let main = home.mount("work", "main", &["--create"]);
    fs::create_dir(main.join("src")).expect("there is room");
    fs::write(main.join("src/lib"), "one\ntwo\n").expect("there is room");
    sync(&main);
    home.done(&["unmount", text(&main)]);
    home.done(&["branch", "protect", "work", "main"]);
    let refused = home.refused(&["mount", "work", text(&main)]);
    assert!(refused.contains("--staged"), "{refused}");
    for name in ["fix", "bad"] {
        home.done(&["fork", "work", name, "--staged"]);
        let dir = home.mount(&format!("work@{name}"), name, &[]);
        fs::write(dir.join("src/lib"), format!("{name}\ntwo\n")).expect("there is room");
        fs::create_dir_all(dir.join("docs/deep")).expect("there is room");
        fs::write(dir.join("docs/deep/new"), name).expect("there is room");
        home.done(&["unmount", text(&dir)]);
    }
    let listed = json(&home, &["review", "list", "work"]);
    let branches: Vec<_> = listed
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| &one["branch"])
        .collect();
    assert_eq!(branches, ["bad", "fix"]);
    let shown = home.done(&["review", "show", "work@fix"]);
    for part in [
        "taken  src/lib",
        "taken  docs/deep/new",
        "-one\n+fix",
        "staged by",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let refused = home.refused(&["merge", "work@fix", "main"]);
    assert!(refused.contains("--staged"), "{refused}");
    let accepted = json(&home, &["review", "accept", "work@fix", "docs/deep"]);
    assert_eq!(
        (&accepted["done"], &accepted["deleted"]),
        (&true.into(), &false.into()),
        "{accepted}"
    );
    assert_eq!(accepted["left"], serde_json::json!(["src/lib"]), "{accepted}");
    let look = home.mount("work", "main", &["--read-only"]);
    assert_eq!(
        (
            read(&look, "src/lib").as_str(),
            read(&look, "docs/deep/new").as_str()
        ),
        ("one\ntwo\n", "fix")
    );
    home.done(&["unmount", text(&look)]);
    home.done(&["review", "accept", "work@fix"]);
    home.done(&["review", "reject", "work@bad"]);
    assert_eq!(json(&home, &["review", "list", "work"]), serde_json::json!([]));
    home.done(&["branch", "unprotect", "work", "main"]);
    let main = home.mount("work", "main", &[]);
    assert_eq!(read(&main, "src/lib"), "fix\ntwo\n");
    assert_eq!(read(&main, "docs/deep/new"), "fix");
}
