//! Who waits for whom.

use tenure_sim::model::turns::{Fault, Turns};

use super::{breaks, holds};

#[test]
fn whoever_waits_is_answered_in_turn_and_in_time() {
    holds("turns", 36_896, &Turns { fault: None }.explore());
}

#[test]
fn waiting_without_one_of_its_rules_has_no_end() {
    let (long, passed) = (
        "nobody waits longer than a holder may keep",
        "nobody is passed over twice",
    );
    let faults = [
        (Fault::GivesBackAfterItsOp, long),
        (Fault::GrantsPastWaiters, long),
        (Fault::DoesWhatIsPossible, passed),
        (Fault::KeepsWhatIsInUse, long),
        (Fault::LooksEndGrants, "one who looks ends no grant to change"),
    ];
    for (fault, law) in faults {
        breaks(fault, law, &Turns { fault: Some(fault) }.explore());
    }
}
