//! `tenure run`: runs a command in a fork, shows what it has changed, and keeps that or lets it go.
//!
//! Everything is done by this program's other commands, each in a process of its own. Invariant: nothing that the command has made
//! goes unless somebody has said so.

use crate::child;
use crate::clock::MachineClock;
use crate::commands::{diff, merge};
use crate::error::Told;
use crate::output::{self, quoted};
use crate::place::Place;
use crate::reach;
use anyhow::{Context, Result, anyhow};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, IsTerminal, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tenure_client::{CheckpointAsk, ForkAsk, Lines, Reviews, lines};
use tenure_model::record::Source;
use tenure_model::{BranchName, CheckpointName, Clock, Ref};
use tenure_wire::MergeAsk;

/// Run a command in a new branch, mounted for it, and show what it has changed there; then keep the branch, or let it go
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure run --fork work -- make test\n  tenure run --fork work@before --discard -- ./try-it.sh\n  tenure run --fork work --commit -- make update\n  tenure run --fork work --name attempt-7 --keep -- agent --task 7\n\nWith --commit, what the command has changed is merged into the branch that it was made from, if the command succeeds and nothing\nconflicts; else the new branch is kept. The command runs in the mount, whose path is in TENURE_DIR; TENURE_DRIVE and TENURE_BRANCH name what is mounted. It is not confined:\nwhat it does elsewhere stays. The exit code is the command's own, 128 and the signal's number where one has ended it."
)]
pub(crate) struct Args {
    /// What the branch is made from: a drive, and its branch or checkpoint unless it is `main`
    #[arg(long, value_name = "DRIVE[@BRANCH|@CHECKPOINT]", value_parser = Ref::parse)]
    fork: Ref,
    /// The branch's name; `run-` and the time unless it is said
    #[arg(long, value_parser = BranchName::parse)]
    name: Option<BranchName>,
    /// Where the branch is mounted: an empty directory; one of its own unless it is said
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Keep the branch, and ask nothing
    #[arg(long, conflicts_with_all = ["discard", "commit"])]
    keep: bool,
    /// Delete the branch, and ask nothing
    #[arg(long, conflicts_with = "commit")]
    discard: bool,
    /// Merge the branch into what it was made from and delete it, and ask nothing; keep it where the command fails or something conflicts
    #[arg(long)]
    commit: bool,
    /// Show the differences as `tenure diff --stat` does, and not the text that differs
    #[arg(long)]
    stat: bool,
    #[command(flatten)]
    place: Place,
    /// The command and its arguments
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

/// What was made for a run.
struct Made {
    branch: BranchName,
    /// What the branch was at its beginning.
    begin: String,
    /// Whether that was made for this run.
    owns_begin: bool,
    /// The branch that it was made from; none where that was a checkpoint.
    base: Option<BranchName>,
}

/// What becomes of the branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    Discarded,
    Committed,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let made = make(args)?;
    let ended = in_mount(args, &made);
    let status = match ended {
        Ok(status) => status,
        Err(error) => {
            return Err(error.context(format!(
                "the branch stays as it is: tenure branch delete {} {}{} --yes",
                args.fork.drive,
                made.branch,
                args.place.options()
            )));
        }
    };
    show(args, &made)?;
    match fate(args, &made, status)? {
        Fate::Kept => keep(args, &made),
        Fate::Discarded => {
            discard(args, &made)?;
            output::note(format_args!("{}@{} is deleted", args.fork.drive, made.branch));
        }
        Fate::Committed => commit(args, &made)?,
    }
    match code(status) {
        0 => Ok(()),
        code => Err(Told::relayed(
            format!("{} has ended: {status}", args.command[0].to_string_lossy()),
            code,
        )),
    }
}

/// Makes the branch, of a state that stays nameable until it was compared.
fn make(args: &Args) -> Result<Made> {
    let (drive, from) = (&args.fork.drive, args.fork.at.as_deref().unwrap_or(reach::MAIN));
    let reached = reach::drive_for(&args.place, drive, "run")?;
    let owner = reached.owner();
    let base = reach::line(&owner, &args.place, drive, from)?;
    if args.commit && base.branch.is_none() {
        return Err(Told::refused(
            format!("{drive}@{from} is a checkpoint and never changes, so nothing can be merged into it"),
            format!(
                "tenure run --fork {drive}{} --commit -- ... merges into the branch; --keep keeps a branch made from the checkpoint",
                args.place.options()
            ),
        ));
    }
    let is_protected = base.mark.as_ref().is_some_and(|mark| mark.into.is_none());
    if args.commit && is_protected {
        return Err(Told::refused(
            format!(
                "{drive}@{from} is protected and changes only by accepted reviews, so nothing can be merged into it"
            ),
            format!(
                "tenure run --fork {drive}@{from}{} --keep -- ..., then tenure branch stage {drive} NAME --into {from}",
                args.place.options()
            ),
        ));
    }
    let into = base
        .branch
        .filter(|_| !is_protected)
        .map(|_| BranchName::parse(&base.name));
    let into = into.transpose().map_err(|why| anyhow!(why))?;
    let lines = Lines::of(owner);
    let stamp = MachineClock.now().stamp();
    let branch = match &args.name {
        Some(name) => name.clone(),
        None => {
            BranchName::parse(&format!("run-{stamp}-{}", std::process::id())).map_err(|why| anyhow!(why))?
        }
    };
    let (begin, owns_begin) = match base.branch {
        None => (base.name.clone(), false),
        Some(_) => {
            let of = BranchName::parse(&base.name).map_err(|why| anyhow!(why))?;
            let name = CheckpointName::parse(&format!("begin-{stamp}-{}", std::process::id()))
                .map_err(|why| anyhow!(why))?;
            let ask = CheckpointAsk {
                message: format!("where {branch} begins"),
                ..CheckpointAsk::new(of, name.clone())
            };
            lines.checkpoint(&ask)?;
            (name.as_str().to_owned(), true)
        }
    };
    let made = Made {
        branch,
        begin,
        owns_begin,
        base: into,
    };
    let source = match made.owns_begin {
        true => Source::Checkpoint(CheckpointName::parse(&made.begin).map_err(|why| anyhow!(why))?),
        false => lines::source_of(&base)?,
    };
    let forked = lines.fork(&ForkAsk::new(source, made.branch.clone()));
    if forked.is_err() && made.owns_begin {
        // Without a branch nobody needs to know where it begins.
        let begin = BranchName::parse(&made.begin).map_err(|why| anyhow!(why))?;
        lines.delete(&begin)?;
    }
    forked?;
    reached.close()?;
    Ok(made)
}

