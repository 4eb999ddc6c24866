//! The log: what was decided here and is not shipped yet, in order.
//!
//! Invariant: an op enters once, in the order in which it was applied, and leaves with the batch that ships it.

use std::collections::BTreeSet;
use std::time::Duration;
use tenure_model::codec::Codec;
use tenure_model::{ChunkPlace, Ino, Op};

/// Ops in order, and the chunks that they are the first to name.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) ops: Vec<u8>,
    /// How many of them somebody would miss: nobody misses the end of an inode that nobody can reach.
    pub(crate) count: u64,
    pub(crate) chunks: Vec<ChunkPlace>,
    /// Bytes that programs have written and that these ops put into files.
    pub(crate) contents: u64,
    /// Inodes that got a name while bytes of theirs were staged: those bytes go out with the name.
    pub(crate) named: BTreeSet<Ino>,
    since: Option<Duration>,
}

impl Log {
    /// Appends an op that was applied; tells whether somebody would miss it.
    pub(crate) fn push(&mut self, op: &Op, now: Duration) -> bool {
        op.write(&mut self.ops);
        let is_missed = !matches!(op, Op::Drop { .. });
        self.count += u64::from(is_missed);
        self.since.get_or_insert(now);
        is_missed
    }

    /// Notes since when something has waited that has entered now: bytes that were staged before.
    pub(crate) fn has_waited(&mut self, since: Duration) {
        self.since = self.since.map(|oldest| oldest.min(since));
    }

    /// Tells whether there is nothing to ship.
    pub(crate) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Returns when the oldest op came.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.since
    }
}
