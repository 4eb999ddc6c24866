//! Messages about branches that become another state.

use crate::samples::{branch, who};
use std::borrow::Cow;
use tenure_model::{Conflict, ConflictKind, FileOutcome, Ino, What};
use tenure_wire::message::{Request, Response};
use tenure_wire::{
    Choice, MergeAsk, MergeTold, ResolveAsk, RestoreAsk, Standing, Standings, Turned, Unsettled,
};

pub(crate) fn requests() -> Vec<(&'static str, Request<'static>)> {
    let undo = Request::Undo {
        who: who(),
        branch: branch("main"),
        to: "before-the-upgrade",
    };
    let resolve = |choice| {
        let ask = ResolveAsk {
            branch: branch("main"),
            path: (*b"src/lib").into(),
            choice,
        };
        Request::Resolve(who(), Cow::Owned(ask))
    };
    let dry = MergeAsk {
        base: None,
        is_dry: true,
        ..ask()
    };
    let all = MergeAsk {
        unsettled: Unsettled::Taken,
        ..ask()
    };
    vec![
        ("undo", undo),
        ("merge", Request::Merge(who(), Cow::Owned(ask()))),
        ("merge, only told", Request::Merge(who(), Cow::Owned(dry))),
        ("merge with conflicts", Request::Merge(who(), Cow::Owned(all))),
        (
            "conflicts",
            Request::Conflicts {
                name: "main",
                behind: Ino(300),
            },
        ),
        ("resolve as ours", resolve(Choice::Ours)),
        ("resolve as theirs", resolve(Choice::Theirs)),
        ("resolve as both", resolve(Choice::Both)),
        ("resolve by bytes", resolve(Choice::Bytes(b"text".to_vec()))),
        ("restore", Request::Restore(who(), Cow::Owned(restore()))),
    ]
}

pub(crate) fn responses() -> Vec<(&'static str, Response<'static>)> {
    let nothing = MergeTold {
        before: None,
        files: Vec::new(),
        more: 0,
        conflicts: 0,
    };
    let none = Standings {
        found: Vec::new(),
        behind: None,
    };
    vec![
        ("turned", Response::Turned(turned())),
        ("merged", Response::Merged(told())),
        ("merged nothing", Response::Merged(nothing)),
        ("conflicts", Response::Standings(standings())),
        ("no conflicts", Response::Standings(none)),
    ]
}

pub(crate) fn ask() -> MergeAsk {
    MergeAsk {
        base: Some("good".into()),
        ..MergeAsk::new("try", branch("main"))
    }
}

pub(crate) fn restore() -> RestoreAsk {
    RestoreAsk {
        branch: branch("main"),
        path: (*b"src/lib").into(),
        from: "good".into(),
    }
}

pub(crate) fn turned() -> Turned {
    Turned {
        before: "before-undo-300".into(),
    }
}

pub(crate) fn told() -> MergeTold {
    let file = |path: &[u8], what| FileOutcome {
        path: path.into(),
        what,
    };
    MergeTold {
        before: Some("before-merge-300".into()),
        files: vec![
            file(b"src/lib", What::Conflicted(ConflictKind::Added)),
            file(b"src/new", What::Taken),
            file(b"src/old", What::Removed),
            file(b"src/both", What::Merged("text".into())),
        ],
        more: 300,
        conflicts: 1,
    }
}

pub(crate) fn standings() -> Standings {
    let conflict = Conflict {
        kind: ConflictKind::Content,
        path: (*b"src/lib").into(),
        beside: Some((*b"src/lib~try").into()),
        ours: Ino(300),
        theirs: Ino(301),
        place: None,
        from: "try".into(),
    };
    let moved = Conflict {
        kind: ConflictKind::Moved,
        beside: None,
        theirs: Ino(0),
        place: Some((*b"src/there").into()),
        ..conflict.clone()
    };
    let standing = |conflict, theirs: Option<&[u8]>| Standing {
        number: Ino(302),
        conflict,
        ours: Some((*b"src/lib").into()),
        theirs: theirs.map(Box::from),
    };
    Standings {
        found: vec![standing(conflict, Some(b"src/lib~try")), standing(moved, None)],
        behind: Some(Ino(400)),
    }
}
