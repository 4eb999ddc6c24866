//! `tenure sync`: makes everything in a mount durable.

use crate::commands::status::Mounted;
use crate::error::Told;
use crate::output;
use crate::waiting::Waiting;
use anyhow::{Context, Result};
use std::fs::File;
use std::path::PathBuf;

/// Make everything in a mount durable, and say so
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tenure sync ~/work && echo safe")]
pub(crate) struct Args {
    /// The mounted directory
    dir: PathBuf,
}

/// Syncs and says what that means.
pub(crate) fn run(args: &Args) -> Result<()> {
    let _waiting = Waiting::for_mount(&args.dir);
    let mounted = Mounted::at(&args.dir)?;
    sync(&args.dir)?;
    output::line(format_args!(
        "everything in {} is durable ({} tier)",
        args.dir.display(),
        mounted.status.tier
    ))
}

/// Makes everything in a mount durable: an fsync of any directory covers all of its branch's names, and one of the
/// root also all contents.
pub(crate) fn sync(dir: &std::path::Path) -> Result<()> {
    let root = File::open(dir).with_context(|| format!("cannot open {}", dir.display()))?;
    root.sync_all().map_err(|error| {
        let trouble = Mounted::at(dir).ok().and_then(|mounted| mounted.status.trouble);
        let why = trouble.unwrap_or_else(|| error.to_string());
        let hint = format!("mend that, then: tenure sync {}", dir.display());
        Told::failed(
            format!("{} could not be made durable: {why}", dir.display()),
            hint,
        )
    })
}
