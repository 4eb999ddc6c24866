//! Settling: staged bytes become chunks in a pack, and a `Write` in the log.
//!
//! Invariant: a file is settled by one thread at a time, so its writes enter the log in their order.

use crate::branch::{Inner, LOADS_MAX, State, Threads, too_many_loads};
use crate::place::{Last, Settled};
use crate::stage::{Kept, Staged, Taken};
use crate::wait;
use std::time::Duration;
use tenure_core::{Outcome, Undecided};
use tenure_model::{Failure, Ino, Op, Refusal};
use tenure_wire::Error;

/// The longest that a writer waits for room on the stage, or anybody for a file that is being settled.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How long the settler rests after the bucket has failed.
const REST: Duration = Duration::from_millis(200);

impl Inner {
    /// Settles all that is staged of a file; what comes meanwhile may stay.
    pub(crate) fn settle(&self, ino: Ino) -> Result<(), Error> {
        self.settle_but(ino, Last::Settled)
    }

    fn settle_but(&self, ino: Ino, last: Last) -> Result<(), Error> {
        let Some(taken) = self.begin_settling(ino)? else {
            return Ok(());
        };
        let settled = self
            .place(taken, last)
            .and_then(|settled| self.log_write(ino, &settled));
        if settled.is_err() {
            self.state.write().stage.unsettle(ino);
        }
        let _guard = self.settling.lock();
        self.settled.notify_all();
        settled
    }

    /// Settles everything that is staged now.
    pub(crate) fn settle_all(&self) -> Result<(), Error> {
        let files = self.state.read().stage.files();
        files.into_iter().try_for_each(|ino| self.settle(ino))
    }

    /// Settles what is staged, but for the last bytes of long files that are being written.
    fn settle_most(&self) -> Result<(), Error> {
        let files = self.state.read().stage.files();
        let now = self.clock.elapsed();
        files.into_iter().try_for_each(|ino| {
            let since = self.state.read().stage.file(ino).map(Staged::since);
            // What is kept is as old as the rest was, and must not be too old to be shipped in time.
            let is_young = since.is_some_and(|since| now.saturating_sub(since) < self.options.lag_max / 2);
            self.settle_but(ino, if is_young { Last::Kept } else { Last::Settled })
        })
    }

    /// As `change`, of a file whose staged bytes are forgotten in the same step.
    pub(crate) fn change_and_discard<R>(
        &self,
        ino: Ino,
        op: &Op,
        and: impl Fn(&mut State, Outcome) -> R,
    ) -> Result<R, Error> {
        if self.state.read().stage.file(ino).is_none() {
            return self.change(op, and);
        }
        let discard = |state: &mut State, outcome| {
            state.stage.discard(ino);
            and(state, outcome)
        };
        for _ in 0..LOADS_MAX {
            let attempt = self.when_not_settling(ino, |inner| {
                let state = inner.changing()?;
                state.check_room(op)?;
                Ok(inner.enter(state, op, discard))
            });
            match attempt.flatten()? {
                Ok(answer) => return Ok(answer),
                Err(Undecided::Refused(refusal)) => return Err(refusal.into()),
                Err(Undecided::Missing(missing)) => self.load(&missing)?,
            }
        }
        Err(too_many_loads())
    }

    fn begin_settling(&self, ino: Ino) -> Result<Option<Taken>, Error> {
        if self.state.read().stage.file(ino).is_none() {
            return Ok(None);
        }
        // Whether the owner may be asked is known before anything is taken.
        self.asked()?;
        self.when_not_settling(ino, |inner| inner.state.write().stage.settle(ino))
    }

