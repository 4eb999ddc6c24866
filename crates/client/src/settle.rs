//! Settling: staged bytes become chunks in a pack, and a `Write` in the log.
//!
//! Invariant: a file is settled by one thread at a time, so its writes enter the log in their order.

use crate::branch::{Inner, LOADS_MAX, State, Threads, too_many_loads};
use crate::change::News;
use crate::place::{Last, Settled};
use crate::ship::LITTLE;
use crate::stage::{Kept, Staged, Taken};
use crate::wait;
use parking_lot::RwLockWriteGuard;
use std::time::Duration;
use tenure_core::{Missing, Outcome, Undecided};
use tenure_model::limits::CHUNK_LEN_MAX;
use tenure_model::{Failure, Ino, Op, Refusal};
use tenure_wire::Error;

/// The longest that a writer waits for room on the stage, or anybody for a file that is being settled.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Bytes that are settled together at most: as many as two packs have, which are put at once.
const TOGETHER_MAX: u64 = 32 << 20;
/// Files that are settled together where the way to the owner is short, and their bytes: so few that who syncs another file hardly waits
/// for them, and so many that writers have the state's lock to themselves meanwhile.
const NEAR_MAX: usize = 64;
const NEAR_BYTES_MAX: u64 = 256 << 10;
/// Files whose writes are logged before somebody who waits gets the state.
const LOGGED_MAX: usize = 64;
/// Files that a program may be writing at once: those that were written last. Settled now, one of a single chunk would be in other
/// chunks than the same file elsewhere, and be stored again.
const WRITTEN_AT_ONCE: usize = 64;
/// How long the settler rests after the bucket has failed.
const REST: Duration = Duration::from_millis(200);

/// A file of which something is being settled: what, and what becomes of its last bytes.
type Taking = (Ino, Taken, Last);

/// What was taken of some files to be settled.
#[derive(Default)]
struct Begun {
    taken: Vec<Taking>,
    /// Those that another thread settles.
    others: Vec<(Ino, Last)>,
}

impl Inner {
    /// Settles all that is staged of a file; what comes meanwhile may stay.
    pub(crate) fn settle(&self, ino: Ino) -> Result<(), Error> {
        self.settle_files(&[(ino, Last::Settled)])
    }

    /// Settles everything that is staged now.
    pub(crate) fn settle_all(&self) -> Result<(), Error> {
        let files = self.state.read().stage.files();
        self.settle_named(files)
    }

    /// Settles what has waited for long. What is younger waits for the next time: it may be of files that are being written.
    fn settle_old(&self) -> Result<(), Error> {
        let now = self.clock.elapsed();
        let files = {
            let state = self.state.read();
            let is_old = |ino: &Ino| {
                let file = state.stage.file(*ino);
                file.is_some_and(|file| !self.is_young(file, now))
            };
            state.stage.files().into_iter().filter(is_old).collect()
        };
        self.settle_named(files)
    }

    /// Tells whether what is staged of a file can wait until what comes now is due.
    fn is_young(&self, file: &Staged, now: Duration) -> bool {
        now.saturating_sub(file.since()) < self.options.lag_max / 2
    }

    /// Settles all that is staged of some files.
    pub(crate) fn settle_named(&self, files: Vec<Ino>) -> Result<(), Error> {
        let files: Vec<_> = files.into_iter().map(|ino| (ino, Last::Settled)).collect();
        self.settle_files(&files)
    }

    /// Settles what is staged, but for the last bytes of long files that are being written, and for short ones that are; as long as those
    /// are no half of what may be staged. Tells whether there was anything.
    fn settle_most(&self) -> Result<bool, Error> {
        let now = self.clock.elapsed();
        let files = {
            let state = self.state.read();
            let last = |ino: Ino| {
                // What is kept is as old as the rest was, and must not be too old to be shipped in time.
                let is_young = state.stage.file(ino).is_some_and(|file| self.is_young(file, now));
                if is_young { Last::Kept } else { Last::Settled }
            };
            let written = state.stage.written_last(WRITTEN_AT_ONCE);
            let is_settled = |ino: &Ino| {
                let is_long = |file: &Staged| file.len() > CHUNK_LEN_MAX as u64;
                !written.contains(ino) || state.stage.file(*ino).is_some_and(is_long)
            };
            let (files, left): (Vec<_>, Vec<_>) = state.stage.files().into_iter().partition(is_settled);
            let is_half_full = state.stage.bytes() >= self.options.stage_max / 2;
            let files = if files.is_empty() && is_half_full {
                left
            } else {
                files
            };
            files.into_iter().map(|ino| (ino, last(ino))).collect::<Vec<_>>()
        };
        if files.is_empty() {
            self.state.write().stage.wait_for(self.options.stage_settle / 4);
            return Ok(false);
        }
        self.settle_files(&files)?;
        Ok(true)
    }

