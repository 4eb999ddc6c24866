//! Programs that take turns: each has a thread of its own, and of all threads of a world one runs at a time.
//!
//! A program lets the world go on wherever something takes time, in the middle of a call too, and the world says when it goes on
//! itself. Invariant: who runs is never chance, so one seed gives one trace.

use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, ThreadId};

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    World,
    Program,
    /// The program has ended; with a panic, or without.
    Nobody {
        is_bug: bool,
    },
}

struct State {
    whose: Whose,
    is_killed: bool,
}

struct Inner {
    state: Mutex<State>,
    changed: Condvar,
    thread: OnceLock<ThreadId>,
}

/// What a program gives its turn away with.
#[derive(Clone)]
pub(crate) struct Turn(Arc<Inner>);

impl Turn {
    /// Lets the world go on until it is this program's turn again; tells whether its process is still there. Other threads of its
    /// process, which the world stands for, wait for nothing here.
    pub(crate) fn pass(&self) -> bool {
        let inner = &self.0;
        let mut state = inner.state.lock();
        let is_program = inner.thread.get() == Some(&std::thread::current().id());
        if is_program && !state.is_killed {
            state.whose = Whose::World;
            inner.changed.notify_all();
            while state.whose == Whose::World {
                inner.changed.wait(&mut state);
            }
        }
        !state.is_killed
    }

    /// Waits for the first turn of this thread.
    fn begin(&self) {
        let inner = &self.0;
        let _ = inner.thread.set(std::thread::current().id());
        let mut state = inner.state.lock();
        while state.whose == Whose::World {
            inner.changed.wait(&mut state);
        }
    }

    fn end(&self, is_bug: bool) {
        self.0.state.lock().whose = Whose::Nobody { is_bug };
        self.0.changed.notify_all();
    }
}

/// What became of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Underway,
    Ended,
    Panicked,
}

/// A program of a world.
pub(crate) struct Program {
    turn: Turn,
    thread: Option<JoinHandle<()>>,
}

impl Program {
    /// Begins a program, which runs with its first turn; also returns what else `prepare` makes of its turns.
    pub(crate) fn new<T, B: FnOnce(&Turn) + Send + 'static>(
        prepare: impl FnOnce(&Turn) -> (T, B),
    ) -> (T, Self) {
        let turn = Turn(Arc::new(Inner {
            state: Mutex::new(State {
                whose: Whose::World,
                is_killed: false,
            }),
            changed: Condvar::new(),
            thread: OnceLock::new(),
        }));
        let (prepared, body) = prepare(&turn);
        let own = turn.clone();
        let run = move || {
            own.begin();
            let ended = catch_unwind(AssertUnwindSafe(|| body(&own)));
            own.end(ended.is_err());
        };
        let thread = std::thread::Builder::new().name("program".into()).spawn(run);
        let thread = Some(thread.expect("a simulator can start a thread"));
        (prepared, Self { turn, thread })
    }

    /// Lets the program run until it gives its turn away.
    pub(crate) fn go_on(&self) -> Progress {
        let inner = &self.turn.0;
        let mut state = inner.state.lock();
        if state.whose == Whose::World {
            state.whose = Whose::Program;
            inner.changed.notify_all();
        }
        loop {
            match state.whose {
                Whose::Program => inner.changed.wait(&mut state),
                Whose::World => return Progress::Underway,
                Whose::Nobody { is_bug: true } => return Progress::Panicked,
                Whose::Nobody { is_bug: false } => return Progress::Ended,
            }
        }
    }

    /// Ends the program's process, wherever it is: what it was about to say is not said.
    pub(crate) fn kill(&self) -> Progress {
        self.turn.0.state.lock().is_killed = true;
        self.go_on()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        if let Some(thread) = self.thread.take() {
            // What it died of was told by its progress.
            let _ = thread.join();
        }
    }
}
