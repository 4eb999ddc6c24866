//! Branches and checkpoints: made, deleted and told about. Each change is one record and costs the same at any size.

use crate::drive::Inner;
use crate::state::permit::because;
use crate::state::{Line, LineKind};
use tenure_model::record::Source;
use tenure_model::{BranchId, BranchName, CheckpointName, Record};
use tenure_wire::{BranchInfo, Created, Error};

impl Inner {
    pub(crate) fn fork(&self, from: &Source, name: &BranchName) -> Result<Created, Error> {
        if let Source::Branch(branch) = from {
            self.gathered(*branch)?;
        }
        let time = self.options.clock.now();
        self.accept(|live| {
            let next = live
                .state
                .head()
                .expect("a drive that is served has begun")
                .next_line;
            let record = Record::Forked {
                from: from.clone(),
                name: name.clone(),
                time,
            };
            Ok((record, Created { branch: next }))
        })
    }

    pub(crate) fn checkpoint(
        &self,
        branch: &BranchName,
        name: &CheckpointName,
        message: &str,
    ) -> Result<Created, Error> {
        let (base, _) = self.with(|live| live.named(branch.as_str()))?;
        self.gathered(base)?;
        let time = self.options.clock.now();
        self.accept(|live| {
            let (branch, _) = live.named(branch.as_str())?;
            let record = Record::CheckpointMade {
                branch,
                name: name.clone(),
                message: message.to_owned(),
                time,
            };
            Ok((record, Created { branch }))
        })
    }

    /// Deletes a branch that nobody holds, or a checkpoint.
    pub(crate) fn delete_branch(&self, name: &BranchName) -> Result<(), Error> {
        if let Some((branch, _)) = self.with(|live| Ok(live.state.named(name.as_str())))? {
            self.end_silent_holder(branch, None)?;
        }
        self.accept(|live| {
            let (branch, line) = live.named(name.as_str())?;
            let record = match line.kind {
                LineKind::Branch | LineKind::Stray { .. } => Record::BranchDeleted { branch },
                LineKind::Checkpoint { .. } => Record::CheckpointDeleted {
                    name: CheckpointName::parse(&line.name).map_err(|why| because(&why))?,
                },
            };
            Ok((record, ()))
        })
    }

    /// Returns all branches and checkpoints, but no stray to which nothing was added: there may be nothing that is lost.
    pub(crate) fn branches(&self) -> Result<Vec<BranchInfo>, Error> {
        self.with(|live| {
            let info = |(id, line): (BranchId, Line)| {
                let totals = live.state.totals(id, &line);
                let holder = live
                    .state
                    .grant(id)
                    .and_then(|grant| live.state.session(grant.session))
                    .filter(|session| !session.is_over)
                    .map(|session| session.who);
                let sharers = live.state.sharing(id).map(|sharing| live.state.sharers(sharing));
                let is_stray = matches!(line.kind, LineKind::Stray { .. });
                let (branch, message) = match line.kind {
                    LineKind::Branch | LineKind::Stray { .. } => (Some(id), String::new()),
                    LineKind::Checkpoint { message } => (None, message),
                };
                BranchInfo {
                    branch,
                    is_stray,
                    name: line.name,
                    from: line.from,
                    made: line.made,
                    inodes: totals.inodes,
                    bytes: totals.bytes,
                    holder: holder.or(sharers),
                    message,
                }
            };
            let mut lines = live.state.lines();
            lines.retain(|(id, line)| !live.state.is_bare(*id, line));
            let mut all: Vec<_> = lines.into_iter().map(info).collect();
            all.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(all)
        })
    }
}
