//! Messages about what is lent of a shared branch.

use crate::samples::{address, branch as branch_name, sharer};
use std::borrow::Cow;
use std::time::Duration;
use tenure_model::{Batch, Digest, Epoch, Ino};
use tenure_wire::message::{Ask, Request, Response};
use tenure_wire::shared::{
    Borrow, Borrowed, Brought, Claim, Demand, Heard, Loan, Look, Need, Next, Part, Stand, Yield,
};
use tenure_wire::{Delegation, Shared};

pub(crate) fn requests() -> Vec<(&'static str, Request<'static>)> {
    let asks = [
        (
            "look at what another was asked for",
            Ask::Look(Cow::Owned(Look::Attr(Ino(20))), 300),
        ),
        (
            "borrow at first",
            Ask::Borrow(Borrow {
                directory: Ino(20),
                copy: None,
                is_shipped: true,
            }),
        ),
        (
            "borrow",
            Ask::Borrow(Borrow {
                directory: Ino(20),
                copy: Some(300),
                is_shipped: false,
            }),
        ),
        (
            "take back",
            Ask::TakeBack(Cow::Owned(Yield {
                answered: 300,
                loan: 5,
                directories: vec![Ino(20), Ino(300)],
                open: vec![Ino(21)],
            })),
        ),
        ("prolong", Ask::Prolong),
        ("goes on", Ask::Stand(Cow::Owned(Stand::Gone))),
        ("stands still", Ask::Stand(Cow::Owned(still(None)))),
        (
            "stands still and tells",
            Ask::Stand(Cow::Owned(still(Some(vec![Ino(21), Ino(300)])))),
        ),
        (
            "rejoin with what is lent",
            Ask::Rejoin(Cow::Owned(Brought {
                claims: vec![Claim {
                    directory: Ino(20),
                    orphans: vec![Ino(300)],
                }],
                ..Brought::default()
            })),
        ),
        (
            "rejoin with batches",
            Ask::Rejoin(Cow::Owned(Brought {
                open: vec![Ino(21)],
                batches: vec![batch()],
                ..Brought::default()
            })),
        ),
    ];
    let request = |(name, ask)| (name, Request::Shared(sharer(), ask));
    let order = ("order", Request::Order(batch()));
    let shipped = branch_name("main");
    let have_shipped = ("have shipped", Request::HaveShipped(shipped));
    asks.into_iter()
        .map(request)
        .chain([order, have_shipped])
        .chain(crate::reviews::requests())
        .collect()
}

fn still(known: Option<Vec<Ino>>) -> Stand {
    let behind = (7, Digest([9; 32]));
    Stand::Still { behind, known }
}

fn batch() -> Batch {
    Batch {
        session: sharer().session,
        branch: sharer().branch,
        epoch: Epoch(3),
        number: 7,
        previous: Digest([9; 32]),
        chunks: Vec::new(),
        ops: vec![1, 2],
    }
}

pub(crate) fn responses() -> Vec<(&'static str, Response<'static>)> {
    let demand = |loan, need| Demand {
        number: 300,
        directory: Ino(20),
        loan,
        need,
    };
    let loan = |copy| Loan {
        number: 5,
        parts: vec![Part {
            directory: Ino(20),
            inodes: vec![Ino(21), Ino(300)],
        }],
        copy,
        behind: (7, Digest([9; 32])),
    };
    let stored = Shared::Stored {
        root: address(9),
        inodes: 12,
        bytes: 3456,
    };
    let of_a_sharer = Delegation {
        directories: 3,
        ..crate::leases::delegations().remove(0)
    };
    vec![
        (
            "tickets and demands",
            Response::Heard(Heard {
                tickets: vec![5],
                demands: vec![demand(0, Need::Ship), demand(0, Need::Return)],
            }),
        ),
        (
            "demands of loans",
            Response::Heard(Heard {
                tickets: Vec::new(),
                demands: vec![demand(5, Need::Ship), demand(300, Need::Return)],
            }),
        ),
        crate::reviews::marks(),
        ("stay still", Response::Next(Next::Stay)),
        ("tell", Response::Next(Next::Tell)),
        ("go on", Response::Next(Next::GoOn)),
        (
            "became",
            Response::Next(Next::Became {
                behind: Digest([8; 32]),
                state: stored.clone(),
            }),
        ),
        ("not lent", Response::Borrowed(Borrowed::No)),
        ("not lent: behind", Response::Borrowed(Borrowed::Behind)),
        ("part lent", Response::Borrowed(Borrowed::Lent(loan(None)))),
        (
            "part lent with a copy",
            Response::Borrowed(Borrowed::Lent(loan(Some((300, stored))))),
        ),
        ("proven", Response::Proven(Duration::from_millis(700))),
        ("delegations of parts", Response::Delegations(vec![of_a_sharer])),
    ]
}
