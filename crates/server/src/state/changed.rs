//! Which branches were changed since the owner has made a checkpoint of them by itself.
//!
//! Invariant: a branch is here if its row says so. Rows say it once, at the first change, so that the next change costs no row.

use super::{LineKind, State, row};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tenure_model::BranchId;

/// The branches, and whether there are some of which whoever makes checkpoints has not heard.
#[derive(Clone, Debug, Default)]
pub(super) struct Branches {
    all: BTreeSet<BranchId>,
    news: News,
}

/// Whether a branch was changed for the first time since somebody has looked. It is a hint, and shared by all who have it.
#[derive(Clone, Debug, Default)]
pub(crate) struct News(Arc<AtomicBool>);

impl News {
    /// Tells whether there is any.
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes that somebody looks.
    pub(crate) fn heard(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Branches {
    pub(super) fn remove(&mut self, branch: &BranchId) -> bool {
        self.all.remove(branch)
    }
}

impl State {
    /// Returns the branches that were changed.
    pub(crate) fn changed(&self) -> &BTreeSet<BranchId> {
        &self.changed.all
    }

    /// Returns where it is told that another branch was changed.
    pub(crate) fn news(&self) -> News {
        self.changed.news.clone()
    }

    pub(super) fn take_changed(&mut self) {
        let lines = self.lines().into_iter();
        let changed = lines.filter(|(_, line)| line.is_changed).map(|(id, _)| id);
        self.changed.all = changed.collect();
    }

    /// Notes that a branch was changed; of strays no checkpoints are made.
    pub(super) fn note_change(&mut self, id: BranchId) {
        if self.changed.all.contains(&id) {
            return;
        }
        let Some(mut line) = self.line(id).filter(|line| line.kind == LineKind::Branch) else {
            return;
        };
        line.is_changed = true;
        self.put(&row::line_key(id), &line);
        self.changed.all.insert(id);
        self.changed.news.0.store(true, Ordering::Relaxed);
    }

    /// Notes that a checkpoint has what a branch is.
    pub(super) fn forget_change(&mut self, id: BranchId) {
        if !self.changed.remove(&id) {
            return;
        }
        let mut line = self.line(id).expect("what was changed is there");
        line.is_changed = false;
        self.put(&row::line_key(id), &line);
    }
}
