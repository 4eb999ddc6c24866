//! `tenure diff`: what differs between two branches or checkpoints of a drive.

mod text;

use crate::error::Told;
use crate::output;
use crate::place::Place;
use crate::reach::{self, AnyOwner};
use anyhow::Result;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use tenure_client::Lines;
use tenure_model::{Difference, Kind, Ref, Side, shown};

/// Show what differs between two branches or checkpoints of a drive; of a mounted branch, as far as it was synced
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure diff work work@attempt-1\n  tenure diff work@before-the-upgrade work src --stat\n  tenure diff work work@attempt-1 | patch -p1\n\nA file that was replaced by a new one of its name is changed; what was moved is renamed, and what is below a renamed directory is not told. Times alone are no difference. Who has changed something is not known yet."
)]
pub(crate) struct Args {
    /// The drive, and its branch or checkpoint before unless it is `main`
    #[arg(value_name = "DRIVE[@BEFORE]", value_parser = Ref::parse)]
    before: Ref,
    /// The same drive, and its branch or checkpoint after
    #[arg(value_name = "DRIVE[@AFTER]", value_parser = Ref::parse)]
    after: Ref,
    /// What differs at or below this path in the drive only
    path: Option<OsString>,
    /// Print a line for each difference and not the text that differs
    #[arg(long, conflicts_with_all = ["name_only", "json"])]
    stat: bool,
    /// Print paths only
    #[arg(long, conflicts_with = "json")]
    name_only: bool,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints what differs.
pub(crate) fn run(args: &Args) -> Result<()> {
    let drive = &args.before.drive;
    if *drive != args.after.drive {
        return Err(Told::refused(
            format!(
                "only branches and checkpoints of one drive are compared, not {drive} and {}",
                args.after.drive
            ),
            format!("tenure branch list {drive}{}", args.place.options()),
        ));
    }
    let mut reached = reach::drive_to_read(&args.place, drive, "diff")?;
    let owner = reached.owner();
    let line = |at: &Ref| {
        let name = at.at.as_deref().unwrap_or(reach::MAIN);
        reach::line(&owner, &args.place, drive, name).map(|line| line.name)
    };
    let (before, after) = (line(&args.before)?, line(&args.after)?);
    let lines = Lines::of(owner.clone());
    let mut found = lines.differences(&before, &after, &below(args.path.as_ref()))?;
    found.sort_by(|one, other| one.path.cmp(&other.path));
    reached.stop_waiting();
    if args.json {
        output::json(&found.iter().map(json).collect::<Vec<_>>())?;
    } else if args.name_only {
        found.iter().try_for_each(|one| output::line(path(&one.path)))?;
    } else if args.stat {
        stat(&found)?;
    } else {
        let read = |name: &str, side: &Side| text::read(&owner, name, side);
        for one in &found {
            text::print(one, &|side| read(&before, side), &|side| read(&after, side))?;
        }
        if !output::seen().0 && found.iter().any(is_moved_directory) {
            output::note(
                "note: no patch says that a directory was renamed: do that before it is given to patch or git apply",
            );
        }
    }
    reached.close()
}

fn is_moved_directory(one: &Difference) -> bool {
    let is_directory = |side: &Side| side.attr.kind == Kind::Directory;
    one.moved_from.is_some() && one.after.as_ref().is_some_and(is_directory)
}

/// Prints what differs between two states, as the command does.
pub(crate) fn show((before, after): (Ref, Ref), stat: bool, place: &Place) -> Result<()> {
    run(&Args {
        before,
        after,
        path: None,
        stat,
        name_only: false,
        place: place.clone(),
        json: false,
    })
}

/// Prints the text that differs between two lines, of those paths that are meant.
pub(crate) fn print_those(
    owner: &AnyOwner,
    (before, after): (&str, &str),
    is_meant: &dyn Fn(&[u8]) -> bool,
) -> Result<()> {
    let mut found = Lines::of(owner.clone()).differences(before, after, b"")?;
    found.retain(|one| is_meant(&one.path));
    found.sort_by(|one, other| one.path.cmp(&other.path));
    let read = |name: &str, side: &Side| text::read(owner, name, side);
    for one in &found {
        text::print(one, &|side| read(before, side), &|side| read(after, side))?;
    }
    Ok(())
}

/// Returns a path of a drive as its owner knows it.
pub(crate) fn below(path: Option<&OsString>) -> Box<[u8]> {
    let bytes = path.cloned().unwrap_or_default().into_vec();
    let names: Vec<_> = bytes
        .split(|byte| *byte == b'/')
        .filter(|name| !matches!(name, [] | [b'.']))
        .collect();
    names.join(&b'/').into()
}

/// Returns a path as a person reads it.
fn path(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return ".".to_owned();
    }
    shown(bytes)
}

