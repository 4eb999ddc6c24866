//! Batches, replayed and refused.

use tenure_sim::model::batch::{Batches, Fault};

use super::{breaks, holds};

const RIGHT: Batches = Batches {
    epochs: 3,
    clones: false,
    others: true,
    fault: None,
};

#[test]
fn batches_are_ordered_once_in_order_and_after_what_they_saw() {
    holds(
        "batch, three epochs and another session",
        673_576,
        &RIGHT.explore(),
    );
}

#[test]
fn of_a_cloned_session_one_goes_on_and_the_other_becomes_a_stray() {
    let batches = Batches {
        clones: true,
        others: false,
        ..RIGHT
    };
    holds("batch, three epochs and a clone", 821_188, &batches.explore());
}

#[test]
fn batches_without_one_of_their_rules_go_wrong() {
    let seen = "a batch follows what its maker had seen";
    let lost = "what was acknowledged is durable for ever";
    let faults = [
        (Fault::NoEpochCheck, seen),
        (Fault::ForgetsWhatItHasSeen, seen),
        (
            Fault::NoGrantCheck,
            "no batch follows the revocation of its session",
        ),
        (Fault::AcknowledgesBeforeDurable, lost),
    ];
    for (fault, law) in faults {
        breaks(
            fault,
            law,
            &Batches {
                epochs: 2,
                fault: Some(fault),
                ..RIGHT
            }
            .explore(),
        );
    }
    let fault = Fault::ChecksNumbersOnly;
    breaks(
        fault,
        lost,
        &Batches {
            clones: true,
            others: false,
            fault: Some(fault),
            ..RIGHT
        }
        .explore(),
    );
}
