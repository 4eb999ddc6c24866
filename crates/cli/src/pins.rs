//! The servers that this user has seen, each with the fingerprint of its certificate: a file of lines `ADDRESS FINGERPRINT`
//! beside the logs, as `known_hosts` is of SSH.
//!
//! Invariant: a line is written by one process at a time, and never replaced but by a person's word.

use crate::error::Told;
use crate::home;
use crate::output;
use anyhow::{Context, Result};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use tenure_model::Failure;
use tenure_wire::web::{Fingerprint, Pins};
use tenure_wire::{Error, ServerAddress};

/// What was seen for the first time and nobody was told yet.
static NEWS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns what was seen for the first time since this was asked, in sentences.
pub(crate) fn news() -> Vec<String> {
    std::mem::take(&mut NEWS.lock())
}

/// Tells a person what was seen for the first time.
pub(crate) fn tell_news() {
    news()
        .iter()
        .for_each(|new| output::note(format_args!("note: {new}")));
}

/// The servers that were seen.
pub(crate) struct Known {
    path: PathBuf,
}

type Lines = BTreeMap<String, Fingerprint>;

impl Known {
    /// Returns the servers that this user has seen.
    pub(crate) fn of_this_user() -> Result<Self> {
        Ok(Known {
            path: home::state()?.join("known-servers"),
        })
    }

    /// Returns all of them.
    pub(crate) fn all(&self) -> Result<Lines> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Lines::new()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", self.path.display())),
        };
        let mut lines = Lines::new();
        for (number, line) in text.lines().enumerate() {
            let parsed = line.split_once(' ').and_then(|(server, fingerprint)| {
                let server: ServerAddress = server.parse().ok()?;
                Some((server.to_string(), fingerprint.trim().parse().ok()?))
            });
            let (server, fingerprint) = parsed.ok_or_else(|| {
                let at = self.path.display();
                Told::refused(
                    format!("line {} of {at} is no server with its fingerprint", number + 1),
                    format!("sed -i {}d {at}", number + 1),
                )
            })?;
            lines.insert(server, fingerprint);
        }
        Ok(lines)
    }

    /// Keeps a server's fingerprint, whatever was known of it, or forgets the server.
    pub(crate) fn set(&self, server: &ServerAddress, fingerprint: Option<Fingerprint>) -> Result<()> {
        self.change(|lines| {
            match fingerprint {
                Some(fingerprint) => lines.insert(server.to_string(), fingerprint),
                None => lines.remove(&server.to_string()),
            };
        })
    }

    /// Changes the file, alone.
    fn change(&self, change: impl FnOnce(&mut Lines)) -> Result<()> {
        let shown = self.path.display();
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.path.with_extension("lock"))
            .with_context(|| format!("cannot lock {shown}"))?;
        flock(&lock, FlockOperation::LockExclusive).with_context(|| format!("cannot lock {shown}"))?;
        let mut lines = self.all()?;
        change(&mut lines);
        let folder = self.path.parent().unwrap_or(&self.path);
        let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut next| {
            lines
                .iter()
                .try_for_each(|(server, fingerprint)| writeln!(next, "{server} {fingerprint}"))?;
            next.as_file().sync_all()?;
            next.persist(&self.path).map_err(|error| error.error)
        });
        written.map(drop).with_context(|| format!("cannot write {shown}"))
    }
}

impl Pins for Known {
    fn known(&self, server: &str) -> Result<Option<Fingerprint>, Error> {
        let all = self.all().map_err(|error| failed(&error))?;
        Ok(all.get(server).copied())
    }

    fn remember(&self, server: &str, seen: &Fingerprint) -> Result<(), Error> {
        let mut other = None;
        let kept = self.change(|lines| {
            other = Some(*lines.entry(server.to_owned()).or_insert(*seen));
        });
        kept.map_err(|error| failed(&error))?;
        if other != Some(*seen) {
            // Another process has seen it first, and something else.
            return Err(
                Failure::DidNotHappen(format!("{server} shows one certificate and then another")).into(),
            );
        }
        NEWS.lock().push(format!(
            "{server} was seen for the first time: its certificate is {seen}, and must be from now on; the server prints the \
             same where it is itself"
        ));
        Ok(())
    }

    fn how_to_accept(&self, server: &str, seen: &Fingerprint) -> String {
        format!("tenure trust {server} {seen}")
    }
}

fn failed(error: &anyhow::Error) -> Error {
    Failure::DidNotHappen(format!("{error:#}")).into()
}
