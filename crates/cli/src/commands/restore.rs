//! `tenure restore`: something in a branch becomes again what it was in another state.
//!
//! It is done as a program would do it, in a mount of the branch: what is there is copied beside, and takes the place of the other by
//! one rename. Invariant: at the path is the one or the other, whole; and what was there before is in a checkpoint.

use crate::child;
use crate::clock::MachineClock;
use crate::commands::sync;
use crate::error::Told;
use crate::history;
use crate::holders;
use crate::output::{self, quoted};
use crate::place::Place;
use crate::reach;
use anyhow::{Context, Result, anyhow};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tenure_client::{CheckpointAsk, Lines};
use tenure_model::{BranchName, Clock, Ref};

/// How long what was there before is kept.
const KEEP: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Make a file or directory of a branch again what it was in a checkpoint, or is in another branch
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure restore work src/main.rs --from before-the-upgrade\n  tenure restore work@attempt-1 docs --from main\n  tenure restore work notes --from 2h\n\nThe branch may be mounted on this machine, or nowhere. What was at the path before is in a checkpoint, which is named."
)]
pub(crate) struct Args {
    /// The drive, and its branch unless it is `main`
    #[arg(value_name = "DRIVE[@BRANCH]", value_parser = Ref::parse)]
    of: Ref,
    /// The path in the drive
    path: OsString,
    /// The branch or checkpoint in which it is as it shall be; or when it was so (2h, 2026-12-01T06:45 in UTC): the last checkpoint
    /// of the branch before that
    #[arg(long, value_name = "REF|WHEN")]
    from: String,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Restores.
pub(crate) fn run(args: &Args) -> Result<()> {
    let path = inside(&args.path)?;
    let (from, before, mounted) = prepare(args)?;
    let source = Mounted::new(args, &from, &["--read-only".as_ref()])?;
    let copied = match mounted {
        Some(dir) => copy(&source.dir, &dir, &path, args).and_then(|()| sync::sync(&dir)),
        None => {
            let name = args.of.at.as_deref().unwrap_or(reach::MAIN);
            let target = Mounted::new(args, name, &[])?;
            let copied = copy(&source.dir, &target.dir, &path, args);
            target.end()?;
            copied
        }
    };
    source.end()?;
    copied?;
    let name = args.of.at.as_deref().unwrap_or(reach::MAIN);
    let shown = path.display().to_string();
    if args.json {
        return output::json(&serde_json::json!({
            "drive": args.of.drive.as_str(), "branch": name, "path": shown, "from": from, "before": before,
        }));
    }
    output::line(format_args!(
        "{shown} in {}@{name} is what it is in {from}; what {name} was before is in the checkpoint {before} for a week",
        args.of.drive
    ))
}

/// Returns a path of a drive as one below a mount.
fn inside(path: &OsStr) -> Result<PathBuf> {
    let names: Vec<_> = path
        .as_bytes()
        .split(|byte| *byte == b'/')
        .filter(|name| !matches!(name, [] | [b'.']))
        .collect();
    if names.is_empty() || names.iter().any(|name| matches!(name, [b'.', b'.'])) || names[0] == b".tenure" {
        return Err(Told::refused(
            format!(
                "{} names nothing in the drive that can be restored",
                path.display()
            ),
            "a path in the drive, such as src/main.rs; tenure undo takes a whole branch back",
        ));
    }
    Ok(OsString::from_vec(names.join(&b'/')).into())
}

/// Finds out what is meant, and keeps what the branch is: returns the state to restore from, the checkpoint of what is there now, and
/// where the branch is mounted on this machine, if it is.
fn prepare(args: &Args) -> Result<(String, String, Option<PathBuf>)> {
    let (drive, name) = (&args.of.drive, args.of.at.as_deref().unwrap_or(reach::MAIN));
    let reached = reach::drive_for(&args.place, drive, "restore")?;
    let owner = reached.owner();
    let lines = Lines::of(owner.clone());
    let from = args.from.strip_prefix('@').unwrap_or(&args.from);
    let from = match lines.find(from)? {
        Some(line) => line.name,
        None => history::point(&owner, &args.place, (drive, name), from)?.name,
    };
    let branch = BranchName::parse(name).map_err(|why| anyhow!(why))?;
    let mounted = holders::sync_all(&owner, &branch)?;
    let ask = |point| CheckpointAsk {
        message: format!("before {} was restored from {from}", args.path.display()),
        length: Some(KEEP),
        ..CheckpointAsk::new(branch.clone(), point)
    };
    let before = lines.checkpoint_by_time(ask, MachineClock.now())?;
    reached.close()?;
    Ok((from, before.to_string(), mounted))
}

/// A mount that is there for this command.
struct Mounted {
    dir: PathBuf,
}

impl Mounted {
    fn new(args: &Args, name: &str, more: &[&OsStr]) -> Result<Self> {
        // It is removed where it is empty, and never with what is mounted there.
        let dir = tempfile::Builder::new()
            .prefix("tenure-restore-")
            .tempdir()?
            .keep();
        let what = format!("{}@{name}", args.of.drive);
        let mount: [&OsStr; 3] = ["mount".as_ref(), what.as_ref(), dir.as_os_str()];
        let mounted = child::run(&[&mount, more].concat(), &args.place);
        if mounted.is_err() {
            let _ = std::fs::remove_dir(&dir);
        }
        mounted.map(|()| Mounted { dir })
    }

    fn end(self) -> Result<()> {
        child::run_anywhere(&["unmount".as_ref(), self.dir.as_os_str()])?;
        // Whoever finds it finds an empty directory.
        let _ = std::fs::remove_dir(&self.dir);
        Ok(())
    }
}

/// Puts what is at a path of one directory to the same path of another.
fn copy(from: &Path, to: &Path, path: &Path, args: &Args) -> Result<()> {
    let (source, target) = (from.join(path), to.join(path));
    if source.symlink_metadata().is_err() {
        return Err(Told::refused(
            format!("there is no {} in {}", path.display(), args.from),
            format!("tenure log {}{}", args.of.drive, args.place.options()),
        ));
    }
    let parent = target.parent().expect("it is below a mount");
    std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let beside = tempfile::Builder::new()
        .prefix(".tenure-restore-")
        .tempdir_in(parent)
        .with_context(|| format!("cannot write beside {}", target.display()))?;
    let new = beside.path().join("new");
    let copied = Command::new("cp")
        .args(["-a", "--"])
        .args([&source, &new])
        .output()
        .context("cannot start cp")?;
    if !copied.status.success() {
        return Err(Told::failed(
            format!(
                "{} could not be copied: {}",
                path.display(),
                String::from_utf8_lossy(&copied.stderr).trim()
            ),
            format!("ls -ld {}", quoted(parent)),
        ));
    }
    // What was there goes with the directory beside.
    let placed = match renameat_with(CWD, &new, CWD, &target, RenameFlags::EXCHANGE) {
        Err(Errno::NOENT) => renameat_with(CWD, &new, CWD, &target, RenameFlags::NOREPLACE),
        exchanged => exchanged,
    };
    placed.with_context(|| format!("cannot put it to {}", target.display()))
}
