//! Messages about reviews.

use crate::samples::{branch, who};
use std::borrow::Cow;
use tenure_model::Timestamp;
use tenure_wire::message::{Request, Response};
use tenure_wire::{AcceptAsk, MarkAsk, Marked};

pub(crate) fn requests() -> Vec<(&'static str, Request<'static>)> {
    let mark = |mark| Request::Mark(who(), branch("fix"), mark);
    let accept = |paths| {
        let branch = branch("fix");
        Request::Accept(who(), Cow::Owned(AcceptAsk { branch, paths }))
    };
    vec![
        ("mark as unprotected", mark(MarkAsk::Unprotected)),
        ("mark as unstaged", mark(MarkAsk::Unstaged)),
        ("mark as staged", mark(MarkAsk::Staged(branch("main")))),
        ("mark as protected", mark(MarkAsk::Protected)),
        ("marks", Request::Marks),
        ("accept", accept(Vec::new())),
        ("accept at a path", accept(vec![b"src/lib".as_slice().into()])),
    ]
}

pub(crate) fn marks() -> (&'static str, Response<'static>) {
    let marked = |into: Option<&str>| Marked {
        branch: "fix".into(),
        into: into.map(str::to_owned),
        by: "ada on loom".into(),
        time: Timestamp { secs: 1, nanos: 2 },
    };
    ("marks", Response::Marks(vec![marked(Some("main")), marked(None)]))
}
