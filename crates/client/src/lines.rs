//! The branches and checkpoints of a drive, as a program works with them: found by name, made, renamed, deleted, and told with what
//! was made from what.
//!
//! No session is needed for it. Invariant: nothing is remembered here; each answer is the owner's of that moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tenure_model::record::{Plan, Source};
use tenure_model::{BranchId, BranchName, CheckpointName, Difference, Ino, Refusal, Timestamp};
use tenure_wire::{
    BranchInfo, CheckpointAsk, Created, DiffAsk, Error, ForkAsk, Owner, ReclaimAsk, ReclaimTold, Usage,
};

/// Checkpoints of one second that find a name each: whoever makes more of them names them.
const NAMES_MAX: u32 = 100;

/// The branches and checkpoints of a drive.
pub struct Lines<B>(Arc<dyn Owner<B>>);

impl<B> Lines<B> {
    /// Returns those of the drive that `owner` answers for.
    pub fn of(owner: Arc<dyn Owner<B>>) -> Self {
        Self(owner)
    }

    /// Returns every branch and checkpoint, by name.
    pub fn all(&self) -> Result<Vec<BranchInfo>, Error> {
        self.0.branches()
    }

    /// Returns the branch or checkpoint of a name, if there is one.
    pub fn find(&self, name: &str) -> Result<Option<BranchInfo>, Error> {
        Ok(self.all()?.into_iter().find(|line| line.name == name))
    }

    /// Makes a branch from another or from a checkpoint as it is now.
    pub fn fork(&self, ask: &ForkAsk) -> Result<Created, Error> {
        self.0.fork(ask)
    }

    /// Names the state that a branch has now.
    pub fn checkpoint(&self, ask: &CheckpointAsk) -> Result<Created, Error> {
        self.0.checkpoint(ask)
    }

    /// As [`Lines::checkpoint`], by the first free name of the time `now`; returns the name.
    pub fn checkpoint_by_time(
        &self,
        ask: impl Fn(CheckpointName) -> CheckpointAsk,
        now: Timestamp,
    ) -> Result<CheckpointName, Error> {
        let taken: BTreeSet<_> = self.all()?.into_iter().map(|line| line.name).collect();
        let mut refused =
            Refusal::Because("this second has no name left for a checkpoint; name it".to_owned());
        for name in names_of(now).filter(|name| !taken.contains(name.as_str())) {
            match self.checkpoint(&ask(name.clone())) {
                Ok(_) => return Ok(name),
                // Somebody may have taken the name just now.
                Err(Error::Refused(why)) if self.find(name.as_str())?.is_some() => refused = why,
                Err(error) => return Err(error),
            }
        }
        Err(refused.into())
    }

    /// Returns all that differs between two branches or checkpoints, at or below a path, in no order that means anything.
    pub fn differences(&self, before: &str, after: &str, below: &[u8]) -> Result<Vec<Difference>, Error> {
        let (mut found, mut behind) = (Vec::new(), Some(Ino(0)));
        while let Some(ino) = behind {
            let told = self.0.diff(&DiffAsk {
                before: before.to_owned(),
                after: after.to_owned(),
                below: below.into(),
                behind: ino,
            })?;
            found.extend(told.found);
            behind = told.behind;
        }
        Ok(found)
    }

    /// Returns the checkpoints of a branch, oldest first.
    pub fn checkpoints_of(&self, branch: &BranchInfo) -> Result<Vec<BranchInfo>, Error> {
        let mut points = self.all()?;
        points.retain(|line| line.branch.is_none() && line.base.is_some() && line.base == branch.line);
        // Each is younger than those before it.
        points.sort_by_key(|line| line.line);
        Ok(points)
    }

    /// Returns what a branch was, newest first: what has changed at or below a path before it is what it is now, and before each of its
    /// last checkpoints, so many at most.
    pub fn log(&self, branch: &BranchInfo, below: &[u8], max: usize) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::new();
        let mut after: Option<BranchInfo> = None;
        for point in self.checkpoints_of(branch)?.into_iter().rev().take(max) {
            let name = after.as_ref().map_or(&branch.name, |after| &after.name);
            let changed = self.differences(&point.name, name, below)?;
            steps.push(Step {
                point: after.replace(point),
                changed,
            });
        }
        // What was before the oldest is not known.
        steps.extend(after.map(|point| Step {
            point: Some(point),
            changed: Vec::new(),
        }));
        Ok(steps)
    }

    /// Gives a branch or checkpoint another name.
    pub fn rename(&self, name: &str, to: &BranchName) -> Result<(), Error> {
        self.0.rename(name, to)
    }

    /// Has the owner make checkpoints by itself as `plan` says.
    pub fn set_plan(&self, plan: Plan) -> Result<(), Error> {
        self.0.set_plan(plan)
    }

    /// Returns when the owner makes checkpoints by itself.
    pub fn plan(&self) -> Result<Plan, Error> {
        self.0.plan()
    }

    /// Returns what each needs of the bucket alone, and what they share.
    pub fn usage(&self) -> Result<Usage, Error> {
        self.0.usage()
    }

    /// Gives up what nothing needs, and tells what came of it.
    pub fn reclaim(&self, ask: ReclaimAsk) -> Result<ReclaimTold, Error> {
        self.0.reclaim(ask)
    }

    /// Deletes a branch that nobody holds, or a checkpoint.
    pub fn delete(&self, name: &BranchName) -> Result<(), Error> {
        self.0.delete_branch(name)
    }
}