    /// Settles some files, several at once.
    fn settle_files(&self, mut files: &[(Ino, Last)]) -> Result<(), Error> {
        while !files.is_empty() {
            let (together, behind) = files.split_at(self.count_together(files));
            let begun = self.begin_settling(together)?;
            self.settle_taken(begun.taken)?;
            // Only now, when nobody waits for what was taken here.
            for file in begun.others {
                let begun = self.when_not_settling(file.0, |inner| inner.take(&[file]))?;
                self.settle_taken(begun.taken)?;
            }
            files = behind;
        }
        Ok(())
    }

    /// Returns how many of the first files are settled together.
    fn count_together(&self, files: &[(Ino, Last)]) -> usize {
        let (count_max, bytes_max) = if self.is_far() {
            (usize::MAX, TOGETHER_MAX)
        } else {
            (NEAR_MAX, NEAR_BYTES_MAX)
        };
        let state = self.state.read();
        let mut bytes = 0;
        let fits = |file: &&(Ino, Last)| {
            bytes += state.stage.file(file.0).map_or(0, Staged::len);
            bytes <= bytes_max
        };
        files.iter().take(count_max).take_while(fits).count().max(1)
    }

    /// Takes what is staged of files that no other thread settles.
    fn begin_settling(&self, files: &[(Ino, Last)]) -> Result<Begun, Error> {
        let is_staged = |file: &(Ino, Last)| self.state.read().stage.file(file.0).is_some();
        if !files.iter().any(is_staged) {
            return Ok(Begun::default());
        }
        // Whether the owner may be asked is known before anything is taken.
        self.asked()?;
        let _guard = self.settling.lock();
        Ok(self.take(files))
    }

    /// As `begin_settling`, while no thread can begin to settle anything.
    fn take(&self, files: &[(Ino, Last)]) -> Begun {
        let now = self.clock.elapsed();
        let (mut state, mut begun) = (self.state.write(), Begun::default());
        for (ino, last) in files.iter().copied() {
            match state.stage.file(ino) {
                Some(file) if file.is_settling() => begun.others.push((ino, last)),
                Some(_) => begun
                    .taken
                    .extend(state.stage.settle(ino, now).map(|bytes| (ino, bytes, last))),
                None => {}
            }
        }
        begun
    }

