//! A mount while it is there: the drive is opened, its branch held and served, and all of it given back at the end.

use super::about::{About, AskedOwner};
use super::checkpoints::OfBranch;
use super::refused::{no_branch, not_reached, only_read, without_a_branch};
use super::warm::Warming;
use super::witness::{self, Note};
use super::{Args, NOTE};
use crate::bucket;
use crate::cache::Kept;
use crate::clock::MachineClock;
use crate::commands::delegations::until;
use crate::drives::Drives;
use crate::ending::{NotGivenBack, Teller};
use crate::error::Told;
use crate::hint;
use crate::home;
use crate::mounts;
use crate::output::{self, quoted};
use crate::pins;
use crate::reach::{self, MAIN, Purpose, Reached};
use crate::status::HIDDEN;
use anyhow::{Context, Result, anyhow};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tenure_client::{
    Branch, Files, ForkAsk, IfThere, Patience, SharedBranch, Witness, hold_when_free, lines,
};
use tenure_model::{BranchName, Clock, Failure, Refusal};
use tenure_mount::kernel::{self, MountError, Unmount};
use tenure_mount::{Had, Inside, Mount};
use tenure_wire::{Access, BranchInfo, Delegation, Opened, Owner, Who, identity};

type AnyOwner = Arc<dyn Owner<tenure_core::Branch>>;

/// How long a mount that is asked to end waits for who has files open in it: programs that are ended with it close theirs soon.
const OPEN_FILES_PATIENCE: Duration = Duration::from_secs(3);

impl Args {
    /// Tells whether what a server shows is not on this machine: it is on another, or its bucket is elsewhere.
    fn is_served_far(&self, opened: &Opened) -> bool {
        self.place.server.is_named() && (opened.tier == "bucket" || self.place.server.is_far())
    }
}

/// Why a mount ends.
enum End {
    /// The kernel's side is gone: somebody has unmounted it.
    Gone,
    /// This process was asked to end.
    Asked,
}

/// A mount that is usable.
pub(super) struct Ready {
    /// What is mounted where.
    pub(super) mounted: String,
    /// What a person should know of how the drive or the branch was found.
    pub(super) notices: Vec<String>,
}

/// Mounts, calls `ready` once it is usable, and returns when the mount is gone and everything is durable.
/// Meanwhile `tell` hears what whoever waits for that should know.
pub(super) fn serve(
    args: &Args,
    tell: impl Fn(&str),
    ready: impl FnOnce(&Ready) -> Result<()>,
) -> Result<()> {
    let dir = std::path::absolute(&args.dir)?;
    vet(&dir, args)?;
    let is_far = !args.place.server.is_named() && matches!(args.place.kept()?, bucket::Kept::Service(_));
    let kept = is_far.then(|| args.cache.open());
    let reached = reach_drive(args, &dir, kept.as_ref())?;
    let teller = Teller::begin()?;
    let served = mount_and_wait(args, &dir, (&reached, kept), tell, ready);
    let ended = served.and(reached.close());
    let (drive, options) = (&args.what.drive, args.place.options());
    teller.tell(
        &ended,
        &format!("tenure check {drive} --deep{options} says what of it is there"),
    );
    ended
}

