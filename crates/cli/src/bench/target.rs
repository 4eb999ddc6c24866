//! What the numbers are to be: every target that the bench judges by, in one table.

use super::statistics::Bounded;

/// What of a metric a target speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Tenure's seconds to the baseline's, at most.
    Ratio,
    /// Tenure's CPU seconds to the baseline's, at most.
    CpuRatio,
    /// Requests of the kernel that a program waits for, for each file, at most.
    RequestsPerFile,
    /// Requests to the bucket, at most.
    BucketRequests,
    /// Files for each second, at least.
    FilesPerSecond,
    /// Seconds, at most.
    Seconds,
    /// Bytes written to the disk for each byte of content, at most.
    WrittenPerByte,
    /// The largest resident set of the serving process, in MB, at most.
    PeakMegabytes,
}

/// The disk that a target is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskSpeed {
    /// This machine's, as it is.
    Full,
    /// Held to a cloud volume's limits.
    Limited,
}

/// A number to reach.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) metric: &'static str,
    pub(crate) disk: DiskSpeed,
    pub(crate) measure: Measure,
    pub(crate) bound: f64,
    /// What would be better still.
    pub(crate) goal: Option<f64>,
}

/// How far a number is from its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
}

/// How far above a target the upper bound of a ratio's 90 % interval may lie.
const BOUND_SLACK: f64 = 0.05;

const fn full(metric: &'static str, measure: Measure, bound: f64) -> Target {
    Target {
        metric,
        disk: DiskSpeed::Full,
        measure,
        bound,
        goal: None,
    }
}

const fn with_goal(metric: &'static str, bound: f64, goal: f64) -> Target {
    Target {
        metric,
        disk: DiskSpeed::Full,
        measure: Measure::Ratio,
        bound,
        goal: Some(goal),
    }
}

const fn limited(metric: &'static str, bound: f64, goal: f64) -> Target {
    Target {
        metric,
        disk: DiskSpeed::Limited,
        measure: Measure::Ratio,
        bound,
        goal: Some(goal),
    }
}

/// Every target.
pub(crate) const TARGETS: &[Target] = &[
    with_goal("npm_ci", 1.05, 1.00),
    full("npm_ci", Measure::CpuRatio, 1.25),
    limited("npm_ci", 1.00, 0.80),
    with_goal("clone", 1.20, 1.05),
    full("clone", Measure::CpuRatio, 1.6),
    full("clone", Measure::RequestsPerFile, 5.0),
    limited("clone", 1.00, 0.80),
    with_goal("untar", 1.4, 1.1),
    full("untar", Measure::WrittenPerByte, 1.1),
    with_goal("rm_rf", 1.3, 1.0),
    full("status_warm", Measure::Ratio, 1.0),
    full("status_warm", Measure::BucketRequests, 0.0),
    full("status_cold", Measure::Ratio, 1.5),
    full("grep_cold", Measure::Ratio, 0.6),
    full("sqlite_wal", Measure::Ratio, 0.7),
    full("sqlite_delete", Measure::Ratio, 1.0),
    full("create_fsync_p50", Measure::Ratio, 0.6),
    full("create_fsync_p99", Measure::Ratio, 1.2),
    full("sequential_write", Measure::Ratio, 1.0),
    full("sequential_write", Measure::WrittenPerByte, 1.1),
    full("sequential_read_cold", Measure::Ratio, 1.0),
    full("cargo_build", Measure::Ratio, 1.1),
    full("small_reads_cold", Measure::FilesPerSecond, 5_000.0),
    full("huge_mount", Measure::Seconds, 0.050),
    full("huge_walk", Measure::PeakMegabytes, 600.0),
    full("huge_write", Measure::PeakMegabytes, 400.0),
];

/// Returns the targets of `metric` on such a disk.
pub(crate) fn targets(metric: &str, disk: DiskSpeed) -> impl Iterator<Item = &'static Target> {
    TARGETS
        .iter()
        .filter(move |target| target.metric == metric && target.disk == disk)
}

impl Target {
    /// Judges a ratio by its median and its upper bound.
    pub(crate) fn judge_ratio(&self, ratio: Bounded) -> Verdict {
        verdict(ratio.median <= self.bound && ratio.high <= self.bound + BOUND_SLACK)
    }

    /// Judges a single number.
    pub(crate) fn judge(&self, value: f64) -> Verdict {
        match self.measure {
            Measure::FilesPerSecond => verdict(value >= self.bound),
            Measure::Ratio
            | Measure::CpuRatio
            | Measure::RequestsPerFile
            | Measure::BucketRequests
            | Measure::Seconds
            | Measure::WrittenPerByte
            | Measure::PeakMegabytes => verdict(value <= self.bound),
        }
    }
}

impl Verdict {
    /// Returns the verdict in a word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
        }
    }
}

impl Measure {
    /// Returns what is counted, in a person's words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Measure::Ratio => "ratio",
            Measure::CpuRatio => "CPU ratio",
            Measure::RequestsPerFile => "waited-for requests a file",
            Measure::BucketRequests => "bucket requests",
            Measure::FilesPerSecond => "files a second",
            Measure::Seconds => "seconds",
            Measure::WrittenPerByte => "bytes written a byte",
            Measure::PeakMegabytes => "peak memory, MB",
        }
    }

    /// Returns the sign between a number and its bound.
    pub(crate) fn sign(self) -> &'static str {
        if self == Measure::FilesPerSecond {
            ">="
        } else {
            "<="
        }
    }
}

fn verdict(is_met: bool) -> Verdict {
    if is_met { Verdict::Met } else { Verdict::Missed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::workload::{self, Scale};

    #[test]
    fn every_target_names_a_metric_that_is_measured() {
        let workloads = workload::fs(Scale::FULL, true);
        let metrics: Vec<_> = workloads
            .iter()
            .flat_map(|w| w.metrics())
            .map(|metric| metric.name)
            .collect();
        for target in TARGETS {
            assert!(metrics.contains(&target.metric), "{}", target.metric);
        }
    }

    #[test]
    fn a_ratio_is_met_only_if_its_upper_bound_is_close() {
        let target = with_goal("clone", 1.2, 1.0);
        let ratio = |median, high| Bounded {
            median,
            low: 1.0,
            high,
            coverage: 0.93,
        };
        assert_eq!(target.judge_ratio(ratio(1.2, 1.25)), Verdict::Met);
        assert_eq!(target.judge_ratio(ratio(1.2, 1.26)), Verdict::Missed);
        assert_eq!(target.judge_ratio(ratio(1.21, 1.22)), Verdict::Missed);
    }
}
