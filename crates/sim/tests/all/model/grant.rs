//! Reads, grants and takeovers in time.

use tenure_sim::model::grant::{Fault, Grants};

use super::{breaks, holds};

const RIGHT: Grants = Grants {
    epochs: 2,
    segments: 4,
    clones: 0,
    re_reads: true,
    opens: true,
    fault: None,
};
const TWO_OWNERS: &str = "owners of two epochs never may answer at one time";
const TWO_SESSIONS: &str = "two sessions never may act on one grant";
const STALE: &str = "an owner that may answer knows all that is acknowledged";

#[test]
fn nobody_answers_from_the_past_through_three_epochs() {
    holds(
        "grant, three epochs",
        591_032,
        &Grants { epochs: 3, ..RIGHT }.explore(),
    );
}

#[test]
fn a_cloned_owner_answers_from_the_past_only_until_its_next_look() {
    let grants = Grants {
        segments: 3,
        clones: 1,
        ..RIGHT
    };
    holds("grant, two epochs and a clone", 504_175, &grants.explore());
}

#[test]
fn a_takeover_in_time_without_one_of_its_rules_goes_wrong() {
    let faults = [
        (Fault::NoWait, TWO_OWNERS),
        (Fault::NoMargin, TWO_OWNERS),
        (Fault::WaitsFromTheClaim, TWO_OWNERS),
        (Fault::ProofFromTheReply, TWO_OWNERS),
        (Fault::CountsSilenceFromTheOpening, TWO_SESSIONS),
        (Fault::NoMarginForSessions, TWO_SESSIONS),
        (Fault::LeaseFromTheReply, TWO_SESSIONS),
        (Fault::GrantNotDurable, TWO_SESSIONS),
    ];
    for (fault, law) in faults {
        breaks(
            fault,
            law,
            &Grants {
                fault: Some(fault),
                ..RIGHT
            }
            .explore(),
        );
    }
}

/// It would answer for ever from before the clone went ahead.
#[test]
fn a_clone_that_looks_only_for_claims_never_notices() {
    let fault = Fault::LooksOnlyForClaims;
    breaks(
        fault,
        STALE,
        &Grants {
            clones: 1,
            fault: Some(fault),
            ..RIGHT
        }
        .explore(),
    );
}

/// A claim says who was the newest once. The re-read or the durable opening says who is.
#[test]
fn an_owner_needs_a_re_read_or_an_opening_and_its_claim_is_no_proof() {
    let three = Grants {
        epochs: 3,
        segments: 3,
        ..RIGHT
    };
    holds(
        "grant, re-read only",
        763_706,
        &Grants {
            opens: false,
            ..three
        }
        .explore(),
    );
    holds(
        "grant, opening only",
        130_923,
        &Grants {
            re_reads: false,
            ..three
        }
        .explore(),
    );
    let claim_only = Grants {
        re_reads: false,
        opens: false,
        ..three
    };
    breaks("claim only", TWO_OWNERS, &claim_only.explore());
}
