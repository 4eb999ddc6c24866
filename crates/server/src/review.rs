//! Reviews: branches that wait for one, branches that take changes only by one, and what is accepted.
//!
//! Invariant: a protected branch is lent to nobody and becomes another state by what is accepted alone; accepting makes no conflict.

use crate::drive::Inner;
use crate::graft::Graft;
use crate::order::Live;
use crate::session;
use crate::state::permit::because;
use crate::turn::{Before, Goal};
use tenure_model::{BranchId, BranchName, Ino, Mark, Marking, Record, Why};
use tenure_wire::{AcceptAsk, Error, MarkAsk, Marked, MergeAsk, MergeTold, Who};

/// The word for the checkpoint of what a branch was before something was accepted.
pub(crate) const ACCEPT: &str = "accept";

impl Inner {
    pub(crate) fn mark(&self, who: &Who, branch: &BranchName, ask: &MarkAsk) -> Result<(), Error> {
        let time = self.options.clock.now();
        self.accept(|live| {
            let (branch, _) = live.named(branch.as_str())?;
            let mark = match ask {
                MarkAsk::Plain => None,
                MarkAsk::Staged(into) => {
                    let (into, _) = live.named(into.as_str())?;
                    Some(Mark::Staged { into })
                }
                MarkAsk::Protected => Some(Mark::Protected),
            };
            let marking = Marking {
                branch,
                mark,
                by: session::words(who),
                time,
            };
            Ok((Record::Marked(marking), ()))
        })
    }

    pub(crate) fn marks(&self) -> Result<Vec<Marked>, Error> {
        self.with(|live| {
            let name = |line: BranchId| live.state.line(line).map(|line| line.name);
            let told = |marking: Marking| {
                let into = match marking.mark? {
                    Mark::Staged { into } => Some(name(into).unwrap_or_default()),
                    Mark::Protected => None,
                };
                Some(Marked {
                    branch: name(marking.branch)?,
                    into,
                    by: marking.by,
                    time: marking.time,
                })
            };
            let mut all: Vec<_> = live.state.marks().into_iter().filter_map(told).collect();
            all.sort_by(|one, other| one.branch.cmp(&other.branch));
            Ok(all)
        })
    }

    pub(crate) fn accept_staged(&self, who: &Who, ask: &AcceptAsk) -> Result<MergeTold, Error> {
        let (into, name) = self.with(|live| live.staged_for(&ask.branch))?;
        let merge = MergeAsk {
            from: ask.branch.as_str().to_owned(),
            into: name.clone(),
            base: None,
            is_dry: false,
        };
        let mut found = (Vec::new(), 0);
        let turned = self.turn(who, &name, ACCEPT, |before| {
            let Before { branch, next_ino, .. } = before;
            let mut other = self.other(&merge, into)?;
            let mut taken = 0;
            if !ask.paths.is_empty() {
                let next = *next_ino;
                let mut graft = Graft::new(self, other.base.clone(), &other.branch, next);
                graft.graft(&ask.paths)?;
                taken = graft.taken;
                other.branch = graft.branch;
            }
            let merged = self.merged_with(&merge, &other, (branch, Ino(next_ino.0 + taken)))?;
            if merged.conflicts > 0 {
                let why = format!(
                    "{} of it would conflict with what {name} is; merge {name} into {} and settle that there, then accept it",
                    tenure_model::counted(merged.conflicts, "change"),
                    ask.branch
                );
                return Err(because(&why).into());
            }
            found = (merged.files, merged.conflicts);
            let root = self.root_of(&merged.branch)?;
            if root.page.digest == self.root_of(branch)?.page.digest {
                return Ok(None);
            }
            let from = merge.from.clone();
            let why = match ask.paths.is_empty() {
                true => Why::Merged {
                    from,
                    past: self.past(&other)?,
                },
                false => Why::Accepted {
                    from,
                    paths: ask.paths.clone(),
                },
            };
            Ok(Some(Goal {
                branch: merged.branch,
                inos: taken + merged.inos,
                why,
            }))
        })?;
        let (files, conflicts) = found;
        Ok(crate::merge::told(
            files,
            conflicts,
            turned.map(|turned| turned.before),
        ))
    }
}

impl Live {
    /// Returns the branch for which another waits for a review.
    fn staged_for(&self, name: &BranchName) -> Result<(BranchId, BranchName), Error> {
        let (staged, _) = self.named(name.as_str())?;
        let Some(Mark::Staged { into }) = self.state.mark_of(staged) else {
            return Err(because(&format!(
                "{name} does not wait for a review; `tenure fork DRIVE NEW --staged` makes branches that do, `tenure branch stage DRIVE {name}` lets this one"
            ))
            .into());
        };
        let line = self.state.line(into);
        let line = line.ok_or_else(|| because(&format!("the branch for which {name} was staged is gone")))?;
        let into_name = BranchName::parse(&line.name).map_err(|why| because(&why))?;
        Ok((into, into_name))
    }
}
