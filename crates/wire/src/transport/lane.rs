//! One lane of a connection: calls are numbered and written, a reader pairs the answers with who waits for them, and when
//! the stream ends another one is dialled and what may be asked again is asked again, in its order.
//!
//! It knows nothing of what is asked. Invariant: everybody who asks is told exactly once, within a bound; who is told that
//! a call was not sent can rely on it that no owner has seen it.

mod reader;

use super::link::{Greeted, Incoming, Link, Waits};
use super::patience::{Dial, Patience, is_final};
use crate::frame::Broken;
use crate::message::{Call, Hello, Request};
use crate::owner::Error;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tenure_model::{Failure, Refusal};

/// Calls that wait for an answer on one socket: enough to keep an owner busy, and all that a new one is asked again.
pub(super) const IN_FLIGHT_MAX: usize = 64;
/// Servers to which a client is sent one after the other: each knows who took the drive over from it.
const REDIRECTS_MAX: usize = 3;
/// How long nobody knocks again at a door that was closed in his face: what has closed it is mended by people.
const CLOSED_REST: Duration = Duration::from_secs(1);
/// Times that one call is asked again: one that brings down its owner each time must come to an end.
pub(super) const REPEATS_MAX: u32 = 8;

/// An answer, and whether the call was made more than once.
pub(super) struct Reply {
    pub(super) bytes: Vec<u8>,
    pub(super) was_repeated: bool,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Lost {
    /// No owner has got the call.
    NotSent(Error),
    /// It may have been done.
    MaybeDone(String),
}

impl From<Lost> for Error {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::NotSent(error) => error,
            Lost::MaybeDone(why) => Failure::Unknown(why).into(),
        }
    }
}

pub(super) type Then = Box<dyn FnOnce(Result<Reply, Lost>) + Send>;

/// Who asks again when a socket ends before the answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// The lane: the call may be done twice, and its bytes are few enough to be kept.
    Lane,
    /// The caller, if anybody.
    Caller,
}

/// Why a lane dials: what it says then, and whether it must be there though nobody asks anything.
pub(super) struct Purpose {
    /// Whether it is the first of its connection: what it does not find need not be there.
    pub(super) is_first: bool,
    pub(super) hello: Box<dyn Fn() -> Hello + Send + Sync>,
    pub(super) is_needed: Box<dyn Fn() -> bool + Send + Sync>,
}

/// One socket at a time to an owner.
pub(super) struct Lane(Arc<Inner>);

struct Inner {
    dial: Dial,
    purpose: Purpose,
    patience: Patience,
    next: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
    reader: Mutex<Option<JoinHandle<()>>>,
}

struct State {
    stage: Stage,
    waiting: BTreeMap<u64, Waiting>,
    /// Whether there was an owner once, over this lane or another, so that it makes sense to wait for the next.
    was_up: bool,
    /// Links in a row over which no answer came.
    barren: u32,
    /// The door that was closed last, if nobody knocks there again yet.
    closed_door: Option<ClosedDoor>,
}

/// Why somebody who was in before is not let in any more, and until when he does not ask again.
struct ClosedDoor {
    why: Error,
    until: Duration,
}

enum Stage {
    Down,
    /// Somebody dials.
    Dialling,
    Up(Arc<Link>),
    /// Nothing more can be written; what was asked is still answered.
    Ending(Arc<Link>),
    Closed,
}

impl Stage {
    fn link(&self) -> Option<&Arc<Link>> {
        match self {
            Stage::Up(link) | Stage::Ending(link) => Some(link),
            Stage::Down | Stage::Dialling | Stage::Closed => None,
        }
    }
}

struct Waiting {
    until: Duration,
    /// The call, where the lane asks it again.
    kept: Option<Arc<Vec<u8>>>,
    progress: Progress,
    repeats: u32,
    then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Writing,
    Sent,
    Unsent,
}

impl State {
    /// Has a link to write to from now on.
    fn begin(&mut self, link: Arc<Link>) {
        self.stage = Stage::Up(link);
    }

    /// Takes out those who wait and are meant.
    fn extract(&mut self, is_meant: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let taken = self.waiting.extract_if(.., |_, waiting| is_meant(waiting));
        taken.map(|(_, waiting)| waiting).collect()
    }
}

impl Waiting {
    fn tell_lost(self, why: &Error) {
        let lost = match self.progress {
            Progress::Unsent => Lost::NotSent(why.clone()),
            Progress::Writing | Progress::Sent => Lost::MaybeDone(why.to_string()),
        };
        (self.then)(Err(lost));
    }
}

impl Lane {
    pub(super) fn new(dial: Dial, purpose: Purpose, patience: Patience) -> Self {
        let state = State {
            stage: Stage::Down,
            waiting: BTreeMap::new(),
            was_up: !purpose.is_first,
            barren: 0,
            closed_door: None,
        };
        Self(Arc::new(Inner {
            dial,
            purpose,
            patience,
            next: AtomicU64::new(1),
            state: Mutex::new(state),
            changed: Condvar::new(),
            reader: Mutex::new(None),
        }))
    }

