//! Loading pages that a question about a branch needs: load, and ask again.
//!
//! Invariant: a question is asked again only after the page that it missed is in memory, and only so many times.

use std::sync::Arc;
use tenure_core::tree::KNOWN_PAGE;
use tenure_core::{Branch, Missing, Tree, Undecided};
use tenure_model::{Failure, Op};
use tenure_store::pack::Packs;
use tenure_wire::Error;

/// Pages that one question may need: a deep tree's paths and a huge file's extents, with a wide margin. A question that
/// needs more is going round in circles, because pages are evicted as fast as they are loaded.
const LOADS_MAX: usize = 1_000_000;

/// Loads pages from a drive's packs.
#[derive(Clone)]
pub(crate) struct Loader {
    packs: Arc<Packs>,
}

impl Loader {
    /// Returns a loader that reads from `packs`.
    pub(crate) fn new(packs: Arc<Packs>) -> Self {
        Self { packs }
    }

    /// Puts a missing page into memory.
    pub(crate) fn load(&self, missing: &Missing) -> Result<(), Failure> {
        let at = missing.at();
        let bytes = self.packs.read(at)?;
        missing.supply(&bytes).map_err(|error| {
            let page = format!("page {} of pack {}", at.digest, at.pack);
            if error.what == KNOWN_PAGE {
                return Failure::newer(format_args!("{page}: it is of another kind or version"));
            }
            Failure::Corrupt(format!("{page}: {error}"))
        })
    }

    /// Asks until no page is missing.
    pub(crate) fn ask<R>(&self, mut question: impl FnMut() -> Result<R, Missing>) -> Result<R, Failure> {
        for _ in 0..LOADS_MAX {
            match question() {
                Ok(answer) => return Ok(answer),
                Err(missing) => self.load(&missing)?,
            }
        }
        Err(Failure::DidNotHappen(
            "the memory for pages is too small for this".into(),
        ))
    }

    /// Decides an op and makes its change.
    pub(crate) fn change(&self, branch: &mut Branch, op: &Op) -> Result<(), Error> {
        for _ in 0..LOADS_MAX {
            // What was read to decide must still be there when the change is made.
            let memory = branch.tree().memory().clone();
            let held = memory.hold();
            match branch.decide(op) {
                Ok(decision) => {
                    branch.apply(decision);
                    return Ok(());
                }
                Err(Undecided::Refused(refusal)) => return Err(refusal.into()),
                Err(Undecided::Missing(missing)) => {
                    drop(held);
                    self.load(&missing)?;
                }
            }
        }
        Err(Failure::DidNotHappen("the memory for pages is too small for this".into()).into())
    }

    /// Puts every page of a tree into memory.
    pub(crate) fn load_all(&self, tree: &Tree) -> Result<(), Failure> {
        let mut seen: Option<Vec<u8>> = None;
        loop {
            let from = seen.clone();
            let from = from
                .as_deref()
                .map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
            let scanned = tree.scan(from, std::ops::Bound::Unbounded, |key, _| {
                let last = seen.get_or_insert_default();
                last.clear();
                last.extend_from_slice(key);
                std::ops::ControlFlow::Continue(())
            });
            match scanned {
                Ok(()) => return Ok(()),
                Err(missing) => self.load(&missing)?,
            }
        }
    }
}
