//! Messages about what differs.

use std::borrow::Cow;
use tenure_model::attr::Xattrs;
use tenure_model::{Attr, Difference, Ino, Kind, Side, Timestamp};
use tenure_wire::message::{Request, Response};
use tenure_wire::{DiffAsk, Differences};

pub(crate) fn requests() -> [(&'static str, Request<'static>); 2] {
    [
        ("diff", Request::Diff(Cow::Owned(ask()))),
        (
            "contents",
            Request::Contents {
                name: "main",
                ino: Ino(300),
                offset: 1 << 20,
                len: 4096,
            },
        ),
    ]
}

pub(crate) fn responses() -> [(&'static str, Response<'static>); 2] {
    let no_more = Differences {
        found: Vec::new(),
        behind: None,
    };
    [
        ("differences", Response::Differences(differences())),
        ("no differences", Response::Differences(no_more)),
    ]
}

pub(crate) fn ask() -> DiffAsk {
    DiffAsk {
        before: "main".into(),
        after: "try".into(),
        below: (*b"src/lib").into(),
        behind: Ino(300),
    }
}

pub(crate) fn differences() -> Differences {
    let time = Timestamp {
        secs: 1_790_000_000,
        nanos: 5,
    };
    let attr = Attr {
        kind: Kind::Symlink,
        mode: 0o777,
        nlink: 1,
        uid: 1000,
        gid: 1000,
        rdev: 0,
        size: 4,
        allocated: 0,
        parent: Ino::ROOT,
        xattrs: Xattrs(Xattrs::ANY),
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
    };
    let side = |ino, target: &[u8]| Side {
        ino: Ino(ino),
        attr,
        target: target.into(),
    };
    let changed = Difference {
        path: (*b"src/lib/new").into(),
        moved_from: Some((*b"src/old").into()),
        before: Some(side(300, b"here")),
        after: Some(side(301, b"away")),
        content_differs: true,
        xattrs_differ: true,
    };
    let removed = Difference {
        path: (*b"src/lib/gone").into(),
        moved_from: None,
        after: None,
        content_differs: false,
        xattrs_differ: false,
        ..changed.clone()
    };
    Differences {
        found: vec![changed, removed],
        behind: Some(Ino(400)),
    }
}
