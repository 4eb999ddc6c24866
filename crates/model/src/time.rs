//! Points in time as files carry them. A timestamp is always an argument; nothing here reads a clock.

/// Seconds and nanoseconds since 1970-01-01 UTC; `nanos < 1_000_000_000`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since the epoch, negative before it.
    pub secs: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

impl Timestamp {
    /// Returns the timestamp of a duration since the epoch.
    pub fn since_epoch(duration: std::time::Duration) -> Self {
        Self {
            secs: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
            nanos: duration.subsec_nanos(),
        }
    }
}

/// Where time comes from. The one real clock is the command's; tests and the simulator bring their own.
pub trait Clock: Send + Sync {
    /// Returns the time of day, for what files carry.
    fn now(&self) -> Timestamp;

    /// Returns the time since some moment, on a clock that never goes back and also counts sleep.
    fn elapsed(&self) -> std::time::Duration;
}
