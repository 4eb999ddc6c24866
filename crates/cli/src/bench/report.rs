//! What a run prints: a table for a person, or one JSON object for a program.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::{Value, json};
use tenure_model::counted;

use super::account::Account;
use super::machine::Machine;
use super::result::Outcome;
use super::statistics::{Bounded, Spread};
use super::target::DiskSpeed;
use super::workload::Metric;

mod account;

/// A whole run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// What the sides are called: the measured one, then the baseline.
    pub(crate) sides: [String; 2],
    /// What was done to the machine or the settings that a reader must know.
    pub(crate) notes: Vec<String>,
    pub(crate) disk: DiskSpeed,
    pub(crate) outcomes: Vec<Outcome>,
    /// What the measured side did while nobody asked anything of it, if that was looked at.
    pub(crate) idle: Option<Idle>,
}

/// What a side did while idle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Idle {
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    pub(crate) bucket_requests: u64,
    pub(crate) cpu_seconds: f64,
}

impl Report {
    /// Returns the report as the table that a person reads.
    pub(crate) fn table(&self) -> String {
        let mut text = self.machine.lines();
        for note in &self.notes {
            text.push_str(&format!("{note}\n"));
        }
        text.push_str(&self.times().to_string());
        let targets = self.targets();
        if targets.row_count() > 0 {
            text.push_str(&format!("\n\nTargets\n{targets}"));
        }
        let accounts = self.accounts();
        if !accounts.is_empty() {
            let [measured, baseline] = &self.sides;
            let accounts = account::text(baseline, measured, &accounts);
            text.push_str(&format!("\n\nWhere the time goes\n{accounts}"));
        }
        text.push('\n');
        for Metric { name, what } in self.outcomes.iter().map(|outcome| outcome.metric) {
            text.push_str(&format!("\n{name:21} {what}"));
        }
        if let Some(idle) = self.idle {
            text.push_str(&format!(
                "\n\nIdle for {:.0} s: {} to the bucket, {} from the kernel, {:.2} s of CPU",
                idle.seconds,
                counted(idle.bucket_requests, "request"),
                idle.requests,
                idle.cpu_seconds
            ));
        }
        text
    }

    /// Returns the report as JSON.
    pub(crate) fn json(&self) -> Value {
        let mut report = json!({
            "machine": self.machine.json(),
            "sides": { "tenure": self.sides[0], "baseline": self.sides[1] },
            "notes": self.notes,
            "workloads": self.outcomes.iter().map(|outcome| workload(outcome, self.disk)).collect::<Vec<_>>(),
        });
        if let Some(idle) = self.idle {
            report["idle"] = json!({
                "seconds": idle.seconds,
                "requests": idle.requests,
                "bucket_requests": idle.bucket_requests,
                "cpu_s": idle.cpu_seconds,
            });
        }
        report
    }

    fn accounts(&self) -> Vec<(&str, Account)> {
        let accounts = self.outcomes.iter();
        accounts
            .filter_map(|outcome| Some((outcome.metric.name, outcome.account()?)))
            .collect()
    }

