//! The clock of a world: it moves when it is told, and the time of day may jump while the other time never goes back.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tenure_model::{Clock, Timestamp};

/// Where the time of day begins: in 2027.
const BEGIN_SECS: i64 = 1_800_000_000;

/// A clock that stands still between two steps.
#[derive(Debug, Default)]
pub struct SimClock {
    elapsed_nanos: AtomicU64,
    jumped_secs: AtomicI64,
}

impl SimClock {
    /// Lets time pass.
    pub fn pass(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).expect("a world lives for less than 500 years");
        self.elapsed_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Moves the time of day, forth or back.
    pub fn jump(&self, secs: i64) {
        self.jumped_secs.fetch_add(secs, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let elapsed = self.elapsed();
        let elapsed_secs = i64::try_from(elapsed.as_secs()).expect("a world lives for less than 500 years");
        Timestamp {
            secs: BEGIN_SECS + self.jumped_secs.load(Ordering::Relaxed) + elapsed_secs,
            nanos: elapsed.subsec_nanos(),
        }
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_nanos.load(Ordering::Relaxed))
    }
}
