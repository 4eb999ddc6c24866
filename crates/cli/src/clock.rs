//! The one place that reads this machine's clocks and draws randomness.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use tenure_model::{Clock, Timestamp};

/// This machine's clocks: the time of day, and one that never goes back and counts sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineClock;

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        let now = clock_gettime(ClockId::Realtime);
        Timestamp {
            secs: now.tv_sec,
            nanos: now.tv_nsec as u32,
        }
    }

    fn elapsed(&self) -> Duration {
        let now = clock_gettime(ClockId::Boottime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }
}

/// Returns bytes that nobody can foresee.
pub(crate) fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        // getrandom(2) answers short only when a signal comes, and never fails once the machine is up.
        let more = rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty());
        filled += more.unwrap_or(0);
    }
    bytes
}
