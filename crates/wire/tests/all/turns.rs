//! Messages about branches that become another state.

use crate::samples::{branch, who};
use tenure_wire::Turned;
use tenure_wire::message::{Request, Response};

pub(crate) fn requests() -> [(&'static str, Request<'static>); 1] {
    let undo = Request::Undo {
        who: who(),
        branch: branch("main"),
        to: "before-the-upgrade",
    };
    [("undo", undo)]
}

pub(crate) fn responses() -> [(&'static str, Response<'static>); 1] {
    [("turned", Response::Turned(turned()))]
}

pub(crate) fn turned() -> Turned {
    Turned {
        before: "before-undo-300".into(),
    }
}
