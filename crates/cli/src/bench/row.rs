//! A row of the report: seconds, what they are compared with, and what else was counted, each beside its target.

use crate::bench::statistics::spread;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use serde_json::{Value, json};

/// What was measured of one thing.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// A number of each round, trial or operation.
    pub(crate) seconds: Vec<f64>,
    /// The same of what it is compared with, if it is.
    pub(crate) baseline: Vec<f64>,
    pub(crate) facts: Vec<Fact>,
}

/// A number that was measured.
#[derive(Debug)]
pub(crate) struct Fact {
    of: &'static str,
    measured: f64,
    bound: Option<Bound>,
}

/// What a number should be.
#[derive(Clone, Copy, Debug)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Fact {
    /// A number that should be no more.
    pub(crate) fn at_most(of: &'static str, measured: f64, bound: f64) -> Self {
        let bound = Some(Bound::AtMost(bound));
        Fact { of, measured, bound }
    }

    /// A number that should be no less.
    pub(crate) fn at_least(of: &'static str, measured: f64, bound: f64) -> Self {
        let bound = Some(Bound::AtLeast(bound));
        Fact { of, measured, bound }
    }

    /// A number that is told.
    pub(crate) fn told(of: &'static str, measured: f64) -> Self {
        Fact {
            of,
            measured,
            bound: None,
        }
    }

    fn is_met(&self) -> Option<bool> {
        self.bound.map(|bound| match bound {
            Bound::AtMost(most) => self.measured <= most,
            Bound::AtLeast(least) => self.measured >= least,
        })
    }
}

impl Row {
    /// Returns the row in the form of `bench fs`.
    pub(crate) fn json(&self) -> Value {
        let times = |seconds: &[f64]| {
            let all = spread(seconds);
            (!seconds.is_empty()).then(|| json!({ "median": all.median, "min": all.min, "max": all.max }))
        };
        let targets = self.facts.iter().filter_map(|fact| {
            let (sign, bound) = match fact.bound? {
                Bound::AtMost(most) => ("<=", most),
                Bound::AtLeast(least) => (">=", least),
            };
            Some(json!({
                "of": fact.of,
                "sign": sign,
                "bound": bound,
                "measured": fact.measured,
                "met": fact.is_met(),
            }))
        });
        let told = self.facts.iter().filter(|fact| fact.bound.is_none());
        json!({
            "name": self.name,
            "what": self.what,
            "rounds": self.seconds.len(),
            "tenure_s": times(&self.seconds),
            "baseline_s": times(&self.baseline),
            "targets": targets.collect::<Vec<_>>(),
            "told": told.map(|fact| (fact.of.to_owned(), json!(fact.measured))).collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// Returns rows as the table that a person reads.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(["row", "what", "measured", "target", "verdict"]);
    for row in rows {
        for fact in &row.facts {
            let target = match fact.bound {
                Some(Bound::AtMost(most)) => format!("<= {}", number(most)),
                Some(Bound::AtLeast(least)) => format!(">= {}", number(least)),
                None => String::new(),
            };
            let verdict = match fact.is_met() {
                Some(true) => "met",
                Some(false) => "MISSED",
                None => "",
            };
            table.add_row([row.name, fact.of, &number(fact.measured), &target, verdict]);
        }
    }
    let mut text = table.to_string();
    for row in rows {
        text.push_str(&format!("\n{:25} {}", row.name, row.what));
    }
    text
}

fn number(value: f64) -> String {
    match value {
        value if value == 0.0 || value >= 100.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_form_of_the_other_benches_and_says_what_was_missed() {
        let row = Row {
            name: "create_fsync",
            what: "what it is",
            seconds: vec![0.03, 0.05],
            baseline: vec![],
            facts: vec![
                Fact::at_most("seconds", 0.04, 0.036),
                Fact::at_least("files a second", 7_000.0, 5_000.0),
                Fact::told("puts", 3.0),
            ],
        };
        let json = row.json();
        assert_eq!(json["tenure_s"]["median"], 0.04);
        assert!(json["baseline_s"].is_null());
        assert_eq!(json["targets"][0]["met"], false);
        assert_eq!(json["targets"][1]["sign"], ">=");
        assert_eq!(json["told"]["puts"], 3.0);
        let table = table(&[row]);
        for part in ["MISSED", "met", "<= 0.0360", "7000", "what it is"] {
            assert!(table.contains(part), "{part} is not in\n{table}");
        }
    }
}