    fn times(&self) -> Table {
        let mut table = new_table();
        let [measured, baseline] = &self.sides;
        table.set_header([
            "workload",
            measured,
            baseline,
            "ratio",
            "90 % bounds",
            "target (goal)",
            "before the sync",
            "CPU s",
            "peak MB",
            "req / file",
        ]);
        for outcome in &self.outcomes {
            table.add_row(self.time_row(outcome));
        }
        for column in 1..10 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    fn time_row(&self, outcome: &Outcome) -> Vec<String> {
        let (tenure, baseline) = outcome.seconds();
        let ratio = outcome.ratio();
        let judged = outcome.judge(self.disk);
        let by_ratio = judged
            .iter()
            .find(|judged| judged.target.measure == super::target::Measure::Ratio);
        let target = by_ratio.map_or_else(String::new, |judged| {
            let goal = judged
                .target
                .goal
                .map_or_else(String::new, |goal| format!(" ({goal:.2})"));
            format!("{:.2}{goal} {}", judged.target.bound, judged.verdict.word())
        });
        let cpu = outcome.costs(|cost| cost.cpu_seconds);
        let peak = outcome.peak_rss_bytes();
        vec![
            outcome.metric.name.to_owned(),
            duration(tenure.median),
            duration(baseline.median),
            format!("{:.2}", ratio.median),
            format!("{:.2}-{:.2}", ratio.low, ratio.high),
            target,
            outcome
                .ratio_without_sync()
                .map_or_else(String::new, |ratio| format!("{:.2}", ratio.median)),
            cpu.map_or_else(String::new, |(tenure, baseline)| {
                format!("{tenure:.2} / {baseline:.2}")
            }),
            if peak > 0 {
                format!("{:.0}", peak as f64 / 1e6)
            } else {
                String::new()
            },
            outcome
                .requests_per_file()
                .map_or_else(String::new, |requests| format!("{requests:.2}")),
        ]
    }

    /// The targets other than ratios, and what was measured.
    fn targets(&self) -> Table {
        let mut table = new_table();
        table.set_header(["workload", "what", "measured", "target", "verdict"]);
        for outcome in &self.outcomes {
            for judged in outcome.judge(self.disk) {
                let measure = judged.target.measure;
                if measure != super::target::Measure::Ratio {
                    table.add_row([
                        outcome.metric.name.to_owned(),
                        measure.words().to_owned(),
                        number(judged.value),
                        format!("{} {}", measure.sign(), number(judged.target.bound)),
                        judged.verdict.word().to_owned(),
                    ]);
                }
            }
        }
        table
    }
}

fn workload(outcome: &Outcome, disk: DiskSpeed) -> Value {
    let (tenure, baseline) = outcome.seconds();
    let mut value = json!({
        "name": outcome.metric.name,
        "what": outcome.metric.what,
        "rounds": outcome.tenure.len(),
        "tenure_s": spread(tenure),
        "baseline_s": spread(baseline),
        "ratio": bounded(outcome.ratio()),
        "requests": outcome.requests(),
        "peak_rss_bytes": outcome.peak_rss_bytes(),
    });
    let pair = |(tenure, baseline): (f64, f64)| json!({ "tenure": tenure, "baseline": baseline });
    value["cpu_s"] = outcome.costs(|cost| cost.cpu_seconds).map_or(Value::Null, pair);
    value["machine_cpu_s"] = outcome
        .costs(|cost| cost.machine_cpu_seconds)
        .map_or(Value::Null, pair);
    value["written_bytes"] = outcome
        .costs(|cost| cost.written_bytes as f64)
        .map_or(Value::Null, pair);
    if let Some((requests, _)) = outcome.costs(|cost| cost.bucket_requests as f64) {
        value["bucket_requests"] = json!(requests as u64);
    }
    if let Some((files, _)) = outcome
        .costs(|cost| cost.content.files as f64)
        .filter(|(files, _)| *files > 0.0)
    {
        value["files"] = json!(files as u64);
        value["requests_per_file"] = json!(outcome.requests_per_file());
    }
    if let Some((bytes, _)) = outcome
        .costs(|cost| cost.content.bytes as f64)
        .filter(|(bytes, _)| *bytes > 0.0)
    {
        value["content_bytes"] = json!(bytes as u64);
    }
    if let (Some((tenure, baseline)), Some(ratio)) =
        (outcome.seconds_without_sync(), outcome.ratio_without_sync())
    {
        value["without_sync"] =
            json!({ "tenure_s": spread(tenure), "baseline_s": spread(baseline), "ratio": bounded(ratio) });
    }
    if let Some(account) = outcome.account() {
        value["account"] = account::json(&account);
    }
    let targets = outcome.judge(disk).into_iter().map(|judged| {
        json!({
            "of": judged.target.measure.words(),
            "bound": judged.target.bound,
            "goal": judged.target.goal,
            "measured": judged.value,
            "met": judged.verdict == super::target::Verdict::Met,
        })
    });
    value["targets"] = targets.collect();
    value
}

fn spread(spread: Spread) -> Value {
    json!({ "median": spread.median, "min": spread.min, "max": spread.max })
}

fn bounded(bounded: Bounded) -> Value {
    json!({ "median": bounded.median, "low": bounded.low, "high": bounded.high, "coverage": bounded.coverage })
}

fn new_table() -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Returns seconds in the unit that a person would choose.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s.is_nan() => "-".to_owned(),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} us", s * 1e6),
    }
}

fn number(value: f64) -> String {
    if value >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::account::{Spent, tests::floor};
    use crate::bench::machine::tests::machine;
    use crate::bench::measure::{Content, Cost, Sample};

    fn report() -> Report {
        let sample = |seconds| {
            let cost = Cost {
                content: Content { files: 2, bytes: 10 },
                cpu_seconds: 0.5,
                spent: Spent {
                    wall_seconds: seconds,
                    ..Spent::default()
                },
                ..Cost::default()
            };
            Sample {
                seconds,
                seconds_without_sync: Some(seconds / 2.0),
                cost: Some(cost),
            }
        };
        let outcome = Outcome {
            metric: Metric {
                name: "clone",
                what: "git clone",
            },
            tenure: vec![sample(1.2), sample(1.1)],
            baseline: vec![sample(1.0), sample(1.0)],
            floors: vec![floor()],
        };
        Report {
            machine: machine(),
            sides: ["Tenure".into(), "ext4".into()],
            notes: vec![],
            disk: DiskSpeed::Full,
            outcomes: vec![outcome],
            idle: None,
        }
    }

    #[test]
    fn json_has_the_promised_shape() {
        let json = report().json();
        let workload = &json["workloads"][0];
        assert!(json["machine"].is_object());
        assert_eq!(
            (workload["name"].as_str(), workload["rounds"].as_u64()),
            (Some("clone"), Some(2))
        );
        for (field, parts) in [
            ("tenure_s", &["median", "min", "max"][..]),
            ("baseline_s", &["median", "min", "max"]),
            ("ratio", &["median", "low", "high"]),
            ("cpu_s", &["tenure", "baseline"]),
            ("account", &["requests_x_floor_s", "floor_ratio", "waiting_s"]),
        ] {
            for part in parts {
                assert!(workload[field][part].is_number(), "{field}.{part}");
            }
        }
        assert!(workload["requests"].is_object() && workload["peak_rss_bytes"].is_u64());
    }

    #[test]
    fn the_table_names_sides_ratio_and_target() {
        let table = report().table();
        for part in [
            "Tenure",
            "ext4",
            "1.15",
            "1.20 (1.05)",
            "CPU ratio",
            "Where the time goes",
        ] {
            assert!(table.contains(part), "{part} is not in\n{table}");
        }
    }

    #[test]
    fn durations_are_told_in_their_unit() {
        assert_eq!(
            [duration(12.345), duration(0.0123), duration(4.2e-6)],
            ["12.35 s", "12.30 ms", "4.2 us"]
        );
    }
}
