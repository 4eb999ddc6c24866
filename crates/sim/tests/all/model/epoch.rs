//! Claims, seals and appends.

use tenure_sim::model::epoch::{Epochs, Fault};

use super::{breaks, holds};

const RIGHT: Epochs = Epochs {
    epochs: 3,
    segments: 2,
    clones: 0,
    fault: None,
};

#[test]
fn a_journal_keeps_what_it_acknowledged_through_four_epochs() {
    let epochs = Epochs {
        epochs: 4,
        segments: 3,
        ..RIGHT
    };
    holds(
        "epoch, four epochs of three segments",
        1_193_890,
        &epochs.explore(),
    );
}

#[test]
fn a_journal_keeps_what_it_acknowledged_from_a_cloned_server() {
    let epochs = Epochs {
        segments: 3,
        clones: 1,
        ..RIGHT
    };
    holds("epoch, three epochs and a clone", 1_985_978, &epochs.explore());
}

#[test]
fn a_journal_without_one_of_its_rules_loses_something() {
    let lost = "an acknowledged segment is where every takeover finds it";
    let grew = "a sealed epoch never grows";
    let failed = "what was reported as failed did not happen";
    let faults = [
        (Fault::NoSeal, lost),
        (Fault::SealsOnlyThePreviousEpoch, lost),
        (Fault::SealsBehindAGap, grew),
        (Fault::AcknowledgesBeforeDurable, lost),
        (Fault::AcknowledgesOutOfOrder, lost),
        (Fault::TakesALostReplyForAFailure, failed),
    ];
    for (fault, law) in faults {
        breaks(
            fault,
            law,
            &Epochs {
                fault: Some(fault),
                ..RIGHT
            }
            .explore(),
        );
    }
    let cloned = Fault::DrawsTheNonceBeforeTheClone;
    breaks(
        cloned,
        lost,
        &Epochs {
            clones: 1,
            fault: Some(cloned),
            ..RIGHT
        }
        .explore(),
    );
}
