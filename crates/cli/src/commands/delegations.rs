//! `tenure delegations`: what of a drive is lent, to whom, and for how long.

use crate::clock::MachineClock;
use crate::duration;
use crate::output;
use crate::place::Place;
use crate::reach;
use anyhow::Result;
use std::time::Duration;
use tenure_model::{Clock, DriveName};
use tenure_wire::{Delegation, Lease};

/// Show who holds which branches of a drive, since when, and until when
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure delegations work\n  tenure delegations work --json\n\nA holder of another process keeps a branch as long as it says something: its mount does so every\nsecond. Of one that is silent for as long as its lease lasts, whoever asks for the branch has it. Of a shared\nbranch it says how many directories are lent to each mount."
)]
pub(crate) struct Args {
    /// The drive
    #[arg(value_parser = DriveName::parse)]
    drive: DriveName,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows what is lent.
pub(crate) fn run(args: &Args) -> Result<()> {
    let reached = reach::drive_to_read(&args.place, &args.drive, "delegations")?;
    let lent = reached.owner().delegations()?;
    reached.close()?;
    if args.json {
        return output::json(&lent.iter().map(as_json).collect::<Vec<_>>());
    }
    if lent.is_empty() {
        return output::line(format_args!("nothing of {} is lent", args.drive));
    }
    let mut table = output::table(["BRANCH", "HELD BY", "SINCE", "UNTIL"]);
    let now = MachineClock.now().secs;
    for one in &lent {
        table.add_row([
            what(one),
            one.who.clone(),
            ago(now - one.since.secs),
            until(one.lease),
        ]);
    }
    output::rows(&table)
}

/// Says what is lent: a branch, or directories of one that is shared.
fn what(lent: &Delegation) -> String {
    match lent.directories {
        0 => lent.name.clone(),
        1 => format!("{}: one directory", lent.name),
        count => format!("{}: {count} directories", lent.name),
    }
}

fn as_json(lent: &Delegation) -> serde_json::Value {
    let millis = |time: Duration| time.as_millis() as u64;
    serde_json::json!({
        "branch": lent.name,
        "session": lent.session.0,
        "holder": lent.who,
        "since": lent.since.secs,
        "directories": lent.directories,
        "silent_ms": lent.lease.map(|lease| millis(lease.silence)),
        "lease_ms": lent.lease.map(|lease| millis(lease.length)),
        "until": until(lent.lease),
    })
}

/// Says until when something is lent.
pub(crate) fn until(lease: Option<Lease>) -> String {
    let Some(Lease { silence, length }) = lease else {
        return "its process ends".to_owned();
    };
    let silent = silence.as_secs_f64();
    if silence >= length {
        return format!("another asks for it: it is silent for {silent:.0} s");
    }
    let left = (length - silence).as_secs_f64();
    format!("{left:.1} s from now, unless it says something: for {silent:.1} s nothing was heard of it")
}

/// Says how long ago something was.
pub(crate) fn ago(secs: i64) -> String {
    let length = Duration::from_secs(u64::try_from(secs).unwrap_or(0));
    format!("{} ago", duration::words(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_come_was_just_now() {
        assert_eq!([-5, 119].map(ago), ["0 s ago", "119 s ago"]);
    }

    #[test]
    fn until_when_depends_on_what_was_heard() {
        let lease = |silence| {
            until(Some(Lease {
                silence: Duration::from_millis(silence),
                length: Duration::from_millis(5250),
            }))
        };
        assert_eq!(
            lease(250),
            "5.0 s from now, unless it says something: for 0.2 s nothing was heard of it"
        );
        assert_eq!(lease(12_000), "another asks for it: it is silent for 12 s");
        assert_eq!(until(None), "its process ends");
    }
}