/// Refuses a directory that nothing can be mounted on before anything is opened, made or held for it.
fn vet(dir: &Path, args: &Args) -> Result<()> {
    let at = mounts::resolved(dir);
    kernel::refuse_mounted(&at)?;
    match std::fs::metadata(&at) {
        Err(error) if error.kind() == ErrorKind::NotFound && args.create => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(MountError::Missing(at).into()),
        Ok(what) if !what.is_dir() => Err(MountError::NotDirectory(at).into()),
        Ok(_)
            if !args.hide_contents
                && std::fs::read_dir(&at).is_ok_and(|mut entries| entries.next().is_some()) =>
        {
            Err(MountError::NotEmpty(at).into())
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn reach_drive(args: &Args, dir: &Path, kept: Option<&Kept>) -> Result<Reached> {
    let (name, place) = (&args.what.drive, &args.place);
    if args.create {
        make(args, dir)?;
    }
    let cache = kept.map(|kept| Arc::clone(&kept.cache)).unwrap_or_default();
    let who = reach::who(purpose(dir), false);
    // Whether it is a checkpoint is not known yet, which is only looked at.
    let is_changed = args.create || args.shared || args.take || args.fork_from.is_some();
    let wanted = match (is_changed, args.read_only) {
        (true, _) => Purpose::Change,
        (false, true) => Purpose::Read,
        (false, false) => Purpose::Either,
    };
    reach::drive(place, name, (who, wanted), &cache).map_err(|error| not_reached(args, error))
}

/// Makes the directory, the bucket and the drive where there are none.
fn make(args: &Args, dir: &Path) -> Result<()> {
    let (name, place) = (&args.what.drive, &args.place);
    let Some(other) = args.what.at.as_deref().filter(|at| *at != MAIN) else {
        make_place(dir)?;
        let drives = Drives::made(place)?;
        let is_there = || Ok::<_, anyhow::Error>(drives.list()?.drives.contains(name));
        return match is_there()? {
            true => Ok(()),
            // Somebody else may make it at the same moment.
            false => drives.create(name).or_else(|error| match is_there() {
                Ok(true) => Ok(()),
                Ok(false) | Err(_) => Err(error),
            }),
        };
    };
    // A new drive has the branch `main` alone: where another is meant, nothing is made of what it would be in.
    if Drives::of(place)?.list()?.drives.contains(name) {
        return Ok(());
    }
    let (at, options) = (quoted(&args.dir), place.options());
    Err(Told::refused(
        format!("there is no drive {name}, and a new one would have no branch {other}"),
        format!(
            "tenure mount {name} {at}{options} --create makes it with the branch {MAIN}, of which tenure fork {name} {other}{options} makes another"
        ),
    ))
}

/// Makes the directory that is mounted on, where it is missing.
fn make_place(dir: &Path) -> Result<()> {
    let at = mounts::resolved(dir);
    match std::fs::symlink_metadata(&at) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            std::fs::create_dir_all(&at).with_context(|| format!("cannot make {}", at.display()))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn mount_and_wait(
    args: &Args,
    dir: &Path,
    (reached, kept): (&Reached, Option<Kept>),
    tell: impl Fn(&str),
    ready: impl FnOnce(&Ready) -> Result<()>,
) -> Result<()> {
    let owner = reached.owner();
    let clock: Arc<dyn Clock> = Arc::new(MachineClock);
    let news = pins::news();
    let who = reach::who(purpose(dir), reached.is_here());
    let mut opened = open(&owner, &who)?;
    let kept = kept.or_else(|| args.is_served_far(&opened).then(|| args.cache.open()));
    let name = args.what.at.as_deref().unwrap_or(MAIN);
    if let Some(from) = &args.fork_from {
        fork(&owner, args, from, name)?;
    }
    let line = reach::line(&owner, &args.place, &args.what.drive, name)
        .map_err(|error| without_a_branch(args, name, error))?;
    if args.create {
        make_place(dir)?;
    }
    let read_only = args.read_only || line.branch.is_none();
    match reached.notice() {
        Some(notice) if !read_only => return Err(only_read(args, name, &notice)),
        notice => opened.notices.extend(notice),
    }
    let note = Arc::new(Note::default());
    if args.take {
        let notice = take(&owner, &opened, args)?;
        opened.notices.extend(notice);
    }
    let take_it = |opened: &mut Opened| taken(args, (&owner, &clock), &note, (opened, &tell), &line);
    let branch = match take_it(&mut opened) {
        // Its owner was lost before the session was durable, and the next one knows nothing of it.
        Err(error) if is_over(&error) => {
            opened = open(&owner, &who)?;
            take_it(&mut opened)?
        }
        taken => taken?,
    };
    // What is shared is asked of its owner, who may be here.
    let kept = kept.filter(|_| !args.shared || reached.is_here());
    let warming = begin_to_warm(args, kept.as_ref(), &branch, &mut opened.notices);
    let files = branch.files();
    let (end, ended) = channel();
    let checkpoints = OfBranch {
        owner: Arc::clone(&owner),
        clock: Arc::clone(&clock),
        opened: opened.clone(),
        base: OfBranch::base_of(&line),
        cache: kept.as_ref().map(|kept| Arc::clone(&kept.cache)),
    };
    let about = About {
        drive: args.what.drive.to_string(),
        branch: name.to_owned(),
        dir: dir.to_owned(),
        read_only,
        lag_max_ms: args.lag,
        shared: args.shared,
        server: args.place.server.named(),
        place: args.place.options(),
        opened: opened.clone(),
        cache: kept.map(|kept| kept.cache),
        warm: Box::new(warming.teller()),
    };
    let inside = Inside {
        status: about.writer(AskedOwner::of(Arc::clone(&owner)), branch.files()),
        checkpoints: Box::new(checkpoints),
    };
    // A signal that came between mounting and listening would end this process and leave its mount.
    listen_for_signals(end.clone())?;
    let mount = attach(args, (dir, read_only), inside, branch, clock, end)?;
    opened.notices.extend(note.publish().err().map(unsaid));
    // Linux then knows it, and asks for it without the root's lock, which somebody may have who waits.
    let _ = std::fs::metadata(dir.join(HIDDEN));
    let told = ready(&Ready {
        mounted: format!("{}@{name} at {}", args.what.drive, output::path(dir)),
        notices: opened.notices.into_iter().chain(news).collect(),
    });
    let reason = match &told {
        Ok(()) => ended.recv().expect("the mount holds a sender"),
        // Nobody knows of a mount that nobody waits for.
        Err(_) => End::Asked,
    };
    warming.end();
    told.and(finish(mount, (&*files, reached), (&reason, &ended)))
}

/// Makes the branch that is to be mounted.
fn fork(owner: &AnyOwner, args: &Args, from: &str, name: &str) -> Result<()> {
    let drive = &args.what.drive;
    let base = reach::line(owner, &args.place, drive, from)?;
    let branch = BranchName::parse(name).map_err(|why| anyhow!(why))?;
    let mut ask = ForkAsk::new(lines::source_of(&base)?, branch);
    if args.if_absent {
        ask.if_there = IfThere::Take;
    }
    let is_there = || Ok::<_, tenure_wire::Error>(owner.branches()?.iter().any(|line| line.name == name));
    match owner.fork(&ask) {
        Err(refused @ tenure_wire::Error::Refused(_)) if is_there()? => Err(Told::refused(
            refused.to_string(),
            format!(
                "tenure mount {drive}@{name} {}{} mounts it as it is; --if-absent mounts it or makes it",
                quoted(&args.dir),
                args.place.options()
            ),
        )),
        made => Ok(made.map(drop)?),
    }
}

/// Says what it costs that a mount has no note.
fn unsaid(error: anyhow::Error) -> String {
    format!("should this process be killed, nobody will say how much was lost: {error:#}")
}

/// Opens a session; what is found with the drive is told with commands that can be pasted.
fn open(owner: &AnyOwner, who: &Who) -> Result<Opened, tenure_wire::Error> {
    let mut opened = owner.open(who)?;
    for notice in &mut opened.notices {
        *notice = hint::words::pasted(notice);
    }
    Ok(opened)
}

/// Tells whether a session is over, by what became of a call of it.
fn is_over(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<tenure_wire::Error>();
    error == Some(&tenure_wire::Error::Refused(Refusal::Stale))
}

/// Takes the branch, as this mount wants it.
fn taken(
    args: &Args,
    (owner, clock): (&AnyOwner, &Arc<dyn Clock>),
    note: &Arc<Note>,
    (opened, tell): (&mut Opened, impl Fn(&str)),
    line: &BranchInfo,
) -> Result<Had> {
    let name = &line.name;
    let options = tenure_client::Options {
        lag_max: args.lag_max(),
        ..Default::default()
    };
    if args.shared {
        if line.branch.is_none() {
            return Err(no_branch(args, name));
        }
        let join = || {
            let (owner, clock) = (Arc::clone(owner), Arc::clone(clock));
            SharedBranch::join(owner, clock, opened.clone(), name, options)
        };
        let shared = held(args, (owner, clock), (opened, tell), join)?;
        return Ok(Had::Shared(Arc::new(shared)));
    }
    let read_only = args.read_only || line.branch.is_none();
    let access = if read_only {
        Access::Read
    } else {
        Access::Exclusive
    };
    let hold = || {
        let around = (Arc::clone(clock), Arc::clone(note) as Arc<dyn Witness>);
        let (owner, opened) = (Arc::clone(owner), opened.clone());
        Branch::hold(owner, around, opened, (name, access), options)
    };
    let branch = Arc::new(held(args, (owner, clock), (opened, tell), hold)?);
    let of = line.branch.map(|number| witness::Of {
        drive: branch.drive(),
        branch: number,
        bucket: witness::folder_of(&args.place),
    });
    opened.notices.extend(match of {
        Some(of) if read_only => witness::unsaid(&of),
        Some(of) => note
            .begin(&of, branch.session())
            .unwrap_or_else(|error| Some(unsaid(error))),
        None => None,
    });
    Ok(Had::Whole(branch))
}

/// Lets a branch be read through the cache, and begins to bring what is wanted to it.
fn begin_to_warm(args: &Args, kept: Option<&Kept>, branch: &Had, notices: &mut Vec<String>) -> Warming {
    notices.extend(kept.and_then(|kept| kept.notice.clone()));
    if let (Had::Shared(branch), Some(kept)) = (branch, kept) {
        branch.read_through(Arc::clone(&kept.cache));
    }
    match (branch, kept) {
        (Had::Whole(branch), Some(kept)) => {
            branch.read_through(Arc::clone(&kept.cache));
            Warming::begin(args, kept, branch)
        }
        (Had::Whole(_) | Had::Shared(_), _) => {
            let why = if args.shared {
                "a shared branch is read from its owner"
            } else {
                "what is read of this drive is on this machine's disk already"
            };
            notices.extend(
                args.warm
                    .as_ref()
                    .map(|_| format!("--warm has nothing to bring: {why}")),
            );
            Warming::default()
        }
    }
}

fn attach(
    args: &Args,
    (dir, read_only): (&Path, bool),
    inside: Inside,
    branch: Had,
    clock: Arc<dyn Clock>,
    end: Sender<End>,
) -> Result<Mount> {
    let name = args.what.at.as_deref().unwrap_or(MAIN);
    let mount_options = tenure_mount::Options {
        source: format!("{}@{name}", args.what.drive),
        read_only,
        allow_other: args.allow_other,
        hide_contents: args.hide_contents,
        readers: usize::from(args.readers),
        xattrs: !args.no_xattrs,
        transport: args.transport(),
        wakeups: args.wakeups(),
    };
    let on_end = Box::new(move || drop(end.send(End::Gone)));
    Ok(Mount::attach(branch, clock, dir, &mount_options, inside, on_end)?)
}

/// Ends a mount: what is not durable yet becomes so first. Who has files open when it is asked to end may close them for a moment,
/// unless it is asked once more.
fn finish(
    mount: Mount,
    (branch, reached): (&dyn Files, &Reached),
    (reason, ended): (&End, &Receiver<End>),
) -> Result<()> {
    let is_gone = match reason {
        End::Gone => true,
        End::Asked => {
            if let Err(error) = mount.unmount(Unmount::Detach) {
                tracing::warn!(%error, "the mount stays, and answers ENOTCONN");
            }
            matches!(ended.recv_timeout(OPEN_FILES_PATIENCE), Ok(End::Gone))
        }
    };
    if is_gone {
        mount.join();
    } else {
        let dir = mount.path().display();
        tracing::warn!(
            "files are open in {dir} that was asked to end: they answer ENOTCONN from now on, and what was written is made durable"
        );
        mount.end();
    }
    branch.close().map_err(|error| {
        let left = branch.unsynced();
        // Where the drive is here, it is whole only if nothing but another owner is in the way.
        let is_whole = left.ops + left.bytes == 0 && (!reached.is_here() || is_lost(&error));
        let error = anyhow::Error::from(error);
        if is_whole {
            return error.context(NotGivenBack);
        }
        error.context("not everything could be made durable")
    })
}

/// Tells whether a branch, or its drive, has become another's.
fn is_lost(error: &tenure_wire::Error) -> bool {
    use tenure_wire::Error::{Failed, Refused};
    matches!(error, Refused(Refusal::Stale) | Failed(Failure::Fenced(_)))
}

fn listen_for_signals(end: Sender<End>) -> Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("cannot listen for signals")?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for _ in signals.forever() {
                let _ = end.send(End::Asked);
            }
        })?;
    Ok(())
}

fn purpose(dir: &Path) -> String {
    format!("mount at {}", dir.display())
}

/// Holds the branch, once another that holds it and is silent, or whose process is known to have ended, has lost it.
fn held<B>(
    args: &Args,
    (owner, clock): (&AnyOwner, &Arc<dyn Clock>),
    (opened, tell): (&Opened, impl Fn(&str)),
    hold: impl Fn() -> Result<B, tenure_wire::Error>,
) -> Result<B> {
    let name = args.what.at.as_deref().unwrap_or(MAIN);
    let patience = args.wait.map_or(Patience::WhileSilent, Patience::For);
    let has_ended = |lent: &Delegation| {
        let is_here = lent.who.contains(&format!(" on {} (", home::host()));
        // Which drive it is, is known to whoever has something lent by it.
        let read = || owner.lend(opened.session, name, Access::Read).ok();
        let drive = is_here.then(read).flatten().map(|read| identity(&read.hash_key));
        drive.is_some_and(|drive| witness::has_ended(drive, lent))
    };
    let told = |lent: &Delegation| {
        tell(&format!(
            "{NOTE}waiting for {name}, which {} holds until {}",
            lent.who,
            until(lent.lease)
        ));
    };
    let held = hold_when_free((&**owner, &**clock), (name, patience), (has_ended, told), hold);
    held.map_err(|error| match &error {
        tenure_wire::Error::Refused(Refusal::Held { by }) => {
            let lent = owner.delegations().unwrap_or_default();
            let lease = lent.into_iter().find(|lent| lent.name == name);
            let until = lease.map_or_else(String::new, |lent| format!(", until {}", until(lent.lease)));
            let hint = hint::held(by);
            Told::refused(
                format!("{error}{until}"),
                format!(
                    "{hint}; --take takes it at once, and what is not durable there becomes a stray; --wait 5m waits for it"
                ),
            )
        }
        tenure_wire::Error::Refused(_) | tenure_wire::Error::Failed(_) => error.into(),
    })
}

/// Takes the branch from whoever holds it, and says what that costs.
fn take(owner: &AnyOwner, opened: &Opened, args: &Args) -> Result<Option<String>, tenure_wire::Error> {
    let name = args.what.at.as_deref().unwrap_or(MAIN);
    let lent = owner.delegations()?.into_iter().find(|lent| lent.name == name);
    owner.take(opened.session, name)?;
    Ok(lent.map(|lent| {
        format!(
            "{name} was taken from {}: that mount accepts nothing more, and what it had not made durable is here if it can still \
             bring it: tenure branch list {}{}",
            lent.who,
            args.what.drive,
            args.place.options()
        )
    }))
}
