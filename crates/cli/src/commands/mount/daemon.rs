//! The process that stays: it says when the mount is usable, and then has no terminal any more.

use super::{Args, READY, served};
use crate::error;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::Write;

/// Serves the mount; whoever started this process hears on its standard output how the start went.
pub(super) fn run(args: &Args) -> Result<()> {
    // Leaving the session of the terminal keeps its signals away; a process that leads one already has none.
    let _ = rustix::process::setsid();
    let mut is_ready = false;
    let ended = served::serve(args, |served| {
        is_ready = true;
        say(&format!("mounted {served}\n{READY}\n"))
    });
    match ended {
        Err(error) if !is_ready => {
            say(&error::text(&error))?;
            std::process::exit(i32::from(error::code(&error)));
        }
        ended => ended,
    }
}

/// Says something to whoever waits, and closes standard output so that the wait ends.
fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("nobody waits for this mount")?;
    let null = File::options()
        .write(true)
        .open("/dev/null")
        .context("cannot open /dev/null")?;
    rustix::stdio::dup2_stdout(&null).context("cannot let standard output go")
}
