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

fn wrong(fault: Fault) -> Epochs {
    Epochs {
        fault: Some(fault),
        ..RIGHT
    }
}

#[test]
fn a_journal_without_one_of_its_rules_loses_something() {
    let lost = "an acknowledged segment is where every takeover finds it";
    let faults = [
        (Fault::NoSeal, lost),
        (Fault::SealsOnlyThePreviousEpoch, lost),
        (Fault::SealsBehindAGap, "a sealed epoch never grows"),
        (Fault::AcknowledgesBeforeDurable, lost),
        (Fault::AcknowledgesOutOfOrder, lost),
        (
            Fault::TakesALostReplyForAFailure,
            "what was reported as failed did not happen",
        ),
    ];
    for (fault, law) in faults {
        breaks(fault, law, &wrong(fault).explore());
    }
    let fault = Fault::DrawsTheNonceBeforeTheClone;
    breaks(
        fault,
        lost,
        &Epochs {
            clones: 1,
            ..wrong(fault)
        }
        .explore(),
    );
}
