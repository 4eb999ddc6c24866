//! How a client finds an owner, and how long it waits for one.

use crate::owner::Error;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{Clock, Refusal};

/// Opens a socket to whoever owns the drive now; where nobody does, it may make this process the owner. It is called on
/// the thread that needs it, by several at once, and again after a failure and after `Refusal::Held`: somebody is about
/// to own the drive then. Any other refusal is believed.
pub type Dial = Arc<dyn Fn() -> Result<UnixStream, Error> + Send + Sync>;

/// How long a client waits, and for what.
#[derive(Clone)]
pub struct Patience {
    /// The clock by which it waits.
    pub clock: Arc<dyn Clock>,
    /// For an answer, and for an owner to be found.
    pub reply_max: Duration,
    /// For the answer to a call that reads or writes the whole drive.
    pub long_reply_max: Duration,
    /// For room in the socket of an owner that does not read.
    pub write_max: Duration,
    /// Between two attempts to find an owner.
    pub redial_rest: Duration,
    /// Attempts to find an owner after one has gone.
    pub redials_max: u32,
}

impl Patience {
    /// Returns the usual waits: an owner that is stopped for a minute, or takes half a minute to be replaced, is waited for.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            reply_max: Duration::from_secs(120),
            long_reply_max: Duration::from_secs(3600),
            write_max: Duration::from_secs(120),
            redial_rest: Duration::from_millis(100),
            redials_max: 300,
        }
    }
}

/// Tells whether it makes no sense to dial again.
pub(super) fn is_final(error: &Error) -> bool {
    match error {
        Error::Refused(refusal) => !matches!(refusal, Refusal::Held { .. }),
        Error::Failed(_) => false,
    }
}
