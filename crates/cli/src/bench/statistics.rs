//! Medians and their bounds.
//!
//! The bounds of a median are order statistics: for `n` independent samples, the number below the true median is
//! binomial(n, 1/2) whatever the distribution, so the k-th smallest and the k-th largest enclose it with a known
//! probability. No resampling, no normality, and the coverage is exact (Hahn and Meeker, Statistical Intervals, 5.2).

/// The smallest, the middle and the largest of some samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// The middle of many samples, and what four fifths of them lie between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quantiles {
    pub(crate) median: f64,
    pub(crate) p10: f64,
    pub(crate) p90: f64,
    pub(crate) count: usize,
}

/// A median between two bounds, and the probability that they enclose the true one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounded {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) coverage: f64,
}

/// The coverage that the bounds of a median should have.
const COVERAGE: f64 = 0.90;

/// Returns the median of `samples`: the mean of the middle two when their number is even. NaN without samples.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let sorted = sorted(samples);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Returns the sample below which `fraction` of the samples lie (nearest rank). NaN without samples.
pub(crate) fn percentile(samples: &[f64], fraction: f64) -> f64 {
    let sorted = sorted(samples);
    let rank = (fraction * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .or(sorted.last())
        .copied()
        .unwrap_or(f64::NAN)
}

/// Returns the median of `samples`, and their 10th and 90th percentiles.
pub(crate) fn quantiles(samples: &[f64]) -> Quantiles {
    Quantiles {
        median: percentile(samples, 0.50),
        p10: percentile(samples, 0.10),
        p90: percentile(samples, 0.90),
        count: samples.len(),
    }
}

/// Returns the median, the smallest and the largest of `samples`.
pub(crate) fn spread(samples: &[f64]) -> Spread {
    Spread {
        median: median(samples),
        min: samples.iter().copied().fold(f64::NAN, f64::min),
        max: samples.iter().copied().fold(f64::NAN, f64::max),
    }
}

/// Returns the median of `samples` and its 90 % bounds: the tightest pair of order statistics that covers as much.
///
/// Fewer than five samples cannot reach 90 %; then the bounds are the extremes and `coverage` says what they are worth.
pub(crate) fn bounded_median(samples: &[f64]) -> Bounded {
    let sorted = sorted(samples);
    let n = sorted.len();
    if n == 0 {
        return Bounded {
            median: f64::NAN,
            low: f64::NAN,
            high: f64::NAN,
            coverage: 0.0,
        };
    }
    let depth = (1..=n.div_ceil(2))
        .rev()
        .find(|&depth| coverage(n, depth) >= COVERAGE)
        .unwrap_or(1);
    Bounded {
        median: median(&sorted),
        low: sorted[depth - 1],
        high: sorted[n - depth],
        coverage: coverage(n, depth),
    }
}

/// Returns the probability that the `depth`-th smallest and the `depth`-th largest of `n` samples enclose the median.
fn coverage(n: usize, depth: usize) -> f64 {
    let mut ways = 1.0;
    let mut below = 0.0;
    for k in 0..depth {
        below += ways;
        ways = ways * (n - k) as f64 / (k + 1) as f64;
    }
    1.0 - 2.0 * below / 2f64.powi(i32::try_from(n).unwrap_or(i32::MAX))
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn five_rounds_are_bounded_by_their_extremes_at_93_percent() {
        let bounds = bounded_median(&[1.3, 1.1, 1.2, 1.5, 1.4]);
        assert_eq!((bounds.low, bounds.median, bounds.high), (1.1, 1.3, 1.5));
        assert_eq!(bounds.coverage, 0.9375);
    }

    #[test]
    fn eleven_rounds_are_bounded_by_the_third_from_either_end() {
        let rounds: Vec<f64> = (1..=11).map(f64::from).collect();
        let bounds = bounded_median(&rounds);
        assert_eq!((bounds.low, bounds.median, bounds.high), (3.0, 6.0, 9.0));
        assert!((bounds.coverage - 0.9346).abs() < 0.0001);
    }

    #[test]
    fn too_few_rounds_say_what_their_bounds_are_worth() {
        assert_eq!(bounded_median(&[2.0, 1.0, 3.0]).coverage, 0.75);
        assert_eq!(bounded_median(&[2.0]).coverage, 0.0);
    }

    #[test]
    fn a_percentile_is_a_sample() {
        let samples: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&samples, 0.5), 50.0);
        assert_eq!(percentile(&samples, 0.99), 99.0);
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
        let quantiles = quantiles(&samples);
        assert_eq!(
            (quantiles.p10, quantiles.median, quantiles.p90, quantiles.count),
            (10.0, 50.0, 90.0, 100)
        );
    }
}
