//! What a metric came to over all rounds, and the numbers that are derived from it.

use std::collections::BTreeMap;

use super::account::{Account, Requests, Spent};
use super::floor::Floor;
use super::measure::{Cost, Sample};
use super::statistics::{Bounded, Spread, bounded_median, median, spread};
use super::target::{DiskSpeed, Measure, Target, Verdict, targets};
use super::workload::Metric;

/// All samples of one metric: the same rounds on both sides.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) metric: Metric,
    pub(crate) tenure: Vec<Sample>,
    pub(crate) baseline: Vec<Sample>,
    /// What a request cost that does nothing, before each of Tenure's rounds where that was measured.
    pub(crate) floors: Vec<Floor>,
}

/// A target beside what was measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judged {
    pub(crate) target: &'static Target,
    pub(crate) value: f64,
    pub(crate) verdict: Verdict,
}

/// Requests that no program waits for: the kernel sends them behind its back or needs no reply.
const NOT_WAITED_FOR: &[&str] = &["release", "releasedir"];

/// Requests that ask for durability.
const SYNCS: &[&str] = &["fsync", "fsyncdir", "syncfs"];

impl Outcome {
    /// Returns the median, smallest and largest seconds of Tenure and of the baseline.
    pub(crate) fn seconds(&self) -> (Spread, Spread) {
        (
            spread(&each(&self.tenure, |s| Some(s.seconds))),
            spread(&each(&self.baseline, |s| Some(s.seconds))),
        )
    }

    /// Returns the same without the final sync, where there is one.
    pub(crate) fn seconds_without_sync(&self) -> Option<(Spread, Spread)> {
        let without = |samples: &[Sample]| each(samples, |sample| sample.seconds_without_sync);
        let (tenure, baseline) = (without(&self.tenure), without(&self.baseline));
        (!tenure.is_empty()).then(|| (spread(&tenure), spread(&baseline)))
    }

    /// Returns the median of the rounds' paired ratios, Tenure to baseline.
    pub(crate) fn ratio(&self) -> Bounded {
        bounded_median(&self.paired(|sample| Some(sample.seconds)))
    }

    /// Returns the same without the final sync, where there is one.
    pub(crate) fn ratio_without_sync(&self) -> Option<Bounded> {
        let paired = self.paired(|sample| sample.seconds_without_sync);
        (!paired.is_empty()).then(|| bounded_median(&paired))
    }

    /// Returns the medians over the rounds of a cost on both sides, if the metric has costs.
    pub(crate) fn costs(&self, of: impl Fn(&Cost) -> f64 + Copy) -> Option<(f64, f64)> {
        let values = |samples: &[Sample]| each(samples, |sample| sample.cost.as_ref().map(of));
        let (tenure, baseline) = (values(&self.tenure), values(&self.baseline));
        (!tenure.is_empty()).then(|| (median(&tenure), median(&baseline)))
    }

    /// Returns the median number of each kind of request on Tenure's side.
    pub(crate) fn requests(&self) -> BTreeMap<String, u64> {
        let costs: Vec<&Cost> = self
            .tenure
            .iter()
            .filter_map(|sample| sample.cost.as_ref())
            .collect();
        let names: std::collections::BTreeSet<&String> =
            costs.iter().flat_map(|cost| cost.requests.keys()).collect();
        let middle = |name: &String| {
            let counts: Vec<f64> = costs
                .iter()
                .map(|cost| cost.requests.get(name).copied().unwrap_or(0) as f64)
                .collect();
            median(&counts) as u64
        };
        names
            .into_iter()
            .map(|name| (name.clone(), middle(name)))
            .collect()
    }

    /// Returns the largest resident set of Tenure's process in any round.
    pub(crate) fn peak_rss_bytes(&self) -> u64 {
        let peaks = self
            .tenure
            .iter()
            .filter_map(|sample| sample.cost.as_ref())
            .map(|cost| cost.peak_rss_bytes);
        peaks.max().unwrap_or(0)
    }

    /// Returns the requests that a program waits for, for each file, if both are known.
    pub(crate) fn requests_per_file(&self) -> Option<f64> {
        let files = self.tenure.first()?.cost.as_ref()?.content.files;
        let total = self.requests_where(|name| !NOT_WAITED_FOR.contains(&name));
        (files > 0 && total > 0).then(|| total as f64 / files as f64)
    }

    /// Returns where the time goes, if the floor of a request was measured and the metric has costs.
    pub(crate) fn account(&self) -> Option<Account> {
        let floor = Requests::median(&self.floors)?;
        let spent = |samples: &[Sample]| {
            let costs = samples.iter().filter_map(|sample| sample.cost.as_ref());
            Spent::median(&costs.map(|cost| cost.spent).collect::<Vec<_>>())
        };
        let (tenure, baseline) = (spent(&self.tenure)?, spent(&self.baseline)?);
        let requests = self.requests_where(|name| !NOT_WAITED_FOR.contains(&name));
        let syncs = self.requests_where(|name| SYNCS.contains(&name));
        Some(Account::new(tenure, baseline, requests, syncs, floor))
    }

