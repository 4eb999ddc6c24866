//! Reviews: branches that wait for one, branches that take changes only by one, and what is accepted.
//!
//! Invariant: a protected branch is lent to nobody and becomes another state by what is accepted alone; accepting makes no conflict.

use crate::drive::Inner;
use crate::graft::Graft;
use crate::order::Live;
use crate::session;
use crate::state::permit::because;
use crate::turn::{Before, Goal};
use tenure_model::{BranchId, BranchName, Ino, Mark, Marking, Record, Refusal, Why};
use tenure_wire::{AcceptAsk, Error, MarkAsk, Marked, MergeAsk, MergeTold, Who};

/// The word for the checkpoint of what a branch was before something was accepted.
pub(crate) const ACCEPT: &str = "accept";

impl Inner {
    pub(crate) fn mark(&self, who: &Who, branch: &BranchName, ask: &MarkAsk) -> Result<(), Error> {
        let time = self.options.clock.now();
        self.accept(|live| {
            let (branch, _) = live.named(branch.as_str())?;
            live.permits_mark(branch, ask)?;
            let mark = match ask {
                MarkAsk::Unprotected | MarkAsk::Unstaged => None,
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
            let marks = live.state.marks().into_iter();
            let mut all: Vec<_> = marks.filter_map(|marking| live.told(marking)).collect();
            all.sort_by(|one, other| one.branch.cmp(&other.branch));
            Ok(all)
        })
    }

    pub(crate) fn accept_staged(&self, who: &Who, ask: &AcceptAsk) -> Result<MergeTold, Error> {
        let (into, name) = self.with(|live| live.staged_for(&ask.branch))?;
        let merge = MergeAsk::new(ask.branch.as_str(), name.clone());
        let mut found = (Vec::new(), 0);
        let turned = self.turn(who, &name, ACCEPT, |before| {
            let Before { branch, next_ino, .. } = before;
            if before.id != into {
                // It was renamed just now, and another has its name.
                return Err(Refusal::Stale.into());
            }
            let mut other = self.other(&merge, into)?;
            self.refuse_unsettled(&merge.from, &other, &ask.paths)?;
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
    /// Refuses to say of a branch what would end silently what is said of it, or what was not said of it.
    fn permits_mark(&self, branch: BranchId, ask: &MarkAsk) -> Result<(), Error> {
        let name = self.state.line(branch).map_or_else(String::new, |line| line.name);
        let why = match (self.state.mark_of(branch), ask) {
            (Some(Mark::Protected), MarkAsk::Staged(_)) => return Ok(self.state.is_open_to_all(branch)?),
            (Some(Mark::Staged { .. }), MarkAsk::Protected | MarkAsk::Unprotected) => {
                format!(
                    "{name} waits for a review and is not protected; `tenure branch unstage DRIVE {name}` lets it wait no longer"
                )
            }
            (None, MarkAsk::Unprotected) => {
                format!("{name} is not protected; `tenure branch protect DRIVE {name}` protects it")
            }
            (None | Some(Mark::Protected), MarkAsk::Unstaged) => {
                format!("{name} waits for no review; `tenure branch stage DRIVE {name}` lets it")
            }
            (None, MarkAsk::Protected | MarkAsk::Staged(_))
            | (Some(Mark::Protected), MarkAsk::Protected | MarkAsk::Unprotected)
            | (Some(Mark::Staged { .. }), MarkAsk::Staged(_) | MarkAsk::Unstaged) => return Ok(()),
        };
        Err(because(&why).into())
    }

    /// Returns what is said of a branch, if anything is.
    pub(crate) fn marked(&self, branch: BranchId) -> Option<Marked> {
        self.told(self.state.marking(branch)?)
    }

    fn told(&self, marking: Marking) -> Option<Marked> {
        let name = |line: BranchId| self.state.line(line).map(|line| line.name);
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
    }

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
