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
