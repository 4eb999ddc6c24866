//! Messages about branches and checkpoints.

use crate::samples::{any_name, any_text, branch, branch_info, checkpoint, who};
use proptest::prelude::*;
use std::borrow::Cow;
use std::time::Duration;
use tenure_model::record::{Plan, Source};
use tenure_model::{BranchId, Epoch, Reclaimed, RequestKey, SessionId, Timestamp};
use tenure_wire::message::{Request, Response};
use tenure_wire::{
    BranchInfo, CheckpointAsk, Created, ForkAsk, IfThere, LineUsage, Marked, Placings, ReclaimAsk,
    ReclaimTold, Usage,
};

fn plain() -> ForkAsk {
    ForkAsk::new(Source::Branch(BranchId(1)), branch("try"))
}

fn key() -> RequestKey {
    RequestKey::parse("job-7/try").expect("it is one")
}

pub(crate) fn plan() -> Plan {
    Plan {
        every_secs: 600,
        keep_secs: 86_400,
    }
}

pub(crate) fn usage() -> Usage {
    let line = LineUsage {
        line: BranchId(300),
        name: "try".into(),
        is_branch: true,
        own: 1 << 20,
    };
    Usage {
        lines: vec![line],
        shared: 1 << 30,
        by_checkpoints: 300,
        ..Usage::default()
    }
}

pub(crate) fn reclaimed() -> ReclaimTold {
    ReclaimTold {
        objects: 3,
        freed: 1 << 30,
        waiting: 300,
        scattered: 5,
        held: 1 << 20,
        needed: 1 << 40,
        holders: vec!["ada on loom".into()],
        usage: Usage {
            by_history: 300,
            by_readers: 1,
            ..usage()
        },
        ever: Some(Reclaimed {
            objects: 300,
            bytes: 1 << 41,
            time: Timestamp {
                secs: 1_790_007_200,
                nanos: 0,
            },
        }),
    }
}

pub(crate) fn placings() -> Placings {
    Placings {
        epoch: Epoch(7),
        count: 300,
    }
}

pub(crate) fn forks() -> [ForkAsk; 5] {
    [
        plain(),
        ForkAsk::new(Source::Checkpoint(checkpoint("v1")), branch("try")),
        ForkAsk {
            if_there: IfThere::Take,
            length: Some(Duration::from_secs(7200)),
            ..plain()
        },
        ForkAsk {
            key: Some(key()),
            ..plain()
        },
        ForkAsk {
            staged: Some(who()),
            ..plain()
        },
    ]
}

pub(crate) fn checkpoints() -> [CheckpointAsk; 2] {
    let plain = CheckpointAsk {
        message: "done".into(),
        ..CheckpointAsk::new(branch("main"), checkpoint("v1"))
    };
    let passing = CheckpointAsk {
        length: Some(Duration::from_secs(3600)),
        ..plain.clone()
    };
    [plain, passing]
}

pub(crate) fn requests() -> Vec<(&'static str, Request<'static>)> {
    let forks = [
        "fork",
        "fork a checkpoint",
        "fork what may be there, for a time",
        "fork by a key",
        "fork that waits for a review",
    ]
    .into_iter()
    .zip(forks().map(|ask| Request::Fork(Cow::Owned(ask))));
    let checkpoints = ["checkpoint", "checkpoint for a time"]
        .into_iter()
        .zip(checkpoints().map(|ask| Request::Checkpoint(Cow::Owned(ask))));
    let rename = Request::Rename {
        name: "try",
        to: branch("kept"),
    };
    let plans = [
        ("set plan", Request::SetPlan(plan())),
        ("plan", Request::Plan),
        ("usage", Request::Usage),
        (
            "reclaim",
            Request::Reclaim(ReclaimAsk {
                is_dry: true,
                is_full: false,
            }),
        ),
        (
            "forgo",
            Request::Forgo {
                session: SessionId(5),
                said: placings(),
            },
        ),
    ];
    forks
        .chain(checkpoints)
        .chain([("rename", rename)])
        .chain(plans)
        .collect()
}

pub(crate) fn responses() -> Vec<(&'static str, Response<'static>)> {
    let created = |found: Option<&str>| {
        Response::Created(Created {
            branch: BranchId(2),
            found: found.map(str::to_owned),
        })
    };
    let base = BranchInfo {
        line: Some(BranchId(1)),
        ..branch_info()
    };
    let fork = BranchInfo {
        branch: Some(BranchId(300)),
        line: Some(BranchId(300)),
        base: Some(BranchId(1)),
        until: Some(Timestamp {
            secs: 1_790_007_200,
            nanos: 0,
        }),
        ..branch_info()
    };
    let staged = BranchInfo {
        mark: Some(Marked {
            branch: "main".into(),
            into: Some("other".into()),
            by: "ada on loom".into(),
            time: fork.made,
        }),
        ..fork.clone()
    };
    let protected = BranchInfo {
        mark: Some(Marked {
            branch: "main".into(),
            into: None,
            by: "ada on loom".into(),
            time: fork.made,
        }),
        ..branch_info()
    };
    let automatic = BranchInfo {
        branch: None,
        is_automatic: true,
        by: Some("ada on loom".into()),
        ..fork.clone()
    };
    vec![
        ("created", created(None)),
        ("found", created(Some("kept"))),
        ("plan", Response::Plan(plan())),
        ("usage", Response::Usage(usage())),
        ("reclaimed", Response::Reclaimed(reclaimed())),
        ("placings", Response::Placings(placings())),
        ("branches", Response::Branches(vec![branch_info()])),
        (
            "branches with their lineage",
            Response::Branches(vec![base, fork, staged, protected, automatic]),
        ),
    ]
}

/// Any request for a fork or a checkpoint.
pub(crate) fn any_request() -> impl Strategy<Value = Request<'static>> {
    let length = prop::option::of(any::<u64>().prop_map(Duration::from_millis));
    let keys = prop::option::of("[!-~]{1,200}".prop_map(|text| RequestKey::parse(&text).expect("it is one")));
    let forks = (any_name(), any::<bool>(), keys, length.clone()).prop_map(|(name, takes, key, length)| {
        Request::Fork(Cow::Owned(ForkAsk {
            name: branch(&name),
            if_there: if takes { IfThere::Take } else { IfThere::Refuse },
            key,
            length,
            ..plain()
        }))
    });
    let checkpoints = (any_name(), any_name(), any_text(), length).prop_map(|(of, name, message, length)| {
        Request::Checkpoint(Cow::Owned(CheckpointAsk {
            branch: branch(&of),
            name: checkpoint(&name),
            message,
            length,
        }))
    });
    prop_oneof![forks, checkpoints]
}
