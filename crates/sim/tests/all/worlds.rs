//! The simulator: that it repeats itself, keeps what it has found, and finds what is put in.

use tenure_sim::fault::Plant;
use tenure_sim::workload::Profile;
use tenure_sim::world::{Options, Report, run};

/// Seeds that have found something; each once failed.
const KEPT: &str = include_str!("../seeds.txt");

fn kept() -> impl Iterator<Item = u64> {
    let lines = KEPT
        .lines()
        .filter_map(|line| line.split_once('#').or(Some((line, ""))));
    lines
        .map(|(seed, _)| seed.trim())
        .filter(|seed| !seed.is_empty())
        .map(|seed| seed.parse().expect("a seed is a number"))
}

fn holds(report: &Report) {
    assert_eq!(
        report.broken,
        None,
        "seed {} ({:?}); the last of it:\n{}",
        report.seed,
        report.profile,
        report.last.join("\n")
    );
}

#[test]
fn a_seed_gives_the_same_trace_byte_for_byte() {
    for profile in Profile::ALL {
        let options = Options {
            profile: Some(profile),
            ..Options::default()
        };
        let [one, other] = [run(7, &options), run(7, &options)];
        assert_eq!(one.trace, other.trace, "{profile:?}");
        assert_ne!(one.trace, run(8, &options).trace, "{profile:?}");
    }
}

#[test]
fn every_kind_of_world_syncs_and_crashes_and_keeps_its_promises() {
    for profile in Profile::ALL {
        let options = Options {
            profile: Some(profile),
            ..Options::default()
        };
        let report = run(1, &options);
        holds(&report);
        assert!(report.counts.syncs > 5, "{profile:?}: {:?}", report.counts);
        assert!(report.counts.crashes > 1, "{profile:?}: {:?}", report.counts);
    }
}

#[test]
fn what_seeds_have_found_once_does_not_come_back() {
    kept().for_each(|seed| holds(&run(seed, &Options::default())));
}

#[test]
fn an_acknowledgement_before_the_batch_is_durable_is_found() {
    is_found(Plant::AcknowledgesEarly, None, 40);
}

#[test]
fn a_disk_that_skips_syncs_is_found() {
    is_found(Plant::SkipsSyncs, None, 10);
}

#[test]
fn writes_in_the_wrong_order_are_found() {
    is_found(Plant::Misorders, None, 40);
}

#[test]
fn names_before_their_bytes_are_found() {
    is_found(Plant::NamesBeforeBytes, None, 40);
}

#[test]
fn a_batch_of_which_a_crash_leaves_a_half_is_found() {
    is_found(Plant::TearsBatches, Some(Profile::DeepTrees), 40);
}

#[test]
fn a_holder_that_has_lost_its_branch_and_is_believed_is_found() {
    is_found(Plant::TrustsAnybody, None, 20);
}

#[test]
fn an_epoch_that_grows_after_its_end_is_found() {
    is_found(Plant::SealsNothing, Some(Profile::DeepTrees), 80);
}

#[test]
fn a_fold_that_is_lost_is_found() {
    is_found(Plant::LosesFolds, None, 10);
}

#[test]
fn what_is_kept_for_nobody_until_it_is_named_is_found() {
    is_found(Plant::ClaimsNothing, None, 80);
}

#[test]
fn the_rows_of_a_manifest_that_go_with_what_is_given_up_are_found() {
    is_found(Plant::DeletesRows, None, 10);
}

/// Runs worlds with a fault of ours in them until one is found broken.
fn is_found(plant: Plant, profile: Option<Profile>, worlds: u64) {
    let options = Options {
        plant: Some(plant),
        profile,
        ..Options::default()
    };
    let found = (0..worlds).find(|seed| run(*seed, &options).broken.is_some());
    assert!(found.is_some(), "{plant:?} was not found in {worlds} worlds");
}