    /// Runs `then` while no thread settles the file, and none can begin to.
    fn when_not_settling<R>(&self, ino: Ino, then: impl FnOnce(&Inner) -> R) -> Result<R, Error> {
        let mut guard = self.settling.lock();
        while self
            .state
            .read()
            .stage
            .file(ino)
            .is_some_and(|file| file.is_settling())
        {
            wait::before_waiting()?;
            if self.settled.wait_for(&mut guard, WAIT_MAX).timed_out() {
                return Err(Failure::DidNotHappen(
                    "written bytes could not be put into a pack in time".into(),
                )
                .into());
            }
        }
        Ok(then(self))
    }

    fn log_write(&self, ino: Ino, settled: &Settled) -> Result<(), Error> {
        let op = |time| Op::Write {
            ino,
            pieces: settled.pieces.clone(),
            size: 0,
            time,
        };
        let logged = self.change_by(
            Inner::going_on,
            |state| Ok(op(state.stage.file(ino).and_then(|file| file.time))),
            |state, outcome| {
                state.log.chunks.extend_from_slice(&settled.places);
                state.log.contents += settled.pieces.iter().map(|piece| piece.extent.len()).sum::<u64>();
                state.stage.settled(ino, &settled.kept, self.clock.elapsed());
                let (_, attr) = outcome.inode.expect("a write answers with its inode");
                state.frays.note(ino, &settled.pieces, attr.allocated);
                state.frays.fall_due(self.merge_after())
            },
        );
        match logged {
            Ok(is_due) => {
                if is_due {
                    self.waiting.settle();
                }
                Ok(())
            }
            // The file is gone, and its bytes with it.
            Err(Error::Refused(Refusal::NotFound)) => {
                let mut state = self.state.write();
                state.stage.settled(ino, &Kept::default(), self.clock.elapsed());
                self.witness.staged(state.stage.bytes());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until the stage has room for a write; the owner's trouble ends the wait.
    pub(crate) fn wait_for_stage(&self) -> Result<(), Error> {
        if self.state.read().stage.bytes() < self.options.stage_max {
            return Ok(());
        }
        if self.options.threads == Threads::None {
            return self.settle_until_room();
        }
        let mut guard = self.settling.lock();
        while self.state.read().stage.bytes() >= self.options.stage_max {
            wait::before_waiting()?;
            if let Some(trouble) = self.waiting.trouble() {
                return Err(trouble);
            }
            self.waiting.settle();
            if self.settled.wait_for(&mut guard, WAIT_MAX).timed_out() {
                return Err(Failure::DidNotHappen("the bucket takes no more bytes in time".into()).into());
            }
        }
        Ok(())
    }

    /// Makes room on the stage, where no thread does it.
    fn settle_until_room(&self) -> Result<(), Error> {
        while self.state.read().stage.bytes() >= self.options.stage_max {
            self.ship_retained()?;
            self.settle_most()?;
        }
        Ok(())
    }

    /// The settler's loop: keeps the stage below its limit, so that bulk is on its way before anybody syncs, and merges
    /// what is due in between.
    pub(crate) fn run_settler(&self) {
        while self.waiting.until_settle() {
            loop {
                self.drop_ended();
                if !self.is_stage_due() {
                    break;
                }
                match self.ship_retained().and_then(|()| self.settle_most()) {
                    Ok(()) => self.waiting.set_trouble(None),
                    Err(error) => {
                        if !self.note_trouble(error) || !self.waiting.rest(REST) {
                            return;
                        }
                    }
                }
            }
            // Whoever has made room, there is some.
            self.waiting.set_trouble(None);
            self.merge();
        }
    }

    /// Lets who waits for room know why there is none; false when there never will be.
    fn note_trouble(&self, error: Error) -> bool {
        if self.waiting.trouble().is_none() {
            tracing::warn!(%error, "written bytes wait for the bucket");
        }
        self.waiting.set_trouble(Some(error));
        let _guard = self.settling.lock();
        self.settled.notify_all();
        self.state.read().broken.is_none()
    }

    /// Tells whether so much is staged that it should be settled.
    pub(crate) fn is_stage_due(&self) -> bool {
        self.state.read().stage.bytes() >= self.options.stage_settle
    }
}
