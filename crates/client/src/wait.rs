//! How the calling thread may wait for an owner that is in another process, or for other threads.
//!
//! A thread may wait as long as it likes unless it says otherwise: one that serves many callers must not, and one that works
//! for a single caller may, until that caller has been sent away. Invariant: a call that fails here has changed nothing since
//! it waited last; a caller who was sent away sees no change later.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use tenure_model::Failure;
use tenure_wire::Error;

/// Whom a call is made for, who may be sent away while it waits.
pub trait Caller: Send + Sync {
    /// Is asked before each wait; false when the caller was sent away. Until `may_act` it may be, from now on.
    fn may_wait(&self) -> bool;

    /// Is asked before something changes; false when the caller was sent away. Until `may_wait` it must not be, from now on:
    /// the outcome is its answer.
    fn may_act(&self) -> bool;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Freely,
    /// It may not wait.
    Never,
    /// It may not wait, and would have.
    Refused,
    /// It may while `CALLER` says so.
    ForCaller,
}

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Freely) };
    static CALLER: RefCell<Option<Arc<dyn Caller>>> = const { RefCell::new(None) };
}

/// Puts the thread's mode back to what it was.
struct Back(Mode);

impl Back {
    fn from(mode: Mode) -> Self {
        Back(MODE.replace(mode))
    }
}

impl Drop for Back {
    fn drop(&mut self) {
        MODE.set(self.0);
    }
}

/// Makes calls that do not wait: one that would have to fails, having changed nothing.
pub fn without_waiting<R>(calls: impl FnOnce() -> R) -> R {
    let _back = Back::from(Mode::Never);
    calls()
}

/// Tells, within `without_waiting`, whether a call has failed there because it would have had to wait.
pub fn would_have_waited() -> bool {
    MODE.get() == Mode::Refused
}

/// Makes calls that wait until `caller` is sent away.
pub fn for_caller<R>(caller: Arc<dyn Caller>, calls: impl FnOnce() -> R) -> R {
    /// Takes the caller from the thread.
    struct Gone;
    impl Drop for Gone {
        fn drop(&mut self) {
            CALLER.take();
        }
    }
    CALLER.set(Some(caller));
    let _gone = Gone;
    let _back = Back::from(Mode::ForCaller);
    calls()
}

/// Fails where the thread may not wait now, or no longer.
pub fn before_waiting() -> Result<(), Error> {
    match MODE.get() {
        Mode::Freely => Ok(()),
        Mode::ForCaller if ask(|caller| caller.may_wait()) => Ok(()),
        Mode::ForCaller => Err(sent_away()),
        Mode::Never | Mode::Refused => {
            MODE.set(Mode::Refused);
            Err(Failure::DidNotHappen("it would have had to wait".into()).into())
        }
    }
}

/// Fails where whom the thread works for was sent away, who must not see a change any more.
pub(crate) fn before_acting() -> Result<(), Error> {
    if MODE.get() != Mode::ForCaller || ask(|caller| caller.may_act()) {
        Ok(())
    } else {
        Err(sent_away())
    }
}

fn ask(ask: impl FnOnce(&dyn Caller) -> bool) -> bool {
    CALLER.with_borrow(|caller| caller.as_deref().is_none_or(ask))
}

fn sent_away() -> Error {
    Failure::DidNotHappen("its caller was interrupted".into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_thread_waits_freely_unless_it_said_otherwise() {
        assert_eq!((before_waiting(), before_acting()), (Ok(()), Ok(())));
        without_waiting(|| {
            assert_eq!((would_have_waited(), before_acting()), (false, Ok(())));
            assert!(before_waiting().is_err() && would_have_waited());
            without_waiting(|| assert!(!would_have_waited()));
            assert!(would_have_waited());
        });
        assert_eq!((would_have_waited(), before_waiting()), (false, Ok(())));
    }

    #[test]
    fn a_caller_who_was_sent_away_is_neither_waited_nor_acted_for() {
        struct One(AtomicBool);
        impl Caller for One {
            fn may_wait(&self) -> bool {
                self.0.load(Ordering::Relaxed)
            }
            fn may_act(&self) -> bool {
                self.may_wait()
            }
        }
        let caller = Arc::new(One(AtomicBool::new(true)));
        for_caller(caller.clone(), || {
            assert_eq!((before_waiting(), before_acting()), (Ok(()), Ok(())));
            caller.0.store(false, Ordering::Relaxed);
            assert!(before_waiting().is_err() && before_acting().is_err());
            assert!(!would_have_waited());
        });
        assert_eq!(before_acting(), Ok(()));
    }
}
