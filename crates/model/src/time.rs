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

    /// Returns the time so much later; the latest there is where that would be beyond it.
    pub fn after(self, duration: std::time::Duration) -> Self {
        let nanos = self.nanos + duration.subsec_nanos();
        let secs = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        Self {
            secs: self
                .secs
                .saturating_add(secs)
                .saturating_add(i64::from(nanos / 1_000_000_000)),
            nanos: nanos % 1_000_000_000,
        }
    }

    /// Returns how much later than `earlier` it is; nothing where it is not later.
    pub fn since(self, earlier: Self) -> std::time::Duration {
        let nanos = |time: Self| i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
        let between = (nanos(self) - nanos(earlier)).max(0);
        let secs = u64::try_from(between / 1_000_000_000).unwrap_or(u64::MAX);
        std::time::Duration::new(secs, (between % 1_000_000_000) as u32)
    }

    /// Returns the second in UTC as a name can carry it: `20261201T064500Z` (ISO 8601, basic format; the proleptic Gregorian
    /// calendar by Howard Hinnant's `civil_from_days`).
    pub fn stamp(self) -> String {
        let (days, second) = (self.secs.div_euclid(86_400), self.secs.rem_euclid(86_400));
        // Days since 0000-03-01, so that a leap day ends its year; 400 years have 146,097 days.
        let shifted = days.saturating_add(719_468);
        let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day_of_month = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = (shifted_month + 2) % 12 + 1;
        let year = year + era * 400 + i64::from(month <= 2);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        format!("{year:04}{month:02}{day_of_month:02}T{hour:02}{minute:02}{second:02}Z")
    }
}

/// Where time comes from. The one real clock is the command's; tests and the simulator bring their own.
pub trait Clock: Send + Sync {
    /// Returns the time of day, for what files carry.
    fn now(&self) -> Timestamp;

    /// Returns the time since some moment, on a clock that never goes back and also counts sleep.
    fn elapsed(&self) -> std::time::Duration;
}

#[cfg(test)]
mod tests {
    use super::Timestamp;
    use std::time::Duration;

    fn at(secs: i64) -> Timestamp {
        Timestamp { secs, nanos: 0 }
    }

    #[test]
    fn a_stamp_is_the_second_in_utc() {
        // As `date -u -d @SECONDS +%Y%m%dT%H%M%SZ` says.
        for (secs, stamp) in [
            (0, "19700101T000000Z"),
            (-1, "19691231T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (951_868_799, "20000229T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
            (1_796_107_500, "20261201T064500Z"),
            (1_798_761_599, "20261231T235959Z"),
        ] {
            assert_eq!(at(secs).stamp(), stamp, "{secs}");
        }
    }

    #[test]
    fn times_are_as_far_apart_as_they_were_put() {
        let one = Timestamp {
            secs: -3,
            nanos: 900_000_000,
        };
        let step = Duration::new(7, 200_000_000);
        let other = one.after(step);
        assert_eq!((other.secs, other.nanos), (5, 100_000_000));
        assert_eq!((other.since(one), one.since(other)), (step, Duration::ZERO));
        assert_eq!(at(3).after(Duration::MAX).secs, i64::MAX);
    }
}
