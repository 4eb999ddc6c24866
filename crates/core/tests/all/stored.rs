//! Branches whose pages are elsewhere: in a bucket that loses nothing, loaded only when a question misses them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::{Bound, ControlFlow};
use tenure_core::tree::Memory;
use tenure_core::{Branch, Decision, Missing, NameHash, Outcome, Tree, Undecided};
use tenure_model::attr::Xattrs;
use tenure_model::{Address, Attr, Digest, Ino, Kind, Op, PackNumber, Refusal, Timestamp};

/// The key of the names' hash.
pub(crate) const KEY: [u8; 16] = [7; 16];

/// The root directory of a new branch.
pub(crate) const ROOT: Attr = Attr {
    kind: Kind::Directory,
    mode: 0o755,
    nlink: 2,
    uid: 0,
    gid: 0,
    rdev: 0,
    size: 0,
    allocated: 0,
    parent: Ino::ROOT,
    xattrs: Xattrs(0),
    atime: Timestamp { secs: 0, nanos: 0 },
    mtime: Timestamp { secs: 0, nanos: 0 },
    ctime: Timestamp { secs: 0, nanos: 0 },
    btime: Timestamp { secs: 0, nanos: 0 },
};

/// A value so long that it has a page to itself.
const FILLER: [u8; 5000] = [0; 5000];

/// Pages by digest, and how many were asked for.
#[derive(Default)]
pub(crate) struct Pages {
    stored: BTreeMap<Digest, Vec<u8>>,
    loads: Cell<usize>,
}

impl Pages {
    pub(crate) fn fold(&mut self, tree: &Tree) -> Address {
        let folded = tree.fold(&mut |bytes| {
            let at = Address {
                pack: PackNumber(1),
                digest: Digest::of(bytes),
            };
            self.stored.insert(at.digest, bytes.to_vec());
            Ok::<_, Infallible>(at)
        });
        folded.expect("this bucket never fails")
    }

    pub(crate) fn supply(&self, missing: &Missing) {
        self.loads.set(self.loads.get() + 1);
        let bytes = &self.stored[&missing.at().digest];
        missing.supply(bytes).expect("what was folded is a page");
    }

    /// Returns how many pages were loaded since the last call.
    pub(crate) fn loads(&self) -> usize {
        self.loads.take()
    }

    /// Asks until nothing is missing.
    pub(crate) fn ask<R, E: Into<Undecided>>(
        &self,
        mut ask: impl FnMut() -> Result<R, E>,
    ) -> Result<R, Refusal> {
        loop {
            match ask().map_err(Into::into) {
                Ok(answer) => return Ok(answer),
                Err(Undecided::Refused(refusal)) => return Err(refusal),
                Err(Undecided::Missing(missing)) => self.supply(&missing),
            }
        }
    }

    /// Asks what no rule refuses.
    pub(crate) fn answer<R>(&self, ask: impl FnMut() -> Result<R, Missing>) -> R {
        self.ask(ask).expect("only ops are refused")
    }

    pub(crate) fn decide(&self, branch: &Branch, op: &Op) -> Result<Decision, Refusal> {
        self.ask(|| branch.decide(op))
    }

    pub(crate) fn change(&self, branch: &mut Branch, op: &Op) -> Result<Outcome, Refusal> {
        let decision = self.decide(branch, op)?;
        Ok(branch.apply(decision))
    }

    /// Returns the same branch with nothing in memory.
    pub(crate) fn cold(&mut self, branch: &Branch, names: NameHash) -> Branch {
        let at = self.fold(branch.tree());
        Branch::stored(names, Tree::stored(at, &Memory::new()), branch.totals())
    }

    /// Returns the same branch with nothing in memory, and every record on a page of its own: whatever a change
    /// touches and was not read is missing.
    pub(crate) fn sparse(&mut self, branch: &Branch, names: NameHash) -> Branch {
        let records = self.records(branch);
        let mut filled = Tree::new();
        for (key, value) in &records {
            filled.insert(key, value).expect("a new tree is in memory");
            filled
                .insert(&filler(key), &FILLER)
                .expect("a new tree is in memory");
        }
        let mut sparse = Tree::stored(self.fold(&filled), &Memory::new());
        for key in records.keys() {
            self.ask(|| sparse.remove(&filler(key)))
                .expect("only ops are refused");
        }
        let at = self.fold(&sparse);
        Branch::stored(names, Tree::stored(at, &Memory::new()), branch.totals())
    }

    /// Returns every record of a branch.
    pub(crate) fn records(&self, branch: &Branch) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut records = BTreeMap::new();
        self.answer(|| {
            records.clear();
            branch
                .tree()
                .scan(Bound::Unbounded, Bound::Unbounded, |key, value| {
                    records.insert(key.to_vec(), value.to_vec());
                    ControlFlow::Continue(())
                })
        });
        records
    }

    /// Panics unless every invariant of the branch holds.
    pub(crate) fn check(&self, branch: &Branch) {
        let faults = self.answer(|| branch.check());
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

/// Returns a key right behind `key`, which no record has.
fn filler(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
