//! What must hold: a reference of names and contents, and what a crash may leave of it.
//!
//! It sees what was asked and what was answered, never how. Nothing here chooses an operation or makes a fault.

mod acl;
mod content;
mod history;
mod names;
mod past;
mod survey;

pub(crate) use content::Content;
pub(crate) use history::{History, Snapshot};
pub(crate) use names::{Change, Names};
pub(crate) use past::{Entry, Party, Past, Place, Span};
pub(crate) use survey::{entries, survey};

/// A promise that was not kept, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

/// What a check returns.
pub(crate) type Verdict<T> = Result<T, Broken>;

/// Says that a promise was not kept.
pub(crate) fn broken<T>(what: impl Into<String>) -> Verdict<T> {
    Err(Broken(what.into()))
}
