//! Branches in answers: what has come from another process, which shares no pages.

use crate::message::Response;
use crate::owner::{Lent, Shared};
use crate::shared::{Borrowed, Loan, Next};
use std::convert::Infallible;

pub(super) fn lent<B>(response: Response<'_>) -> Option<Lent<B>> {
    let Response::Lent(Lent {
        branch,
        hash_key,
        inos,
        state,
    }) = response
    else {
        return None;
    };
    Some(Lent {
        branch,
        hash_key,
        inos,
        state: come(state),
    })
}

pub(super) fn next<B>(response: Response<'_>) -> Option<Next<B>> {
    let Response::Next(next) = response else {
        return None;
    };
    Some(match next {
        Next::Stay => Next::Stay,
        Next::Tell => Next::Tell,
        Next::GoOn => Next::GoOn,
        Next::Became { behind, state } => Next::Became {
            behind,
            state: come(state),
        },
    })
}

pub(super) fn borrowed<B>(response: Response<'_>) -> Option<Borrowed<B>> {
    let Response::Borrowed(borrowed) = response else {
        return None;
    };
    Some(match borrowed {
        Borrowed::No => Borrowed::No,
        Borrowed::Behind => Borrowed::Behind,
        Borrowed::Lent(loan) => Borrowed::Lent(Loan {
            number: loan.number,
            parts: loan.parts,
            copy: loan.copy.map(|(version, state)| (version, come(state))),
            behind: loan.behind,
        }),
    })
}

/// Returns a branch that has come from another process.
fn come<B>(state: Shared<Infallible>) -> Shared<B> {
    match state {
        Shared::Stored { root, inodes, bytes } => Shared::Stored { root, inodes, bytes },
        Shared::Kept => Shared::Kept,
        Shared::Here(never) => match never {},
    }
}
