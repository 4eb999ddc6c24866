//! The order of a drive's records: what is accepted is put into the state and into the journal in one step, and is
//! durable later.
//!
//! Invariant: the order in memory is the order in the journal, because both happen under the state's lock. A record that
//! was accepted and cannot be made durable now waits in its place, and nobody is told that anything behind it is durable;
//! one that never can be stops the drive.

use crate::decide;
use crate::drive::{Inner, Threads};
use crate::session::Heard;
use crate::shared::Shares;
use crate::state::{After, State};
use crate::still::Holders;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tenure_journal::{Journal, Position};
use tenure_model::codec::Codec;
use tenure_model::{Failure, Record, Seq};
use tenure_wire::{Done, Error};

/// Times that a record is decided again because the branch that it is about has changed meanwhile.
const DECISIONS_MAX: usize = 100;

/// What the state's lock guards.
pub(crate) struct Live {
    pub(crate) state: State,
    /// None once the drive is closed.
    pub(crate) journal: Option<Arc<Journal>>,
    /// Sessions opened by this owner so far.
    pub(crate) sessions: u64,
    pub(crate) heard: Heard,
    pub(crate) shares: Shares,
    pub(crate) holders: Holders,
}

impl Live {
    /// Returns the journal of a drive that is open.
    pub(crate) fn journal(&self) -> Result<&Arc<Journal>, Error> {
        self.journal
            .as_ref()
            .ok_or_else(|| Failure::DidNotHappen("the drive was closed; open it again".into()).into())
    }
}

/// Which room of the journal a record may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// All but the last.
    Usual,
    /// Also the last, which is kept for records that give something up.
    Last,
}

/// The places in the order at which records ended, as far as a fold needs them.
#[derive(Debug)]
pub(crate) struct Places(Mutex<Wanted>);

#[derive(Debug)]
struct Wanted {
    latest: Position,
    wanted: Option<Seq>,
    found: Option<Position>,
}

impl Places {
    /// Starts at the end of what was recovered.
    pub(crate) fn new(latest: Position) -> Self {
        Self(Mutex::new(Wanted {
            latest,
            wanted: None,
            found: None,
        }))
    }

    /// Asks for the place of the last record that was put in order.
    pub(crate) fn want(&self, seq: Seq) {
        let mut places = self.0.lock();
        places.found = (places.latest.seq == seq).then_some(places.latest);
        places.wanted = Some(seq);
    }

    /// Returns the place that was asked for, once it is durable.
    pub(crate) fn found(&self) -> Option<Position> {
        self.0.lock().found
    }

    fn reach(&self, position: Position) {
        let mut places = self.0.lock();
        places.latest = position;
        if places.wanted == Some(position.seq) {
            places.found = Some(position);
        }
    }
}