    /// Finds the owner, if that was not done yet.
    pub(super) fn connect(&self) -> Result<(), Error> {
        let until = self.0.until(self.0.patience.reply_max);
        self.0.up(until).map(drop)
    }

    /// Sees to it that the lane is there, now that it is needed: its socket may have ended just before.
    pub(super) fn come_back(&self) -> Result<(), Error> {
        let is_down = matches!(self.0.state.lock().stage, Stage::Down);
        if is_down { self.connect() } else { Ok(()) }
    }

    /// Asks; `then` is told what came of it within `within`, on a thread that must not be held up.
    pub(super) fn ask(&self, request: Request<'_>, again: Again, within: Duration, then: Then) -> u64 {
        let inner = &self.0;
        let number = inner.next.fetch_add(1, Ordering::Relaxed);
        let call = Call { number, request };
        let head = Arc::new(call.head());
        let kept = (again == Again::Lane).then(|| head.clone());
        let until = inner.until(within);
        let waiting = Waiting {
            until,
            kept,
            progress: Progress::Writing,
            repeats: 0,
            then,
        };
        let link = match inner.up(until) {
            Ok((mut state, link)) => {
                state.waiting.insert(number, waiting);
                link
            }
            Err(error) => {
                (waiting.then)(Err(Lost::NotSent(error)));
                return number;
            }
        };
        let parts: Vec<_> = std::iter::once(&head[..]).chain(call.tail()).collect();
        let written = link.write(&parts, inner.patience.write_max);
        inner.note_written(number, &link, written);
        number
    }

    /// Gives up a call; who waits for it is told.
    pub(super) fn give_up(&self, number: u64) {
        let waiting = self.0.take(number);
        if let Some(waiting) = waiting {
            waiting.tell_lost(&too_late());
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if let Some(link) = std::mem::replace(&mut state.stage, Stage::Closed).link() {
            link.end();
        }
        drop(state);
        self.0.changed.notify_all();
        let reader = self.0.reader.lock().take();
        // The last one to let go may be who was just told something, on the reader's own thread.
        if let Some(reader) = reader.filter(|reader| reader.thread().id() != std::thread::current().id()) {
            // A reader that has panicked has told everybody that it has.
            let _ = reader.join();
        }
    }
}

impl Inner {
    fn until(&self, within: Duration) -> Duration {
        self.patience.clock.elapsed().saturating_add(within)
    }

    fn left(&self, until: Duration) -> Duration {
        until.saturating_sub(self.patience.clock.elapsed())
    }

    fn take(&self, number: u64) -> Option<Waiting> {
        let mut state = self.state.lock();
        let was_full = state.waiting.len() >= IN_FLIGHT_MAX;
        let waiting = state.waiting.remove(&number);
        if was_full {
            self.changed.notify_all();
        }
        waiting
    }

    /// Returns the link to write to, once there is one with room for another call.
    fn up(self: &Arc<Self>, until: Duration) -> Result<(MutexGuard<'_, State>, Arc<Link>), Error> {
        let mut state = self.state.lock();
        loop {
            match &state.stage {
                Stage::Up(link) if link.at().is_some_and(|at| self.dial.is_silent(at)) => {
                    let link = link.clone();
                    link.end();
                    // Its reader learns it from that.
                    state.stage = Stage::Ending(link);
                }
                Stage::Up(link) if state.waiting.len() < IN_FLIGHT_MAX => {
                    let link = link.clone();
                    return Ok((state, link));
                }
                _ if self.left(until).is_zero() => return Err(not_reached()),
                Stage::Up(_) | Stage::Dialling | Stage::Ending(_) => {
                    if self.changed.wait_for(&mut state, self.left(until)).timed_out() {
                        return Err(not_reached());
                    }
                }
                Stage::Closed => return Err(closed()),
                Stage::Down => {
                    if let Some(door) = &state.closed_door
                        && !self.left(door.until).is_zero()
                    {
                        return Err(door.why.clone());
                    }
                    state.stage = Stage::Dialling;
                    let attempts = if state.was_up {
                        self.patience.redials_max
                    } else {
                        1
                    };
                    drop(state);
                    let dialled = self.dial(attempts, false);
                    state = self.state.lock();
                    self.begin(&mut state, dialled)?;
                }
            }
        }
    }

    /// Goes on after dialling: with a reader for the new link, or as before.
    fn begin(self: &Arc<Self>, state: &mut State, dialled: Result<Incoming, Error>) -> Result<(), Error> {
        self.changed.notify_all();
        if matches!(state.stage, Stage::Closed) {
            return Err(closed());
        }
        state.stage = Stage::Down;
        let incoming = dialled?;
        let (link, inner) = (incoming.link.clone(), self.clone());
        let reader = std::thread::Builder::new()
            .name("tenure-answers".into())
            .spawn(move || inner.run(incoming))
            .map_err(|error| {
                Failure::DidNotHappen(format!("no thread can be started to read answers: {error}"))
            })?;
        *self.reader.lock() = Some(reader);
        state.begin(link);
        state.was_up = true;
        Ok(())
    }

