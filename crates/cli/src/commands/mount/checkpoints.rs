//! What `.tenure/checkpoints` of a mount shows: the checkpoints of its branch as the owner has them now, each read under the session
//! of the mount.

use crate::reach::AnyOwner;
use std::sync::Arc;
use tenure_client::{Access, Branch, BranchInfo, Error, Files, Options};
use tenure_model::{BranchId, Clock};
use tenure_mount::Checkpoints;
use tenure_store::Cache;
use tenure_wire::Opened;

/// The checkpoints of a branch that is mounted.
pub(super) struct OfBranch {
    pub(super) owner: AnyOwner,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) opened: Opened,
    /// The branch, or what the checkpoint that is mounted was made from.
    pub(super) base: Option<BranchId>,
    /// Through which packs of a bucket elsewhere are read.
    pub(super) cache: Option<Arc<Cache>>,
}

impl OfBranch {
    /// Returns the number of the branch whose checkpoints a mount shows.
    pub(super) fn base_of(line: &BranchInfo) -> Option<BranchId> {
        line.branch.or(line.base)
    }

    fn all(&self) -> Result<Vec<BranchInfo>, Error> {
        let mut all = self.owner.branches()?;
        all.retain(|line| line.branch.is_none() && line.base.is_some() && line.base == self.base);
        Ok(all)
    }
}

impl Checkpoints for OfBranch {
    fn names(&self) -> Result<Vec<String>, Error> {
        let shown = self.all()?.into_iter().filter(|line| !line.is_automatic);
        Ok(shown.map(|line| line.name).collect())
    }

    fn find(&self, name: &str) -> Result<Option<u64>, Error> {
        let all = self.all()?;
        let found = all.into_iter().find(|line| line.name == name);
        Ok(found.and_then(|line| line.line).map(|line| line.0))
    }

    fn open(&self, number: u64) -> Result<Option<Arc<dyn Files>>, Error> {
        let number = Some(BranchId(number));
        let Some(line) = self.all()?.into_iter().find(|line| line.line == number) else {
            return Ok(None);
        };
        let around = (
            Arc::clone(&self.clock),
            Arc::new(()) as Arc<dyn tenure_client::Witness>,
        );
        let (owner, opened) = (Arc::clone(&self.owner), self.opened.clone());
        let branch = Branch::hold(
            owner,
            around,
            opened,
            (&line.name, Access::Read),
            Options::default(),
        )?;
        if let Some(cache) = &self.cache {
            branch.read_through(Arc::clone(cache));
        }
        Ok(Some(Arc::new(branch)))
    }
}
