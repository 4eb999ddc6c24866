//! The folder tier.

use tenure_sim::model::folder::{Bulk, Fault, Folder};

use super::{breaks, holds};

const RIGHT: Folder = Folder {
    epochs: 3,
    bulk: Bulk::BeforeTheRecord,
    fault: None,
};

#[test]
fn a_disk_keeps_what_was_acknowledged_through_kills_and_power_losses() {
    holds("folder, pack synced before the record", 576_735, &RIGHT.explore());
}

#[test]
fn the_pack_may_be_synced_beside_the_record_if_recovery_verifies_it() {
    holds(
        "folder, pack verified",
        1_942_989,
        &Folder {
            bulk: Bulk::Verified,
            ..RIGHT
        }
        .explore(),
    );
    let missing = "a recovered bulk write has its bytes";
    breaks(
        Bulk::Believed,
        missing,
        &Folder {
            bulk: Bulk::Believed,
            ..RIGHT
        }
        .explore(),
    );
}

#[test]
fn a_disk_without_one_of_its_rules_loses_something() {
    let lost = "what was acknowledged is recovered, in order";
    let back = "what a recovery dropped never comes back";
    let faults = [
        (Fault::NoLock, back),
        (Fault::AcknowledgesBeforeTheSync, lost),
        (Fault::SyncsAgainAfterAFailure, lost),
        (Fault::TrustsTheCache, lost),
        (Fault::SyncsWithoutWritingAgain, lost),
        (Fault::NoChain, back),
        (Fault::EpochFromWhatItReads, back),
        (Fault::NoSyncOfTheDirectory, lost),
    ];
    for (fault, law) in faults {
        breaks(
            fault,
            law,
            &Folder {
                fault: Some(fault),
                ..RIGHT
            }
            .explore(),
        );
    }
}