/// Says in a word what has become of something.
pub(crate) fn what(one: &Difference) -> &'static str {
    match (&one.before, &one.after) {
        (None, _) => "created",
        (Some(_), None) => "removed",
        (Some(_), Some(_)) if one.moved_from.is_some() => "renamed",
        (Some(_), Some(_)) => "changed",
    }
}

/// Returns the path, behind the one that it was moved from.
pub(crate) fn paths(one: &Difference) -> String {
    match &one.moved_from {
        Some(from) => format!("{} > {}", path(from), path(&one.path)),
        None => path(&one.path),
    }
}

/// Says what there is to be said of a difference besides its path, in words.
fn details(one: &Difference) -> String {
    let mut words = Vec::new();
    match (&one.before, &one.after) {
        (Some(before), Some(after)) => {
            let mut tell = |what: &str, was: String, is: String| {
                if was != is {
                    words.push(format!("{what}{was} > {is}"));
                }
            };
            tell("", kind(before).to_owned(), kind(after).to_owned());
            let (old, new) = (&before.attr, &after.attr);
            tell("mode ", format!("{:03o}", old.mode), format!("{:03o}", new.mode));
            let owner = |side: &Side| format!("{}:{}", side.attr.uid, side.attr.gid);
            tell("owner ", owner(before), owner(after));
            tell("to ", shown(&before.target), shown(&after.target));
            if one.content_differs && old.kind == Kind::File && new.kind == Kind::File {
                words.push(if old.size == new.size {
                    output::bytes(new.size)
                } else {
                    format!("{} > {}", output::bytes(old.size), output::bytes(new.size))
                });
            }
            if one.xattrs_differ {
                words.push("extended attributes".to_owned());
            }
        }
        (Some(side), None) | (None, Some(side)) => words.push(match side.attr.kind {
            Kind::File => output::bytes(side.attr.size),
            Kind::Symlink => format!("symlink to {}", shown(&side.target)),
            Kind::Fifo | Kind::CharDevice | Kind::Directory | Kind::BlockDevice | Kind::Socket => {
                kind(side).to_owned()
            }
        }),
        (None, None) => {}
    }
    words.join(", ")
}

fn kind(side: &Side) -> &'static str {
    match side.attr.kind {
        Kind::Fifo => "fifo",
        Kind::CharDevice => "character device",
        Kind::Directory => "directory",
        Kind::BlockDevice => "block device",
        Kind::File => "file",
        Kind::Symlink => "symlink",
        Kind::Socket => "socket",
    }
}

fn stat(found: &[Difference]) -> Result<()> {
    let mut table = output::table(["WHAT", "PATH", "HOW"]);
    for one in found {
        table.add_row([what(one).to_owned(), paths(one), details(one)]);
    }
    output::rows(&table)
}

pub(crate) fn json(one: &Difference) -> serde_json::Value {
    serde_json::json!({
        "path": path(&one.path),
        "what": what(one),
        "moved_from": one.moved_from.as_ref().map(|from| path(from)),
        "content_differs": one.content_differs,
        "xattrs_differ": one.xattrs_differ,
        "before": one.before.as_ref().map(side),
        "after": one.after.as_ref().map(side),
    })
}

fn side(side: &Side) -> serde_json::Value {
    let attr = &side.attr;
    serde_json::json!({
        "ino": side.ino.0,
        "kind": kind(side),
        "mode": format!("{:03o}", attr.mode),
        "uid": attr.uid,
        "gid": attr.gid,
        "size": attr.size,
        "modified": attr.mtime.secs,
        "target": (attr.kind == Kind::Symlink).then(|| shown(&side.target)),
    })
}
