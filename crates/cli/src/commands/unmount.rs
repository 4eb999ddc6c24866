//! `tenure unmount`: waits until everything is durable, takes the mount away, and says so.

use crate::commands::sync;
use crate::ending::{self, Listener};
use crate::error::{FAILED, Told};
use crate::mounts;
use crate::output;
use crate::status::{Mounted, Status};
use crate::waiting::Waiting;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tenure_mount::kernel::{Unmount, UnmountError, unmount};

/// How often the progress is shown.
const TICK: Duration = Duration::from_millis(100);
/// The longest that the serving process may take to fold and end after the mount is gone, in ticks.
const END_TICKS_MAX: u32 = 3000;
/// How often a mount that is in use is tried again, and how long after.
const BUSY_TRIES: u32 = 10;
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// What a mount says in its trouble whose drive does nothing more.
const STOPPED: &str = "has stopped";
/// How long the process of a detached mount may take before it is left to the background, in ticks.
const DETACHED_TICKS: u32 = 10;

/// Make everything in a mount durable and take the mount away
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tenure unmount ~/work")]
pub(crate) struct Args {
    /// The mounted directory
    dir: PathBuf,
    /// Take the mount away although files in it are open, and return: its process goes on in the background until the last
    /// of them is closed and everything is durable
    #[arg(long)]
    detach: bool,
}

