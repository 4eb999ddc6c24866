//! A change of a held branch: decided, applied and logged in one step, under the state's lock.

use crate::branch::{Inner, LOADS_MAX, State, too_many_loads};
use crate::ship::LOG_SHIP;
use crate::wait;
use parking_lot::RwLockWriteGuard;
use tenure_core::{Outcome, Undecided};
use tenure_model::Op;
use tenure_wire::Error;

/// What an op that was entered is to the shipper.
#[derive(Clone, Copy, Default)]
pub(crate) struct News {
    /// The first that waits.
    is_first: bool,
    /// One with which the log is long.
    is_long: bool,
}

impl News {
    pub(crate) fn and(self, more: News) -> News {
        News {
            is_first: self.is_first || more.is_first,
            is_long: self.is_long || more.is_long,
        }
    }
}

impl Inner {
    /// Decides an op, applies it and logs it. `and` runs in the same step, with what the op has become.
    pub(crate) fn change<R>(&self, op: &Op, and: impl Fn(&mut State, Outcome) -> R) -> Result<R, Error> {
        self.change_with(|_| Ok(op.clone()), and)
    }

    /// As `change`, for an op that is made from the state.
    pub(crate) fn change_with<R>(
        &self,
        make: impl Fn(&mut State) -> Result<Op, Error>,
        and: impl Fn(&mut State, Outcome) -> R,
    ) -> Result<R, Error> {
        let mut made = None;
        for _ in 0..LOADS_MAX {
            let mut state = self.changing()?;
            let op = match made.take() {
                Some(op) => op,
                None => make(&mut state)?,
            };
            state.check_room(&op)?;
            match self.enter(state, &op, &and) {
                Ok(answer) => return Ok(answer),
                Err(Undecided::Refused(refusal)) => return Err(refusal.into()),
                Err(Undecided::Missing(missing)) => {
                    made = Some(op);
                    self.load(&missing)?;
                }
            }
        }
        Err(too_many_loads())
    }

    /// Returns the state to change it, once it may be changed; unless nothing more is accepted, or who asked was sent away.
    pub(crate) fn changing(&self) -> Result<RwLockWriteGuard<'_, State>, Error> {
        loop {
            if let Some(state) = self.changing_now()? {
                return Ok(state);
            }
            self.until_going_on()?;
        }
    }

    /// As `changing`, for what was accepted before: it is shipped before a turn, and saved of a branch that is lost.
    pub(crate) fn going_on(&self) -> Result<RwLockWriteGuard<'_, State>, Error> {
        if self.is_lost() {
            return Ok(self.state.write());
        }
        let state = self.state.write();
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        wait::before_acting()?;
        Ok(state)
    }

    /// Makes one op's change in the state and the log, if every page that it needs is in memory.
    pub(crate) fn enter<R>(
        &self,
        mut state: RwLockWriteGuard<'_, State>,
        op: &Op,
        and: impl FnOnce(&mut State, Outcome) -> R,
    ) -> Result<R, Undecided> {
        let (answer, news) = self.enter_one(&mut state, op, and)?;
        drop(state);
        self.tell_shipper(news);
        Ok(answer)
    }

    /// As `enter`, for who goes on with the state; what the shipper should hear is told him once it is let go.
    pub(crate) fn enter_one<R>(
        &self,
        state: &mut State,
        op: &Op,
        and: impl FnOnce(&mut State, Outcome) -> R,
    ) -> Result<(R, News), Undecided> {
        let lent = state.lent.as_ref();
        let admitted = lent.map(|lent| lent.admit(&state.branch, op)).transpose()?;
        let outcome = state.branch.change(op)?;
        let now = self.clock.elapsed();
        if let (Some(lent), Some(admitted)) = (&mut state.lent, admitted) {
            lent.note(admitted, now);
        }
        let is_first = state.log.is_empty();
        if state.log.push(op, now) {
            self.witness.changed();
        }
        let is_long = state.log.ops.len() >= LOG_SHIP;
        let answer = and(state, outcome);
        self.witness.staged(state.stage.bytes());
        state.cut_long_log();
        Ok((answer, News { is_first, is_long }))
    }

    /// Has the shipper hear of what was entered.
    pub(crate) fn tell_shipper(&self, news: News) {
        if news.is_first {
            self.waiting.changed();
        }
        if news.is_long {
            self.waiting.hurry();
        }
    }
}