    fn requests_where(&self, is_wanted: impl Fn(&str) -> bool) -> u64 {
        let requests = self.requests();
        let wanted = requests.iter().filter(|(name, _)| is_wanted(name));
        wanted.map(|(_, count)| count).sum()
    }

    /// Judges the metric by each of its targets that can be told from what was measured.
    pub(crate) fn judge(&self, disk: DiskSpeed) -> Vec<Judged> {
        let judged = |target: &'static Target| {
            if target.measure == Measure::Ratio {
                let ratio = self.ratio();
                return Some(Judged {
                    target,
                    value: ratio.median,
                    verdict: target.judge_ratio(ratio),
                });
            }
            let value = self.value(target.measure)?;
            Some(Judged {
                target,
                value,
                verdict: target.judge(value),
            })
        };
        targets(self.metric.name, disk).filter_map(judged).collect()
    }

    fn value(&self, measure: Measure) -> Option<f64> {
        let cost = self.tenure.first().and_then(|sample| sample.cost.as_ref());
        let seconds = self.seconds().0.median;
        match measure {
            Measure::Ratio => Some(self.ratio().median),
            Measure::CpuRatio => self
                .costs(|cost| cost.cpu_seconds)
                .map(|(tenure, baseline)| tenure / baseline),
            Measure::RequestsPerFile => self.requests_per_file(),
            Measure::BucketRequests => self
                .costs(|cost| cost.bucket_requests as f64)
                .map(|(tenure, _)| tenure),
            Measure::FilesPerSecond => cost.map(|cost| cost.content.files as f64 / seconds),
            Measure::Seconds => Some(seconds),
            Measure::WrittenPerByte => {
                let bytes = cost?.content.bytes as f64;
                let written = self.costs(|cost| cost.written_bytes as f64)?.0;
                (written > 0.0).then(|| written / bytes)
            }
            Measure::PeakMegabytes => {
                let peak = self.peak_rss_bytes();
                (peak > 0).then(|| peak as f64 / 1e6)
            }
        }
    }

    fn paired(&self, of: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
        let pairs = self.tenure.iter().zip(&self.baseline);
        pairs
            .filter_map(|(tenure, baseline)| Some(of(tenure)? / of(baseline)?))
            .collect()
    }
}

fn each(samples: &[Sample], of: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
    samples.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::account::tests::floor;
    use crate::bench::measure::Content;

    fn sample(seconds: f64, requests: &[(&str, u64)]) -> Sample {
        let cost = Cost {
            content: Content {
                files: 10,
                bytes: 1_000,
            },
            cpu_seconds: seconds / 2.0,
            requests: requests
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
            written_bytes: 1_500,
            spent: Spent {
                wall_seconds: seconds,
                ..Spent::default()
            },
            ..Cost::default()
        };
        Sample {
            seconds,
            seconds_without_sync: None,
            cost: Some(cost),
        }
    }

    fn outcome(name: &'static str) -> Outcome {
        Outcome {
            metric: Metric { name, what: "" },
            tenure: vec![
                sample(2.0, &[("mknod", 40), ("release", 99), ("fsync", 2)]),
                sample(3.0, &[("mknod", 40), ("fsync", 2)]),
            ],
            baseline: vec![sample(1.0, &[]), sample(3.0, &[])],
            floors: Vec::new(),
        }
    }

    #[test]
    fn ratios_are_paired_by_round() {
        assert_eq!(outcome("clone").ratio().median, 1.5);
    }

    #[test]
    fn only_requests_that_are_waited_for_count_per_file() {
        assert_eq!(outcome("clone").requests_per_file(), Some(4.2));
    }

    #[test]
    fn a_metric_is_judged_by_each_of_its_targets() {
        let judged = outcome("clone").judge(DiskSpeed::Full);
        let words: Vec<_> = judged
            .iter()
            .map(|judged| (judged.target.measure, judged.verdict))
            .collect();
        let expected = [
            (Measure::Ratio, Verdict::Missed),
            (Measure::CpuRatio, Verdict::Met),
            (Measure::RequestsPerFile, Verdict::Met),
        ];
        assert_eq!(words, expected);
        assert_eq!(outcome("untar").value(Measure::WrittenPerByte), Some(1.5));
    }

    #[test]
    fn an_account_counts_what_is_waited_for_and_needs_a_floor() {
        let mut outcome = outcome("clone");
        assert!(outcome.account().is_none());
        outcome.floors = vec![floor()];
        let account = outcome.account().expect("there is a floor");
        assert_eq!((account.requests, account.syncs), (42, 2));
        assert_eq!(account.tenure.wall_seconds, 2.5);
        assert_eq!(account.baseline.wall_seconds, 2.0);
    }

    #[test]
    fn what_cannot_be_told_is_not_judged() {
        let mut outcome = outcome("clone");
        outcome.tenure.iter_mut().for_each(|sample| sample.cost = None);
        assert_eq!(outcome.judge(DiskSpeed::Full).len(), 1);
    }
}
