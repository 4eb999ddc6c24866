//! What is done without being asked for: branches and checkpoints go whose time is over, checkpoints are made (`crate::automatic`), and
//! what nothing needs is given back (`crate::reclaim`).
//!
//! Invariant: what goes, goes by a record that says so, so whoever replays the journal asks no clock; and nothing goes that somebody
//! holds or shares, or that is protected.

use crate::drive::{Inner, Threads};
use crate::order::Live;
use crate::state::{Line, LineKind};
use std::time::Duration;
use tenure_model::{BranchId, CheckpointName, Mark, Record, Refusal, Timestamp};
use tenure_wire::Error;

/// How long until it is looked again whether somebody still holds what may go, or whether what failed can be done.
const REST: Duration = Duration::from_secs(60);
/// How long it is slept at most: the time of day may be set meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(60 * 60);
/// Lines that go at once, before whatever else there is to do.
const AT_ONCE_MAX: usize = 256;

impl Inner {
    /// Has it looked when lines go, where one was made that does.
    pub(crate) fn work_on_passing_lines(&self, until: Option<Timestamp>) {
        if until.is_some() {
            self.work_on_lines();
        }
    }

    /// As often as a session is opened, where no thread does it by itself.
    pub(crate) fn tend_unthreaded(&self) {
        if self.options.threads == Threads::None {
            self.work_on_lines();
        }
    }

    /// Notes that what a line holds may be needed no more.
    pub(crate) fn note_deletion(&self, live: &Live, id: BranchId) {
        let line = live.state.line(id);
        let totals = line.map(|line| live.state.totals(id, &line));
        self.stale.add(totals.map_or(0, |totals| totals.bytes));
    }

    /// Does what is due, and returns after how long more may be, if ever.
    pub(crate) fn tend(&self) -> Option<Duration> {
        let rests = [
            self.let_go_by().unwrap_or_else(|error| {
                tracing::warn!(%error, "branches and checkpoints whose time is over are still there");
                Some(REST)
            }),
            self.make_checkpoints().unwrap_or_else(|error| {
                tracing::warn!(%error, "checkpoints that are due are not made");
                Some(REST)
            }),
            self.sweep().unwrap_or_else(|error| {
                tracing::warn!(%error, "nothing is given back: what is needed cannot be told");
                None
            }),
        ];
        let rest = rests.into_iter().flatten().min();
        rest.map(|rest| rest.min(SLEEP_MAX))
    }

    /// Deletes what may go by itself now.
    fn let_go_by(&self) -> Result<Option<Duration>, Error> {
        let now = self.options.clock.now();
        let (mut over, rest) = self.with(|live| Ok(live.passing(now)))?;
        let is_all = over.len() <= AT_ONCE_MAX;
        over.truncate(AT_ONCE_MAX);
        self.accept_all(&over, |live, line| {
            self.note_deletion(live, line);
            live.end_of(line, now)
        })?;
        Ok(if is_all { rest } else { Some(Duration::ZERO) })
    }
}

impl Live {
    /// Returns the lines whose time is over and that nobody holds, and after how long there may be more.
    fn passing(&self, now: Timestamp) -> (Vec<BranchId>, Option<Duration>) {
        let (mut over, mut rest) = (Vec::new(), None::<Duration>);
        for (id, line) in self.state.lines() {
            let Some(until) = line.until else { continue };
            if until <= now && self.may_go(id, &line) {
                over.push(id);
            } else {
                let left = until
                    .since(now)
                    .max(if until <= now { REST } else { Duration::ZERO });
                rest = Some(rest.map_or(left, |rest| rest.min(left)));
            }
        }
        (over, rest)
    }

    fn may_go(&self, id: BranchId, line: &Line) -> bool {
        let is_free = self.state.grant(id).is_none() && self.state.sharing(id).is_none();
        let is_protected = self.state.mark_of(id) == Some(Mark::Protected);
        is_free && !is_protected && (!line.kind.is_branch() || self.state.has_other_branch(id))
    }

    /// Returns the record by which a line goes, unless somebody needs it since just now.
    fn end_of(&self, id: BranchId, now: Timestamp) -> Result<Record, Error> {
        let line = self.state.line(id).ok_or(Refusal::Stale)?;
        if line.until.is_none_or(|until| until > now) || !self.may_go(id, &line) {
            return Err(Refusal::Stale.into());
        }
        Ok(match line.kind {
            LineKind::Branch | LineKind::Stray { .. } => Record::BranchDeleted { branch: id },
            LineKind::Checkpoint { .. } => Record::CheckpointDeleted {
                name: CheckpointName::parse(&line.name).map_err(Refusal::Because)?,
            },
        })
    }
}
