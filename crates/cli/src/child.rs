//! Another command of this program, in a process of its own: its mounts stay when this one ends.

use crate::error::{FAILED, Told};
use crate::place::Place;
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs a command where the same drives are. What it prints is not printed; what it notes is, and why it fails is told as it says.
pub(crate) fn run(arguments: &[&OsStr], place: &Place) -> Result<()> {
    let place = place.arguments();
    let place = place.iter().map(|argument| &**argument);
    run_anywhere(&arguments.iter().copied().chain(place).collect::<Vec<_>>())
}

/// As [`run`], of a command that needs no drives.
pub(crate) fn run_anywhere(arguments: &[&OsStr]) -> Result<()> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let ran = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start this program once more")?
        .wait_with_output()?;
    if ran.status.success() {
        std::io::stderr().write_all(&ran.stderr)?;
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    let code = ran.status.code().and_then(|code| u8::try_from(code).ok());
    Err(Told::relayed(
        said.trim_end().trim_start_matches("error: "),
        code.unwrap_or(FAILED),
    ))
}
