//! Checkpoints that the owner makes by itself: of each branch that has changed, some minutes apart, kept for a while.
//!
//! Those of the last hour are all kept, of those before one an hour, and never more than `AUTOMATIC_CHECKPOINTS_MAX` of a branch.
//! Invariant: a branch in which nothing changes has no further one. Each is made and goes by a record.

use crate::drive::Inner;
use crate::order::Live;
use crate::state::permit::because;
use crate::state::{Line, LineKind};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure_model::limits::AUTOMATIC_CHECKPOINTS_MAX;
use tenure_model::record::{Maker, Plan};
use tenure_model::{BranchId, CheckpointName, Record, Refusal, Timestamp};
use tenure_wire::Error;

/// Seconds of which all are kept, and of which one is kept before.
const HOUR: i64 = 3600;
/// How long until a branch is looked at again of which no checkpoint could be made.
const REST: Duration = Duration::from_secs(60);
/// Names that are tried for one.
const NAMES_MAX: u32 = 100;
/// Branches of which some are made at once, before whatever else there is to do.
const AT_ONCE_MAX: usize = 256;

impl Inner {
    /// Says when checkpoints are made from now on.
    pub(crate) fn set_plan(&self, plan: Plan) -> Result<(), Error> {
        if plan.keep_secs == 0 {
            return Err(
                because("a checkpoint that is kept for no time need not be made: let none be made").into(),
            );
        }
        self.accept(|_| Ok((Record::Planned(plan), ())))?;
        self.work_on_lines();
        Ok(())
    }

    /// Makes the checkpoints that are due, and returns after how long there may be more, if ever.
    pub(crate) fn make_checkpoints(&self) -> Result<Option<Duration>, Error> {
        let now = self.options.clock.now();
        let (mut due, rest) = self.with(|live| {
            live.state.news().heard();
            Ok(live.due(now))
        })?;
        if due.is_empty() {
            return Ok(rest);
        }
        let is_all = due.len() <= AT_ONCE_MAX;
        due.truncate(AT_ONCE_MAX);
        // What a branch is that waits for its sharers is known later.
        let all = due.len();
        due.retain(|branch| self.gathered(*branch).is_ok());
        let rest = if due.len() < all { Some(REST) } else { rest };
        self.accept_all(&due, |live, branch| live.automatic(branch, now))?;
        let surplus = self.with(|live| Ok(live.surplus(&due, now)))?;
        self.accept_all(&surplus, |live, line| live.without(line))?;
        Ok(if is_all { rest } else { Some(Duration::ZERO) })
    }
}

impl Live {
    /// Returns the branches of which a checkpoint is due, and after how long one of another is.
    fn due(&self, now: Timestamp) -> (Vec<BranchId>, Option<Duration>) {
        let every = Duration::from_secs(self.state.plan().every_secs);
        let changed = self.state.changed();
        if every.is_zero() || changed.is_empty() {
            return (Vec::new(), None);
        }
        let last = self.last_of(changed);
        let (mut due, mut rest) = (Vec::new(), None::<Duration>);
        for (branch, last) in last {
            let at = last.after(every);
            // A clock that was set back must not keep it from being made.
            if at <= now || now < last {
                due.push(branch);
            } else {
                let left = at.since(now);
                rest = Some(rest.map_or(left, |rest| rest.min(left)));
            }
        }
        (due, rest)
    }

    /// Returns when the last checkpoint of each of some branches was made, or the branch itself.
    fn last_of(&self, branches: &BTreeSet<BranchId>) -> BTreeMap<BranchId, Timestamp> {
        let mut last = BTreeMap::new();
        // By number: each line is younger than those before it.
        for (id, line) in self.state.lines() {
            if branches.contains(&id) {
                last.insert(id, line.made);
            }
            if let Some(base) = line
                .base
                .filter(|base| branches.contains(base) && is_automatic(&line))
            {
                last.insert(base, line.made);
            }
        }
        last
    }

