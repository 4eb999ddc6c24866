//! A call on its way: it is asked, waited for, and what it returns is taken out of its answer.
//!
//! Invariant: an answer of another kind than the call's is never taken for its answer.

use super::lane::{Again, Lane, Lost, Reply, Then};
use crate::line::{BranchInfo, Created, Usage};
use crate::message::{Answer, Request, Response};
use crate::owner::{
    Delegation, Differences, Done, Error, MergeTold, Opened, Placed, Room, Salvaged, SealedPack, Shipped,
    Standings, Status, Turned,
};
use crate::reclaim::{Placings, ReclaimTold};
use crate::review::Marked;
use crate::shared::{Heard, Ordered, Seen};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use tenure_model::codec::{Malformed, malformed};
use tenure_model::record::Plan;
use tenure_model::{Attr, Failure, InoRange, Locked};

/// Takes out of a response what a call returns; none when it is the response to another call.
pub(super) type Take<T> = fn(Response<'_>) -> Option<T>;

/// A call that waits for its answer.
pub(super) struct Pending<'a> {
    lane: &'a Lane,
    number: u64,
    within: Duration,
    answer: mpsc::Receiver<Result<Reply, Lost>>,
}

impl<'a> Pending<'a> {
    pub(super) fn ask(lane: &'a Lane, request: Request<'_>, again: Again, within: Duration) -> Self {
        let (send, answer) = mpsc::sync_channel(1);
        let then = Box::new(move |outcome| drop(send.send(outcome)));
        let number = lane.ask(request, again, within, then);
        Self {
            lane,
            number,
            within,
            answer,
        }
    }

    pub(super) fn wait(self) -> Result<Reply, Lost> {
        let outcome = match self.answer.recv_timeout(self.within) {
            Err(RecvTimeoutError::Timeout) => {
                self.lane.give_up(self.number);
                self.answer.recv().ok()
            }
            outcome => outcome.ok(),
        };
        outcome.unwrap_or_else(|| {
            Err(Lost::MaybeDone(
                "the thread that reads answers has ended by a bug".into(),
            ))
        })
    }
}

pub(super) fn taken<T>(reply: &Reply, take: Take<T>) -> Result<T, Error> {
    let answer = Answer::parse(&reply.bytes).map_err(odd)?;
    take(answer.outcome?).ok_or_else(|| odd(malformed("response to this call")))
}

/// Hands what a call returns to who does not wait for it.
pub(super) fn then<T: 'static>(told: Done<T>, take: Take<T>) -> Then {
    Box::new(move |outcome| told(outcome.map_err(Error::from).and_then(|reply| taken(&reply, take))))
}

pub(super) fn odd(malformed: Malformed) -> Error {
    Failure::Unknown(format!("the owner's answer cannot be read: {malformed}")).into()
}

/// Writes the function that takes one kind of response.
macro_rules! take {
    ($($name:ident: $variant:pat => $value:expr, $of:ty;)*) => {
        $(pub(super) fn $name(response: Response<'_>) -> Option<$of> {
            if let $variant = response { Some($value) } else { None }
        })*
    };
}

take! {
    done: Response::Done => (), ();
    opened: Response::Opened(opened) => opened, Opened;
    inos: Response::Inos(inos) => inos, InoRange;
    shipped: Response::Shipped(shipped) => shipped, Shipped;
    bytes: Response::Bytes(bytes) => bytes.into_owned(), Vec<u8>;
    room: Response::Room(room) => room, Room;
    created: Response::Created(created) => created, Created;
    branches: Response::Branches(branches) => branches, Vec<BranchInfo>;
    status: Response::Status(status) => status, Status;
    findings: Response::Findings(findings) => findings, Vec<String>;
    placed: Response::Placed(places) => places, Vec<Placed>;
    sealed: Response::Sealed(packs) => packs, Vec<SealedPack>;
    salvaged: Response::Salvaged(salvaged) => salvaged, Salvaged;
    delegations: Response::Delegations(delegations) => delegations, Vec<Delegation>;
    differences: Response::Differences(differences) => differences, Differences;
    turned: Response::Turned(turned) => turned, Turned;
    merged: Response::Merged(told) => told, MergeTold;
    standings: Response::Standings(standings) => standings, Standings;
    plan: Response::Plan(plan) => plan, Plan;
    usage: Response::Usage(usage) => usage, Usage;
    reclaimed: Response::Reclaimed(told) => told, ReclaimTold;
    placings: Response::Placings(placings) => placings, Placings;
    marks: Response::Marks(marks) => marks, Vec<Marked>;
    ordered: Response::Ordered(ordered) => ordered, Ordered;
    held: Response::Seen(Seen::Inode(_, attr)) => attr, Attr;
    locked: Response::Locked(locked) => locked, Locked;
    heard: Response::Heard(heard) => heard, Heard;
    proven: Response::Proven(age) => age, Duration;
}

pub(super) fn seen(response: Response<'_>) -> Option<Seen> {
    if let Response::Seen(seen) = response {
        return Some(seen);
    }
    bytes(response).map(Seen::Bytes)
}
