//! What the next owner may begin with: the manifests that there are, and all that each leads to.
//!
//! It is read from the bucket by the code with which a recovery begins. Reclaim keeps all of it and a deep check looks for all of it
//! (`crate::usage`), so what one forgets the other does not find. Invariant: nothing is given up to which a manifest leads.

use crate::drive::Inner;
use crate::fold::{RowPacks, not_a_state};
use crate::load::Loader;
use crate::state::State;
use std::collections::BTreeSet;
use tenure_core::tree::{Memory, Pages};
use tenure_core::{Branch, Tree};
use tenure_journal::{Manifest, manifest};
use tenure_model::codec::Codec;
use tenure_model::{Address, Failure, Reclaimed, Record, Seq};
use tenure_store::pack::{PackName, Packs};
use tenure_wire::Error;

/// What a manifest leads to.
pub(crate) struct Outset {
    /// The pages of the drive's own rows.
    pub(crate) rows: BTreeSet<Address>,
    /// The trees that the rows name.
    pub(crate) trees: Vec<Branch>,
}

/// A manifest's place, and what it leads to or why that cannot be read.
type Led = (Seq, Result<Outset, Error>);

/// Which manifests are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    Newest,
}

impl Inner {
    /// Returns what the manifests lead to that are there, the oldest first, or why that cannot be read. To be called while nothing is folded.
    pub(crate) fn outsets(&self, which: Which) -> Result<Vec<Led>, Error> {
        self.list_packs_again()?;
        let mut seqs = manifest::list(&*self.bucket, &self.name)?;
        if which == Which::Newest {
            seqs.drain(..seqs.len().saturating_sub(1));
        }
        Ok(seqs.into_iter().map(|seq| (seq, self.outset(seq))).collect())
    }

    /// Finds the packs that an owner before has put late, because it was deposed and did not know: a manifest of its may lead there.
    fn list_packs_again(&self) -> Result<(), Error> {
        if !self.packs.are_held() {
            return Ok(());
        }
        for name in Packs::list(&*self.bucket, &self.name)?.sealed {
            if !self.packs.is_known(name.number) && !self.with(|live| Ok(live.state.is_condemned(name)))? {
                self.packs.add(name);
            }
        }
        Ok(())
    }

    fn outset(&self, seq: Seq) -> Result<Outset, Error> {
        let manifest = manifest::read(&*self.bucket, &self.name, seq)?;
        let state = stored_state(&manifest, &self.loader, &self.memory)?;
        Ok(Outset {
            rows: row_pages(&state),
            trees: state.trees(),
        })
    }

    /// Writes what is so now, and writes it once more behind a record where the manifest before leads to a tree to which that leads no
    /// more, or cannot be read: what is needed no more is then not kept for it.
    pub(crate) fn renew_outsets(&self) -> Result<(), Error> {
        self.fold_by_spare()?;
        self.with(|live| Ok(live.journal()?.clone()))?.remove_others()?;
        if !self.have_old_trees()? {
            return Ok(());
        }
        let nothing = Reclaimed {
            objects: 0,
            bytes: 0,
            time: self.options.clock.now(),
        };
        self.accept(|_| Ok((Record::Reclaimed(nothing), ())))?;
        self.fold_by_spare()
    }

    fn have_old_trees(&self) -> Result<bool, Error> {
        let _no_fold = self.folding.lock();
        let mut outsets = self.outsets(Which::All)?;
        let Some((_, newest)) = outsets.pop() else {
            return Ok(false);
        };
        let newest = newest?.roots();
        let is_old =
            |outset: Result<Outset, Error>| outset.map_or(true, |outset| !outset.roots().is_subset(&newest));
        Ok(outsets.into_iter().any(|(_, outset)| is_old(outset)))
    }
}

impl Outset {
    fn roots(&self) -> BTreeSet<Address> {
        self.trees
            .iter()
            .filter_map(|branch| branch.tree().address())
            .collect()
    }
}

/// Returns the packs in which the rows of a manifest lie.
pub(crate) fn row_packs(manifest: &Manifest) -> Result<Vec<PackName>, Failure> {
    let packs = RowPacks::parsed(&manifest.state).map_err(|error| not_a_state(&error))?;
    Ok(packs.0)
}

/// Returns the state that a manifest says. Pages of branches are counted in `memory`.
pub(crate) fn stored_state(manifest: &Manifest, loader: &Loader, memory: &Memory) -> Result<State, Error> {
    let root = manifest
        .root
        .ok_or_else(|| Failure::Corrupt("the manifest has no root".into()))?;
    // The rows have a count of their own: they are never evicted.
    let rows = Tree::stored(root, &Memory::new());
    loader.load_all(&rows)?;
    Ok(State::stored(rows, memory.clone()).map_err(|error| not_a_state(&error))?)
}

/// Returns the pages of a state's rows, as far as they are stored.
pub(crate) fn row_pages(state: &State) -> BTreeSet<Address> {
    let mut seen = SeenPages(BTreeSet::new());
    let all = state.rows().pages(&mut seen);
    all.expect("the drive's own rows stay in memory");
    seen.0
}

struct SeenPages(BTreeSet<Address>);

impl Pages for SeenPages {
    fn is_known(&mut self, at: &Address) -> bool {
        self.0.contains(at)
    }

    fn visit(&mut self, at: &Address) {
        self.0.insert(*at);
    }
}
