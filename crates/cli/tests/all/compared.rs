//! Branches and checkpoints compared by `tenure diff`.

use crate::home::{Home, sync, text};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Changes something of every sort in a mounted fork.
fn work_on(dir: &Path) {
    let at = |name: &str| dir.join(name);
    fs::write(at("src/text"), "one\ntwo and more\nthree\n").expect("there is room");
    fs::write(at("src/saved.new"), "saved\n").expect("there is room");
    fs::rename(at("src/saved.new"), at("src/saved")).expect("it is there");
    fs::write(at("binary"), [0, 1, 2, 4]).expect("there is room");
    fs::set_permissions(at("run"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    fs::rename(at("old"), at("new")).expect("it is there");
    fs::remove_file(at("gone")).expect("it is there");
    symlink("src/text", at("link")).expect("there is room");
    fs::write(at("made"), "without an end").expect("there is room");
    sync(dir);
}

/// Makes a drive with a branch `attempt` on which something was done, and returns where `main` was mounted.
fn made(home: &Home) {
    let main = home.mount("work", "main", &["--create"]);
    let at = |name: &str| main.join(name);
    for folder in ["src", "old"] {
        fs::create_dir(at(folder)).expect("there is room");
    }
    for (name, text) in [
        ("src/text", "one\ntwo\nthree\n"),
        ("src/saved", "before\n"),
        ("run", "#!\n"),
        ("gone", "gone\n"),
        ("old/below", "below\n"),
    ] {
        fs::write(at(name), text).expect("there is room");
    }
    fs::write(at("binary"), [0, 1, 2, 3]).expect("there is room");
    sync(&main);
    home.done(&["fork", "work", "attempt"]);
    let attempt = home.mount("work@attempt", "attempt", &[]);
    work_on(&attempt);
    home.done(&["unmount", text(&attempt)]);
}

#[test]
fn what_an_attempt_has_changed_is_shown_in_every_form() {
    let Some(home) = Home::new() else { return };
    made(&home);
    let diff = |more: &[&str]| home.done(&[&["diff", "work", "work@attempt"], more].concat());
    let all = "\
changed  binary  4 B
diff --git a/binary b/binary
Binary files a/binary and b/binary differ
removed  gone  5 B
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-gone
created  link  symlink to src/text
created  made  14 B
diff --git a/made b/made
new file mode 100644
--- /dev/null
+++ b/made
@@ -0,0 +1 @@
+without an end
\\ No newline at end of file
renamed  old > new
changed  run  mode 644 > 755
diff --git a/run b/run
old mode 100644
new mode 100755
changed  src/saved  7 B > 6 B
diff --git a/src/saved b/src/saved
--- a/src/saved
+++ b/src/saved
@@ -1 +1 @@
-before
+saved
changed  src/text  14 B > 23 B
diff --git a/src/text b/src/text
--- a/src/text
+++ b/src/text
@@ -1,3 +1,3 @@
 one
-two
+two and more
 three
";
    assert_eq!(diff(&[]), all);
    let names = "binary\ngone\nlink\nmade\nnew\nrun\nsrc/saved\nsrc/text\n";
    assert_eq!(diff(&["--name-only"]), names);
    assert_eq!(diff(&["/src/", "--name-only"]), "src/saved\nsrc/text\n");
    assert_eq!(diff(&["old", "--name-only"]), "new\n");
    let stat = diff(&["--stat"]);
    assert!(
        stat.contains("mode 644 > 755") && stat.contains("old > new"),
        "{stat}"
    );
    let told: Value = serde_json::from_str(&diff(&["--json", "src/text"])).expect("it is JSON");
    let one = &told[0];
    assert_eq!(
        (&one["what"], &one["content_differs"], &one["after"]["size"]),
        (&"changed".into(), &true.into(), &23.into())
    );
    assert_eq!(home.done(&["diff", "work@attempt", "work@attempt"]), "");
}

/// What is printed into a pipe is a patch.
#[test]
fn a_difference_can_be_given_to_patch() {
    let Some(home) = Home::new() else { return };
    made(&home);
    let main = home.folder.path().join("main");
    for name in ["a", "c", "run"] {
        fs::write(main.join("src").join(name), format!("this is {name}\n")).expect("there is room");
    }
    sync(&main);
    home.done(&["branch", "delete", "work", "attempt", "--yes"]);
    home.done(&["fork", "work", "attempt"]);
    let attempt = home.mount("work@attempt", "attempt", &[]);
    fs::rename(attempt.join("src/text"), attempt.join("src/text 2")).expect("it is there");
    // One that is renamed and stays as it is, before one that changes where it is.
    fs::rename(attempt.join("src/a"), attempt.join("src/b")).expect("it is there");
    fs::write(attempt.join("src/c"), "changed\n").expect("there is room");
    fs::write(attempt.join("src/empty"), "").expect("there is room");
    fs::set_permissions(attempt.join("src/run"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    fs::rename(attempt.join("src/saved"), attempt.join("src/kept")).expect("it is there");
    for name in ["two\nlines", "with a space", "\u{e4}\"\\"] {
        fs::write(attempt.join("src").join(name), "made in the attempt\n").expect("there is room");
    }
    home.done(&["unmount", text(&attempt)]);
    let patch = home.folder.path().join("patch");
    fs::write(&patch, home.done(&["diff", "work", "work@attempt", "src"])).expect("there is room");
    let patched = Command::new("patch")
        .args(["-p1", "-s", "-i", text(&patch)])
        .current_dir(&main)
        .status();
    assert!(patched.is_ok_and(|status| status.success()));
    sync(&main);
    assert_eq!(
        home.done(&["diff", "work", "work@attempt", "src", "--name-only"]),
        ""
    );
}

#[test]
fn what_cannot_be_compared_is_refused_by_name() {
    let home = Home::unmounted();
    home.done(&["drive", "create", "work"]);
    let said = home.refused(&["diff", "work", "other"]);
    assert!(
        said.contains("of one drive are compared, not work and other"),
        "{said}"
    );
    let said = home.refused(&["diff", "work", "work@nothing"]);
    assert!(
        said.contains("no branch or checkpoint nothing") && said.contains("hint: "),
        "{said}"
    );
}
