//! `tenure mount`: mounts a branch and returns when it is usable; the work is done by a process that stays.

mod about;
mod checkpoints;
mod daemon;
mod refused;
mod served;
mod warm;
mod witness;

use crate::cache::CacheArgs;
use crate::duration;
use crate::error::Told;
use crate::home;
use crate::mounts::{self, Served};
use crate::output;
use crate::place::Place;
use crate::reach;
use crate::waiting::Waiting;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tenure_model::{BranchName, Ref};
use tenure_mount::kernel;

/// What the process that stays says on its standard output once the mount is usable; anything else is an error's text.
/// No text of an error and no path can end in it.
const READY: &str = "\0ready";
/// Bytes of the log of a directory's mounts, above which the next mount begins another one.
const LOG_LEN_MAX: u64 = 1 << 20;
/// Begins a line that is for people.
const NOTE: &str = "note: ";

/// Mount a branch of a drive on a directory
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure mount work ~/work --create        make the drive where there is none\n  tenure mount work@attempt-1 ~/attempt    another branch\n  tenure mount work@before ~/look          a checkpoint, read-only\n  tenure mount work@try ~/try --fork-from main     a new branch, made from main as it is now\n  tenure mount work ~/work --server box:7430 --token-file ada.token\n  tenure mount work ~/work --shared        together with others\n  tenure unmount ~/work\n\nA mount whose server is restarted, or whose connection is cut, goes on when a server answers\nagain: what it has itself is used meanwhile, what it must ask or make durable waits, and\n`tenure status` says for what."
)]
pub(crate) struct Args {
    /// The drive, and its branch or checkpoint unless it is `main`
    #[arg(value_name = "DRIVE[@BRANCH|@CHECKPOINT]", value_parser = Ref::parse)]
    what: Ref,
    /// An empty directory
    dir: PathBuf,
    /// Make the drive, its bucket and the directory, where there are none; a new drive has the branch `main` alone
    #[arg(long)]
    create: bool,
    /// Change nothing in the branch, and need nobody's leave. What is seen is the branch as it is now: should another mount
    /// hold it, its later changes are not followed. A bucket that is full or cannot be written is read this way, too
    #[arg(long)]
    read_only: bool,
    /// Share the branch with other mounts, of any machine, that say so too: each sees at once what another does, and locks of files
    /// hold between them. A directory in which nobody else works is lent to the mount that does, for the rest the server is asked,
    /// and the kernel caches nothing, so it is slower than a mount that has its branch to itself
    #[arg(long, conflicts_with = "read_only")]
    shared: bool,
    /// Wait so long for a branch that another mount holds (such as 30s or 5m) [default: only for a holder that is silent, until its
    /// lease is over]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "read_only")]
    wait: Option<Duration>,
    /// Take the branch from whoever holds it, at once: their mount accepts nothing more, and what it has not made durable becomes a
    /// stray branch if it is still there to bring it
    #[arg(long, conflicts_with_all = ["read_only", "wait"])]
    take: bool,
    /// Make the branch first, from another or from a checkpoint as it is now; refused where it is there, unless --if-absent says that
    /// it is mounted then as it is
    #[arg(long, value_name = "BRANCH|CHECKPOINT", value_parser = from, conflicts_with = "create")]
    fork_from: Option<String>,
    /// Mount the branch that --fork-from would make also where it is there already
    #[arg(long, requires = "fork_from")]
    if_absent: bool,
    /// Let other users use the mount; the kernel then checks every permission
    #[arg(long)]
    allow_other: bool,
    /// Mount over what the directory holds
    #[arg(long)]
    hide_contents: bool,
    /// Make every change durable within this many milliseconds, also when nobody syncs
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    lag: u64,
    /// Have no extended attributes: the kernel then asks once less for each file that is written
    #[arg(long)]
    no_xattrs: bool,
    /// Threads that answer the kernel
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    readers: u8,
    /// How requests come from the kernel: `ring` is io_uring where the machine allows it
    /// (/sys/module/fuse/parameters/enable_uring), else `device`
    #[arg(long, value_enum, default_value_t = Transport::Ring)]
    transport: Transport,
    /// What to do about the time that it takes to wake a CPU: `stay` lets callers stay on theirs, `sleep` does nothing
    #[arg(long, value_enum, default_value_t = Wakeups::Stay)]
    wakeups: Wakeups,
    /// Bring what is at these paths of the branch to this machine's cache, in the background and after whoever waits; without
    /// a path, what the last mounts of the drive have read in their first ten seconds
    #[arg(long, value_name = "PATH", num_args = 0.., require_equals = true, value_delimiter = ',')]
    warm: Option<Vec<PathBuf>>,
    #[command(flatten)]
    cache: CacheArgs,
    /// Stay in the foreground until the mount is gone
    #[arg(long)]
    foreground: bool,
    #[command(flatten)]
    place: Place,
    /// Say on standard output when the mount is usable, then work without a terminal; the value is the directory without
    /// symbolic links, by which others find this process
    #[arg(long, hide = true, value_name = "DIR")]
    daemon: Option<PathBuf>,
}

/// How requests come from the kernel.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Transport {
    /// By /dev/fuse.
    Device,
    /// By io_uring.
    Ring,
}

/// What to do about the time that a wake-up takes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Wakeups {
    /// Let callers stay on their CPUs.
    Stay,
    /// Nothing.
    Sleep,
}

