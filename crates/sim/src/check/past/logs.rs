//! Files to which several append: each entry is there once and whole, in an order that does not change.

use super::lives::{Lives, Span};
use crate::check::{Verdict, broken};
use std::collections::{BTreeMap, BTreeSet};

/// What was appended: by the number of its session, and a number among those of that.
pub(crate) type Entry = (u64, u64);

#[derive(Default)]
pub(super) struct Logs(BTreeMap<usize, Log>);

#[derive(Default)]
struct Log {
    appended: BTreeMap<Entry, Span>,
    reads: Vec<(Span, Vec<Entry>)>,
}

impl Logs {
    pub(super) fn appended(&mut self, span: Span, file: usize, entry: Entry) {
        self.0.entry(file).or_default().appended.insert(entry, span);
    }

    pub(super) fn read(&mut self, span: Span, file: usize, entries: Vec<Entry>) {
        self.0.entry(file).or_default().reads.push((span, entries));
    }

    pub(super) fn judge(&self, lives: &Lives) -> Verdict<()> {
        self.0.iter().try_for_each(|(file, log)| log.judge(*file, lives))
    }
}

impl Log {
    fn judge(&self, file: usize, lives: &Lives) -> Verdict<()> {
        for (at, (read, entries)) in self.reads.iter().enumerate() {
            self.judge_entries(file, read, entries)?;
            self.judge_missing(lives, (file, read), entries)?;
            let later = self.reads[at + 1..]
                .iter()
                .filter(|(later, _)| read.is_before(later));
            for (later, then) in later {
                self.judge_change((file, lives), (read, entries), (later, then))?;
            }
        }
        Ok(())
    }

    /// Each is there once, and none before one that was there before it was asked for.
    fn judge_entries(&self, file: usize, read: &Span, entries: &[Entry]) -> Verdict<()> {
        let mut seen = BTreeSet::new();
        let mut latest: Option<Span> = None;
        for entry in entries {
            let Some(append) = self.appended.get(entry) else {
                return broken(format!(
                    "log {file}: {read} has read {entry:?}, which nobody appended"
                ));
            };
            if !seen.insert(entry) {
                return broken(format!("log {file}: {read} has read {entry:?} twice"));
            }
            if let Some(before) = latest.filter(|before| append.is_before(before)) {
                return broken(format!(
                    "log {file}: {read} has read {entry:?} behind what was asked later, by {before}"
                ));
            }
            if latest.is_none_or(|before| append.asked > before.asked) {
                latest = Some(*append);
            }
        }
        Ok(())
    }

    fn judge_missing(&self, lives: &Lives, (file, read): (usize, &Span), entries: &[Entry]) -> Verdict<()> {
        let seen: BTreeSet<_> = entries.iter().collect();
        let missing = self.appended.iter().find(|(entry, append)| {
            append.is_before(read) && !seen.contains(entry) && !lives.may_be_missing(append, read)
        });
        match missing {
            Some((entry, append)) => broken(format!("log {file}: {read} misses {entry:?} by {append}")),
            None => Ok(()),
        }
    }

    /// What was read once stays as it is, as far as it is there.
    fn judge_change(
        &self,
        (file, lives): (usize, &Lives),
        (read, before): (&Span, &[Entry]),
        (later, then): (&Span, &[Entry]),
    ) -> Verdict<()> {
        // Its order was certain at the first read.
        let was_answered = |entry: &&Entry| {
            let append = self.appended[entry];
            append.told.is_some() && append.epoch <= read.epoch
        };
        let certain: Vec<_> = before.iter().filter(was_answered).collect();
        let there: BTreeMap<_, _> = then.iter().enumerate().map(|(at, entry)| (entry, at)).collect();
        let mut last = None;
        let mut lost = None;
        for entry in certain {
            match (there.get(entry), lost) {
                (Some(at), None) if Some(at) > last => last = Some(at),
                (Some(_), None) => {
                    return broken(format!(
                        "log {file}: {later} has read {entry:?} elsewhere than {read}"
                    ));
                }
                (Some(_), Some(lost)) => {
                    return broken(format!(
                        "log {file}: {later} has read {entry:?} without {lost:?}, which it followed"
                    ));
                }
                (None, _) if lives.may_be_missing(&self.appended[entry], later) => lost = Some(entry),
                (None, _) => {
                    return broken(format!(
                        "log {file}: {later} misses {entry:?}, which {read} has read"
                    ));
                }
            }
        }
        Ok(())
    }
}
