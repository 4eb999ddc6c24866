//! Packs, condemned and deleted.

use tenure_sim::model::condemn::{Condemnations, Fault};

use super::{breaks, holds};

const RIGHT: Condemnations = Condemnations {
    epochs: 3,
    items: 8,
    fault: None,
};

#[test]
fn no_record_names_a_pack_that_is_gone() {
    holds("condemn, three epochs of eight items", 138_280, &RIGHT.explore());
}

#[test]
fn reclaim_without_one_of_its_rules_deletes_what_is_named() {
    let durable = "what a durable record names is there";
    let ordered = "what an ordered record names is there";
    let faults = [
        (Fault::DeletesBeforeCondemnIsDurable, ordered),
        (Fault::CondemnsByWhatIsDurable, durable),
        (Fault::CondemnsByOneBranch, durable),
        (Fault::ForgetsTheCondemned, ordered),
        (Fault::AsksTheBucketInstead, ordered),
        (Fault::ShipsBeforeTheUpload, ordered),
    ];
    for (fault, law) in faults {
        breaks(
            fault,
            law,
            &Condemnations {
                fault: Some(fault),
                ..RIGHT
            }
            .explore(),
        );
    }
}
