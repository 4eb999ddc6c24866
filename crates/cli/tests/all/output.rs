//! What is printed where nobody reads, or where nothing goes in: never a backtrace.

use crate::home::Home;
use std::fs::File;
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
    assert!(home.done(&["manual"]).contains(".TH tenure 1"));
}
