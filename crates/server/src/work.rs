//! The worker: one thread that learns what was stored before, seals full packs, stores what was given back, folds a long journal and
//! evicts pages, when it is told to; and lets branches and checkpoints go when their time is over.
//!
//! Invariant: it sleeps without a timer where nothing goes by itself, so an idle drive wakes nothing and asks the bucket for nothing.

use crate::drive::{Inner, Threads};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tenure_core::tree::Hand;
use tenure_wire::Error;

/// Segments after which they are folded: reading them one by one takes the next owner a second, at 15 ms each.
const SEGMENTS_MAX: u64 = 1000;
/// As how many segments an epoch counts: each is read by itself, by some seven trips to the bucket one after the other, so that four
/// add half a second to a takeover.
const SEGMENTS_OF_EPOCH: u64 = 250;

/// How long after a branch has changed it is looked when a checkpoint of it is due: many may change at once, and all are looked at.
const NEWS_REST: Duration = Duration::from_secs(1);

/// What there is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Todo {
    learn: bool,
    seal: bool,
    store: bool,
    fold: bool,
    evict: bool,
    tend: bool,
    hear: bool,
    stop: bool,
}

/// Where the worker is told what to do.
#[derive(Debug, Default)]
pub(crate) struct Work {
    todo: Mutex<Todo>,
    wake: Condvar,
    /// Bytes of records at which a fold is tried; rises when one fails, so that a failing bucket is not pressed.
    fold_at: AtomicU64,
    /// Bytes of pages at which some are evicted; rises when few could go.
    evict_at: AtomicUsize,
    /// Segments of earlier owners that were read when the drive was opened, at most; with them the epochs.
    inherited: u64,
    /// Segments of this and earlier owners that the newest manifest made needless.
    folded: AtomicU64,
}

impl Work {
    /// Makes the worker of an owner that has read so many segments of so many epochs before it.
    pub(crate) fn new(fold_bytes: u64, page_bytes_max: usize, (segments, epochs): (u64, u64)) -> Self {
        Self {
            fold_at: AtomicU64::new(fold_bytes),
            evict_at: AtomicUsize::new(page_bytes_max),
            inherited: segments + epochs * SEGMENTS_OF_EPOCH,
            ..Self::default()
        }
    }

    /// Notes that so many segments of this owner are needed by nobody any more, nor those before.
    pub(crate) fn note_folded(&self, segments: u64) {
        self.folded.store(self.inherited + segments, Ordering::Relaxed);
    }

    /// Returns how many segments the next owner would have to read, when this one has begun so many.
    fn unfolded(&self, segments: u64) -> u64 {
        (self.inherited + segments).saturating_sub(self.folded.load(Ordering::Relaxed))
    }

    /// Ends the worker once it has done what it is at.
    pub(crate) fn stop(&self) {
        self.todo.lock().stop = true;
        self.wake.notify_all();
    }

    fn ask(&self, ask: impl FnOnce(&mut Todo)) {
        ask(&mut self.todo.lock());
        self.wake.notify_one();
    }

    /// Waits for something to do; after `rest` there is something about lines.
    fn next(&self, rest: Option<Duration>) -> Todo {
        let mut todo = self.todo.lock();
        while *todo == Todo::default() {
            match rest {
                Some(rest) => {
                    let is_over = self.wake.wait_for(&mut todo, rest).timed_out();
                    todo.tend |= is_over;
                }
                None => self.wake.wait(&mut todo),
            }
        }
        std::mem::take(&mut *todo)
    }
}

/// Starts the worker.
pub(crate) fn start(inner: &Arc<Inner>) -> JoinHandle<()> {
    let worker = Arc::downgrade(inner);
    let (work, clock) = (inner.work.clone(), inner.options.clock.clone());
    let run = move || {
        let mut due = None::<Duration>;
        loop {
            let rest = due.map(|due| due.saturating_sub(clock.elapsed()));
            let todo = work.next(rest);
            let Some(inner) = worker.upgrade().filter(|_| !todo.stop) else {
                return;
            };
            inner.do_work(todo);
            if todo.hear {
                inner.news.heard();
                let soon = clock.elapsed() + NEWS_REST;
                due = Some(due.map_or(soon, |due| due.min(soon)));
            }
            // What was written or folded may have made something needless.
            if todo.tend || todo.seal || todo.fold {
                due = inner.tend().map(|rest| clock.elapsed() + rest);
            }
        }
    };
    std::thread::Builder::new()
        .name("tenure-fold".into())
        .spawn(run)
        .expect("a process that opens a drive can start a thread")
}

