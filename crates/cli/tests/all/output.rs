//! What is printed where nobody reads, or where nothing goes in: never a backtrace.

use crate::home::Home;
use std::fs::{self, File};
use std::io::{PipeReader, pipe};
use std::process::{Output, Stdio};

/// Commands that need no mount and print something.
const PRINTING: [&[&str]; 6] = [
    &["status"],
    &["status", "--json"],
    &["completions", "bash"],
    &["manual"],
    &["drive", "list"],
    &["drive", "show", "work"],
];

fn run(home: &Home, arguments: &[&str], out: impl Into<Stdio>) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = home
        .command(arguments)
        .stdout(out)
        .output()
        .expect("the program starts");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// Who has stopped reading is told no more, quietly; a full device is an error like any other.
#[test]
fn output_that_nobody_reads_or_that_finds_no_room_is_no_panic() {
    let home = Home::unmounted();
    home.done(&["drive", "create", "work"]);
    for arguments in PRINTING {
        let (reader, writer): (PipeReader, _) = pipe().expect("there are pipes");
        drop(reader);
        assert_eq!(
            run(&home, arguments, writer),
            (Some(141), String::new()),
            "{arguments:?}"
        );
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("it is there");
        let (code, said) = run(&home, arguments, full);
        assert_eq!(code, Some(3), "{arguments:?}: {said}");
        assert!(
            said.contains("No space left") && said.contains("hint: "),
            "{arguments:?}: {said}"
        );
    }
}

/// An error that cannot be said still has its exit code.
#[test]
fn an_error_that_finds_no_room_keeps_its_exit_code() {
    let home = Home::unmounted();
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("it is there");
    let status = home.command(&["check", "none"]).stderr(full).status();
    assert_eq!(status.expect("the program starts").code(), Some(1));
}

/// Man pages are called as the commands are, with the examples under a heading of their own.
#[test]
fn man_pages_are_named_as_the_commands() {
    let home = Home::unmounted();
    let folder = home.folder.path();
    home.done(&["manual", "--into", crate::home::text(folder)]);
    for page in ["tenure.1", "tenure-mount.1", "tenure-drive-create.1"] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap_or_default();
        assert!(
            !text.contains("tenure-cli") && text.contains(".TH"),
            "{page}: {text}"
        );
    }
    let text = std::fs::read_to_string(folder.join("tenure-mount.1")).unwrap_or_default();
    assert!(text.contains(".SH EXAMPLES"), "{text}");
    let text = std::fs::read_to_string(folder.join("tenure-check.1")).unwrap_or_default();
    assert!(
        text.contains(".SH NOTES\n.nf\n\\&Checking changes nothing"),
        "{text}"
    );
    assert!(home.done(&["manual"]).contains(".TH tenure 1"));
}

/// Every refusal that a person can mend says by which command.
#[test]
fn what_can_be_mended_says_how() {
    let home = Home::unmounted();
    let at = |name: &str| home.folder.path().join(name);
    let texts = |name: &str| crate::home::text(&at(name)).to_owned();
    home.done(&["drive", "create", "work"]);
    std::fs::create_dir_all(at("cut")).expect("there is room");
    std::fs::write(at("cut/tenure-bucket"), "tenure bucket\nformat 1\nThe dr").expect("there is room");
    std::fs::create_dir_all(at("full/of")).expect("there is room");
    let (none, cut, full) = (texts("none"), texts("cut"), texts("full"));
    let server = format!("unix:{none}");
    for (arguments, hint) in [
        (
            &["check", "work", "--server", &server][..],
            "tenure serve --listen unix:",
        ),
        (
            &["drive", "list", "--bucket", "/etc"],
            "--bucket FOLDER names the bucket",
        ),
        (
            &["drive", "list", "--bucket", "/dev/null"],
            "--bucket FOLDER names the bucket",
        ),
        (
            &["drive", "create", "work", "--bucket", "/dev/null"],
            "--bucket FOLDER names the bucket",
        ),
        (
            &["serve", "--listen", &server, "--bucket", &none],
            &format!("tenure drive create NAME --bucket {none} makes it"),
        ),
        (&["drive", "list", "--bucket", &cut], "bring "),
        (&["mount", "work", &none], "mkdir -p"),
        (&["mount", "work", &full], "--hide-contents"),
        (&["mount", "work", "/dev/null"], "choose an empty directory"),
    ] {
        let said = home.tenure(arguments).stderr;
        let said = String::from_utf8_lossy(&said);
        let hinted = said.lines().find_map(|line| line.strip_prefix("hint: "));
        assert!(
            hinted.is_some_and(|told| told.contains(hint)),
            "{arguments:?}: {said}"
        );
    }
}

/// A folder that cannot be made is told with the folder above it that is there, and the variable that moves it.
#[test]
fn a_state_folder_that_cannot_be_made_is_told_with_what_is_there() {
    let home = Home::unmounted();
    let place = home.folder.path().join("m");
    std::fs::create_dir(&place).expect("there is room");
    let mut command = home.command(&["mount", "work", crate::home::text(&place), "--create"]);
    let said = command
        .env("XDG_STATE_HOME", "/proc/none")
        .output()
        .expect("the program starts")
        .stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(
        said.contains("hint: ls -ld /proc; df /proc; or put it elsewhere: XDG_STATE_HOME="),
        "{said}"
    );
    let mut command = home.command(&["drive", "create", "work"]);
    let said = command.env("XDG_DATA_HOME", "/proc/none").output();
    let said = said.expect("the program starts").stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(
        said.contains("hint: ls -ld /proc; df /proc; or put it elsewhere: XDG_DATA_HOME="),
        "{said}"
    );
    let said = home
        .command(&["drive", "list"])
        .env("XDG_DATA_HOME", "none")
        .output();
    let said = String::from_utf8_lossy(&said.expect("the program starts").stderr).into_owned();
    assert!(said.contains("XDG_DATA_HOME does not count"), "{said}");
}

/// What is none of the drive's and harms nothing is said, and the drive is whole.
#[test]
fn a_check_notes_a_file_that_is_nothing_of_the_drive() {
    let home = Home::unmounted();
    home.done(&["drive", "create", "work"]);
    let junk = "drives/work/packs/junk";
    let place = home.folder.path().join("data/tenure/bucket").join(junk);
    fs::create_dir_all(place.parent().expect("it is in a folder")).expect("there is room");
    fs::write(place, "12345").expect("there is room");
    let said = home.done(&["check", "work"]);
    assert!(
        said.contains(&format!("note: {junk} (5 bytes)")) && said.contains("work is whole"),
        "{said}"
    );
    let said = home.done(&["check", "work", "--deep", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!(said["faults"], serde_json::json!([]));
    let notice = said["notices"][0].as_str().expect("there is one");
    assert!(notice.starts_with(junk), "{notice}");
}
