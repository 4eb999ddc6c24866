//! Batches, replayed and refused.

use tenure_sim::model::batch::{Batches, Fault};

use super::{breaks, holds};

const SHARED: Batches = Batches {
    epochs: 3,
    clones: false,
    others: true,
    fault: None,
};
const ALONE: Batches = Batches {
    others: false,
    ..SHARED
};
const CLONED: Batches = Batches {
    clones: true,
    ..ALONE
};

fn wrong(rules: Batches, fault: Fault) -> Batches {
    Batches {
        epochs: 2,
        fault: Some(fault),
        ..rules
    }
}

#[test]
fn batches_are_ordered_once_in_order_and_after_what_they_saw() {
    holds(
        "batch, three epochs and another session",
        1_003_624,
        &SHARED.explore(),
    );
}

#[test]
fn of_a_cloned_session_one_goes_on_and_the_other_becomes_a_stray() {
    holds("batch, three epochs and a clone", 821_188, &CLONED.explore());
}

#[test]
fn batches_without_one_of_their_rules_go_wrong() {
    let lost = "what was acknowledged is durable for ever";
    let once = "a batch is ordered once";
    let seen = "a batch follows what its maker had seen";
    let revoked = "no batch follows the revocation of its session";
    let faults = [
        (SHARED, Fault::NoEpochCheck, seen),
        (SHARED, Fault::ForgetsWhatItHasSeen, seen),
        (ALONE, Fault::NoGrantCheck, revoked),
        (ALONE, Fault::BeginsAnewWithEachGrant, once),
        (ALONE, Fault::AcknowledgesBeforeDurable, lost),
        (CLONED, Fault::ChecksNumbersOnly, lost),
    ];
    for (rules, fault, law) in faults {
        breaks(fault, law, &wrong(rules, fault).explore());
    }
}

/// A session that sees nobody else's work may send again as it sent before: the chain tells all.
#[test]
fn a_session_alone_needs_no_epoch_in_its_batches() {
    let alone = wrong(ALONE, Fault::NoEpochCheck);
    holds(
        "batch, two epochs, alone, no epoch check",
        1_014,
        &alone.explore(),
    );
    holds(
        "batch, two epochs, cloned, no epoch check",
        92_964,
        &wrong(CLONED, Fault::NoEpochCheck).explore(),
    );
}
