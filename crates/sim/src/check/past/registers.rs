//! Files of which all bytes are written at once, each time with another version: what is read is the last one.
//!
//! Of two versions one came first where a call with it was over before a call with the other began. The history has an order if no
//! read goes back from a version to one before it (Gibbons and Korach, "Testing shared memories", 1997).

use super::lives::{Lives, Span};
use crate::check::{Verdict, broken};
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Registers(BTreeMap<usize, BTreeMap<u64, Version>>);

/// The calls with one version of a file.
#[derive(Default)]
struct Version {
    /// None of the one with which the file was made.
    written: Option<Span>,
    reads: Vec<Span>,
}

impl Version {
    /// Tells whether a call with this version was over before `other` began.
    fn is_seen_before(&self, other: &Span) -> bool {
        let calls = || self.written.iter().chain(&self.reads);
        self.written.is_none() || calls().any(|call| call.is_before(other))
    }

    /// Tells whether this version came before another, by what was asked before `read`.
    fn came_before(&self, other: &Version, read: &Span, lives: &Lives) -> bool {
        // Where this one is lost, the other is what is left: before that, it was read by its session in its turn.
        let is_lost_at = |call: &Span| {
            let written = self.written.as_ref();
            written.is_some_and(|written| lives.may_be_missing(written, call))
        };
        let calls = other.written.iter().chain(&other.reads);
        let mut calls = calls.filter(|call| call.asked < read.asked);
        calls.any(|call| self.is_seen_before(call) && (call.is_before(read) || !is_lost_at(call)))
    }
}

impl Registers {
    pub(super) fn wrote(&mut self, span: Span, file: usize, version: u64) {
        self.version(file, version).written = Some(span);
    }

    pub(super) fn read(&mut self, span: Span, file: usize, version: u64) {
        self.version(file, version).reads.push(span);
    }

    fn version(&mut self, file: usize, version: u64) -> &mut Version {
        self.0.entry(file).or_default().entry(version).or_default()
    }

    pub(super) fn judge(&self, lives: &Lives) -> Verdict<()> {
        for (file, versions) in &self.0 {
            for (version, one) in versions {
                one.reads
                    .iter()
                    .try_for_each(|read| judge_read(lives, (*file, versions), (*version, one), read))?;
            }
        }
        Ok(())
    }
}

fn judge_read(
    lives: &Lives,
    (file, versions): (usize, &BTreeMap<u64, Version>),
    (number, version): (u64, &Version),
    read: &Span,
) -> Verdict<()> {
    let is_known = number == 0
        || version
            .written
            .is_some_and(|written| read.told > Some(written.asked));
    if !is_known {
        return broken(format!(
            "file {file}: {read} has read {number}, which nobody had written"
        ));
    }
    for (later, other) in versions.iter().filter(|(other, _)| **other != number) {
        let goes_back = other.is_seen_before(read) && version.came_before(other, read, lives);
        let is_lost = other
            .written
            .is_some_and(|written| lives.may_be_missing(&written, read));
        if goes_back && !is_lost {
            let by = other
                .written
                .map(|written| written.to_string())
                .unwrap_or_default();
            return broken(format!(
                "file {file}: {read} has read {number} though {later} was there before, by {by}"
            ));
        }
    }
    Ok(())
}
