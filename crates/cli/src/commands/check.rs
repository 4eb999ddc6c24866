//! `tenure check`: holds a drive's invariants against what is stored.

use crate::error::Told;
use crate::hint::{self, words::NEWER_HINT};
use crate::output;
use crate::place::Place;
use crate::reach;
use crate::waiting::PATIENCE;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use tenure_core::Branch;
use tenure_model::{DriveName, USE_NEWER, counted};
use tenure_wire::{Error, NOTE, Owner, UNSEEN, Verified};

/// Check that a drive is whole
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure check work\n  tenure check work --deep     read and verify every byte\n\nChecking changes nothing of a drive. What could not be looked at is told apart from what is\ndamaged."
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

/// How often a check is asked how far it is.
const LOOK_REST: Duration = Duration::from_millis(300);

/// Has every byte read, and shows meanwhile how far that is.
fn check_deeply(owner: &Arc<dyn Owner<Branch>>, drive: &DriveName) -> Result<Vec<String>, Error> {
    let (over, is_over) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(|| show(owner, drive, is_over));
        let checked = owner.check(true);
        drop(over);
        checked
    })
}

/// Shows how far a check is until it is over: on a terminal by a bar, else by a word when it takes long.
fn show(owner: &Arc<dyn Owner<Branch>>, drive: &DriveName, is_over: Receiver<()>) {
    let goes_on = |rest| is_over.recv_timeout(rest) == Err(RecvTimeoutError::Timeout);
    if !std::io::stderr().is_terminal() {
        if goes_on(PATIENCE) {
            let far = owner.status().ok().and_then(|status| status.verified);
            output::note(format_args!(
                "note: still reading every byte of {drive}{}",
                words(far)
            ));
        }
        return;
    }
    let style = ProgressStyle::with_template("{msg} {bar:30} {pos} of {len} packs")
        .expect("the template is well-formed");
    let bar = ProgressBar::new(0).with_style(style);
    while goes_on(LOOK_REST) {
        // Once the packs are read the trees are held against them, which tells nothing of itself.
        if let Some(verified) = owner.status().ok().and_then(|status| status.verified) {
            bar.set_length(verified.of);
            bar.set_position(verified.packs);
            bar.set_message(format!("{drive}: {} read,", output::bytes(verified.bytes)));
        }
    }
    bar.finish_and_clear();
}

fn words(verified: Option<Verified>) -> String {
    verified.map_or_else(String::new, |verified| {
        let bytes = output::bytes(verified.bytes);
        format!(
            ": {bytes} so far, {} of {}",
            verified.packs,
            counted(verified.of, "pack")
        )
    })
}

/// Checks, and fails when something is wrong.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut reached = reach::drive_to_read(&args.place, &args.drive, "check")?;
    let told = if args.deep {
        reached.stop_waiting();
        check_deeply(&reached.owner(), &args.drive)?
    } else {
        reached.owner().check(false)?
    };
    reached.close()?;
    let told: Vec<_> = told.iter().map(|told| hint::words::pasted(told)).collect();
    let (notes, others): (Vec<_>, Vec<_>) = told.iter().partition(|told| told.starts_with(NOTE));
    let (newer, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|told| told.contains(USE_NEWER));
    let (unseen, faults): (Vec<_>, Vec<_>) = others.into_iter().partition(|told| told.contains(UNSEEN));
    if args.json {
        let notices: Vec<_> = notes.iter().filter_map(|note| note.strip_prefix(NOTE)).collect();
        output::json(&serde_json::json!({
            "drive": args.drive.as_str(),
            "deep": args.deep,
            "faults": faults,
            "newer": newer,
            "unseen": unseen,
            "notices": notices,
        }))?;
    } else {
        faults
            .iter()
            .chain(&newer)
            .chain(&unseen)
            .chain(&notes)
            .try_for_each(output::line)?;
    }
    match faults.len() {
        0 if !newer.is_empty() => Err(Told::refused(
            format!(
                "not all of {} could be looked at, because a newer tenure has written it; nothing is wrong with the rest",
                args.drive
            ),
            NEWER_HINT,
        )),
        0 if !unseen.is_empty() => Err(Told::failed(
            format!(
                "not all of {} could be looked at; nothing is wrong with the rest",
                args.drive
            ),
            format!(
                "mend what is named above, then: tenure check {}{}",
                args.drive,
                args.place.options()
            ),
        )),
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
            format!("{} has {}", args.drive, counted(count as u64, "fault")),
            "everything that is not named above works; keep a copy of the bucket before anything is changed",
        )),
    }
}
