//! One grant, recalled, given back and revoked.

use tenure_sim::model::recall::{Fault, Recalls};

use super::{breaks, holds};

const TIMELESS: Recalls = Recalls {
    changes: 2,
    grants: 2,
    time: false,
    pauses: false,
    clones: false,
    kernel_waits: false,
    idles: false,
    fault: None,
};
const IDLE: Recalls = Recalls {
    idles: true,
    ..TIMELESS
};
const BLOCKING: Recalls = Recalls {
    kernel_waits: true,
    ..TIMELESS
};
const TIMED: Recalls = Recalls { time: true, ..IDLE };
const PAUSED: Recalls = Recalls {
    pauses: true,
    ..TIMED
};
const CLONED: Recalls = Recalls { clones: true, ..IDLE };

const STALE: &str = "whoever may answer knows every change";
const LEFT: &str = "a grant that is gone leaves nothing unshipped";
const TWO: &str = "two never hold what one changes";
const LATE: &str = "nothing of a session that was ended is accepted";
const FORGOTTEN: &str = "a recall is under way until it is answered";
const STUCK: &str = "what is recalled comes back";

#[test]
fn a_recalled_grant_comes_back_with_its_changes_and_leaves_no_answer_behind() {
    holds("recall", 2_316, &TIMELESS.explore());
    holds("recall, a kernel with locks", 2_316, &BLOCKING.explore());
}

#[test]
fn a_paused_machine_answers_from_the_past_only_until_it_looks_at_its_clock() {
    holds("recall in time, with pauses", 318_606, &PAUSED.explore());
}

#[test]
fn of_two_twins_one_is_the_session() {
    holds("recall, with a clone", 777_131, &CLONED.explore());
}

#[test]
fn a_recall_without_one_of_its_rules_goes_wrong() {
    let faults = [
        (TIMELESS, Fault::ShipsBeforeSweeping, LEFT),
        (TIMELESS, Fault::SweepsOnce, LEFT),
        (BLOCKING, Fault::HoldsRequestsWhileSweeping, STUCK),
        (TIMELESS, Fault::GiveBackOvertakesBatches, LEFT),
        (IDLE, Fault::GiveBackNamesNoGrant, TWO),
        (TIMELESS, Fault::IgnoresEarlyRecalls, FORGOTTEN),
        (TIMELESS, Fault::TakesLateGrants, LEFT),
        (TIMED, Fault::NoMarginForSilence, TWO),
        (TIMED, Fault::RenewalDoesNotTell, STALE),
        (PAUSED, Fault::ClockStopsInSleep, TWO),
        (TIMED, Fault::NoGrantCheck, LATE),
        (CLONED, Fault::NoComparing, LEFT),
    ];
    for (rules, fault, law) in faults {
        let fault_planted = Recalls {
            fault: Some(fault),
            ..rules
        };
        breaks(fault, law, &fault_planted.explore());
    }
}
