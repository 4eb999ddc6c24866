//! Whether the drive still serves: what stopped it for good, and what is wrong for the time being.
//!
//! Invariant: once it has stopped it never serves again; what stopped it first is what everybody is told.

use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use tenure_model::{Epoch, Failure};
use tenure_wire::Error;

/// What waits when the journal cannot be written.
const ACCEPTED: &str = "accepted";

/// How a drive's owner is.
#[derive(Debug, Default)]
pub(crate) struct Health {
    has_stopped: AtomicBool,
    is_closed: AtomicBool,
    /// Whether what was accepted waits to become durable.
    waits: AtomicBool,
    stopped: Mutex<Option<Failure>>,
    trouble: Mutex<BTreeMap<&'static str, String>>,
}

impl Health {
    /// Fails when the drive has stopped.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !self.has_stopped.load(Ordering::Acquire) {
            return Ok(());
        }
        match &*self.stopped.lock() {
            Some(failure) => Err(failure.clone().into()),
            None => Ok(()),
        }
    }

    /// Fails when the drive was closed. What packs hold can be read until then, also when the drive has stopped: it is asked for by
    /// its digest, and is the same from anybody.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.is_closed.load(Ordering::Acquire) {
            return self.check();
        }
        Ok(())
    }

    /// Stops the drive because `what` failed, and with it what may have been accepted or placed.
    pub(crate) fn stop_after(&self, what: &str, failure: &Failure) {
        let after = match failure {
            // What is there no more may have been acknowledged.
            Failure::Corrupt(_) => "copy what can still be read, end this process and open the drive again",
            Failure::DidNotHappen(_)
            | Failure::Unknown(_)
            | Failure::Waits(_)
            | Failure::NoSpace(_)
            | Failure::Newer(_)
            | Failure::Fenced(_) => {
                "nothing that was acknowledged is lost; end this process and open the drive again"
            }
        };
        self.stop(match failure {
            Failure::Fenced(why) => Failure::Fenced(why.clone()),
            Failure::DidNotHappen(_)
            | Failure::Unknown(_)
            | Failure::Waits(_)
            | Failure::NoSpace(_)
            | Failure::Corrupt(_)
            | Failure::Newer(_) => Failure::Unknown(format!(
                "the drive has stopped, because {what} failed: {failure}; {after}"
            )),
        });
    }

    /// Says of a call that failed before it changed anything what is certain: it did not happen, and may be made again.
    /// Only what has stopped the drive stays as it is.
    pub(crate) fn before_anything(&self, error: Error) -> Error {
        match error {
            Error::Failed(Failure::Unknown(why) | Failure::Corrupt(why)) if self.check().is_ok() => {
                Failure::DidNotHappen(why).into()
            }
            error @ (Error::Refused(_) | Error::Failed(_)) => error,
        }
    }

    /// Notes that what was accepted cannot be made durable now, and returns what who waits for it is told.
    pub(crate) fn wait(&self, failure: &Failure) -> Failure {
        let why = match failure {
            // It is written again, whatever has become of it.
            Failure::Unknown(why) | Failure::DidNotHappen(why) | Failure::Waits(why) => why.clone(),
            Failure::NoSpace(_) | Failure::Corrupt(_) | Failure::Newer(_) | Failure::Fenced(_) => {
                failure.to_string()
            }
        };
        self.waits.store(true, Ordering::Relaxed);
        self.note(ACCEPTED, Some(format!("what was accepted waits: {why}")));
        Failure::Waits(why)
    }

    /// Notes that something became durable.
    pub(crate) fn go_on(&self) {
        if self.waits.load(Ordering::Relaxed) && self.waits.swap(false, Ordering::Relaxed) {
            self.note(ACCEPTED, None);
        }
    }

    /// Stops the drive because it was closed.
    pub(crate) fn close(&self) {
        self.stop(Failure::DidNotHappen(
            "the drive was closed; open it again".into(),
        ));
        self.is_closed.store(true, Ordering::Release);
    }

    /// Runs what may find a bug: a panic stops the drive at this epoch, and the caller is told.
    pub(crate) fn guard<R>(&self, epoch: Epoch, act: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
            let failure = Failure::Unknown(format!(
                "a bug has stopped the drive at epoch {epoch}: {}; nothing that was acknowledged is lost; end this \
                 process and open the drive again, and please report it",
                words(panic.as_ref())
            ));
            tracing::error!(%failure, "the drive stops");
            self.stop(failure.clone());
            Err(failure.into())
        })
    }

    /// Notes what is wrong with `what` for the time being, or that it is no more.
    pub(crate) fn note(&self, what: &'static str, trouble: Option<String>) {
        let mut all = self.trouble.lock();
        match trouble {
            Some(trouble) => all.insert(what, trouble),
            None => all.remove(what),
        };
    }

    /// Returns what is wrong, in a sentence.
    pub(crate) fn trouble(&self) -> Option<String> {
        let stopped = self.stopped.lock().as_ref().map(ToString::to_string);
        stopped.or_else(|| self.trouble.lock().values().next().cloned())
    }

    fn stop(&self, failure: Failure) {
        self.stopped.lock().get_or_insert(failure);
        self.has_stopped.store(true, Ordering::Release);
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it left no words")
}