/// A state in the history of a branch, and what has changed since the checkpoint before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The checkpoint; none for what the branch is now.
    pub point: Option<BranchInfo>,
    /// What has changed.
    pub changed: Vec<Difference>,
}

fn names_of(now: Timestamp) -> impl Iterator<Item = CheckpointName> {
    let stamp = now.stamp();
    (1..=NAMES_MAX).filter_map(move |number| {
        let name = match number {
            1 => stamp.clone(),
            _ => format!("{stamp}-{number}"),
        };
        // A time before the year 0 makes no name.
        CheckpointName::parse(&name).ok()
    })
}

/// Returns what a fork of a branch or checkpoint begins as.
pub fn source_of(line: &BranchInfo) -> Result<Source, Error> {
    match line.branch {
        Some(branch) => Ok(Source::Branch(branch)),
        None => {
            let name = CheckpointName::parse(&line.name).map_err(Refusal::Because)?;
            Ok(Source::Checkpoint(name))
        }
    }
}

/// Something in the lineage of a drive, and what was made from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descent {
    /// The branch or checkpoint; where it is gone, what those say of it that were made from it.
    pub line: Result<BranchInfo, String>,
    /// What was made from it, oldest first.
    pub made: Vec<Descent>,
}

/// Returns the lineage of branches and checkpoints: those that were made from nothing that is known, oldest first, each with what was
/// made from it. What is gone stands where something was made from it.
pub fn lineage(lines: Vec<BranchInfo>) -> Vec<Descent> {
    let there: BTreeSet<_> = lines.iter().filter_map(|line| line.line).collect();
    let mut below: BTreeMap<Option<BranchId>, Vec<BranchInfo>> = BTreeMap::new();
    for line in lines {
        below.entry(line.base).or_default().push(line);
    }
    below
        .values_mut()
        .for_each(|made| made.sort_by_key(|line| (line.line, line.made)));
    let firsts = below.remove(&None).unwrap_or_default();
    let gone: Vec<_> = below
        .keys()
        .flatten()
        .copied()
        .filter(|base| !there.contains(base))
        .collect();
    let mut roots: Vec<_> = firsts.into_iter().map(|line| descent(line, &mut below)).collect();
    for base in gone {
        let made = made_from(Some(base), &mut below);
        let said = made.first().and_then(|one| one.line.as_ref().ok());
        let said = said.map_or_else(String::new, |line| line.from.clone());
        roots.push(Descent {
            line: Err(said),
            made,
        });
    }
    roots
}

fn made_from(
    base: Option<BranchId>,
    below: &mut BTreeMap<Option<BranchId>, Vec<BranchInfo>>,
) -> Vec<Descent> {
    // An owner of an earlier version tells no numbers.
    let lines = base.and_then(|_| below.remove(&base)).unwrap_or_default();
    lines.into_iter().map(|line| descent(line, below)).collect()
}

fn descent(line: BranchInfo, below: &mut BTreeMap<Option<BranchId>, Vec<BranchInfo>>) -> Descent {
    // A line is made after what it is made from, so this ends; and each is taken out once.
    let made = made_from(line.line, below);
    Descent { line: Ok(line), made }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, base: Option<u64>) -> BranchInfo {
        BranchInfo {
            branch: Some(BranchId(number)),
            name: format!("line-{number}"),
            from: base.map_or_else(String::new, |base| format!("branch line-{base}")),
            made: Timestamp::default(),
            inodes: 1,
            bytes: 0,
            is_stray: false,
            holder: None,
            message: String::new(),
            line: Some(BranchId(number)),
            base: base.map(BranchId),
            until: None,
            is_automatic: false,
            by: None,
            mark: None,
        }
    }

    /// Writes a lineage in one line.
    fn shown(all: &[Descent]) -> String {
        let one = |one: &Descent| {
            let name = match &one.line {
                Ok(line) => line.name.clone(),
                Err(gone) => format!("({gone})"),
            };
            match shown(&one.made) {
                made if made.is_empty() => name,
                made => format!("{name}[{made}]"),
            }
        };
        all.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_was_made_from_what_is_told_oldest_first_and_whatever_is_gone() {
        let lines = [
            line(1, None),
            line(9, Some(3)),
            line(3, Some(1)),
            line(2, Some(1)),
            line(8, Some(5)),
            line(6, Some(5)),
        ];
        assert_eq!(
            shown(&lineage(lines.to_vec())),
            "line-1[line-2 line-3[line-9]] (branch line-5)[line-6 line-8]"
        );
        assert_eq!(shown(&lineage(Vec::new())), "");
    }

    #[test]
    fn what_an_owner_of_an_earlier_version_tells_has_no_lineage() {
        let old = |number| BranchInfo {
            line: None,
            base: None,
            ..line(number, None)
        };
        assert_eq!(shown(&lineage(vec![old(1), old(2)])), "line-1 line-2");
    }

    #[test]
    fn a_second_has_a_hundred_names() {
        let names: Vec<_> = names_of(Timestamp::default())
            .map(|name| name.to_string())
            .collect();
        assert_eq!(names.len(), NAMES_MAX as usize);
        assert_eq!(names[..2], ["19700101T000000Z", "19700101T000000Z-2"]);
    }
}
