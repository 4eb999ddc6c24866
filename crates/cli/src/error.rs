//! What a person is told when something did not work: the error, its causes, and a command that helps.

use crate::hint;
use crate::output::{self, Unread};
use std::fmt;
use std::process::ExitCode;
use tenure_model::{Failure, Refusal};

/// An error with the command that would help.
#[derive(Debug)]
pub(crate) struct Told {
    what: String,
    hint: Option<String>,
    code: u8,
}

/// A rule said no.
pub(crate) const REFUSED: u8 = 1;
/// The world failed.
pub(crate) const FAILED: u8 = 3;
/// It is not known whether it happened.
pub(crate) const UNKNOWN: u8 = 4;
/// Nobody read what was printed: as if SIGPIPE had ended the command.
const UNREAD: u8 = 141;

impl Told {
    /// Returns a refusal with a hint.
    pub(crate) fn refused(what: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        Told {
            what: what.into(),
            hint: Some(hint.into()),
            code: REFUSED,
        }
        .into()
    }

    /// Returns a failure with a hint.
    pub(crate) fn failed(what: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        Told {
            what: what.into(),
            hint: Some(hint.into()),
            code: FAILED,
        }
        .into()
    }

    /// Returns the hint that stands with an error.
    pub(crate) fn hint_of(error: &anyhow::Error) -> Option<&str> {
        error.downcast_ref::<Told>()?.hint.as_deref()
    }

    /// Returns what another `tenure` process has told, with its exit code.
    pub(crate) fn relayed(what: impl Into<String>, code: u8) -> anyhow::Error {
        Told {
            what: what.into(),
            hint: None,
            code,
        }
        .into()
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Told {}

/// Prints an error and returns the exit code that scripts can branch on.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if !error.is::<Unread>() {
        output::note(text(error).trim_end());
    }
    ExitCode::from(code(error))
}

/// Returns an error as it is printed.
pub(crate) fn text(error: &anyhow::Error) -> String {
    text_or(error, None)
}

/// Returns an error as it is printed, with a hint that is better than what its words tell.
pub(crate) fn text_or(error: &anyhow::Error, hint: Option<&str>) -> String {
    let mut lines = format!("error: {}\n", ended(&error.to_string()));
    let mut said = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !said.contains(&cause) {
            lines.push_str(&format!("caused by: {}\n", ended(&cause)));
        }
        said = cause;
    }
    let told = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Told>())
        .map(|told| told.hint.clone());
    if let Some(hint) = told.unwrap_or_else(|| Some(untold(error, hint))) {
        lines.push_str(&format!("hint: {hint}\n"));
    }
    hint::words::pasted(&lines)
}

/// Returns what helps against an error that comes without a hint.
fn untold(error: &anyhow::Error, hint: Option<&str>) -> String {
    let mut words = error.chain().map(ToString::to_string);
    error
        .chain()
        .find_map(hint::against)
        .or_else(|| hint.map(str::to_owned))
        .or_else(|| words.find_map(|why| hint::words::against(&why)))
        .unwrap_or_else(hint::words::at_least)
}

/// Returns a sentence without the colon behind which a program below had nothing to say.
fn ended(sentence: &str) -> &str {
    sentence.trim_end().trim_end_matches(':')
}

/// Returns the exit code for an error.
pub(crate) fn code(error: &anyhow::Error) -> u8 {
    error.chain().find_map(code_of).unwrap_or(FAILED)
}

fn code_of(cause: &(dyn std::error::Error + 'static)) -> Option<u8> {
    if let Some(told) = cause.downcast_ref::<Told>() {
        return Some(told.code);
    }
    if cause.is::<Unread>() {
        return Some(UNREAD);
    }
    if let Some(error) = cause.downcast_ref::<tenure_wire::Error>() {
        return Some(match error {
            tenure_wire::Error::Refused(_) => REFUSED,
            tenure_wire::Error::Failed(failure) => of_failure(failure),
        });
    }
    if let Some(error) = cause.downcast_ref::<tenure_store::OpenError>() {
        return Some(match error {
            tenure_store::OpenError::Refused(_) => REFUSED,
            tenure_store::OpenError::Failed(failure) => of_failure(failure),
        });
    }
    if let Some(failure) = cause.downcast_ref::<Failure>() {
        return Some(of_failure(failure));
    }
    if cause.is::<Refusal>() || cause.is::<tenure_mount::kernel::MountError>() {
        return Some(REFUSED);
    }
    None
}

fn of_failure(failure: &Failure) -> u8 {
    match failure {
        Failure::Unknown(_) | Failure::Waits(_) => UNKNOWN,
        // Nothing is wrong with what is stored, and nothing of it was changed.
        Failure::Newer(_) => REFUSED,
        Failure::DidNotHappen(_) | Failure::NoSpace(_) | Failure::Corrupt(_) | Failure::Fenced(_) => FAILED,
    }
}