impl Inner {
    /// Runs `act` under the state's lock. A panic in there is a bug and stops the drive.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Live) -> Result<R, Error>) -> Result<R, Error> {
        let mut live = self.live.lock();
        self.health.check()?;
        self.health.guard(self.epoch, || act(&mut live))
    }

    /// Puts a record into the journal; `done` is told once it is durable. A failure means that nothing was put there;
    /// then `done` comes back.
    pub(crate) fn enqueue(
        &self,
        live: &Live,
        (bytes, room): (Vec<u8>, Room),
        done: Done<()>,
    ) -> Result<Seq, (Error, Done<()>)> {
        let journal = match live.journal() {
            Ok(journal) => journal,
            Err(error) => return Err((error, done)),
        };
        let kept = Arc::new(Mutex::new(Some(done)));
        let (waiting, places, health) = (kept.clone(), self.places.clone(), self.health.clone());
        let told = Box::new(move |outcome: Result<Position, Failure>| {
            let Some(done) = waiting.lock().take() else { return };
            match outcome {
                Ok(position) => {
                    places.reach(position);
                    // Where the journal tries again by itself, nobody else hears of it.
                    health.go_on();
                    done(Ok(()));
                }
                Err(failure) => {
                    health.stop_after("its journal", &failure);
                    done(health.check());
                }
            }
        });
        let len = bytes.len() as u64;
        let queued = match room {
            Room::Usual => journal.enqueue(bytes, told),
            Room::Last => journal.append_from_reserve(bytes, told),
        };
        let seq = queued.map_err(|failure| {
            let done = kept.lock().take();
            (
                self.health.before_anything(failure.into()),
                done.expect("a record that was not put in order is told nobody"),
            )
        })?;
        self.unfolded.fetch_add(len, Ordering::Relaxed);
        Ok(seq)
    }

    /// Returns when everything up to `seq` is durable. What could not be written is tried again by the next call.
    pub(crate) fn commit_through(&self, journal: &Journal, seq: Seq) -> Result<(), Error> {
        match journal.commit_through(seq) {
            Ok(()) => {
                self.health.go_on();
                Ok(())
            }
            Err(failure) if journal.has_stopped() => {
                self.health.stop_after("its journal", &failure);
                Err(self.health.check().expect_err("it has just stopped"))
            }
            Err(failure) => Err(self.health.wait(&failure).into()),
        }
    }

    /// Accepts a record that `make` draws up from the state, and returns once it is durable. `make` also returns what
    /// the caller is told; it may be asked several times.
    pub(crate) fn accept<R>(
        &self,
        make: impl Fn(&mut Live) -> Result<(Record, R), Error>,
    ) -> Result<R, Error> {
        let (journal, seq, answer) = self.put_in_order(make)?;
        self.commit_through(&journal, seq)?;
        Ok(answer)
    }

    /// As [`Inner::accept`], and where a record takes a put to be durable, returns when that has begun.
    pub(crate) fn accept_soon<R>(
        &self,
        make: impl Fn(&mut Live) -> Result<(Record, R), Error>,
    ) -> Result<R, Error> {
        let (journal, seq, answer) = self.put_in_order(make)?;
        if self.filling.is_held() && self.options.threads == Threads::Started {
            journal.commit_soon();
        } else {
            self.commit_through(&journal, seq)?;
        }
        Ok(answer)
    }

    /// As [`Inner::accept`], of a record for each of some things; one that is refused is left out.
    pub(crate) fn accept_all<T: Copy>(
        &self,
        all: &[T],
        make: impl Fn(&mut Live, T) -> Result<Record, Error>,
    ) -> Result<(), Error> {
        let mut last = None;
        for one in all {
            match self.put_in_order(|live| Ok((make(live, *one)?, ()))) {
                Err(Error::Refused(_)) => {}
                ordered => last = Some(ordered?),
            }
        }
        match last {
            Some((journal, seq, ())) => self.commit_through(&journal, seq),
            None => Ok(()),
        }
    }

    fn put_in_order<R>(
        &self,
        make: impl Fn(&mut Live) -> Result<(Record, R), Error>,
    ) -> Result<(Arc<Journal>, Seq, R), Error> {
        for _ in 0..DECISIONS_MAX {
            let (record, before) = self.with(|live| {
                let (record, _) = make(live)?;
                live.state.permits(&record)?;
                let touched = live.state.touched(&record);
                let before = touched.and_then(|branch| live.state.opened(branch));
                Ok((record, before))
            })?;
            // Pages are loaded with no lock held.
            let after = match &before {
                Some(open) => {
                    let branch = open.branch.clone();
                    self.health
                        .guard(self.epoch, || decide::after(&record, branch, &self.loader))?
                }
                None => After::Same,
            };
            if let Some(ordered) = self.accept_decided(&make, before.map(|open| open.version), after)? {
                return Ok(ordered);
            }
        }
        Err(Failure::DidNotHappen("the branch changes all the time; try again".into()).into())
    }

    /// Accepts the record unless the branch is another than when it was decided; returns none then.
    fn accept_decided<R>(
        &self,
        make: &impl Fn(&mut Live) -> Result<(Record, R), Error>,
        version: Option<u64>,
        after: After,
    ) -> Result<Option<(Arc<Journal>, Seq, R)>, Error> {
        self.with(|live| {
            let (record, answer) = make(live)?;
            live.state.permits(&record)?;
            let touched = live.state.touched(&record);
            let now = touched.and_then(|branch| live.state.opened(branch));
            if now.map(|open| open.version) != version {
                return Ok(None);
            }
            let seq = self
                .enqueue(live, (record.written(), room_for(&record)), Box::new(drop))
                .map_err(|(error, _)| error)?;
            live.state.apply(&record, seq, after);
            Ok(Some((live.journal()?.clone(), seq, answer)))
        })
    }
}

/// Says which room of the journal a record may take: on a full disk, things can still be ended.
fn room_for(record: &Record) -> Room {
    match record {
        Record::SessionClosed { .. }
        | Record::Returned { .. }
        | Record::BranchDeleted { .. }
        | Record::CheckpointDeleted { .. }
        | Record::Left { .. }
        | Record::Dropped { .. }
        | Record::Revoked { .. }
        | Record::Ousted { .. }
        | Record::Condemned(_)
        | Record::Reclaimed(_) => Room::Last,
        Record::DriveCreated { .. }
        | Record::SessionOpened { .. }
        | Record::Granted { .. }
        | Record::InosLent { .. }
        | Record::Batch(_)
        | Record::Forked { .. }
        | Record::CheckpointMade { .. }
        | Record::Joined { .. }
        | Record::Act(_)
        | Record::Renamed { .. }
        | Record::Planned(_)
        | Record::Marked(_)
        | Record::Turned(_) => Room::Usual,
    }
}
