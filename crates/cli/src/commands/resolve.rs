//! `tenure resolve`: says what is to be where a merge has kept two versions.

use crate::commands::diff;
use crate::error::Told;
use crate::output;
use crate::place::Place;
use crate::reach;
use anyhow::{Context, Result, anyhow};
use std::ffi::OsString;
use std::path::PathBuf;
use tenure_client::Reviews;
use tenure_model::limits::MERGED_FILE_LEN_MAX;
use tenure_model::{BranchName, Ref, shown};
use tenure_wire::{Choice, ResolveAsk};

/// Settle a conflict that a merge has left: by the branch's version, by the other line's, by both as they are, or by a file
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure resolve work@main src/lib.rs --ours\n  tenure resolve work@main notes.md --file merged.md\n\nPATH is that of the conflict, or where either side is now. With --both what is there stays as it is and only the conflict goes: so it is settled too when you have put there by hand what is to be. What the branch was before is a checkpoint."
)]
pub(crate) struct Args {
    /// The drive, and its branch unless it is `main`
    #[arg(value_name = "DRIVE[@BRANCH]", value_parser = Ref::parse)]
    branch: Ref,
    /// The path of the conflict in the drive
    path: OsString,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is to be.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct How {
    /// What the branch had; the other version goes
    #[arg(long)]
    ours: bool,
    /// What the other line had, in the place of what the branch had
    #[arg(long)]
    theirs: bool,
    /// Both, as they are now
    #[arg(long)]
    both: bool,
    /// What is in this file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Settles a conflict.
pub(crate) fn run(args: &Args) -> Result<()> {
    let drive = &args.branch.drive;
    let name = args.branch.at.as_deref().unwrap_or(reach::MAIN);
    let ask = ResolveAsk {
        branch: BranchName::parse(name).map_err(|why| anyhow!(why))?,
        path: diff::below(Some(&args.path)),
        choice: choice(&args.how)?,
    };
    let reached = reach::drive_for(&args.place, drive, "resolve")?;
    let owner = reached.owner();
    reach::line(&owner, &args.place, drive, name)?;
    let turned = Reviews::of(owner, reach::who("tenure resolve".to_owned(), false)).resolve(&ask)?;
    reached.close()?;
    let shown = shown(&ask.path);
    if args.json {
        return output::json(&serde_json::json!({
            "drive": drive.as_str(), "branch": name, "path": shown, "before": turned.before,
        }));
    }
    output::line(format_args!(
        "the conflict at {shown} is settled; {drive}@{} is what {name} was before",
        turned.before
    ))
}

fn choice(how: &How) -> Result<Choice> {
    let Some(file) = &how.file else {
        return Ok(match (how.ours, how.theirs) {
            (true, _) => Choice::Ours,
            (_, true) => Choice::Theirs,
            (false, false) => Choice::Both,
        });
    };
    let shown = output::path(file);
    let len = std::fs::metadata(file)
        .with_context(|| format!("{shown} cannot be read"))?
        .len();
    if len > MERGED_FILE_LEN_MAX {
        return Err(Told::refused(
            format!("{shown} is longer than {}", output::bytes(MERGED_FILE_LEN_MAX)),
            "put the file there in a mount, then tenure resolve .. --both",
        ));
    }
    let bytes = std::fs::read(file).with_context(|| format!("{shown} cannot be read"))?;
    Ok(Choice::Bytes(bytes))
}
