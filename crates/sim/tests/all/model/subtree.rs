//! What a grant of a directory covers.

use tenure_sim::model::subtree::{Fault, Subtrees};

use super::{breaks, holds};

const RIGHT: Subtrees = Subtrees { ops: 4, fault: None };

#[test]
fn holders_of_two_directories_answer_what_is_true() {
    holds("subtree, four ops", 9_770, &RIGHT.explore());
}

#[test]
fn a_cover_without_one_of_its_rules_answers_what_is_not() {
    let (untrue, lacking, nowhere) = (
        "every answer of a holder is true",
        "what nobody may change is at the owner",
        "the owner's file is always somewhere",
    );
    let faults = [
        (Fault::LooksAtDirectoriesOnly, untrue),
        (Fault::CoversByAnyLink, lacking),
        (Fault::RecallsTheSourceOnly, untrue),
        (Fault::AbsentNamesNeedNoGrant, untrue),
        (Fault::ShipsWhatIsRecalled, nowhere),
        (Fault::CoverGrows, untrue),
    ];
    for (fault, law) in faults {
        breaks(
            fault,
            law,
            &Subtrees {
                fault: Some(fault),
                ..RIGHT
            }
            .explore(),
        );
    }
}
