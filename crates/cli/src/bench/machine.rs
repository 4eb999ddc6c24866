//! What the machine is that the numbers are of, and what it takes for what is nobody's code.

use serde_json::{Value, json};

use super::floor::Floor;
use super::statistics::Quantiles;
use super::switch::Switches;

/// A machine, as far as a reader of the numbers must know it.
#[derive(Debug)]
pub(crate) struct Machine {
    cpu: String,
    cpus: usize,
    memory_bytes: u64,
    kernel: String,
    switches: Switches,
    /// A request that does nothing; nothing where the measured side is served by no process.
    floor: Option<Floor>,
    /// The same of several callers that keep all CPUs busy.
    floor_of_several: Option<Floor>,
}

impl Machine {
    /// Looks at this machine.
    pub(crate) fn here(switches: Switches, floor: Option<Floor>, floor_of_several: Option<Floor>) -> Machine {
        let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpus
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .unwrap_or_default();
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = memory.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        Machine {
            cpu: cpu.trim_start_matches([' ', '\t', ':']).to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kib.unwrap_or(0) * 1024,
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            switches,
            floor,
            floor_of_several,
        }
    }

    /// Returns what a person reads, a line each.
    pub(crate) fn lines(&self) -> String {
        let gib = self.memory_bytes as f64 / 2f64.powi(30);
        let mut text = format!(
            "{} x {}, {gib:.0} GiB of memory, Linux {}; medians of interleaved rounds; bounds by order statistics\n",
            self.cpus, self.cpu, self.kernel,
        );
        if let Some(floor) = self.floor {
            text.push_str(&format!(
                "A request that does nothing: {}, of which {:.1} us are CPU of the caller and {:.1} us of the server.\n",
                microseconds(floor.seconds),
                floor.caller_seconds * 1e6,
                floor.serving_seconds * 1e6,
            ));
        }
        if let Some(several) = self.floor_of_several {
            text.push_str(&format!(
                "Where several callers keep all CPUs busy, each makes them later by {}.\n",
                microseconds(several.seconds),
            ));
        }
        let Switches { one_cpu, two_cpus } = self.switches;
        let two_cpus = two_cpus.map_or_else(String::new, |two| format!(", {} across two", microseconds(two)));
        text.push_str(&format!(
            "Two switches between processes (a byte through a pipe and back): {} on one CPU{two_cpus}.\n",
            microseconds(one_cpu),
        ));
        text
    }

    /// Returns it as JSON.
    pub(crate) fn json(&self) -> Value {
        json!({
            "cpu": self.cpu,
            "cpus": self.cpus,
            "memory_bytes": self.memory_bytes,
            "kernel": self.kernel,
            "version": env!("CARGO_PKG_VERSION"),
            "null_request_s": self.floor.map(|floor| quantiles(floor.seconds)),
            "null_request_of_several_s": self.floor_of_several.map(|floor| quantiles(floor.seconds)),
            "null_request_cpu_s": self.floor.map(|floor| json!({
                "caller": floor.caller_seconds,
                "serving": floor.serving_seconds,
            })),
            "pipe_round_trip_s": {
                "one_cpu": quantiles(self.switches.one_cpu),
                "two_cpus": self.switches.two_cpus.map(quantiles),
            },
        })
    }
}

fn quantiles(quantiles: Quantiles) -> Value {
    json!({
        "median": quantiles.median,
        "p10": quantiles.p10,
        "p90": quantiles.p90,
        "count": quantiles.count,
    })
}

/// Returns the median and what four fifths lie between.
fn microseconds(seconds: Quantiles) -> String {
    format!(
        "{:.1} us ({:.1}-{:.1})",
        seconds.median * 1e6,
        seconds.p10 * 1e6,
        seconds.p90 * 1e6
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bench::account::tests::floor;

    pub(crate) fn machine() -> Machine {
        let round_trip = |median| Quantiles {
            median,
            p10: median,
            p90: median,
            count: 2,
        };
        let switches = Switches {
            one_cpu: round_trip(5.8e-6),
            two_cpus: Some(round_trip(41e-6)),
        };
        Machine::here(switches, Some(floor()), Some(floor()))
    }

    #[test]
    fn what_is_nobodys_code_is_told() {
        let lines = machine().lines();
        for part in ["10.0 us (9.0-12.0)", "5.8 us (5.8-5.8) on one CPU", "41.0 us"] {
            assert!(lines.contains(part), "{part} is not in\n{lines}");
        }
    }

    #[test]
    fn a_machine_is_json() {
        let json = machine().json();
        assert_eq!(json["null_request_s"]["p90"], 12e-6);
        assert_eq!(json["pipe_round_trip_s"]["two_cpus"]["count"], 2);
    }
}
