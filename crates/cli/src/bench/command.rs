//! Runs a program to its end: its own process group, no input, its output kept only to explain a failure.
//!
//! Not for daemons: a program whose child keeps the pipe open would be waited for.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::interrupt;
use crate::error::Told;

/// Returns a command whose git, if it is or runs one, sees no configuration but ours and always the same identity.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .env("GIT_AUTHOR_NAME", "Bench")
        .env("GIT_AUTHOR_EMAIL", "bench@example.invalid")
        .env("GIT_COMMITTER_NAME", "Bench")
        .env("GIT_COMMITTER_EMAIL", "bench@example.invalid")
        .env("LC_ALL", "C");
    command
}

/// Returns `git` run inside `directory`.
pub(crate) fn git(directory: &Path) -> Command {
    let mut git = command("git");
    git.arg("-C").arg(directory);
    git
}

/// Runs `command` to its end and returns what it printed; an error names the command and what it complained of.
pub(crate) fn run(command: &mut Command) -> Result<Vec<u8>> {
    run_accepting(command, &[0])
}

/// Runs `command` as [`run`] does; the exit codes in `accepted` are success (grep's 1 is "nothing found").
pub(crate) fn run_accepting(command: &mut Command, accepted: &[i32]) -> Result<Vec<u8>> {
    interrupt::check()?;
    let name = describe(command);
    let child = std::os::unix::process::CommandExt::process_group(command, 0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{name}`"))?;
    let watched = interrupt::Watched::child(child.id());
    let output = child
        .wait_with_output()
        .with_context(|| format!("cannot wait for `{name}`"))?;
    drop(watched);
    interrupt::check()?;
    if output.status.code().is_some_and(|code| accepted.contains(&code)) {
        return Ok(output.stdout);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint = if complaint.trim().is_empty() {
        String::from_utf8_lossy(&output.stdout)
    } else {
        complaint
    };
    bail!(
        "`{name}` failed ({}): {}",
        output.status,
        last_lines(&complaint, 8)
    );
}

/// Returns where `program` is on the path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}

/// Refuses, naming the Debian package, unless `program` is installed.
pub(crate) fn require(program: &str, package: &str) -> Result<()> {
    if find(program).is_none() {
        return Err(Told::refused(
            format!("`{program}` is not installed"),
            format!("apt-get install {package}"),
        ));
    }
    Ok(())
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    line.chars().take(200).collect()
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_and_its_complaint() {
        let failure = run(command("sh").args(["-c", "echo lost >&2; exit 3"])).expect_err("it exits with 3");
        let text = failure.to_string();
        assert!(text.contains("sh -c") && text.contains("lost"), "{text}");
    }

    #[test]
    fn an_accepted_exit_code_is_no_failure() {
        assert_eq!(
            run_accepting(command("sh").args(["-c", "echo a; exit 1"]), &[0, 1]).expect("accepted"),
            b"a\n"
        );
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let refusal = require("no-such-program", "some-package").expect_err("it is not there");
        assert!(crate::error::text(&refusal).contains("apt-get install some-package"));
    }
}
