//! A takeover while sessions read, write and hold.

use tenure_sim::model::reclaim::{Fault, Reclaims};

use super::{breaks, holds};

const RIGHT: Reclaims = Reclaims {
    changes: 2,
    fault: None,
};
const STALE: &str = "what a reader answers is the newest";
const BEHIND: &str = "an owner that a reader asks knows all that is acknowledged";
const TWO: &str = "a writer is alone";

#[test]
fn a_takeover_leaves_no_stale_answer_though_grants_to_read_are_not_recorded() {
    holds("reclaim", 30_021, &RIGHT.explore());
}

#[test]
fn a_takeover_without_one_of_its_waits_goes_wrong() {
    let faults = [
        (Fault::WaitsForNobody, BEHIND),
        (Fault::LeaseForgetsTheProof, STALE),
        (Fault::SessionNotDurable, BEHIND),
        (Fault::KeepsItsCaches, STALE),
        (Fault::ListensToTheOldOwner, BEHIND),
        (Fault::TakesTheJournalsWord, TWO),
        (Fault::GrantNotDurable, TWO),
    ];
    for (fault, law) in faults {
        breaks(
            fault,
            law,
            &Reclaims {
                fault: Some(fault),
                ..RIGHT
            }
            .explore(),
        );
    }
}
