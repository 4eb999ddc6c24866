//! How a client finds an owner, and how long it waits for one.

use super::address::ServerAddress;
use super::stream::Stream;
use crate::owner::Error;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{Clock, Refusal, limits};

/// Finds whoever owns a drive.
pub trait Dialer: Send + Sync {
    /// Opens a stream to whoever owns the drive now; where nobody does, it may make this process the owner. It is called
    /// on the thread that needs it, by several at once, and again after a failure and after `Refusal::Held`: somebody is
    /// about to own the drive then. Any other refusal is believed: for good by who comes for the first time, and for a while
    /// by who was in before, whose calls did not happen then.
    fn dial(&self) -> Result<Stream, Error>;

    /// Opens a stream to where a server has said that the owner is.
    fn follow(&self, to: &ServerAddress) -> Result<Stream, Error> {
        Err(Refusal::Because(format!("the owner of the drive is at {to}; ask there")).into())
    }

    /// Hears that nobody answers for the drive over the stream that was opened last.
    fn was_in_vain(&self) {}

    /// Hears that a server has fallen silent over a connection: others are asked first.
    fn was_silent(&self, _at: &ServerAddress) {}

    /// Tells whether a server has fallen silent over another connection, and was not reached since.
    fn is_silent(&self, _at: &ServerAddress) -> bool {
        false
    }
}

impl<F: Fn() -> Result<Stream, Error> + Send + Sync> Dialer for F {
    fn dial(&self) -> Result<Stream, Error> {
        self()
    }
}

/// How a client dials.
pub type Dial = Arc<dyn Dialer>;

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
    /// Between the first two attempts to find an owner; it grows to eight times as much.
    pub redial_rest: Duration,
    /// Attempts to find an owner after one has gone.
    pub redials_max: u32,
}

/// How much longer the last rests between attempts are than the first: an owner that is replaced within seconds is found
/// soon after, and one that is away for long is not pestered.
const REST_GROWTH_MAX: u32 = 8;

impl Patience {
    /// Returns the usual waits: an owner that is stopped for a minute, or takes half a minute to be replaced, is waited for.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            reply_max: limits::WAIT_MAX,
            long_reply_max: Duration::from_secs(3600),
            write_max: limits::WAIT_MAX,
            redial_rest: Duration::from_millis(50),
            redials_max: 300,
        }
    }

    /// Returns how long to rest before an attempt: longer each time, and, as clients differ in `salt`, not all at once.
    pub(super) fn rest(&self, attempt: u32, salt: &[u8]) -> Duration {
        let grown = self.redial_rest * (1 << attempt.min(REST_GROWTH_MAX.ilog2()));
        let drawn = crc32c::crc32c_append(crc32c::crc32c(salt), &attempt.to_le_bytes());
        // Between three and five quarters.
        grown.mul_f64(0.75 + f64::from(drawn) / f64::from(u32::MAX) / 2.0)
    }
}

/// Tells whether it makes no sense to dial again.
pub(super) fn is_final(error: &Error) -> bool {
    match error {
        Error::Refused(refusal) => !matches!(refusal, Refusal::Held { .. }),
        Error::Failed(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_model::Timestamp;

    struct Still;

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::since_epoch(Duration::ZERO)
        }

        fn elapsed(&self) -> Duration {
            Duration::ZERO
        }
    }

    #[test]
    fn rests_grow_to_a_bound_and_differ_between_clients() {
        let patience = Patience::new(Arc::new(Still));
        let bound = patience.redial_rest * REST_GROWTH_MAX;
        let rests = |salt: &[u8]| {
            (0..100)
                .map(|attempt| patience.rest(attempt, salt))
                .collect::<Vec<_>>()
        };
        let (one, other) = (rests(b"one"), rests(b"other"));
        assert!(one[0] < patience.redial_rest * 2 && one[99] >= bound.mul_f64(0.75));
        assert!(one.iter().chain(&other).all(|rest| *rest <= bound.mul_f64(1.25)));
        assert_ne!(one, other);
    }
}
