//! What was seen before it was durable.

use tenure_sim::model::seen::{Fault, Sights};

use super::{breaks, holds};

const RIGHT: Sights = Sights {
    epochs: 2,
    batches: [2, 1],
    clones: false,
    fault: None,
};
const SHORT: Sights = Sights {
    batches: [1, 1],
    ..RIGHT
};
const CLONED: Sights = Sights {
    clones: true,
    ..SHORT
};

#[test]
fn what_was_lost_with_its_owner_comes_back_behind_what_it_followed() {
    holds("seen, two epochs", 483_628, &RIGHT.explore());
    holds(
        "seen, three epochs",
        185_699,
        &Sights { epochs: 3, ..SHORT }.explore(),
    );
    holds("seen, two epochs and a clone", 220_949, &CLONED.explore());
}

#[test]
fn replays_without_one_of_their_rules_lose_or_refuse_too_much() {
    let follows = "a batch follows what its maker had seen";
    let faults = [
        (RIGHT, Fault::ForgetsWhatWasSeen, follows),
        (
            RIGHT,
            Fault::JudgesAtOnce,
            "nobody's work becomes a stray for what is there",
        ),
        (CLONED, Fault::NamesNumbersOnly, follows),
        (
            RIGHT,
            Fault::SyncCoversOwnWork,
            "what a sync covered is durable for ever",
        ),
        (RIGHT, Fault::AnswersBeforeAllCame, "nobody looks into the past"),
        (
            RIGHT,
            Fault::KeepsItsCaches,
            "what a session has cached is at its owner",
        ),
    ];
    for (rules, fault, law) in faults {
        let fault_planted = Sights {
            fault: Some(fault),
            ..rules
        };
        breaks(fault, law, &fault_planted.explore());
    }
}
