//! `tenure sync`: makes everything in a mount durable.

use crate::error::Told;
use crate::mounts;
use crate::output;
use crate::status::{INSIDE, Mounted};
use crate::waiting::Waiting;
use anyhow::{Context, Result};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Make everything in a mount durable, and say so
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tenure sync ~/work && echo safe")]
pub(crate) struct Args {
    /// The mounted directory, or something in it
    dir: PathBuf,
}

/// Syncs and says what that means.
pub(crate) fn run(args: &Args) -> Result<()> {
    let dir = &mounts::around(&args.dir)?.unwrap_or_else(|| args.dir.clone());
    let _waiting = Waiting::for_mount(dir);
    let mounted = Mounted::at(dir)?;
    sync(dir)?;
    output::line(format_args!(
        "everything in {} is durable ({} tier)",
        dir.display(),
        mounted.status.tier
    ))
}

/// Makes everything in a mount durable.
pub(crate) fn sync(dir: &Path) -> Result<()> {
    // An fsync of the root would do it too, and hold the root's lock meanwhile: who needs a name there would wait in Linux.
    let path = dir.join(INSIDE);
    let all = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    // What programs have stored in memory that is mapped is known to Linux alone until it is told to write it.
    let written = rustix::fs::syncfs(&all).map_err(std::io::Error::from);
    written.and_then(|()| all.sync_all()).map_err(|error| {
        let status = Mounted::at(dir).ok().map(|mounted| mounted.status);
        let trouble = status.as_ref().and_then(|status| status.trouble.clone());
        let why = trouble.unwrap_or_else(|| error.to_string());
        let hint = match status.filter(|status| status.lost.is_some()) {
            Some(lost) => lost.how_to_give_up(),
            None => format!("mend that, then: tenure sync {}", output::quoted(dir)),
        };
        Told::failed(
            format!("{} could not be made durable: {why}", dir.display()),
            hint,
        )
    })
}
