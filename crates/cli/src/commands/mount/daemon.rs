//! The process that stays: it says when the mount is usable, and then has no terminal any more.

use super::{Args, NOTE, READY, served};
use crate::error;
use crate::output;
use anyhow::{Context, Result};
use rustix::io::FdFlags;
use rustix::process::Signal;
use std::fs::File;
use std::io::Write;
use std::os::fd::{BorrowedFd, RawFd};

/// Serves the mount; whoever started this process hears on its standard output how the start went.
pub(super) fn run(args: &Args) -> Result<()> {
    // Leaving the session of the terminal keeps its signals away; a process that leads one already has none.
    let _ = rustix::process::setsid();
    // Until the mount is usable somebody waits for it: what opens for nobody is not to go on for as long as a bucket takes.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    let mut is_ready = false;
    // Whoever waits has gone where it cannot be told.
    let tell = |note: &str| drop(print(&format!("{note}\n")));
    let ended = served::serve(args, tell, |ready| {
        is_ready = true;
        let _ = rustix::process::set_parent_process_death_signal(None);
        let notices = ready.notices.iter();
        let notices: String = notices.map(|notice| format!("{NOTE}{notice}\n")).collect();
        output::note(&notices);
        // Who wants to unmount the file system that this process was started in is not to wait for it.
        std::env::set_current_dir("/").context("cannot leave the directory that the mount was made from")?;
        say(&format!("{notices}mounted {}\n{READY}\n", ready.mounted))
    });
    match ended {
        Err(error) if !is_ready => {
            say(&error::text(&error))?;
            std::process::exit(i32::from(error::code(&error)));
        }
        ended => ended,
    }
}

/// Sees to it that the process that stays gets none of the files that whoever runs this command has open: a lock of theirs
/// would be held, and a pipe of theirs not end, as long as the mount is there.
pub(super) fn keep_files_back() -> Result<()> {
    let open =
        std::fs::read_dir("/proc/self/fd").context("cannot see which files are open: is /proc mounted?")?;
    let numbers = open
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok())
        .filter(|number| *number > 2);
    for number in numbers {
        #[expect(
            unsafe_code,
            reason = "files that were inherited have no owner in this process"
        )]
        // SAFETY: only a flag is set, for the time of one call; where the number names no file, the call fails and that is all.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        // The one that lists them is closed by now, and has the flag anyway.
        let _ = rustix::io::fcntl_setfd(file, FdFlags::CLOEXEC);
    }
    Ok(())
}

/// Says something to whoever waits.
fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("nobody waits for this mount")
}

/// As `print`, and closes standard output so that the wait ends.
fn say(text: &str) -> Result<()> {
    print(text)?;
    let null = File::options()
        .write(true)
        .open("/dev/null")
        .context("cannot open /dev/null")?;
    rustix::stdio::dup2_stdout(&null).context("cannot let standard output go")
}
