//! Renewing a session: an owner in another process hears that its client is there, also when nobody changes
//! anything, and the client learns within moments that its session is over.
//!
//! Invariant: nobody waits for the renewing thread, and it keeps nothing alive.

use crate::branch::Inner;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tenure_model::Refusal;
use tenure_wire::Error;

/// Renewals in the time that a session may say nothing: some may be late, or come to an owner that ends.
const RENEWALS: u32 = 5;
/// The least time between two of them.
const REST_MIN: Duration = Duration::from_millis(20);

/// Has `renew` called now and then, until it says that it was the last time or nobody has `whom` any more.
pub(crate) fn watch<T: Send + Sync + 'static>(
    whom: &Arc<T>,
    session_ttl: Duration,
    renew: impl Fn(&T) -> Renewed + Send + 'static,
) {
    let rest = (session_ttl / RENEWALS).max(REST_MIN);
    let whom: Weak<T> = Arc::downgrade(whom);
    let watching = move || {
        loop {
            std::thread::sleep(rest);
            let renewed = whom.upgrade().map(|whom| renew(&whom));
            if renewed != Some(Renewed::Again) {
                return;
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("watch".into()).spawn(watching) {
        tracing::warn!(%error, "the owner hears of this session with changes only, and takes it for silent otherwise");
    }
}

/// Whether a session is renewed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// It is.
    Again,
    /// It has ended, or its branch has.
    Ended,
}

impl Inner {
    /// Says that this session is there.
    pub(crate) fn renew(&self) -> Renewed {
        if self.waiting.is_stopped() || self.state.read().broken.is_some() {
            return Renewed::Ended;
        }
        self.hear();
        match self.owner.renew(self.opened.session) {
            Err(over @ Error::Refused(Refusal::Stale)) => {
                self.break_down(over);
                Renewed::Ended
            }
            // An owner that was not reached is asked again.
            Ok(()) => {
                self.forgo();
                Renewed::Again
            }
            Err(_) => Renewed::Again,
        }
    }

    /// Says that this session, which only reads, is there.
    pub(crate) fn stay(&self) -> Renewed {
        let is_over =
            self.waiting.is_stopped() || self.owner.renew(self.opened.session) == Err(Refusal::Stale.into());
        if is_over { Renewed::Ended } else { Renewed::Again }
    }
}
