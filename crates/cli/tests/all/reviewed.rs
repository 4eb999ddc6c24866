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

#[test]
fn what_is_said_of_branches_is_shown_wherever_they_are() {
    let Some(home) = Home::new() else { return };
    let main = home.mount("work", "main", &["--create"]);
    fs::write(main.join("file"), "one\n").expect("there is room");
    home.done(&["unmount", text(&main)]);
    home.done(&["branch", "protect", "work", "main"]);
    home.done(&["checkpoint", "work", "point"]);
    let made = json(&home, &["fork", "work@point", "fix", "--staged"]);
    assert_eq!(made["staged_for"], "main", "what it is a checkpoint of: {made}");
    let of = |all: &Value, name: &str| {
        let found = all
            .as_array()
            .into_iter()
            .flatten()
            .find(|one| one["name"] == name);
        let found = found.unwrap_or_else(|| panic!("{name}: {all}"));
        (found["protected"].clone(), found["staged_for"].clone())
    };
    let listed = json(&home, &["branch", "list", "work"]);
    assert_eq!(of(&listed, "main"), (true.into(), Value::Null));
    assert_eq!(of(&listed, "fix"), (false.into(), "main".into()));
    assert_eq!(of(&listed, "point"), (false.into(), Value::Null));
    let shown = json(&home, &["branch", "show", "work", "main"]);
    assert_eq!(shown["protected"], true, "{shown}");
    let tree = json(&home, &["branch", "tree", "work"]);
    assert_eq!(tree[0]["protected"], true, "{tree}");
    for (words, expected) in [
        (&["branch", "list", "work"][..], "waits for a review for main"),
        (&["branch", "list", "work"], "protected"),
        (
            &["branch", "show", "work", "fix"],
            "waits for a review for main (by ",
        ),
        (&["branch", "tree", "work"], "main, protected"),
    ] {
        let said = home.done(words);
        assert!(said.contains(expected), "{words:?}: {said}");
    }
    let fix = home.mount("work@fix", "fix", &[]);
    let status = json(&home, &["status", text(&fix)]);
    assert_eq!(
        (&status["staged_for"], &status["protected"]),
        (&"main".into(), &false.into()),
        "{status}"
    );
    assert!(
        home.done(&["status", text(&fix)])
            .contains("tenure review show work@fix")
    );
    let look = home.mount("work", "look", &["--read-only"]);
    assert_eq!(json(&home, &["status", text(&look)])["protected"], true);
    home.done(&["unmount", text(&look)]);
    home.done(&["unmount", text(&fix)]);
    for words in [
        &["rename", "work", "main", "old"][..],
        &["stage", "work", "main", "--into", "fix"],
    ] {
        let refused = home.refused(&[&["branch"], words].concat());
        assert!(refused.contains("main is protected"), "{refused}");
    }
    home.done(&["branch", "unstage", "work", "fix"]);
    assert_eq!(json(&home, &["review", "list", "work"]), serde_json::json!([]));
}

#[test]
fn what_is_accepted_and_kept_waits_for_what_comes_later() {
    let Some(home) = Home::new() else { return };
    let main = home.mount("work", "main", &["--create"]);
    fs::write(main.join("file"), "one\n").expect("there is room");
    sync(&main);
    home.done(&["fork", "work", "fix", "--staged"]);
    let fix = home.mount("work@fix", "fix", &[]);
    let listed = |more: &[&str]| {
        let all = json(&home, &[&["review", "list", "work"], more].concat());
        let named = all
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| one["files"].clone());
        named.collect::<Vec<_>>()
    };
    assert!(listed(&[]).is_empty(), "nothing was changed yet");
    assert_eq!(listed(&["--all"]), [0]);
    fs::write(fix.join("file"), "two\n").expect("there is room");
    sync(&fix);
    assert_eq!(listed(&[]), [1]);
    let told = json(&home, &["review", "accept", "work@fix", "--keep"]);
    assert_eq!(
        (&told["done"], &told["deleted"]),
        (&true.into(), &false.into()),
        "{told}"
    );
    assert_eq!(read(&main, "file"), "two\n", "the branch is mounted");
    assert!(listed(&[]).is_empty());
    fs::write(fix.join("file"), "three\n").expect("there is room");
    sync(&fix);
    assert_eq!(listed(&[]), [1]);
    // One that somebody works in stays, too.
    let told = json(&home, &["review", "accept", "work@fix"]);
    assert_eq!(
        (&told["done"], &told["deleted"]),
        (&true.into(), &false.into()),
        "{told}"
    );
    assert_eq!(read(&main, "file"), "three\n");
    home.done(&["unmount", text(&fix)]);
    let told = json(&home, &["review", "accept", "work@fix"]);
    assert_eq!(
        (&told["done"], &told["deleted"]),
        (&false.into(), &true.into()),
        "{told}"
    );
    home.done(&["unmount", text(&main)]);
}
