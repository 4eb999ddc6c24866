//! The protocol holds in every state of its models, and each rule that is taken away loses something.
//!
//! The counts of states stand here so that a model cannot shrink unseen; a change of a model changes them.
//! `cargo test -p tenure-sim model -- --nocapture` prints them.

mod batch;
mod condemn;
mod epoch;
mod fold;
mod folder;
mod grant;
mod recall;
mod reclaim;
mod seen;
mod subtree;
mod turns;

use tenure_sim::model::Report;

/// Expects a report of a whole space of `states` states, in which every law holds.
#[track_caller]
fn holds(name: &str, states: usize, report: &Report) {
    println!("{name}: {report}");
    assert!(report.broken.is_none(), "{name}: {report}");
    assert_eq!(
        report.states, states,
        "{name}: the space has another size than when it was last looked at"
    );
}

/// Expects a report of a counterexample to `law`.
#[track_caller]
fn breaks(fault: impl std::fmt::Debug, law: &str, report: &Report) {
    println!("{fault:?}: {report}");
    let broken = report
        .broken
        .as_ref()
        .unwrap_or_else(|| panic!("{fault:?} was not found: {report}"));
    assert_eq!(broken.law, law, "{fault:?}: {report}");
}