impl Args {
    fn transport(&self) -> kernel::Transport {
        match self.transport {
            Transport::Device => kernel::Transport::Device,
            Transport::Ring => kernel::Transport::Ring,
        }
    }

    fn wakeups(&self) -> kernel::Wakeups {
        match self.wakeups {
            Wakeups::Stay => kernel::Wakeups::Stay,
            Wakeups::Sleep => kernel::Wakeups::Sleep,
        }
    }

    fn lag_max(&self) -> Duration {
        Duration::from_millis(self.lag)
    }
}

/// Reads what a branch is made from: a name, with or without an `@` before it.
fn from(text: &str) -> Result<String, String> {
    let name = text.strip_prefix('@').unwrap_or(text);
    BranchName::parse(name).map(|name| name.as_str().to_owned())
}

/// A command line from `mount` on.
#[derive(Debug, clap::Parser)]
#[command(disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// Returns what a process serves which was started with these arguments.
pub(crate) fn served_by(arguments: impl IntoIterator<Item = OsString>) -> Option<Served> {
    let mut arguments = arguments.into_iter().peekable();
    arguments.next_if(|first| first == "mount").as_ref()?;
    let line = [OsString::from("mount")].into_iter().chain(arguments);
    let args = <Line as clap::Parser>::try_parse_from(line).ok()?.args;
    let dir = args.daemon.or(args.foreground.then_some(args.dir))?;
    Some(Served { what: args.what, dir })
}

/// Mounts.
pub(crate) fn run(args: Args) -> Result<()> {
    if args.daemon.is_some() {
        return daemon::run(&args);
    }
    if args.foreground {
        return served::serve(&args, tell, |ready| {
            ready
                .notices
                .iter()
                .for_each(|notice| output::note(format_args!("{NOTE}{notice}")));
            // The mount is there all the same where nobody reads that it is.
            let said = output::line(format_args!(
                "mounted {}; Ctrl-C makes everything durable and ends it",
                ready.mounted
            ));
            said.or_else(|error| {
                output::note(error);
                Ok(())
            })
        });
    }
    start(&args)
}

/// Starts the process that stays, and waits until its mount is usable.
fn start(args: &Args) -> Result<()> {
    let state = home::state()?;
    let log = state.join(format!(
        "mount-{}.log",
        home::short_name(&std::path::absolute(&args.dir)?)
    ));
    let errors = open_log(&log).map_err(|error| {
        Told::failed(
            format!("cannot write the log {}: {error}", log.display()),
            home::elsewhere(&state, home::STATE),
        )
    })?;
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Right behind the command's name: behind a `--` it would be no option.
    arguments.splice(
        1..1,
        ["--daemon".into(), mounts::resolved(&args.dir).into_os_string()],
    );
    daemon::keep_files_back()?;
    File::open("/dev/null").map_err(|error| {
        Told::failed(
            format!("cannot open /dev/null: {error}"),
            "mknod -m 666 /dev/null c 1 3, as root",
        )
    })?;
    let mut daemon = Command::new(std::env::current_exe().context("cannot find this program's file")?)
        .args(arguments)
        // Memory that staged bytes have used is used again at once: giving it back in between costs more than a write.
        .env("MIMALLOC_PURGE_DELAY", "10000")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .process_group(0)
        .spawn()
        .context("cannot start the process that serves the mount")?;
    let (place, drive) = (args.place.clone(), args.what.drive.clone());
    let _waiting = Waiting::begin(move || Some(reach::whom(&place, &drive)));
    let said = hear(daemon.stdout.take().expect("its output is a pipe"))
        .context("cannot hear from the process that serves the mount")?;
    if let Some(mounted) = said.trim_end().strip_suffix(READY) {
        return mounted.lines().try_for_each(output::line);
    }
    let status = daemon.wait()?;
    if said.is_empty() {
        bail!(
            "the process that serves the mount has ended ({status}); its log is {}",
            log.display()
        );
    }
    let text = said.trim_end().trim_start_matches("error: ").to_owned();
    Err(Told::relayed(
        text,
        status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(3),
    ))
}

/// Opens the log of a directory's mounts at its end; one that has become long is set aside, in place of the one set aside before.
fn open_log(log: &Path) -> std::io::Result<File> {
    if log.metadata().is_ok_and(|log| log.len() > LOG_LEN_MAX) {
        std::fs::rename(log, log.with_extension("log.1"))?;
    }
    File::options().append(true).create(true).open(log)
}

fn tell(note: &str) {
    output::note(note);
}

/// Returns what the process that stays says; notes are passed on as they come.
fn hear(output: impl Read) -> io::Result<String> {
    let mut said = String::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        if line.starts_with(NOTE) {
            output::note(line);
        } else {
            said.push_str(&line);
            said.push('\n');
        }
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_log_goes_on_and_is_set_aside_when_it_is_long() {
        let folder = tempfile::tempdir().expect("there is room");
        let log = folder.path().join("mount-1.log");
        let write = |text: &[u8]| {
            let mut file = open_log(&log).expect("there is room");
            file.write_all(text).expect("there is room");
        };
        let read = |name: &str| std::fs::read(folder.path().join(name)).expect("it is there");
        write(b"one\n");
        write(b"two\n");
        assert_eq!(read("mount-1.log"), b"one\ntwo\n");
        write(&vec![b'-'; LOG_LEN_MAX as usize]);
        write(b"new\n");
        assert_eq!(read("mount-1.log"), b"new\n");
        assert!(read("mount-1.log.1").starts_with(b"one\ntwo\n-"));
    }
}
