//! `tenure fork`: makes a branch from a branch or a checkpoint.

use crate::clock::MachineClock;
use crate::duration;
use crate::holders;
use crate::output;
use crate::place::Place;
use crate::reach;
use anyhow::{Result, anyhow};
use std::time::Duration;
use tenure_client::{ForkAsk, IfThere, Lines, lines};
use tenure_model::{BranchName, Clock, Ref, RequestKey};

/// Make a branch from what a branch or a checkpoint is now; of a mounted branch, as far as it was synced
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure fork work attempt-1\n  tenure fork work@before-the-upgrade attempt-2\n  tenure fork work attempt-3 --sync --for 2h\n  tenure fork work fix-1 --staged\n  tenure fork work job-7 --key \"$JOB\" --json\n  tenure mount work@attempt-2 ~/attempt-2"
)]
pub(crate) struct Args {
    /// The drive, and its branch or checkpoint unless it is `main`
    #[arg(value_name = "DRIVE[@BRANCH|@CHECKPOINT]", value_parser = Ref::parse)]
    from: Ref,
    /// The new branch's name
    #[arg(value_parser = BranchName::parse)]
    name: BranchName,
    /// Where there is a branch of that name already, be content with it, whatever it was made from
    #[arg(long)]
    if_absent: bool,
    /// A word by which this request is known: asked once more with the same word, also by another machine, it makes nothing and names
    /// the branch that it has made, as long as that is there; another request with that word is refused
    #[arg(long, value_parser = RequestKey::parse)]
    key: Option<RequestKey>,
    /// Let the branch go by itself after this time (30m, 2h, 7d), as soon as nobody has it mounted
    #[arg(long = "for", value_name = "TIME", value_parser = duration::lasting)]
    length: Option<Duration>,
    /// Have whoever has the branch mounted, here or elsewhere, make durable what is there, so that it is in the new branch
    #[arg(long)]
    sync: bool,
    /// Let what is changed in it wait for a review (tenure review), after which it is merged into what it was made from, or into what
    /// that is a checkpoint of; a branch that is there already stays as it is
    #[arg(long)]
    staged: bool,
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Forks.
pub(crate) fn run(args: &Args) -> Result<()> {
    let (drive, from) = (&args.from.drive, args.from.at.as_deref().unwrap_or(reach::MAIN));
    let reached = reach::drive_for(&args.place, drive, "fork")?;
    let owner = reached.owner();
    let base = reach::line(&owner, &args.place, drive, from)?;
    if args.sync {
        // What is no branch is what it is.
        if base.branch.is_some() {
            holders::sync_all(&owner, &BranchName::parse(from).map_err(|why| anyhow!(why))?)?;
        }
    }
    let ask = ForkAsk {
        if_there: if args.if_absent {
            IfThere::Take
        } else {
            IfThere::Refuse
        },
        key: args.key.clone(),
        length: args.length,
        staged: args
            .staged
            .then(|| reach::who("tenure fork --staged".to_owned(), false)),
        ..ForkAsk::new(lines::source_of(&base)?, args.name.clone())
    };
    let lines = Lines::of(owner.clone());
    let made = lines.fork(&ask)?;
    let name = made.found.as_deref().unwrap_or(args.name.as_str());
    let line = lines.find(name)?;
    reached.close()?;
    let until = line.as_ref().and_then(|line| line.until);
    if args.json {
        return output::json(&serde_json::json!({
            "drive": drive.as_str(),
            "branch": name,
            "from": line.as_ref().map_or(from, |line| base_of(&line.from)),
            "made": made.found.is_none(),
            "until": until.map(|until| until.secs),
            "staged_for": line.as_ref().and_then(|line| line.mark.as_ref()).and_then(|mark| mark.into.as_deref()),
        }));
    }
    let what = match (&made.found, &line) {
        (None, _) => format!("is a fork of {from}"),
        (Some(_), Some(line)) if !line.from.is_empty() => {
            format!("is there already, made from {}", line.from)
        }
        (Some(_), _) => "is there already".to_owned(),
    };
    let waits = line.as_ref().and_then(|line| line.mark.as_ref()?.into.as_ref());
    let waits = waits.map_or_else(String::new, |into| format!(", waits for a review for {into}"));
    let goes = until.map_or_else(String::new, |until| {
        let left = duration::words(until.since(MachineClock.now()));
        format!(" and goes by itself in {left}, once nobody has it mounted")
    });
    output::line(format_args!(
        "{drive}@{name} {what}{waits}{goes}; `tenure mount {drive}@{name} DIR{}` mounts it",
        args.place.options()
    ))
}

/// Returns the name in the words that say what a branch was made from: `branch main`.
fn base_of(from: &str) -> &str {
    from.split_once(' ').map_or(from, |(_, name)| name)
}
