//! `tenure status`: how a mount is, as it says itself.

use crate::clock::MachineClock;
use crate::error::Told;
use crate::mounts::{self, Detached, Process};
use crate::output;
use crate::status::{ANSWER_MAX, Mounted, Status, escaped};
use crate::waiting::Waiting;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use tenure_model::{Clock, counted};

/// Show how a mount is: what is durable, what is not yet, what it has cost
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure status ~/work\n  tenure status --json\n  cat ~/work/.tenure/status     the same JSON, without this program"
)]
pub(crate) struct Args {
    /// The mounted directory, or something in it [default: every mount of this machine that can be seen]
    dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows one mount, or all of them.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(dir) = &args.dir else {
        return all(args.json);
    };
    let dir = &mounts::around(dir)?.unwrap_or_else(|| dir.clone());
    if let Some(process) = mounts::process(&mounts::resolved(dir)).filter(|process| process.is_stopped) {
        return Err(Told::failed(
            format!(
                "{} does not answer; process {} is stopped",
                dir.display(),
                process.pid
            ),
            format!("kill -CONT {}", process.pid),
        ));
    }
    let waiting = Waiting::for_mount(dir);
    let mounted = Mounted::at(dir)?;
    drop(waiting);
    if args.json {
        return output::json(&mounted.status);
    }
    show(&mounted.status)
}

/// What one of all mounts has answered.
enum Answer {
    /// How it is.
    Status(Box<Status>),
    /// Nothing yet; the process that serves it, where that is known.
    Silent(Option<Process>),
    /// Why it cannot be asked: it is another user's, or its process has ended.
    Refused(String),
}

fn all(json: bool) -> Result<()> {
    let answers = ask(mounts::all()?);
    let mut detached = mounts::all_detached();
    // One that answers is there, whatever its directory is called by now.
    let answers_as = |pid: u32| move |answer: &(PathBuf, Answer)| matches!(&answer.1, Answer::Status(status) if status.pid == pid);
    detached.retain(|detached| !answers.iter().any(answers_as(detached.pid)));
    if json {
        let answers = answers.iter().map(|(dir, answer)| as_json(dir, answer));
        let detached = detached.iter().map(|detached| Ok(detached_as_json(detached)));
        let values: Result<Vec<_>, _> = answers.chain(detached).collect();
        return output::json(&values?);
    }
    if answers.is_empty() && detached.is_empty() {
        return output::line(
            "nothing is mounted; `tenure mount DRIVE DIR --create` makes a drive and mounts it",
        );
    }
    let mut table = output::table(["DIR", "DRIVE", "BRANCH", "TIER", "UNSYNCED", "PID"]);
    for (dir, answer) in &answers {
        if let Answer::Status(status) = answer {
            table.add_row(row(dir, status));
        }
    }
    if !table.is_empty() {
        output::rows(&table)?;
    }
    answers
        .iter()
        .filter_map(|(dir, answer)| match answer {
            Answer::Status(status) => status
                .trouble
                .as_ref()
                .map(|trouble| format!("{}: {trouble}", output::path(dir))),
            Answer::Silent(process) => Some(format!("{}: {}", output::path(dir), silent(*process))),
            Answer::Refused(why) => Some(why.clone()),
        })
        .chain(detached.iter().map(lives_on))
        .try_for_each(output::line)
}

/// Says of a mount that was taken away what it still has, and what ends it.
fn lives_on(Detached { was, pid }: &Detached) -> String {
    format!(
        "{}: detached; process {pid} has {}@{} for who has files open there, and ends when they are closed (kill {pid} ends it)",
        output::path(&was.dir),
        was.what.drive,
        was.branch()
    )
}

fn detached_as_json(detached: &Detached) -> serde_json::Value {
    let mut value = unknown(&detached.was.dir, Some(detached.pid), &lives_on(detached));
    value["drive"] = detached.was.what.drive.as_str().into();
    value["branch"] = detached.was.branch().into();
    value["detached"] = true.into();
    value
}

/// Asks all mounts side by side; who has not answered after a while is silent.
fn ask(dirs: Vec<PathBuf>) -> Vec<(PathBuf, Answer)> {
    let (say, hear) = channel();
    let mut answers = BTreeMap::new();
    for dir in dirs {
        let process = mounts::process(&dir);
        answers.insert(dir.clone(), Answer::Silent(process));
        // A stopped process is not asked: Linux may hold who asks it until it goes on.
        if process.is_some_and(|process| process.is_stopped) {
            continue;
        }
        let say = say.clone();
        let ask = move || drop(say.send((dir.clone(), Mounted::at(&dir))));
        // Without a thread for it the mount is silent.
        let _ = std::thread::Builder::new().name("asking".into()).spawn(ask);
    }
    drop(say);
    let begun = MachineClock.elapsed();
    loop {
        let left = ANSWER_MAX.saturating_sub(MachineClock.elapsed().saturating_sub(begun));
        match hear.recv_timeout(left) {
            Ok((dir, Ok(mounted))) => {
                answers.insert(dir, Answer::Status(Box::new(mounted.status)));
            }
            Ok((dir, Err(error))) => {
                let hint = Told::hint_of(&error).map_or_else(String::new, |hint| format!(" ({hint})"));
                answers.insert(dir, Answer::Refused(format!("{error}{hint}")));
            }
            Err(_) => return answers.into_iter().collect(),
        }
    }
}

