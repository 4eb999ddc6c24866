//! Messages about who comes, about sessions, about who holds a branch, and about what who held it brings.

use crate::samples::{batch, branch_info};
use std::time::Duration;
use tenure_model::{BranchId, Digest, Epoch, SessionId, Timestamp};
use tenure_wire::message::{Request, Response, Welcome};
use tenure_wire::owner::SESSION_TTL;
use tenure_wire::{BranchInfo, Delegation, Lease, Opened, Salvaged};

pub(crate) fn requests() -> [(&'static str, Request<'static>); 3] {
    let session = SessionId(300);
    [
        ("salvage", Request::Salvage(batch(session, 7))),
        (
            "take",
            Request::Take {
                session,
                name: "main",
            },
        ),
        ("delegations", Request::Delegations),
    ]
}

pub(crate) fn responses() -> [(&'static str, Response<'static>); 4] {
    [
        (
            "opened by an owner that waits longer",
            Response::Opened(Opened {
                session_ttl: Duration::from_secs(60),
                ..opened()
            }),
        ),
        (
            "branches with a stray",
            Response::Branches(vec![BranchInfo {
                is_stray: true,
                ..branch_info()
            }]),
        ),
        (
            "salvaged",
            Response::Salvaged(Salvaged {
                digest: Digest([9; 32]),
                stray: "stray-main-loom-8".into(),
            }),
        ),
        ("delegations", Response::Delegations(delegations())),
    ]
}

pub(crate) fn delegations() -> Vec<Delegation> {
    let of_another = Delegation {
        branch: BranchId(1),
        name: "main".into(),
        session: SessionId(300),
        who: "ada on loom (process 4711, mount at /home/ada/work)".into(),
        since: Timestamp {
            secs: 1_790_000_000,
            nanos: 5,
        },
        lease: Some(Lease {
            silence: Duration::from_millis(700),
            length: Duration::from_millis(5250),
        }),
        directories: 0,
    };
    let of_the_owner = Delegation {
        branch: BranchId(2),
        name: "try".into(),
        lease: None,
        ..of_another.clone()
    };
    vec![of_another, of_the_owner]
}

pub(crate) fn opened() -> Opened {
    Opened {
        session: SessionId(300),
        epoch: Epoch(3),
        tier: "folder".into(),
        notices: vec!["one batch came back".into()],
        session_ttl: SESSION_TTL,
    }
}

pub(crate) fn welcomes() -> Vec<(&'static str, Welcome)> {
    vec![
        ("in", Welcome::In),
        ("refused", Welcome::Refused("no such drive".into())),
        ("later", Welcome::Later("too many".into())),
        ("elsewhere", Welcome::Elsewhere("https://b.example:7430".into())),
    ]
}