    /// Tries to find an owner, a number of times and within a bound.
    fn dial(&self, attempts: u32, rests_first: bool) -> Result<Incoming, Error> {
        let until = self.until(self.patience.reply_max);
        let mut last = Failure::DidNotHappen("the owner of the drive ends every connection".into()).into();
        for attempt in 0..attempts {
            if (attempt > 0 || rests_first) && !self.rest(attempt) {
                return Err(closed());
            }
            match self.dial_once() {
                Ok(incoming) => {
                    self.state.lock().closed_door = None;
                    return Ok(incoming);
                }
                Err(error) if is_final(&error) => return Err(self.turned_away(error)),
                Err(error) => last = error,
            }
            if self.patience.clock.elapsed() >= until {
                break;
            }
        }
        Err(last)
    }

    /// Says why nobody is let in. Where an owner was there before, a closed door is no answer of it: what is asked did not
    /// happen, and may be asked again once the door is open.
    fn turned_away(&self, error: Error) -> Error {
        let mut state = self.state.lock();
        let Error::Refused(refusal) = &error else {
            return error;
        };
        if !state.was_up {
            return error;
        }
        let why: Error = Failure::DidNotHappen(refusal.to_string()).into();
        let until = self.until(CLOSED_REST);
        state.closed_door = Some(ClosedDoor {
            why: why.clone(),
            until,
        });
        why
    }

    /// Tries to find an owner, and goes where it is sent.
    fn dial_once(&self) -> Result<Incoming, Error> {
        let mut stream = self.dial.dial()?;
        let mut sent = Vec::new();
        let dialled = loop {
            match Link::open(stream, &(self.purpose.hello)(), self.waits()) {
                Ok(Greeted::In(incoming)) => return Ok(incoming),
                Ok(Greeted::Elsewhere(address)) if sent.len() < REDIRECTS_MAX => {
                    match self.dial.follow(&address) {
                        Ok(next) => stream = next,
                        Err(error) => break error,
                    }
                    sent.push(address.to_string());
                }
                Ok(Greeted::Elsewhere(address)) => {
                    let sent = sent.join(", ");
                    let why = format!("servers send this client round: to {sent}, and then to {address}");
                    break Failure::DidNotHappen(why).into();
                }
                Err(error) => break error,
            }
        };
        self.dial.was_in_vain();
        Err(dialled)
    }

    fn waits(&self) -> Waits {
        let Patience {
            reply_max, write_max, ..
        } = self.patience;
        Waits {
            greeting: reply_max,
            write: write_max,
            // Calls that are told late are told at most a quarter late.
            silence: (reply_max / 4).max(Duration::from_millis(1)),
        }
    }

    /// Waits a while; returns false when the lane is closed.
    fn rest(&self, attempt: u32) -> bool {
        let rest = self.patience.rest(attempt, &(self.purpose.hello)().written());
        let mut state = self.state.lock();
        let is_open = |state: &mut State| !matches!(state.stage, Stage::Closed);
        self.changed.wait_while_for(&mut state, is_open, rest);
        is_open(&mut state)
    }

    fn note_written(&self, number: u64, link: &Arc<Link>, written: Result<(), Broken>) {
        let mut state = self.state.lock();
        let current = state
            .stage
            .link()
            .filter(|current| Arc::ptr_eq(current, link))
            .cloned();
        let is_current = current.is_some();
        if let Some(current) = current.filter(|current| current.is_spent()) {
            state.stage = Stage::Ending(current);
        }
        let Some(waiting) = state
            .waiting
            .get_mut(&number)
            .filter(|one| one.progress == Progress::Writing)
        else {
            return;
        };
        let is_kept = waiting.kept.is_some();
        let why = match written {
            // Where the link has ended meanwhile, its reader has left this one to us.
            Ok(()) if is_current || is_kept => {
                waiting.progress = Progress::Sent;
                return;
            }
            Ok(()) => ended("the connection ended"),
            Err(Broken::TooLong { .. }) => {
                waiting.progress = Progress::Unsent;
                Refusal::TooLarge.into()
            }
            Err(broken) => {
                waiting.progress = Progress::Unsent;
                if is_kept && link.is_spent() {
                    return;
                }
                Failure::DidNotHappen(broken.to_string()).into()
            }
        };
        let waiting = state.waiting.remove(&number);
        drop(state);
        if let Some(waiting) = waiting {
            waiting.tell_lost(&why);
        }
    }
}

fn closed() -> Error {
    Failure::DidNotHappen("the connection was closed".into()).into()
}

fn not_reached() -> Error {
    Failure::DidNotHappen("the owner of the drive was not reached in time".into()).into()
}

fn ended(why: &str) -> Error {
    Failure::DidNotHappen(why.to_owned()).into()
}

fn too_late() -> Error {
    Failure::DidNotHappen("the owner of the drive did not answer in time".into()).into()
}