fn silent(process: Option<Process>) -> String {
    match process {
        Some(Process {
            pid,
            is_stopped: true,
        }) => format!("does not answer; process {pid} is stopped (kill -CONT {pid} lets it go on)"),
        Some(Process { pid, .. }) => format!(
            "does not answer; process {pid} runs, and may wait for its server or its disk \
             (ps -o pid,stat,args -C tenure shows who is stopped: T)"
        ),
        None => "does not answer; its process is not known (ps -o pid,stat,args -C tenure shows who is stopped: T)"
            .to_owned(),
    }
}

fn as_json(dir: &Path, answer: &Answer) -> serde_json::Result<serde_json::Value> {
    match answer {
        Answer::Status(status) => serde_json::to_value(status),
        Answer::Silent(process) => Ok(unknown(
            dir,
            process.map(|process| process.pid),
            &silent(*process),
        )),
        Answer::Refused(why) => Ok(unknown(dir, None, why)),
    }
}

fn unknown(dir: &Path, pid: Option<u32>, trouble: &str) -> serde_json::Value {
    serde_json::json!({
        "dir": dir.to_string_lossy(),
        "dir_escaped": escaped(dir),
        "pid": pid,
        "trouble": trouble,
    })
}

fn row(dir: &Path, status: &Status) -> [String; 6] {
    let unsynced = format!(
        "{}, {}{}",
        counted(status.unsynced.ops, "change"),
        output::bytes(status.unsynced.bytes),
        status.lost.as_ref().map_or("", |_| "; nothing more is accepted")
    );
    [
        output::path(dir),
        status.drive.clone(),
        status.branch.clone(),
        status.tier.clone(),
        unsynced,
        status.pid.to_string(),
    ]
}

fn show(status: &Status) -> Result<()> {
    let mut facts = Vec::new();
    let mode = match (&status.lost, status.read_only) {
        (Some(_), _) => "nothing more is accepted",
        (None, true) => "read-only",
        (None, false) if status.shared => "shared",
        (None, false) => "exclusive",
    };
    let mut row = |name: &str, value: String| {
        facts.push((name.to_owned(), value));
    };
    row(
        "mount",
        format!("{} at {} ({mode})", named(status), output::path(&status.dir)),
    );
    if let Some(into) = &status.staged_for {
        row(
            "review",
            format!("waits for one for {into}: tenure review show {}", named(status)),
        );
    }
    if status.protected {
        row("review", "protected: it changes only by accepted ones".to_owned());
    }
    row(
        "tier",
        format!(
            "{}; unsynced changes follow within {} ms",
            status.tier, status.lag_max_ms
        ),
    );
    row("now", status.durable());
    row("lent", status.delegation.clone());
    row(
        "holds",
        format!(
            "{}, {}",
            counted(status.inodes, "inode"),
            output::bytes(status.bytes)
        ),
    );
    row("memory", format!("{} of pages", output::bytes(status.page_bytes)));
    row(
        "journal",
        format!("{} since the last manifest", output::bytes(status.journal_bytes)),
    );
    status
        .cache
        .iter()
        .for_each(|cache| row("cache", cache.to_string()));
    status.warm.iter().for_each(|warm| row("warm", warm.to_string()));
    row("kernel", counts(&status.requests));
    row("bucket", counts(&status.bucket_requests));
    row(
        "process",
        format!(
            "{}, owner {}",
            status.pid,
            status.owner_pid.map_or("elsewhere".into(), |pid| pid.to_string())
        ),
    );
    status
        .server
        .iter()
        .for_each(|server| row("server", server.clone()));
    status
        .notices
        .iter()
        .for_each(|notice| row("notice", notice.clone()));
    status
        .trouble
        .iter()
        .for_each(|trouble| row("trouble", trouble.clone()));
    output::facts(&facts)
}

fn named(status: &Status) -> String {
    format!("{}@{}", status.drive, status.branch)
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    let total: u64 = counts.values().sum();
    if total == 0 {
        return "no requests".to_owned();
    }
    let kinds: Vec<_> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    format!("{}: {}", counted(total, "request"), kinds.join(", "))
}
