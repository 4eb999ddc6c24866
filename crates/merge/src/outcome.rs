//! What became of a merge, and what is told of it.

use crate::driver::Driver;
use std::fmt::{self, Display};

/// What became of two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// One content that has what both changed.
    Merged(Merged),
    /// Both are to be kept.
    Conflict(Conflict),
}

/// A content that has what both sides changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// Its bytes.
    pub content: Vec<u8>,
    /// Which driver merged it.
    pub by: Driver,
    /// Why that is not the one that was asked for.
    pub unfit: Option<Unfit>,
}

/// Why two sides were not merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Which driver said so.
    pub by: Driver,
    /// Its reason.
    pub why: Why,
    /// Why that is not the driver that was asked for.
    pub unfit: Option<Unfit>,
}

/// Why a driver could not have these contents, so that they were merged by lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// The driver that was asked for.
    pub driver: Driver,
    /// What it said, in words.
    pub reason: String,
}

/// Why both sides must be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// A side is no text, and nothing else is known of it.
    Binary,
    /// A side is longer than what is merged, in bytes.
    TooLong(usize),
    /// A side has more lines than what is merged.
    TooManyLines(usize),
    /// A side has too little in common with the base to say what it changed.
    TooDifferent,
    /// Both made the file, and differently.
    NoBase,
    /// Both changed the same lines, or lines next to each other: the first of them in ours, from one on.
    Lines(usize),
    /// Both changed the same value: where it is, as keys and places from the top.
    Value(String),
    /// What it would have become by lines is not what both sides say as data.
    Unsound,
}

impl Outcome {
    pub(crate) fn merged(by: Driver, unfit: Option<Unfit>, content: Vec<u8>) -> Self {
        Self::Merged(Merged { content, by, unfit })
    }

    pub(crate) fn of(by: Driver, unfit: Option<Unfit>, result: Result<Vec<u8>, Why>) -> Self {
        match result {
            Ok(content) => Self::merged(by, unfit, content),
            Err(why) => Self::Conflict(Conflict { by, why, unfit }),
        }
    }
}

impl Unfit {
    pub(crate) fn new(driver: Driver, reason: impl Into<String>) -> Self {
        Self {
            driver,
            reason: reason.into(),
        }
    }
}

impl Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not by {}: {}", self.driver, self.reason)
    }
}

impl Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Binary => f.write_str("it is no text"),
            Self::TooLong(limit) => write!(f, "a side has more than {} MiB", limit >> 20),
            Self::TooManyLines(limit) => write!(f, "a side has more than {limit} lines"),
            Self::TooDifferent => f.write_str("a side has too little in common with what it was"),
            Self::NoBase => f.write_str("both made it"),
            Self::Lines(line) => write!(f, "both changed what is around line {line}"),
            Self::Value(place) => write!(f, "both changed {place}"),
            Self::Unsound => f.write_str("merged by lines, it would not say what both sides say"),
        }
    }
}
