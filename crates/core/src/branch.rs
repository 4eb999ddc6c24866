//! A branch: its tree, what it holds in all, and the two verbs, `decide` and `apply`, which together are `change`.
//!
//! Invariant: every page that an apply changes was read by its decide, so an apply never meets a page that is missing,
//! as long as nothing is evicted in between ([`Memory::hold`](crate::tree::Memory::hold); `change` sees to it).

use crate::cookie::NameHash;
use crate::edits::Edits;
use crate::tree::{Missing, Tree};
use tenure_model::{Attr, Ino, Op, Refusal};

/// One line of a drive's tree. A clone is a fork: it costs nothing and shares every page.
#[derive(Clone)]
pub struct Branch {
    pub(crate) tree: Tree,
    pub(crate) totals: Totals,
    pub(crate) names: NameHash,
}

/// What a branch holds in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of inodes, those without an entry included.
    pub inodes: u64,
    /// Bytes of files that are not holes.
    pub bytes: u64,
}

/// Why an op could not be decided.
#[derive(Debug)]
pub enum Undecided {
    /// A rule says no.
    Refused(Refusal),
    /// A page must be loaded first.
    Missing(Missing),
}

impl From<Refusal> for Undecided {
    fn from(refusal: Refusal) -> Self {
        Undecided::Refused(refusal)
    }
}

impl From<Missing> for Undecided {
    fn from(missing: Missing) -> Self {
        Undecided::Missing(missing)
    }
}

/// What an op becomes: the exact records that change.
pub struct Decision {
    pub(crate) edits: Edits,
    pub(crate) totals: Totals,
    pub(crate) outcome: Outcome,
}

impl Decision {
    /// Returns what the caller of the op is told.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }
}

/// What the caller of an op is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The inode that was made, linked, moved, removed or changed, as it is afterwards.
    pub inode: Option<(Ino, Attr)>,
    /// An inode that lost its last entry and waits for its `Drop`.
    pub orphan: Option<Ino>,
}

impl Branch {
    /// Returns a branch that holds nothing but a root directory.
    pub fn new(names: impl Into<NameHash>, root: Attr) -> Self {
        let mut edits = Edits::default();
        edits.put_value(&crate::key::Key::attr(Ino::ROOT), &root);
        let mut branch = Branch {
            tree: Tree::new(),
            totals: Totals { inodes: 1, bytes: 0 },
            names: names.into(),
        };
        edits.apply(&mut branch.tree);
        branch
    }

    /// Returns a branch whose pages rest in packs.
    pub fn stored(names: impl Into<NameHash>, tree: Tree, totals: Totals) -> Self {
        Branch {
            tree,
            totals,
            names: names.into(),
        }
    }

    /// Returns the tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns what the branch holds in all.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns what `op` would change, why it is refused, or which page is missing. Changes nothing.
    pub fn decide(&self, op: &Op) -> Result<Decision, Undecided> {
        crate::ops::decide(self, op)
    }

    /// Decides `op` and makes the change. While a page is missing, nothing has changed.
    pub fn change(&mut self, op: &Op) -> Result<Outcome, Undecided> {
        let memory = self.tree.memory().clone();
        let _held = memory.hold();
        let decision = self.decide(op)?;
        Ok(self.apply(decision))
    }

    /// Makes a change that was decided on this very state; no page was evicted since.
    pub fn apply(&mut self, decision: Decision) -> Outcome {
        decision.edits.apply(&mut self.tree);
        self.totals = decision.totals;
        decision.outcome
    }
}
