//! One record of each kind.

use super::*;

/// Every other variant of `Record`.
pub(super) fn records() -> Vec<(&'static str, Record)> {
    let (session, branch, time) = (SessionId(3), BranchId(2), NOON);
    vec![
        (
            "record_drive_created",
            Record::DriveCreated {
                hash_key: std::array::from_fn(|at| at as u8),
                branch: branch_name("main"),
                uid: 1000,
                gid: 100,
                time,
            },
        ),
        (
            "record_session_opened",
            Record::SessionOpened {
                session,
                who: "agent@host \u{2713}".to_owned(),
                hosted: true,
                time,
            },
        ),
        ("record_session_closed", Record::SessionClosed { session }),
        (
            "record_granted",
            Record::Granted {
                session,
                branch,
                inos: 1 << 20,
            },
        ),
        (
            "record_inos_lent",
            Record::InosLent {
                session,
                count: 1 << 20,
            },
        ),
        ("record_returned", Record::Returned { branch }),
        ("record_batch", Record::Batch(batch())),
        (
            "record_forked",
            Record::Forked {
                from: Source::Branch(branch),
                name: branch_name("try-1"),
                time,
                until: None,
                key: None,
                staged: None,
            },
        ),
        (
            "record_forked_from_checkpoint",
            Record::Forked {
                from: Source::Checkpoint(checkpoint_name("v1.0")),
                name: branch_name("try-2"),
                time,
                until: None,
                key: None,
                staged: None,
            },
        ),
        ("record_branch_deleted", Record::BranchDeleted { branch }),
        (
            "record_checkpoint_made",
            Record::CheckpointMade {
                branch,
                name: checkpoint_name("v1.0"),
                message: "before the move".to_owned(),
                time,
                until: None,
                maker: Maker::Asked,
            },
        ),
        (
            "record_checkpoint_deleted",
            Record::CheckpointDeleted {
                name: checkpoint_name("v1.0"),
            },
        ),
    ]
}

/// Those that say for how long something is there, by whom it was asked for, or that it has another name.
pub(super) fn records_of_lines() -> Vec<(&'static str, Record)> {
    let (branch, time) = (BranchId(2), NOON);
    let until = Some(Timestamp {
        secs: NOON.secs + 7200,
        nanos: 0,
    });
    let fork = |until, key: Option<&str>| Record::Forked {
        from: Source::Branch(branch),
        name: branch_name("try-3"),
        time,
        until,
        key: key.map(|key| RequestKey::parse(key).expect("valid")),
        staged: None,
    };
    let staged = |until, key: Option<&str>| Record::Forked {
        from: Source::Branch(branch),
        name: branch_name("try-3"),
        time,
        until,
        key: key.map(|key| RequestKey::parse(key).expect("valid")),
        staged: Some(Staging {
            into: branch,
            by: "ada on loom".to_owned(),
        }),
    };
    let checkpoint = |until, maker| Record::CheckpointMade {
        branch,
        name: checkpoint_name("v1.1"),
        message: String::new(),
        time,
        until,
        maker,
    };
    vec![
        ("record_forked_for_a_time", fork(until, None)),
        ("record_forked_staged", staged(None, None)),
        (
            "record_forked_staged_for_a_time_by_a_key",
            staged(until, Some("job-7")),
        ),
        ("record_forked_by_a_key", fork(until, Some("job-7/try-3"))),
        ("record_checkpoint_for_a_time", checkpoint(until, Maker::Asked)),
        ("record_checkpoint_of_the_owner", checkpoint(until, Maker::Owner)),
        (
            "record_renamed",
            Record::Renamed {
                line: BranchId(300),
                name: branch_name("kept"),
            },
        ),
        (
            "record_marked_staged",
            marked(Some(Mark::Staged { into: BranchId(2) })),
        ),
        ("record_marked_protected", marked(Some(Mark::Protected))),
        ("record_marked_no_more", marked(None)),
        (
            "record_planned",
            Record::Planned(Plan {
                every_secs: 600,
                keep_secs: 86_400,
            }),
        ),
        (
            "record_condemned",
            Record::Condemned(vec![
                PackObject {
                    pack: PackNumber(1 << 24 | 2),
                    tag: [1; 8],
                },
                PackObject {
                    pack: PackNumber(2 << 24 | 1),
                    tag: [0xfe; 8],
                },
            ]),
        ),
        (
            "record_reclaimed",
            Record::Reclaimed(Reclaimed {
                objects: 2,
                bytes: 300 << 20,
                time,
            }),
        ),
    ]
}

fn marked(mark: Option<Mark>) -> Record {
    Record::Marked(Marking {
        branch: BranchId(300),
        mark,
        by: "ada on loom".into(),
        time: NOON,
    })
}

/// Those about who shares a branch, and about who has lost one.
pub(super) fn records_of_sessions() -> Vec<(&'static str, Record)> {
    let (session, branch) = (SessionId(3), BranchId(2));
    vec![
        (
            "record_joined",
            Record::Joined {
                session,
                branch,
                inos: 1 << 20,
            },
        ),
        ("record_left", Record::Left { session, branch }),
        ("record_act", Record::Act(act())),
        (
            "record_dropped",
            Record::Dropped {
                branch,
                ino: Ino(300),
            },
        ),
        (
            "record_revoked",
            Record::Revoked {
                branch: BranchId(300),
                stray: branch_name("stray-main-box-7"),
                time: NOON,
            },
        ),
        (
            "record_ousted",
            Record::Ousted {
                session,
                branch: BranchId(300),
                stray: branch_name("stray-main-box-7"),
                time: NOON,
            },
        ),
    ]
}

/// Those by which a branch becomes another state.
pub(super) fn turns() -> Vec<(&'static str, Record)> {
    let past = Past {
        stretch: Stretch {
            line: BranchId(300),
            since: Seq(1000),
        },
        at: Seq(2000),
        root: Root {
            page: address(),
            inodes: 300,
            bytes: 1 << 40,
        },
    };
    let turn = |why| {
        Record::Turned(Turn {
            branch: BranchId(2),
            to: Root {
                inodes: 301,
                ..past.root
            },
            inos: 5,
            why,
            by: "ada on loom".into(),
            time: NOON,
        })
    };
    let path = Box::from(*b"src/lib.rs");
    vec![
        (
            "record_turned_merged",
            turn(Why::Merged {
                from: "try".into(),
                past,
            }),
        ),
        (
            "record_turned_undone",
            turn(Why::Undone {
                to: "good".into(),
                past,
            }),
        ),
        (
            "record_turned_restored",
            turn(Why::Restored {
                path: Box::clone(&path),
                from: "good".into(),
            }),
        ),
        (
            "record_turned_accepted",
            turn(Why::Accepted {
                from: "fix".into(),
                paths: vec![path.clone()],
            }),
        ),
        ("record_turned_resolved", turn(Why::Resolved { path })),
    ]
}
