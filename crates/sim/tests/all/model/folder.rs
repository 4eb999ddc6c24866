//! The folder tier.

use tenure_sim::model::folder::{Bulk, Fault, Folder, Recovery};

use super::{breaks, holds};

const RIGHT: Folder = Folder {
    epochs: 3,
    recovery: Recovery::ReadsTheDisk,
    bulk: Bulk::BeforeTheRecord,
    fault: None,
};
const LOST: &str = "what was acknowledged is recovered, in order";

#[test]
fn a_disk_keeps_what_was_acknowledged_through_kills_and_power_losses() {
    holds("folder", 84_476, &RIGHT.explore());
}

#[test]
fn the_pack_may_be_synced_beside_the_record_if_recovery_verifies_it() {
    holds(
        "folder, pack verified",
        271_102,
        &Folder {
            bulk: Bulk::Verified,
            ..RIGHT
        }
        .explore(),
    );
    let believed = Folder {
        bulk: Bulk::Believed,
        ..RIGHT
    };
    breaks(
        Bulk::Believed,
        "a recovered bulk write has its bytes",
        &believed.explore(),
    );
}

#[test]
fn recovery_may_write_again_what_it_read() {
    let again = Folder {
        recovery: Recovery::WritesAgain,
        ..RIGHT
    };
    holds("folder, written again", 576_735, &again.explore());
    let verified = Folder {
        bulk: Bulk::Verified,
        epochs: 2,
        ..again
    };
    holds(
        "folder, written again, pack verified",
        189_537,
        &verified.explore(),
    );
}

#[test]
fn recovery_may_not_take_what_it_reads_for_durable() {
    for recovery in [Recovery::Syncs, Recovery::Trusts] {
        breaks(recovery, LOST, &Folder { recovery, ..RIGHT }.explore());
    }
}

#[test]
fn a_disk_without_one_of_its_rules_loses_something() {
    let back = "what a recovery dropped never comes back";
    let faults = [
        (Fault::NoLock, back),
        (Fault::AcknowledgesBeforeTheSync, LOST),
        (Fault::SyncsAgainAfterAFailure, LOST),
        (Fault::NoChain, back),
        (Fault::EpochFromWhatItReads, back),
        (Fault::NoSyncOfTheDirectory, LOST),
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