    /// Gives what was taken its places, and logs it; what that fails for stays staged.
    fn settle_taken(&self, taken: Vec<Taking>) -> Result<(), Error> {
        let files: Vec<_> = taken.iter().map(|(ino, ..)| *ino).collect();
        if files.is_empty() {
            return Ok(());
        }
        let _placing = self.forgoing.place();
        let placed = self.place(taken.into_iter().map(|(_, bytes, last)| (bytes, last)).collect());
        let (logged, outcome) = match &placed {
            Ok(settled) => self.log_writes(&files, settled),
            Err(error) => (0, Err(error.clone())),
        };
        if outcome.is_err() {
            let mut state = self.state.write();
            files[logged..].iter().for_each(|ino| state.stage.unsettle(*ino));
        }
        let _guard = self.settling.lock();
        self.settled.notify_all();
        outcome
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
                let Some(state) = inner.changing_now()? else {
                    return Ok(None);
                };
                state.check_room(op)?;
                Ok(Some(inner.enter(state, op, discard)))
            });
            match attempt.flatten()? {
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(Undecided::Refused(refusal))) => return Err(refusal.into()),
                Some(Err(Undecided::Missing(missing))) => self.load(&missing)?,
                // Who waits for that keeps nobody from settling.
                None => self.until_going_on()?,
            }
        }
        Err(too_many_loads())
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

    /// Logs the writes of files, one after the other; returns of how many that was done.
    fn log_writes(&self, files: &[Ino], settled: &[Settled]) -> (usize, Result<(), Error>) {
        let (mut logged, mut loads) = (0, 0);
        while logged < files.len() {
            let before = logged;
            let missing = match self.log_some(files, settled, &mut logged) {
                Ok(missing) => missing,
                Err(error) => return (logged, Err(error)),
            };
            loads = if logged == before { loads + 1 } else { 0 };
            if loads == LOADS_MAX {
                return (logged, Err(too_many_loads()));
            }
            if let Some(Err(error)) = missing.map(|missing| self.load(&missing)) {
                return (logged, Err(error));
            }
        }
        (logged, Ok(()))
    }

    /// Logs the next of them, in one step; returns what is missing for the one behind.
    fn log_some(
        &self,
        files: &[Ino],
        settled: &[Settled],
        logged: &mut usize,
    ) -> Result<Option<Missing>, Error> {
        let mut state = self.going_on()?;
        let (mut news, mut is_due, mut stopped) = (News::default(), false, Ok(None));
        let some = files.iter().zip(settled).skip(*logged).take(LOGGED_MAX);
        for (ino, settled) in some {
            match self.log_write(&mut state, *ino, settled) {
                Ok((due, more)) => {
                    is_due |= due;
                    news = news.and(more);
                }
                // The file is gone, and its bytes with it.
                Err(Undecided::Refused(Refusal::NotFound)) => {
                    state.stage.settled(*ino, &Kept::default(), self.clock.elapsed());
                    self.witness.staged(state.stage.bytes());
                }
                Err(Undecided::Refused(refusal)) => {
                    stopped = Err(refusal.into());
                    break;
                }
                Err(Undecided::Missing(missing)) => {
                    stopped = Ok(Some(missing));
                    break;
                }
            }
            *logged += 1;
        }
        // Whoever waits for the state has it before the next ones are logged.
        RwLockWriteGuard::unlock_fair(state);
        self.tell_shipper(news);
        if is_due {
            self.waiting.settle();
        }
        stopped
    }

    /// Logs what was settled of a file; tells whether something is to be merged.
    fn log_write(&self, state: &mut State, ino: Ino, settled: &Settled) -> Result<(bool, News), Undecided> {
        let op = Op::Write {
            ino,
            pieces: settled.pieces.clone(),
            size: 0,
            time: state.stage.file(ino).and_then(|file| file.time),
        };
        self.enter_one(state, &op, |state, outcome| {
            state.log.chunks.extend_from_slice(&settled.places);
            let since = state.stage.file(ino).map(Staged::since);
            since.into_iter().for_each(|since| state.log.has_waited(since));
            let bytes = settled.pieces.iter().map(|piece| piece.extent.len()).sum::<u64>();
            state.log.contents += bytes;
            self.witness.settled(bytes);
            state.stage.settled(ino, &settled.kept, self.clock.elapsed());
            let (_, attr) = outcome.inode.expect("a write answers with its inode");
            // A copy of a shared branch stays as it was shipped, so that it can be taken anew: nothing is merged in it.
            if state.lent.is_none() {
                state.frays.note(ino, &settled.pieces, attr.allocated);
            }
            state.frays.fall_due(self.merge_after())
        })
    }

    /// Tells whether the stage has room for a write to a file. It has some more for files of which little is staged: they do not
    /// wait for another's bulk.
    fn has_room(&self, ino: Ino) -> bool {
        let (state, max) = (self.state.read(), self.options.stage_max);
        let is_little = || state.stage.file(ino).map_or(0, Staged::len) < LITTLE;
        let bytes = state.stage.bytes();
        bytes < max || bytes < max + max / 4 && is_little()
    }

    /// Waits until the stage has room for a write to a file; the owner's trouble ends the wait.
    pub(crate) fn wait_for_stage(&self, ino: Ino) -> Result<(), Error> {
        if self.has_room(ino) {
            return Ok(());
        }
        if self.options.threads == Threads::None {
            return self.settle_until_room();
        }
        let mut guard = self.settling.lock();
        while !self.has_room(ino) {
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
            self.settle_most()?;
        }
        Ok(())
    }

    /// The settler's loop: keeps the stage below its limit, so that bulk is on its way before anybody syncs, and sees to what has
    /// waited for the lag where it is much; merges what is due in between.
    pub(crate) fn run_settler(&self) {
        while self.waiting.until_settle() {
            loop {
                self.drop_ended();
                let settled = if self.is_lag_over(self.tick()) && self.is_much_staged() {
                    let settled = self.settle_old();
                    settled.and_then(|()| self.ship(&mut self.shipping.lock()).map(|()| true))
                } else if self.is_stage_due() {
                    self.settle_most()
                } else {
                    break;
                };
                match settled {
                    Ok(true) => self.waiting.set_trouble(None),
                    Ok(false) => break,
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

    /// Tells whether so much is staged that nobody who syncs something else should wait for it.
    pub(crate) fn is_much_staged(&self) -> bool {
        self.state.read().stage.bytes() > LITTLE
    }

    /// Tells whether so much is staged that it should be settled.
    pub(crate) fn is_stage_due(&self) -> bool {
        self.state.read().stage.is_due(self.options.stage_settle)
    }
}
