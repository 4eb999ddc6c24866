//! Where the time of a piece of work goes: from what it takes on the baseline to what it takes on Tenure, addend by addend.
//!
//! Seconds of Tenure = seconds of the baseline + requests x floor + own + callers + waiting. All but the last are measured;
//! the last is what is left. Nothing is counted twice: of CPU seconds only what goes beyond the same number of requests
//! that do nothing is an addend, and threads that work behind the caller's back are beside the sum (`background_seconds`).
//! Where several callers work at once, their CPU overlaps, and `waiting` is less by that, on both sides.

use super::floor::Floor;
use super::statistics::median;

/// What one side of a piece of work came to, medians over the rounds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    /// Seconds of all the work, the final sync included.
    pub(crate) wall_seconds: f64,
    /// The part of them that is the final sync; zero where there is none.
    pub(crate) sync_seconds: f64,
    /// CPU seconds of the programs that work, the kernel's part on their behalf included.
    pub(crate) callers_seconds: f64,
    /// CPU seconds of the serving process, and of its threads that answer the kernel.
    pub(crate) daemon_user_seconds: f64,
    pub(crate) daemon_system_seconds: f64,
    pub(crate) serving_seconds: f64,
    /// Times that the disk was told to make durable what it has, the seconds that this took, and those with work to do.
    pub(crate) flushes: f64,
    pub(crate) flush_seconds: f64,
    pub(crate) disk_busy_seconds: f64,
}

impl Spent {
    /// Returns the median of each number over `rounds`; nothing without rounds.
    pub(crate) fn median(rounds: &[Spent]) -> Option<Spent> {
        let middle = |of: fn(&Spent) -> f64| median(&rounds.iter().map(of).collect::<Vec<_>>());
        (!rounds.is_empty()).then(|| Spent {
            wall_seconds: middle(|spent| spent.wall_seconds),
            sync_seconds: middle(|spent| spent.sync_seconds),
            callers_seconds: middle(|spent| spent.callers_seconds),
            daemon_user_seconds: middle(|spent| spent.daemon_user_seconds),
            daemon_system_seconds: middle(|spent| spent.daemon_system_seconds),
            serving_seconds: middle(|spent| spent.serving_seconds),
            flushes: middle(|spent| spent.flushes),
            flush_seconds: middle(|spent| spent.flush_seconds),
            disk_busy_seconds: middle(|spent| spent.disk_busy_seconds),
        })
    }
}

/// The account of one piece of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Account {
    pub(crate) tenure: Spent,
    pub(crate) baseline: Spent,
    /// Requests of the kernel that a program waits for.
    pub(crate) requests: u64,
    /// Those of them that ask for durability.
    pub(crate) syncs: u64,
    /// Seconds of a request that does nothing, in the minutes in which the work was done.
    pub(crate) floor_seconds: f64,
    /// CPU seconds of the threads that answer, beyond those of as many requests that do nothing.
    pub(crate) own_seconds: f64,
    /// CPU seconds of the callers, beyond those of as many requests that do nothing and of the baseline's callers: bytes
    /// handed over, less the code of the baseline's file system. Mostly negative.
    pub(crate) callers_seconds: f64,
}

impl Account {
    /// Balances what both sides spent.
    pub(crate) fn new(tenure: Spent, baseline: Spent, requests: u64, syncs: u64, floor: Requests) -> Account {
        let count = requests as f64;
        Account {
            tenure,
            baseline,
            requests,
            syncs,
            floor_seconds: floor.seconds,
            own_seconds: tenure.serving_seconds - count * floor.serving_seconds,
            callers_seconds: tenure.callers_seconds - baseline.callers_seconds - count * floor.caller_seconds,
        }
    }

    /// Returns what the requests would take if each did nothing.
    pub(crate) fn requests_x_floor(&self) -> f64 {
        self.requests as f64 * self.floor_seconds
    }

    /// Returns what is left: seconds in which neither a caller nor a thread that answers ran, beyond those of the baseline.
    pub(crate) fn waiting_seconds(&self) -> f64 {
        self.tenure.wall_seconds
            - self.baseline.wall_seconds
            - self.requests_x_floor()
            - self.own_seconds
            - self.callers_seconds
    }

    /// Returns the CPU seconds of threads that work behind the callers' back, on a CPU that is free or not.
    pub(crate) fn background_seconds(&self) -> f64 {
        self.tenure.daemon_user_seconds + self.tenure.daemon_system_seconds - self.tenure.serving_seconds
    }

    /// Returns the ratio to the baseline of a file system that does all that the baseline does and takes these requests,
    /// with no code of its own.
    pub(crate) fn floor_ratio(&self) -> f64 {
        (self.baseline.wall_seconds + self.requests_x_floor()) / self.baseline.wall_seconds
    }
}

/// What a request costs that does nothing, medians over the rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requests {
    seconds: f64,
    caller_seconds: f64,
    serving_seconds: f64,
}

impl Requests {
    /// Returns the medians of `floors`; nothing where there are none.
    pub(crate) fn median(floors: &[Floor]) -> Option<Requests> {
        let middle = |of: fn(&Floor) -> f64| median(&floors.iter().map(of).collect::<Vec<_>>());
        (!floors.is_empty()).then(|| Requests {
            seconds: middle(|floor| floor.seconds.median),
            caller_seconds: middle(|floor| floor.caller_seconds),
            serving_seconds: middle(|floor| floor.serving_seconds),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bench::statistics::Quantiles;

    /// A floor of 10 us, 4 of them the caller's and 5 of them the server's.
    pub(crate) fn floor() -> Floor {
        Floor {
            seconds: Quantiles {
                median: 10e-6,
                p10: 9e-6,
                p90: 12e-6,
                count: 3,
            },
            caller_seconds: 4e-6,
            serving_seconds: 5e-6,
        }
    }

    /// 100,000 requests that do a little, between 2 and 4 seconds.
    pub(crate) fn account() -> Account {
        let tenure = Spent {
            wall_seconds: 4.0,
            callers_seconds: 2.4,
            serving_seconds: 1.2,
            daemon_user_seconds: 0.9,
            daemon_system_seconds: 1.1,
            ..Spent::default()
        };
        let baseline = Spent {
            wall_seconds: 2.0,
            callers_seconds: 1.8,
            ..Spent::default()
        };
        let floor = Requests::median(&[floor()]).expect("there is one");
        Account::new(tenure, baseline, 100_000, 1, floor)
    }

    fn is_about(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
    }

    #[test]
    fn only_cpu_beyond_requests_that_do_nothing_is_an_addend() {
        let account = account();
        is_about(account.requests_x_floor(), 1.0);
        is_about(account.own_seconds, 0.7);
        is_about(account.callers_seconds, 0.2);
        is_about(account.waiting_seconds(), 0.1);
    }

    #[test]
    fn threads_behind_the_callers_back_stand_beside_the_sum() {
        is_about(account().background_seconds(), 0.8);
    }

    #[test]
    fn the_floor_ratio_adds_requests_that_do_nothing_to_the_baseline() {
        is_about(account().floor_ratio(), 1.5);
    }

    #[test]
    fn there_is_no_median_of_nothing() {
        assert!(Requests::median(&[]).is_none() && Spent::median(&[]).is_none());
    }
}