/// Mounts the branch, runs the command there and unmounts it; returns how the command has ended.
fn in_mount(args: &Args, made: &Made) -> Result<ExitStatus> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        // It is removed where it is empty, and never with what is mounted there.
        None => tempfile::Builder::new().prefix("tenure-run-").tempdir()?.keep(),
    };
    let dir = dir.as_path();
    let what = format!("{}@{}", args.fork.drive, made.branch);
    child::run(&["mount".as_ref(), what.as_ref(), dir.as_os_str()], &args.place)?;
    let ended = run_there(args, made, dir);
    let unmount: [&OsStr; 2] = ["unmount".as_ref(), dir.as_os_str()];
    child::run_anywhere(&unmount).with_context(|| {
        format!(
            "something is still at work in {}: it stays mounted until tenure unmount {}",
            dir.display(),
            quoted(dir)
        )
    })?;
    if args.dir.is_none() {
        // Whoever finds it finds an empty directory.
        let _ = std::fs::remove_dir(dir);
    }
    ended
}

fn run_there(args: &Args, made: &Made, dir: &Path) -> Result<ExitStatus> {
    // What is typed to end the command goes to the command as well, and its branch is seen to all the same.
    for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let (program, arguments) = args.command.split_first().expect("there is a command");
    Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .env("TENURE_DIR", dir)
        .env("TENURE_DRIVE", args.fork.drive.as_str())
        .env("TENURE_BRANCH", made.branch.as_str())
        .status()
        .map_err(|error| {
            Told::failed(
                format!("cannot run {}: {error}", program.to_string_lossy()),
                "is it installed, and in PATH?",
            )
        })
}

/// Shows what the command has changed.
fn show(args: &Args, made: &Made) -> Result<()> {
    let at = |name: &str| Ref::parse(&format!("{}@{name}", args.fork.drive)).map_err(|why| anyhow!(why));
    diff::show(
        (at(&made.begin)?, at(made.branch.as_str())?),
        args.stat,
        &args.place,
    )
}

/// Says what becomes of the branch, if need be by asking.
fn fate(args: &Args, made: &Made, status: ExitStatus) -> Result<Fate> {
    let is_asked = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    match (args.discard, args.keep, args.commit) {
        (true, ..) => Ok(Fate::Discarded),
        (false, true, _) => Ok(Fate::Kept),
        // What a command has begun and not brought to an end is nothing to merge.
        (false, false, true) if status.success() => Ok(Fate::Committed),
        (false, false, true) => Ok(Fate::Kept),
        (false, false, false) if is_asked => ask(made),
        (false, false, false) => Ok(Fate::Kept),
    }
}

fn ask(made: &Made) -> Result<Fate> {
    loop {
        let question = match &made.base {
            Some(base) => format!("commit to {base}, keep or discard? "),
            None => "keep or discard? ".to_owned(),
        };
        std::io::stderr().write_all(question.as_bytes())?;
        let mut answer = String::new();
        // Who says nothing loses nothing.
        if std::io::stdin().lock().read_line(&mut answer)? == 0 {
            return Ok(Fate::Kept);
        }
        match answer.trim() {
            "commit" | "c" if made.base.is_some() => return Ok(Fate::Committed),
            "keep" | "k" => return Ok(Fate::Kept),
            "discard" | "d" => return Ok(Fate::Discarded),
            _ => {}
        }
    }
}

fn keep(args: &Args, made: &Made) {
    output::note(format_args!(
        "{}@{1} is kept: tenure mount {0}@{1} DIR{2}",
        args.fork.drive,
        made.branch,
        args.place.options()
    ));
}

/// Merges the branch into what it was made from; deletes it where that was all.
fn commit(args: &Args, made: &Made) -> Result<()> {
    let drive = &args.fork.drive;
    let into = made.base.clone().expect("what is no branch was refused");
    let ask = MergeAsk::new(made.branch.as_str(), into);
    let reached = reach::drive_for(&args.place, drive, "run")?;
    let who = reach::who("tenure run --commit".to_owned(), false);
    let told = Reviews::of(reached.owner(), who).merge(&ask);
    let told = told.inspect_err(|_| keep(args, made))?;
    reached.close()?;
    merge::show(drive, &ask, &told)?;
    if told.conflicts > 0 {
        keep(args, made);
        return merge::outcome(drive, &ask, &told, &args.place);
    }
    discard(args, made)
}

fn discard(args: &Args, made: &Made) -> Result<()> {
    let reached = reach::drive_for(&args.place, &args.fork.drive, "run")?;
    let lines = Lines::of(reached.owner());
    lines.delete(&made.branch)?;
    if made.owns_begin {
        lines.delete(&BranchName::parse(&made.begin).map_err(|why| anyhow!(why))?)?;
    }
    reached.close()
}

/// Returns the exit code of a command, as a shell would.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
