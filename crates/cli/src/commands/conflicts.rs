//! `tenure conflicts`: what a merge could not make one, as it stands.

use crate::output;
use crate::place::Place;
use crate::reach;
use anyhow::Result;
use tenure_client::Reviews;
use tenure_model::{ConflictKind, Ino, Ref, shown};
use tenure_wire::Standing;

/// List the conflicts that merges have left in a branch, with both sides as they are now
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure conflicts work@main\n  tenure resolve work@main src/lib.rs --theirs\n\nA side that was removed or moved by hand is shown so; such a conflict is settled as any other."
)]
pub(crate) struct Args {
    /// The drive, and its branch or checkpoint unless it is `main`
    #[arg(value_name = "DRIVE[@BRANCH]", value_parser = Ref::parse)]
    branch: Ref,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists conflicts.
pub(crate) fn run(args: &Args) -> Result<()> {
    let drive = &args.branch.drive;
    let name = args.branch.at.as_deref().unwrap_or(reach::MAIN);
    let reached = reach::drive_to_read(&args.place, drive, "conflicts")?;
    let owner = reached.owner();
    reach::line(&owner, &args.place, drive, name)?;
    let all = Reviews::of(owner, reach::who("tenure conflicts".to_owned(), false)).conflicts(name)?;
    reached.close()?;
    if args.json {
        return output::json(&all.iter().map(json).collect::<Vec<_>>());
    }
    if all.is_empty() {
        return output::line(format_args!("{drive}@{name} has no conflicts"));
    }
    let mut table = output::table(["PATH", "CONFLICT", "OURS", "THEIRS", "FROM"]);
    for one in &all {
        let conflict = &one.conflict;
        table.add_row([
            shown(&conflict.path),
            kind(conflict.kind).to_owned(),
            side(conflict.ours, one.ours.as_deref()),
            theirs(one),
            conflict.from.clone(),
        ]);
    }
    output::rows(&table)
}

/// Says in words how two sides do not fit together.
pub(super) fn kind(kind: ConflictKind) -> &'static str {
    match kind {
        ConflictKind::Content => "changed on both sides",
        ConflictKind::Added => "made on both sides",
        ConflictKind::RemovedThere => "changed here, removed there",
        ConflictKind::RemovedHere => "removed here, changed there",
        ConflictKind::Moved => "moved to different places",
        ConflictKind::Loop => "each moved into the other",
        ConflictKind::Attributes => "other modes, owners or attributes",
        ConflictKind::DirectoryRemovedThere => "a directory with something new here, removed there",
        ConflictKind::DirectoryRemovedHere => "a directory removed here, with something new there",
    }
}

fn side(ino: Ino, path: Option<&[u8]>) -> String {
    match path {
        Some(path) => shown(path),
        None if ino == Ino(0) => "-".to_owned(),
        None => "gone".to_owned(),
    }
}

fn theirs(one: &Standing) -> String {
    match &one.conflict.place {
        Some(place) => format!("{} (there)", shown(place)),
        None => side(one.conflict.theirs, one.theirs.as_deref()),
    }
}

fn json(one: &Standing) -> serde_json::Value {
    let conflict = &one.conflict;
    let path = |path: &Option<Box<[u8]>>| path.as_deref().map(shown);
    serde_json::json!({
        "path": shown(&conflict.path),
        "conflict": conflict.kind.word(),
        "ours": path(&one.ours),
        "theirs": path(&one.theirs),
        "beside": path(&conflict.beside),
        "place_there": path(&conflict.place),
        "from": conflict.from,
    })
}
