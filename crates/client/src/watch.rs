//! Watching an owner in another process: whenever it was reached anew it may be another one, which may have lent the branch to
//! somebody else meanwhile. Who holds it learns so within moments, also when nobody changes anything.
//!
//! Invariant: nobody waits for the watching thread, and it keeps nothing alive.

use crate::branch::Inner;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tenure_model::Refusal;
use tenure_wire::Error;

/// How often is looked whether the owner was reached anew.
const REST: Duration = Duration::from_secs(1);

/// Watches until the branch is closed.
pub(crate) fn watch(inner: &Arc<Inner>) {
    let (inner, mut seen) = (Arc::downgrade(inner), inner.owner.reached());
    let watching = move || {
        while let Some(inner) = rested(&inner) {
            inner.look(&mut seen);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("watch".into()).spawn(watching) {
        tracing::warn!(%error, "that the branch was lent to somebody else is learned with the next change only");
    }
}

/// Rests; returns the branch if it is still watched then.
fn rested(inner: &Weak<Inner>) -> Option<Arc<Inner>> {
    std::thread::sleep(REST);
    inner
        .upgrade()
        .filter(|inner| !inner.waiting.is_stopped() && inner.state.read().broken.is_none())
}

impl Inner {
    /// Asks whether the session is still open, if the owner was reached anew since `seen` or is to be found.
    fn look(&self, seen: &mut Option<u64>) {
        let reached = self.owner.reached();
        if reached.is_some() && reached == *seen {
            return;
        }
        match self.owner.renew(self.opened.session) {
            // One that was found by asking is asked once more.
            Ok(()) => *seen = reached,
            Err(error @ Error::Refused(Refusal::Stale)) => self.break_down(error),
            // Asked again, until it is known.
            Err(_) => {}
        }
    }
}
