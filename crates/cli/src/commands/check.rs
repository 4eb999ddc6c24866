//! `tenure check`: holds a drive's invariants against what is stored.

use crate::error::Told;
use crate::output;
use crate::place::Place;
use crate::reach;
use anyhow::Result;
use tenure_model::DriveName;

/// Check that a drive is whole
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure check work\n  tenure check work --deep     read and verify every byte\n\nChecking changes nothing of a drive. But opening one that nobody has open writes a claim and a lock to its bucket, so a\nbucket that is full or cannot be written cannot be checked in place: check a copy of the folder."
)]
pub(crate) struct Args {
    /// The drive
    #[arg(value_parser = DriveName::parse)]
    drive: DriveName,
    /// Read and verify every byte
    #[arg(long)]
    deep: bool,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Checks, and fails when something is wrong.
pub(crate) fn run(args: &Args) -> Result<()> {
    let reached = reach::drive_for(&args.place, &args.drive, "check")?;
    let faults = reached.owner().check(args.deep)?;
    reached.close()?;
    if args.json {
        output::json(
            &serde_json::json!({ "drive": args.drive.as_str(), "deep": args.deep, "faults": faults }),
        )?;
    } else {
        faults.iter().try_for_each(output::line)?;
    }
    match faults.len() {
        0 if args.json => Ok(()),
        0 => output::line(format_args!(
            "{} is whole{}",
            args.drive,
            if args.deep {
                ", to the last byte"
            } else {
                "; packs and records were not read to the last byte (--deep does)"
            }
        )),
        count => Err(Told::failed(
            format!("{count} things are wrong in {}", args.drive),
            "everything that is not named above works; keep a copy of the bucket before anything is changed",
        )),
    }
}
