//! The accounts as a person reads them: a line a workload, and a picture.

use comfy_table::{CellAlignment, Table};
use serde_json::{Value, json};

use super::{duration, new_table};
use crate::bench::account::{Account, Spent};

/// How wide the baseline is in the picture.
const BASELINE_WIDTH: f64 = 20.0;
/// How wide a picture may become.
const WIDTH_MAX: usize = 100;

/// What the picture is made of.
const BASELINE: char = '\u{2588}';
const REQUESTS: char = '\u{2592}';
const REST: char = '\u{2591}';

/// What the columns mean.
const LEGEND: &str = "  requests  those that a program waits for, each as long as one that does nothing; where several
            callers keep all CPUs busy, by what each makes all of them later
  own code  CPU of the threads that answer, beyond that
  callers   CPU of the programs in the kernel, beyond that and beyond the baseline's: bytes handed over, less its code
  waiting   what is left: nobody ran, for a disk or a wake-up; less what the baseline waits, and less where CPUs overlap
  floor     (baseline + requests) / baseline: the ratio if all code but the baseline's cost nothing
  beside    CPU of other threads of the server, and what each disk was told to flush; not in the sum";

/// Returns the table and the picture of these accounts.
pub(super) fn text(baseline: &str, measured: &str, accounts: &[(&str, Account)]) -> String {
    let mut table = new_table();
    table.set_header([
        "workload",
        baseline,
        "requests",
        "+ requests",
        "+ own code",
        "+ callers",
        "+ waiting",
        &format!("= {measured}"),
        "floor",
        "beside: CPU",
        "flushes",
    ]);
    for (name, account) in accounts {
        table.add_row(row(name, account));
    }
    align(&mut table);
    let bars: String = accounts
        .iter()
        .map(|(name, account)| format!("\n{name:21} {}", bar(account)))
        .collect();
    let key = format!(
        "{BASELINE} {baseline}   {REQUESTS} requests   {REST} the rest   | {measured}, where it is less"
    );
    format!("{table}\n{LEGEND}\n{bars}\n{:21} {key}", "")
}

/// Returns an account as JSON.
pub(super) fn json(account: &Account) -> Value {
    let Account { tenure, baseline, .. } = account;
    let pair = |of: fn(&Spent) -> f64| json!({ "tenure": of(tenure), "baseline": of(baseline) });
    json!({
        "tenure_s": tenure.wall_seconds,
        "baseline_s": baseline.wall_seconds,
        "requests_waited_for": account.requests,
        "floor_s": account.floor_seconds,
        "requests_x_floor_s": account.requests_x_floor(),
        "own_s": account.own_seconds,
        "callers_s": account.callers_seconds,
        "waiting_s": account.waiting_seconds(),
        "floor_ratio": account.floor_ratio(),
        "daemon_user_s": tenure.daemon_user_seconds,
        "daemon_system_s": tenure.daemon_system_seconds,
        "serving_s": tenure.serving_seconds,
        "background_s": account.background_seconds(),
        "syncs_waited_for": account.syncs,
        "final_sync_s": pair(|spent| spent.sync_seconds),
        "callers_cpu_s": pair(|spent| spent.callers_seconds),
        "disk_flushes": pair(|spent| spent.flushes),
        "disk_flush_s": pair(|spent| spent.flush_seconds),
        "disk_busy_s": pair(|spent| spent.disk_busy_seconds),
    })
}

fn row(name: &str, account: &Account) -> Vec<String> {
    vec![
        name.to_owned(),
        duration(account.baseline.wall_seconds),
        format!("{} x {:.1} us", account.requests, account.floor_seconds * 1e6),
        signed(account.requests_x_floor()),
        signed(account.own_seconds),
        signed(account.callers_seconds),
        signed(account.waiting_seconds()),
        duration(account.tenure.wall_seconds),
        format!("{:.2}", account.floor_ratio()),
        duration(account.background_seconds().max(0.0)),
        format!(
            "{:.0} in {} / {:.0} in {}",
            account.tenure.flushes,
            duration(account.tenure.flush_seconds),
            account.baseline.flushes,
            duration(account.baseline.flush_seconds)
        ),
    ]
}

fn signed(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "-" } else { "" };
    format!("{sign}{}", duration(seconds.abs()))
}

/// Returns a bar: the baseline, what the requests add, and the rest; or a stroke where all of it takes less than those two.
fn bar(account: &Account) -> String {
    let scale = BASELINE_WIDTH / account.baseline.wall_seconds;
    let cells = |seconds: f64| ((seconds * scale).round() as usize).min(WIDTH_MAX);
    let baseline = cells(account.baseline.wall_seconds);
    let floor = cells(account.baseline.wall_seconds + account.requests_x_floor());
    let measured = cells(account.tenure.wall_seconds);
    let cell = |at: usize| {
        if at + 1 == measured && measured < floor {
            '|'
        } else if at < baseline {
            BASELINE
        } else if at < floor {
            REQUESTS
        } else {
            REST
        }
    };
    (0..floor.max(measured)).map(cell).collect()
}

fn align(table: &mut Table) {
    for column in 1..11 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::account::tests::account;

    #[test]
    fn a_bar_shows_the_baseline_the_requests_and_the_rest() {
        let bar = bar(&account());
        let counts = [BASELINE, REQUESTS, REST].map(|cell| bar.matches(cell).count());
        assert_eq!(counts, [20, 10, 10]);
    }

    #[test]
    fn a_stroke_shows_what_is_faster_than_its_floor() {
        let mut account = account();
        account.tenure.wall_seconds = 1.0;
        let bar = bar(&account);
        assert_eq!(bar.find('|').map(|at| bar[..at].chars().count()), Some(9));
        assert_eq!(bar.chars().count(), 30);
    }

    #[test]
    fn the_table_tells_every_addend() {
        let text = text("ext4", "Tenure", &[("clone", account())]);
        for part in [
            "2.00 s",
            "100000 x 10.0 us",
            "1.00 s",
            "700.00 ms",
            "200.00 ms",
            "= Tenure",
            "4.00 s",
            "1.50",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn the_addends_of_the_json_come_to_the_whole() {
        let json = json(&account());
        let value = |key: &str| json[key].as_f64().expect("a number");
        let sum = [
            "baseline_s",
            "requests_x_floor_s",
            "own_s",
            "callers_s",
            "waiting_s",
        ]
        .map(value);
        assert!((sum.iter().sum::<f64>() - value("tenure_s")).abs() < 1e-9);
        assert!(json["disk_flushes"]["baseline"].is_number());
    }
}