/// Unmounts.
pub(crate) fn run(args: &Args) -> Result<()> {
    // The kernel takes mounts away by their own paths only.
    let dir = &mounts::resolved(&args.dir);
    match mounts::around(dir)? {
        Some(mount) if mount == *dir => refuse_mounts_inside(dir)?,
        Some(mount) => return Err(no_mount_but_in(dir, &mount)),
        None => {}
    }
    let waiting = Waiting::for_mount(dir);
    let mounted = match Mounted::at(dir) {
        Ok(mounted) => mounted,
        Err(error) => return clear_dead(dir, error),
    };
    let mut status = mounted.status;
    match &status.lost {
        Some(_) if status.is_durable() => {}
        Some(why) => return Err(not_durable(why, &status)),
        None if status.read_only => {}
        None => status = sync_with_progress(dir, &status)?,
    }
    let how = if args.detach {
        Unmount::Detach
    } else {
        Unmount::Idle
    };
    let listener = Listener::to(status.pid);
    let process = Pid::from_raw(status.pid as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    unmount_soon(dir, how).map_err(|error| {
        let at = output::quoted(dir);
        let hint = match &error {
            UnmountError::NotPermitted { .. } => {
                format!("who mounted it, or root, may: sudo tenure unmount {at}")
            }
            UnmountError::NotMounted(_) => {
                "somebody else has unmounted it meanwhile; tenure status lists the mounts".to_owned()
            }
            UnmountError::Busy(_) | UnmountError::Refused { .. } => {
                format!("close what is open there (fuser -m {at}), or: tenure unmount --detach {at}")
            }
        };
        Told::refused(format!("cannot unmount {}: {error}", dir.display()), hint)
    })?;
    // Its process may live on, but serves no mount by which it could be found.
    drop(waiting);
    let _waiting = Waiting::for_end(status.pid);
    if args.detach
        && process
            .as_ref()
            .is_some_and(|process| !ends_within(process, DETACHED_TICKS))
    {
        return output::line(format_args!(
            "detached {}: what was written so far is durable ({} tier); process {} goes on in the background until the last \
             user of the mount ends and what they still write is durable (tail --pid={2} -f /dev/null waits for that; kill {2} ends it \
             before)",
            dir.display(),
            status.tier,
            status.pid
        ));
    }
    if let Some(process) = process {
        wait_for_end(&process, status.pid)?;
        // Where it cannot be heard, what it has said as it synced stands.
        listener.map_or(Ok(()), |listener| refuse_failed(listener.hear(), &status))?;
    }
    output::line(format_args!(
        "unmounted {}: everything is durable ({} tier){}",
        dir.display(),
        status.tier,
        status.lost.map_or_else(String::new, |why| format!("; {why}"))
    ))
}

/// Fails where the process of a mount that is gone has not closed its drive, so that not everything may be there.
fn refuse_failed(ended: Option<Result<(), ending::Error>>, status: &Status) -> Result<()> {
    let (text, code) = match ended {
        Some(Ok(())) => return Ok(()),
        Some(Err(error)) => (error.text, error.code),
        None => (
            "it was killed, or a bug has ended it\nhint: mount it again: what was synced is there, and the mount says what may be missing".to_owned(),
            FAILED,
        ),
    };
    let why = text.trim_end().trim_start_matches("error: ");
    let what = format!(
        "unmounted {}, but its process {} did not end well: {why}",
        status.dir.display(),
        status.pid
    );
    Err(Told::relayed(what, code))
}

/// Says in which mount a directory is that is none itself.
fn no_mount_but_in(dir: &Path, mount: &Path) -> anyhow::Error {
    Told::refused(
        format!(
            "{} is not a mount of a drive, but in the one at {}",
            dir.display(),
            mount.display()
        ),
        format!("tenure unmount {}", output::quoted(mount)),
    )
}

/// Refuses to take away a mount in which something else is mounted: that could not be reached any more, and would stay.
fn refuse_mounts_inside(dir: &Path) -> Result<()> {
    let Some(inside) = mounts::inside(dir)?.into_iter().next() else {
        return Ok(());
    };
    let program = if mounts::all()?.contains(&inside) {
        "tenure unmount"
    } else {
        "umount"
    };
    Err(Told::refused(
        format!(
            "cannot unmount {}: {} is mounted in it",
            dir.display(),
            inside.display()
        ),
        format!(
            "{program} {}; then: tenure unmount {}",
            output::quoted(&inside),
            output::quoted(dir)
        ),
    ))
}

/// Says why a mount is not taken away whose changes would be lost with it.
fn not_durable(why: &str, status: &Status) -> anyhow::Error {
    let what = format!(
        "{} in {} cannot be made durable: {why}",
        status.unsynced,
        status.dir.display()
    );
    Told::failed(what, status.how_to_give_up())
}

/// Unmounts, and tries again for a moment while the mount is in use: whoever starts a program has its open files twice
/// until the program begins.
fn unmount_soon(dir: &Path, how: Unmount) -> Result<(), UnmountError> {
    for _ in 0..BUSY_TRIES {
        match unmount(dir, how) {
            Err(UnmountError::Busy(_)) => std::thread::sleep(BUSY_PAUSE),
            done => return done,
        }
    }
    unmount(dir, how)
}

/// Takes away a mount whose process has ended.
fn clear_dead(dir: &Path, error: anyhow::Error) -> Result<()> {
    const ENOTCONN: i32 = 107;
    let dead = std::fs::metadata(dir)
        .err()
        .and_then(|error| error.raw_os_error())
        == Some(ENOTCONN);
    if !dead {
        return Err(error);
    }
    unmount(dir, Unmount::Detach).with_context(|| format!("cannot take {} away", dir.display()))?;
    output::line(format_args!(
        "unmounted {}: its process had ended before; everything that was synced is in the drive",
        dir.display()
    ))
}

/// Makes everything durable, and returns how the mount is then.
fn sync_with_progress(dir: &Path, status: &Status) -> Result<Status> {
    let total = status.unsynced.bytes.max(1);
    let bar = ProgressBar::new(total);
    bar.set_style(
        ProgressStyle::with_template("making durable {bar:30} {binary_bytes} of {binary_total_bytes}")
            .expect("the template is a literal"),
    );
    let synced = std::thread::scope(|scope| {
        let syncing = scope.spawn(|| sync::sync(dir));
        while !syncing.is_finished() {
            std::thread::park_timeout(TICK);
            if let Ok(Mounted { status }) = Mounted::at(dir) {
                bar.set_position(total.saturating_sub(status.unsynced.bytes));
            }
        }
        syncing.join().expect("syncing does not panic")
    });
    bar.finish_and_clear();
    let Err(error) = synced else {
        return Ok(status.clone());
    };
    let now = Mounted::at(dir).map_or_else(|_| status.clone(), |mounted| mounted.status);
    match &now.lost {
        // It has lost the branch, and nothing that it had not made durable.
        Some(_) if now.is_durable() => return Ok(now),
        Some(why) => return Err(not_durable(why, &now)),
        None => {}
    }
    if let Some(why) = now.trouble.as_deref().filter(|why| why.contains(STOPPED)) {
        return Err(not_durable(why, &now));
    }
    let hint = format!(
        "{} are not durable; free space or mend the bucket, then unmount again; or give them up: kill {}",
        now.unsynced, now.pid
    );
    Err(Told::failed(format!("{error:#}"), hint))
}

fn wait_for_end(process: &OwnedFd, pid: u32) -> Result<()> {
    if ends_within(process, END_TICKS_MAX) {
        return Ok(());
    }
    Err(Told::failed(
        format!("the mount is gone and durable, but its process {pid} has not ended yet"),
        "wait for it before the drive is used elsewhere",
    ))
}

fn ends_within(process: &OwnedFd, ticks: u32) -> bool {
    let tick = Timespec {
        tv_sec: 0,
        tv_nsec: TICK.as_nanos() as i64,
    };
    (0..ticks).any(|_| {
        let mut fds = [PollFd::new(process, PollFlags::IN)];
        poll(&mut fds, Some(&tick)).unwrap_or(0) > 0
    })
}