    fn automatic(&self, branch: BranchId, now: Timestamp) -> Result<Record, Error> {
        if !self.state.changed().contains(&branch) {
            return Err(Refusal::Stale.into());
        }
        Ok(Record::CheckpointMade {
            branch,
            name: self.automatic_name(branch, now)?,
            message: String::new(),
            time: now,
            until: Some(now.after(Duration::from_secs(self.state.plan().keep_secs))),
            maker: Maker::Owner,
        })
    }

    fn automatic_name(&self, branch: BranchId, now: Timestamp) -> Result<CheckpointName, Error> {
        let first = format!("auto-{}-{}", branch.0, now.stamp());
        let others = (2..NAMES_MAX).map(|number| format!("{first}-{number}"));
        std::iter::once(first.clone())
            .chain(others)
            .find(|name| self.state.named(name).is_none())
            .and_then(|name| CheckpointName::parse(&name).ok())
            .ok_or_else(|| {
                because("the drive has a line of each name that a checkpoint of now could have").into()
            })
    }

    /// Returns the checkpoints of some branches that are kept no longer, though their time is not over.
    fn surplus(&self, branches: &[BranchId], now: Timestamp) -> Vec<BranchId> {
        let mut all: BTreeMap<BranchId, Vec<(BranchId, Timestamp)>> = BTreeMap::new();
        for (id, line) in self.state.lines() {
            if let Some(base) = line
                .base
                .filter(|base| branches.contains(base) && is_automatic(&line))
            {
                all.entry(base).or_default().push((id, line.made));
            }
        }
        all.into_values()
            .flat_map(|made| surplus_of(&made, now))
            .collect()
    }

    fn without(&self, line: BranchId) -> Result<Record, Error> {
        let line = self.state.line(line).ok_or(Refusal::Stale)?;
        let name = CheckpointName::parse(&line.name).map_err(Refusal::Because)?;
        Ok(Record::CheckpointDeleted { name })
    }
}

/// Tells whether a line was made as is said here; what the owner keeps for another reason has words to it.
fn is_automatic(line: &Line) -> bool {
    match &line.kind {
        LineKind::Checkpoint { message, maker } => *maker == Maker::Owner && message.is_empty(),
        LineKind::Branch | LineKind::Stray { .. } => false,
    }
}

/// Returns which of a branch's checkpoints, oldest first, are kept no longer.
fn surplus_of(made: &[(BranchId, Timestamp)], now: Timestamp) -> Vec<BranchId> {
    let mut hours = BTreeSet::new();
    let (mut kept, mut surplus) = (Vec::new(), Vec::new());
    for (id, time) in made {
        let is_recent = time.secs > now.secs - HOUR;
        if is_recent || hours.insert(time.secs.div_euclid(HOUR)) {
            kept.push(*id);
        } else {
            surplus.push(*id);
        }
    }
    let over = kept.len().saturating_sub(AUTOMATIC_CHECKPOINTS_MAX);
    surplus.extend(&kept[..over]);
    surplus
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(every: i64, count: i64) -> Vec<(BranchId, Timestamp)> {
        let one = |number: i64| {
            let time = Timestamp {
                secs: 3600 * 1000 + every * number,
                nanos: 0,
            };
            (BranchId(number as u64), time)
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn of_the_last_hour_all_are_kept_and_of_each_before_the_first() {
        let all = made(600, 24);
        let now = all.last().expect("there are some").1;
        let gone: Vec<_> = surplus_of(&all, now).iter().map(|id| id.0).collect();
        let expected: Vec<_> = (0..18).filter(|number| number % 6 != 0).collect();
        assert_eq!(gone, expected);
    }

    #[test]
    fn a_branch_has_so_many_at_most() {
        let all = made(1, 200);
        let now = all.last().expect("there are some").1;
        let gone = surplus_of(&all, now);
        assert_eq!(gone.len(), 200 - AUTOMATIC_CHECKPOINTS_MAX);
        assert_eq!(gone[0], BranchId(0), "the oldest go");
        let all = made(3600, 200);
        let now = all.last().expect("there are some").1;
        assert_eq!(surplus_of(&all, now).len(), 200 - AUTOMATIC_CHECKPOINTS_MAX);
    }
}
