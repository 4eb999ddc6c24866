//! When inodes of a shared branch were changed last, and by whom: what a session's copy of the branch lacks, and where several
//! sessions work at the same time.
//!
//! It is this owner's alone, and forgets everything once it is much: then every copy counts as too old. Invariant: what a copy has
//! not of what it is asked about, it is said to lack.

use std::collections::BTreeMap;
use std::time::Duration;
use tenure_model::{Ino, SessionId};

/// Inodes that are remembered: some MiB.
const INODES_MAX: usize = 100_000;
/// How long a session is taken to work where it has changed something: who has done so later than this is done with it, or waits for
/// something.
pub(super) const WORK_MAX: Duration = Duration::from_secs(2);

/// What was changed.
#[derive(Default)]
pub(super) struct Changes {
    /// Counts them.
    version: u64,
    /// What was changed up to this one is forgotten.
    floor: u64,
    last: BTreeMap<Ino, Change>,
}

struct Change {
    version: u64,
    by: SessionId,
    how: How,
    at: Duration,
}

/// How a session has changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// By an act: its copy lacks that.
    Act,
    /// By a batch, of what was lent to it: its copy had it first.
    Batch,
}

impl Changes {
    /// Returns the number of the state as it is.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Notes a change of some inodes.
    pub(super) fn note(
        &mut self,
        inos: impl IntoIterator<Item = Ino>,
        (by, how): (SessionId, How),
        at: Duration,
    ) {
        self.version += 1;
        let version = self.version;
        self.last.extend(inos.into_iter().map(|ino| {
            let change = Change { version, by, how, at };
            (ino, change)
        }));
        if self.last.len() > INODES_MAX {
            self.last.clear();
            self.floor = self.version;
        }
    }

    /// Takes every inode for changed.
    pub(super) fn forget(&mut self) {
        self.version += 1;
        self.floor = self.version;
        self.last.clear();
    }

    /// Tells whether an inode may have been changed behind a state.
    pub(super) fn is_changed(&self, ino: Ino, since: u64) -> bool {
        since < self.floor || self.last.get(&ino).is_some_and(|last| last.version > since)
    }

    /// Tells whether what a session has of a state may not be what an inode is now.
    pub(super) fn lacks(&self, session: SessionId, ino: Ino, has: u64) -> bool {
        let is_others = |last: &Change| last.by != session || last.how == How::Act;
        has < self.floor
            || self
                .last
                .get(&ino)
                .is_some_and(|last| last.version > has && is_others(last))
    }

    /// Tells whether another session works on an inode.
    pub(super) fn is_worked_on(&self, session: SessionId, ino: Ino, now: Duration) -> bool {
        let last = self.last.get(&ino);
        last.is_some_and(|last| last.by != session && now.saturating_sub(last.at) < WORK_MAX)
    }
}