impl Inner {
    fn do_work(&self, todo: Todo) {
        if todo.learn
            && let Err(failure) = self.filling.learn()
        {
            tracing::warn!(%failure, "what cannot be read is stored again");
        }
        if todo.seal {
            self.note_outcome(
                "full packs wait to be sealed",
                self.filling.seal_full().map_err(Error::from),
            );
        }
        if todo.store {
            // What fails is done again when it is lent.
            drop(self.store_unheld());
        }
        if todo.fold {
            let folded = self.health.guard(self.epoch, || self.fold());
            self.plan_next_fold(folded.is_ok());
            self.note_outcome("the journal waits to be folded", folded);
        }
        if todo.evict {
            self.evict();
        }
    }

    fn note_outcome(&self, what: &'static str, outcome: Result<(), Error>) {
        let trouble = outcome.err().map(|error| format!("{what}: {error}"));
        if let Some(trouble) = &trouble {
            tracing::warn!("{trouble}");
        }
        self.health.note(what, trouble);
    }

    fn plan_next_fold(&self, was_done: bool) {
        let step = self.options.fold_bytes;
        if was_done {
            self.work.fold_at.store(step, Ordering::Relaxed);
        } else {
            self.work.fold_at.fetch_add(step / 4, Ordering::Relaxed);
        }
    }

    /// Has it learned what earlier owners have stored.
    pub(crate) fn work_on_known(&self) {
        self.work_on(Todo {
            learn: true,
            ..Todo::default()
        });
    }

    /// Has full packs sealed. Those that cannot be sealed now are tried again with the next one.
    pub(crate) fn work_on_full_packs(&self) {
        self.work_on(Todo {
            seal: true,
            ..Todo::default()
        });
    }

    /// Has the pages stored of what was given back: whoever is lent it next, on another machine, waits for its grant alone. Where
    /// that is no put, it is done then.
    pub(crate) fn work_on_returned(&self) {
        self.work_on(Todo {
            store: self.filling.is_held(),
            ..Todo::default()
        });
    }

    /// Has a long journal folded, and pages evicted when they are too many.
    pub(crate) fn work_after_batch(&self) {
        let segments = self.work.unfolded(self.proof.segments());
        let of_segments = segments * (self.options.fold_bytes / SEGMENTS_MAX);
        let unfolded = self.unfolded.load(Ordering::Relaxed) + of_segments;
        let fold_at = self.work.fold_at.load(Ordering::Relaxed);
        // Pages that were not folded cannot be evicted.
        let is_dirty = self.memory.dirty_bytes() > self.options.page_bytes_max / 2;
        let todo = Todo {
            fold: unfolded >= fold_at || is_dirty && unfolded >= fold_at / 4,
            evict: self.has_too_many_pages(),
            hear: self.news.is_any(),
            ..Todo::default()
        };
        self.work_on(todo);
    }

    /// Has it looked which lines go by themselves, and when.
    pub(crate) fn work_on_lines(&self) {
        self.work_on(Todo {
            tend: true,
            ..Todo::default()
        });
    }

    /// Has pages evicted when they are too many.
    pub(crate) fn work_on_pages(&self) {
        self.work_on(Todo {
            evict: self.has_too_many_pages(),
            ..Todo::default()
        });
    }

    fn work_on(&self, todo: Todo) {
        if todo == Todo::default() {
            return;
        }
        match self.options.threads {
            Threads::Started => self.work.ask(|asked| {
                asked.learn |= todo.learn;
                asked.seal |= todo.seal;
                asked.store |= todo.store;
                asked.fold |= todo.fold;
                asked.evict |= todo.evict;
                asked.tend |= todo.tend;
                asked.hear |= todo.hear;
            }),
            Threads::None => {
                self.do_work(todo);
                if todo.tend || todo.hear {
                    self.tend();
                }
            }
        }
    }

    fn has_too_many_pages(&self) -> bool {
        self.memory.resident_bytes() > self.work.evict_at.load(Ordering::Relaxed)
    }

    /// Forgets pages that were not read lately, until a quarter of the limit is free.
    fn evict(&self) {
        let max = self.options.page_bytes_max;
        let branches = self.with(|live| {
            Ok(live
                .state
                .open()
                .values()
                .map(|open| open.branch.clone())
                .collect::<Vec<_>>())
        });
        for branch in branches.unwrap_or_default() {
            let excess = self.memory.resident_bytes().saturating_sub(max / 4 * 3);
            if excess == 0 {
                break;
            }
            branch.tree().evict(&mut Hand::default(), excess);
        }
        let next = max.max(self.memory.resident_bytes() + max / 8);
        self.work.evict_at.store(next, Ordering::Relaxed);
    }
}
