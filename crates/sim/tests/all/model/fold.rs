//! Manifests and the deletion of journal segments.

use tenure_sim::model::fold::{Fault, Folds};

use super::{breaks, holds};

const RIGHT: Folds = Folds {
    epochs: 3,
    segments: 2,
    clones: 0,
    faults: &[],
};
const LOST: &str = "every owner stands on all that was acknowledged before it";

#[test]
fn deletion_of_segments_loses_nothing_through_four_epochs() {
    holds(
        "fold, four epochs",
        2_109_177,
        &Folds { epochs: 4, ..RIGHT }.explore(),
    );
}

#[test]
fn deletion_of_segments_loses_nothing_to_a_cloned_server() {
    holds(
        "fold, three epochs and a clone",
        1_371_181,
        &Folds { clones: 1, ..RIGHT }.explore(),
    );
}

#[test]
fn deletion_without_one_of_its_rules_loses_something() {
    let bucket = "the bucket alone holds all that was acknowledged";
    let stuck = "the next claimant can take over and acknowledge";
    let faults: [(&'static [Fault], _); 4] = [
        (&[Fault::NoCheckOfOpenings], LOST),
        (&[Fault::DeletesItsOwnEpoch], LOST),
        (&[Fault::DeletesBeforeTheManifest], bucket),
        (&[Fault::FoldsWhatIsNotDurable], stuck),
    ];
    for (faults, law) in faults {
        breaks(faults, law, &Folds { faults, ..RIGHT }.explore());
    }
}

#[test]
fn a_look_that_asks_half_the_question_deceives_a_clone() {
    let stale = "an owner whose look is good knows all that is acknowledged";
    let faults: [&'static [Fault]; 2] = [&[Fault::LooksAtTheNameOnly], &[Fault::LooksForClaimsOnly]];
    for faults in faults {
        breaks(
            faults,
            stale,
            &Folds {
                clones: 1,
                faults,
                ..RIGHT
            }
            .explore(),
        );
    }
}

/// A clone's late put lands at a deleted name, and succeeds.
#[test]
fn a_put_that_succeeded_is_not_durable_before_a_look() {
    let faults = &[Fault::NoLookAfterThePut];
    breaks(
        faults,
        LOST,
        &Folds {
            clones: 1,
            faults,
            ..RIGHT
        }
        .explore(),
    );
}

/// The seal is what stops a server that was never cloned.
#[test]
fn without_clones_either_the_kept_seals_or_the_look_suffices() {
    let no_look = Folds {
        faults: &[Fault::NoLookAfterThePut],
        ..RIGHT
    };
    holds("fold, no look after a put", 30_158, &no_look.explore());
    let no_seals = Folds {
        faults: &[Fault::DeletesSeals],
        ..RIGHT
    };
    holds("fold, seals deleted", 174_408, &no_seals.explore());
    let faults = &[Fault::NoLookAfterThePut, Fault::DeletesSeals];
    breaks(faults, LOST, &Folds { faults, ..RIGHT }.explore());
}
